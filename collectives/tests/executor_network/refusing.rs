//! Members that are given wrong arguments: nobody waits for them.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use svmio_collectives::executor::{
    Elementwise, Error, GroupSettings, NetworkGroup, NetworkSettings, TwoLevelGroup,
};
use svmio_transport::{Rank, ofi, shm};

use crate::seats::{Seat, fresh_id, on_nodes};

const LENGTH: usize = 8 << 10;

/// Nobody waits so long for anything that comes.
const LIMIT: Duration = Duration::from_secs(60);

/// Who is given wrong arguments.
const REFUSING: usize = 1;

fn sum() -> Elementwise<u64, fn(u64, u64) -> u64> {
    Elementwise::commutative(u64::wrapping_add)
}

/// A collective of a group, with arguments that are wrong where it is said.
type Call<G> = fn(&mut G, bool) -> Result<(), Error>;

macro_rules! calls {
    ($group:ty) => {
        [
            ("bcast", |group: &mut $group, wrong| {
                group.bcast(if wrong { 99 } else { 0 }, &mut vec![0; LENGTH])
            }),
            ("gather", |group, wrong| {
                let mut into = vec![0; group.size() * LENGTH];
                group.gather(if wrong { 99 } else { 0 }, &[0; LENGTH], &mut into)
            }),
            ("scatter", |group, wrong| {
                let data = vec![0; if wrong { 7 } else { group.size() * LENGTH }];
                group.scatter(1, &data, &mut vec![0; LENGTH])
            }),
            ("allgather", |group, wrong| {
                let mut into = vec![0; group.size() * LENGTH - usize::from(wrong)];
                group.allgather(&[0; LENGTH], &mut into)
            }),
            ("allgather_blocks_from", |group, wrong| {
                let mut into = vec![0; group.size() * LENGTH];
                let mut blocks: Vec<&mut [u8]> = into.chunks_mut(LENGTH).collect();
                group.allgather_blocks_from(&vec![0; LENGTH + usize::from(wrong)], &mut blocks)
            }),
            ("alltoall", |group, wrong| {
                let length = group.size() * LENGTH;
                group.alltoall(&vec![0; length], &mut vec![0; length - usize::from(wrong)])
            }),
            ("alltoall_blocks", |group, wrong| {
                let data = vec![0; LENGTH];
                let mut into = vec![0; group.size() * LENGTH];
                let sent = vec![&data[..]; group.size() + usize::from(wrong)];
                group.alltoall_blocks(&sent, &mut into.chunks_mut(LENGTH).collect::<Vec<_>>())
            }),
            ("reduce", |group, wrong| group.reduce(0, &mut vec![0; LENGTH + usize::from(wrong)], &sum())),
            ("allreduce", |group, wrong| group.allreduce(&mut vec![0; LENGTH + usize::from(wrong)], &sum())),
            ("reduce_scatter", |group, wrong| {
                let counts = vec![LENGTH; group.size() + usize::from(wrong)];
                group.reduce_scatter(&vec![0; group.size() * LENGTH], &counts, &mut vec![0; LENGTH], &sum())
            }),
            ("scan", |group, wrong| group.scan(&mut vec![0; 8 + usize::from(wrong)], &sum())),
        ]
    };
}

/// What a member comes to: its errors of the call that one refuses, and of calls after that.
fn errors<G>(
    group: &mut G,
    own: usize,
    call: Call<G>,
    barrier: fn(&mut G) -> Result<(), Error>,
) -> Vec<Error> {
    for _ in 0..3 {
        call(group, false).unwrap();
    }
    let first = call(group, own == REFUSING);
    // Whom nobody has to wait for may be through, and find out later.
    let later = (0..40).filter_map(|_| barrier(group).err()).take(2);
    first.err().into_iter().chain(later).collect()
}

/// Each call, refused by a member of a new group: all end, soon, with errors.
fn all_hear<G: Send + 'static>(
    seats: fn() -> Vec<Seat>,
    calls: &[(&str, Call<G>)],
    join: fn(&Seat, &[Rank], svmio_transport::SegmentId) -> G,
    barrier: fn(&mut G) -> Result<(), Error>,
) {
    for &(name, call) in calls {
        let (seats, id, begun) = (seats(), fresh_id(), Instant::now());
        let members: Vec<Rank> = (0..seats.len() as u32).map(Rank).collect();
        let (sender, outcomes) = mpsc::channel();
        let size = seats.len();
        for (own, seat) in seats.into_iter().enumerate() {
            let (members, sender) = (members.clone(), sender.clone());
            thread::spawn(move || {
                let mut group = join(&seat, &members, id);
                let errors = errors(&mut group, own, call, barrier);
                // Nobody goes before all have come to something.
                sender.send((own, errors, group, seat)).unwrap();
            });
        }
        drop(sender);
        let waits =
            |_| outcomes.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{name}: a member waits for ever"));
        let all: Vec<_> = (0..size).map(waits).collect();
        for (own, errors, ..) in &all {
            assert!(errors.len() >= 2, "{name}, member {own}: {errors:?}");
            let is_own = matches!(errors[0], Error::Length { .. } | Error::NoSuchMember { .. });
            assert_eq!(is_own, *own == REFUSING, "{name}, member {own}: {errors:?}");
        }
        // No time limit was what ended it.
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {:?}", begun.elapsed());
    }
}

fn join_by_messages(seat: &Seat, members: &[Rank], id: svmio_transport::SegmentId) -> NetworkGroup {
    let settings = NetworkSettings { segment: 512, ..NetworkSettings::default() };
    NetworkGroup::join(&seat.fabrics, &seat.messenger, members, id, settings).unwrap()
}

fn join_on_two_levels(seat: &Seat, members: &[Rank], id: svmio_transport::SegmentId) -> TwoLevelGroup {
    let (within, between) = (GroupSettings::default(), NetworkSettings::default());
    TwoLevelGroup::join(&seat.fabrics, &seat.messenger, members, id, within, between).unwrap()
}

#[test]
fn who_refuses_a_call_by_messages_is_waited_for_by_nobody() {
    let calls: [(&str, Call<NetworkGroup>); 11] = calls!(NetworkGroup);
    let seats = || Seat::of_jobs(shm::within_process(5));
    all_hear(seats, &calls, join_by_messages, NetworkGroup::barrier);
}

#[test]
fn nor_over_sockets() {
    let calls: [(&str, Call<NetworkGroup>); 11] = calls!(NetworkGroup);
    let seats = || Seat::of_jobs(ofi::within_process(4, "").unwrap());
    all_hear(seats, &calls, join_by_messages, NetworkGroup::barrier);
}

#[test]
fn nor_on_two_levels() {
    let calls: [(&str, Call<TwoLevelGroup>); 11] = calls!(TwoLevelGroup);
    let seats = || on_nodes(&["a", "a", "b", "c", "b"]);
    all_hear(seats, &calls, join_on_two_levels, TwoLevelGroup::barrier);
}
