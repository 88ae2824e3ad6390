//! How many messages collectives take, and how many bytes.

use std::cell::Cell;

use svmio_collectives::executor::network::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, Choices, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};
use svmio_collectives::executor::{Elementwise, Error, NetworkGroup, NetworkSettings, PointToPoint};

use crate::channels::{Channels, each};

thread_local! {
    /// What this member has sent: messages, and bytes.
    static SENT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Counts what goes through channels.
#[derive(Debug)]
struct Counting(Channels);

impl PointToPoint for Counting {
    fn members(&self) -> usize {
        self.0.members()
    }

    fn member(&self) -> usize {
        self.0.member()
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Error> {
        let (messages, sum) = SENT.get();
        SENT.set((messages + 1, sum + bytes.len()));
        self.0.send(to, bytes)
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<usize, Error> {
        self.0.receive(from, into)
    }

    fn leave(&self, error: &Error) {
        self.0.leave(error);
    }
}

/// What all members send in a collective.
fn sent(
    members: usize,
    choices: Choices,
    body: impl Fn(&mut NetworkGroup) -> Result<(), Error> + Sync,
) -> (usize, usize) {
    let counts = each(Channels::between(members, 0), |channels| {
        let settings = NetworkSettings { choices, segment: SEGMENT, ..NetworkSettings::default() };
        let mut group = NetworkGroup::over(Counting(channels), settings).unwrap();
        SENT.set((0, 0));
        body(&mut group).unwrap();
        SENT.get()
    });
    counts.into_iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

const SEGMENT: usize = 64;

/// Bytes of each member's vector: so many for each member of the largest group, and more than a few segments.
const LENGTH: usize = 8 * 840;

fn sum() -> Elementwise<u64, fn(u64, u64) -> u64> {
    Elementwise::ordered(u64::wrapping_add)
}

/// What those combine who are too many for a power of two, and get back: all of a vector.
fn folded(members: usize) -> (usize, usize) {
    let power = 1 << members.ilog2();
    (power, members - power)
}

#[test]
fn bcasts_send_no_more_than_they_have_to() {
    for members in 2..=9 {
        let root = members / 2;
        let bcast = |algorithm| {
            let choices = Choices { bcast: Some(algorithm), ..Choices::default() };
            sent(members, choices, |group| group.bcast(root, &mut vec![1; LENGTH]))
        };
        let whole = (members - 1) * LENGTH;
        assert_eq!(bcast(BcastAlgorithm::Binomial), (members - 1, whole));
        assert_eq!(bcast(BcastAlgorithm::Pipelined), ((members - 1) * LENGTH / SEGMENT, whole));
        // Those of a binomial tree, and those of a ring, of which none goes to whom has its part already.
        let subtree = |place: usize| match place {
            0 => members,
            _ => (1 << place.trailing_zeros()).min(members - place),
        };
        let ring: usize = (0..members).map(|place| members - subtree(place)).sum();
        assert_eq!(bcast(BcastAlgorithm::ScatterAllgather), (members - 1 + ring, whole));
    }
}

#[test]
fn gathers_and_scatters_send_no_more_than_they_have_to() {
    for members in 2..=9 {
        let root = members / 2;
        for algorithm in [CollectAlgorithm::Binomial, CollectAlgorithm::Linear] {
            let (gather, scatter) = (Some(algorithm), Some(algorithm));
            let choices = Choices { gather, scatter, ..Choices::default() };
            let gathered = sent(members, choices, |group| {
                let mut into = vec![0; members * LENGTH];
                group.gather(root, &vec![1; LENGTH], &mut into)
            });
            let scattered = sent(members, choices, |group| {
                group.scatter(root, &vec![1; members * LENGTH], &mut vec![0; LENGTH])
            });
            assert_eq!(gathered, scattered);
            assert_eq!(gathered.0, members - 1);
            if algorithm == CollectAlgorithm::Linear {
                assert_eq!(gathered.1, (members - 1) * LENGTH);
            }
        }
    }
}

#[test]
fn what_all_get_from_all_is_sent_once_for_each() {
    for members in 2..=9_usize {
        let rounds = members.next_power_of_two().ilog2() as usize;
        let pairs = members * (members - 1);
        for (algorithm, messages) in
            [(AllgatherAlgorithm::Bruck, members * rounds), (AllgatherAlgorithm::Ring, pairs)]
        {
            let choices = Choices { allgather: Some(algorithm), ..Choices::default() };
            let found = sent(members, choices, |group| {
                group.allgather(&vec![1; LENGTH], &mut vec![0; members * LENGTH])
            });
            assert_eq!(found, (messages, pairs * LENGTH), "{algorithm:?} of {members}");
        }
        for (algorithm, messages) in
            [(AlltoallAlgorithm::Bruck, members * rounds), (AlltoallAlgorithm::Pairwise, pairs)]
        {
            let choices = Choices { alltoall: Some(algorithm), ..Choices::default() };
            let found = sent(members, choices, |group| {
                group.alltoall(&vec![1; members * LENGTH], &mut vec![0; members * LENGTH])
            });
            let ways = (0..members).map(|way| way.count_ones() as usize).sum::<usize>();
            let parts = if algorithm == AlltoallAlgorithm::Bruck { members * ways } else { pairs };
            assert_eq!(found, (messages, parts * LENGTH), "{algorithm:?} of {members}");
        }
    }
}

#[test]
fn reductions_send_no_more_than_they_have_to() {
    for members in 2..=9_usize {
        let (power, folded) = folded(members);
        let rounds = power.ilog2() as usize;
        for root in [0, members / 2, members - 1] {
            let reduce = |algorithm| {
                let choices = Choices { reduce: Some(algorithm), ..Choices::default() };
                sent(members, choices, |group| group.reduce(root, &mut vec![1; LENGTH], &sum()))
            };
            // In the order of members, it is the first one that gets the result, and passes it on.
            let passed_on = usize::from(root > 0);
            assert_eq!(
                reduce(ReduceAlgorithm::Binomial),
                (members - 1 + passed_on, (members - 1 + passed_on) * LENGTH)
            );
            let is_folded = root < 2 * folded && root % 2 == 0;
            let messages = folded + power * rounds + power - usize::from(!is_folded);
            assert_eq!(reduce(ReduceAlgorithm::Rabenseifner).0, messages, "{members}, {root}");
        }
        let allreduce = |algorithm, operation: Elementwise<u64, fn(u64, u64) -> u64>| {
            let choices = Choices { allreduce: Some(algorithm), ..Choices::default() };
            sent(members, choices, |group| group.allreduce(&mut vec![1; LENGTH], &operation))
        };
        let doubling = allreduce(AllreduceAlgorithm::RecursiveDoubling, sum());
        assert_eq!(doubling, (2 * folded + power * rounds, (2 * folded + power * rounds) * LENGTH));
        let halving = allreduce(AllreduceAlgorithm::Rabenseifner, sum());
        assert_eq!(halving, (2 * folded + 2 * power * rounds, 2 * (folded + power - 1) * LENGTH));
        let ring = allreduce(AllreduceAlgorithm::Ring, Elementwise::commutative(u64::wrapping_add));
        assert_eq!(ring, (2 * members * (members - 1), 2 * (members - 1) * LENGTH));
    }
}

#[test]
fn parts_and_prefixes_send_no_more_than_they_have_to() {
    for members in 2..=9_usize {
        let choices =
            Choices { reduce_scatter: Some(ReduceScatterAlgorithm::Pairwise), ..Choices::default() };
        let found = sent(members, choices, |group| {
            let (data, mut own) = (vec![1; members * LENGTH], vec![0; LENGTH]);
            group.reduce_scatter(&data, &vec![LENGTH; members], &mut own, &sum())
        });
        let pairs = members * (members - 1);
        assert_eq!(found, (pairs, pairs * LENGTH));
        let distances = std::iter::successors(Some(1), |distance| Some(2 * distance));
        let messages: usize = distances.take_while(|&far| far < members).map(|far| members - far).sum();
        let scan = sent(members, Choices::default(), |group| group.scan(&mut vec![1; LENGTH], &sum()));
        let exscan = sent(members, Choices::default(), |group| group.exscan(&mut vec![1; LENGTH], &sum()));
        assert_eq!((scan, exscan), ((messages, messages * LENGTH), (messages, messages * LENGTH)));
    }
}
