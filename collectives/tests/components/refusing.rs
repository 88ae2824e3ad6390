//! Members that are given arguments that make no sense, or unusual ones: by every component all members come to the
//! same.

use std::ops::Range;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use svmio_collectives::components::{Collectives, Error, Team};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Rank, SegmentId, shm};

use super::{SPACE, configured, sum, team};

/// Nobody waits so long for anything that comes.
const LIMIT: Duration = Duration::from_secs(30);

/// What leaves each component that has all functions the best there is.
const COMPONENTS: [&str; 3] = ["", "-shared", "-shared -network -schedule -tuned"];

const SIZE: usize = 3;

/// Each function by its arguments, given whether those of this member are wrong.
type Call = fn(&mut Collectives, usize, bool) -> Result<Vec<u8>, Error>;

/// Three blocks, the last of which may not fit.
fn blocks(is_wrong: bool) -> [Range<usize>; SIZE] {
    [0..8, 8..16, 16..if is_wrong { 25 } else { 24 }]
}

const WRONG: [(&str, Call); 13] = [
    ("bcast", |all, _, wrong| all.bcast(if wrong { 9 } else { 0 }, &mut [0; 8]).map(|()| Vec::new())),
    ("gather", |all, own, wrong| {
        all.gather(1, &[0; 8], &mut vec![0; if wrong || own != 1 { 7 } else { 24 }]).map(|()| Vec::new())
    }),
    ("gatherv", |all, _, wrong| all.gatherv(1, &[0; 8], &mut [0; 24], &blocks(wrong)).map(|()| Vec::new())),
    ("scatter", |all, _, wrong| {
        all.scatter(1, &vec![0; if wrong { 23 } else { 24 }], &mut [0; 8]).map(|()| Vec::new())
    }),
    ("scatterv", |all, _, wrong| all.scatterv(1, &[0; 24], &blocks(wrong), &mut [0; 8]).map(|()| Vec::new())),
    ("allgather", |all, _, wrong| {
        all.allgather(&[0; 8], &mut vec![0; if wrong { 23 } else { 24 }]).map(|()| Vec::new())
    }),
    ("allgatherv", |all, _, wrong| all.allgatherv(&mut [0; 24], &blocks(wrong)).map(|()| Vec::new())),
    ("allgatherv into blocks that lie over each other", |all, _, wrong| {
        let third = if wrong { 12..20 } else { 16..24 };
        all.allgatherv(&mut [0; 24], &[0..8, 8..16, third]).map(|()| Vec::new())
    }),
    ("alltoallv", |all, _, wrong| {
        all.alltoallv(&[0; 24], &blocks(wrong), &mut [0; 24], &blocks(false)).map(|()| Vec::new())
    }),
    ("reduce", |all, _, wrong| {
        all.reduce(1, &mut vec![0; if wrong { 9 } else { 8 }], &sum()).map(|()| Vec::new())
    }),
    ("allreduce", |all, _, wrong| {
        all.allreduce(&mut vec![0; if wrong { 9 } else { 8 }], &sum()).map(|()| Vec::new())
    }),
    ("reduce_scatter", |all, _, wrong| {
        let counts = [8; SIZE + 1];
        let counts = &counts[..if wrong { SIZE + 1 } else { SIZE }];
        all.reduce_scatter(&[0; 24], counts, &mut [0; 8], &sum()).map(|()| Vec::new())
    }),
    ("scan", |all, _, wrong| all.scan(&mut vec![0; if wrong { 9 } else { 8 }], &sum()).map(|()| Vec::new())),
];

/// A range that ends before it begins is an empty one.
#[allow(clippy::reversed_empty_ranges, reason = "that is what it is about")]
const INVERTED: [Range<usize>; SIZE] = [0..8, 5..3, 8..16];

/// How much each member has of that.
const LENGTHS: [usize; SIZE] = [8, 0, 8];

const UNUSUAL: [(&str, Call); 4] = [
    ("gatherv", |all, own, _| {
        let mut into = [0; 16];
        all.gatherv(1, &[own as u8; 8][..LENGTHS[own]], &mut into, &INVERTED)?;
        Ok(if own == 1 { into.to_vec() } else { Vec::new() })
    }),
    ("scatterv", |all, own, _| {
        let mut into = vec![0; LENGTHS[own]];
        all.scatterv(1, &std::array::from_fn::<u8, 16, _>(|at| at as u8), &INVERTED, &mut into)?;
        Ok(into)
    }),
    ("allgatherv", |all, own, _| {
        let mut data = [own as u8; 16];
        all.allgatherv(&mut data, &INVERTED)?;
        Ok(data.to_vec())
    }),
    ("alltoallv", |all, own, _| {
        // The second gets nothing, and gives nothing.
        #[allow(clippy::reversed_empty_ranges, reason = "that is what it is about")]
        let none = [1..0, 5..3, 9..2];
        let blocks = if own == 1 { none } else { INVERTED };
        let mut into = [7; 16];
        all.alltoallv(&[own as u8; 16], &blocks, &mut into, &blocks)?;
        Ok(into.to_vec())
    }),
];

/// What each member comes to in a call that goes wrong at `wrong`. All of them live on until all have come to
/// something.
fn outcomes(
    components: &'static str,
    (name, call): (&str, Call),
    wrong: Option<usize>,
) -> Vec<Result<Vec<u8>, Error>> {
    let (sender, ended) = mpsc::channel();
    for fabric in shm::within_process(SIZE as u32) {
        let sender = sender.clone();
        thread::spawn(move || {
            let members: Vec<Rank> = (0..SIZE as u32).map(Rank).collect();
            let team = team(&fabric, &members, SegmentId::new(SPACE, 0));
            let mut collectives = configured(components).select(&team).unwrap();
            let own = team.own();
            if wrong.is_some() {
                // Who has to do with each other has exchanged messages before.
                call(&mut collectives, own, false).unwrap();
            }
            let outcome = call(&mut collectives, own, wrong == Some(own));
            sender.send((own, outcome, collectives, team, fabric)).unwrap();
        });
    }
    drop(sender);
    let come = |_| {
        let come = ended.recv_timeout(LIMIT);
        come.unwrap_or_else(|problem| panic!("{name} by {components:?}, a member does not end: {problem}"))
    };
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(own, ..)| *own);
    all.into_iter().map(|(_, outcome, ..)| outcome).collect()
}

#[test]
fn nobody_waits_for_a_member_whose_arguments_are_wrong() {
    for components in COMPONENTS {
        for (name, call) in WRONG {
            // The root, where there is one.
            let all = outcomes(components, (name, call), Some(1));
            assert!(all[1].is_err(), "{name} by {components:?}: {all:?}");
            // Who only gives, or gets something before the wrong member's turn, may be through.
            let is_one_told = all[0].is_err() || all[2].is_err();
            let gives = name.starts_with("gather") || name.starts_with("reduce") || name == "bcast";
            assert!(is_one_told || gives, "{name} by {components:?}: {all:?}");
        }
    }
}

#[test]
fn a_member_whose_arguments_were_wrong_does_nothing_more_and_says_why() {
    for components in COMPONENTS {
        let twice: Call = |all, _, wrong| {
            let first = all.bcast(if wrong { 9 } else { 0 }, &mut [0; 8]);
            let second = all.barrier();
            first.and(second).map(|()| Vec::new())
        };
        let all = outcomes(components, ("bcast", twice), Some(1));
        assert!(all.iter().all(Result::is_err), "{components:?}: {all:?}");
    }
}

#[test]
fn a_block_that_ends_before_it_begins_is_empty_by_every_component() {
    for (name, call) in UNUSUAL {
        let [first, others @ ..] = COMPONENTS.map(|components| {
            let all = outcomes(components, (name, call), None).into_iter();
            all.collect::<Result<Vec<_>, _>>()
                .unwrap_or_else(|error| panic!("{name} by {components:?}: {error}"))
        });
        for other in others {
            assert_eq!(first, other, "{name}");
        }
    }
}

/// A messenger that serves two teams fails for one of them, too, when somebody of the other one is lost.
#[test]
fn the_loss_of_one_of_another_team_of_the_same_messenger_ends_this_one_for_all() {
    let (sender, ended) = mpsc::channel();
    let (both, mut fabrics) = (Arc::new(Barrier::new(2)), shm::within_process(3));
    let _of_other_team = fabrics.pop();
    for fabric in fabrics {
        let (sender, both) = (sender.clone(), Arc::clone(&both));
        thread::spawn(move || {
            let (members, lost) = ([Rank(0), Rank(1)], Rank(2));
            let messenger = Messenger::open(&fabric, Port::FIRST, &MessageSettings::default()).unwrap();
            let (own, messenger) = (fabric.rank(), Arc::new(messenger));
            // Of the other team there is nothing else here than that member 0 watches whom it waits for there.
            let watched: &[Rank] = if own == Rank(0) { &[Rank(1), lost] } else { &[Rank(0)] };
            messenger.watch(watched);
            let team = Team::new(&fabric, &members, SegmentId::new(SPACE, 0), messenger).unwrap();
            let mut basic = configured(COMPONENTS[2]).select(&team).unwrap();
            basic.allreduce(&mut [1; 8], &sum()).unwrap();
            both.wait();
            fabric.membership().declare_lost(lost, "the test says so");
            let error = (0..2).find_map(|_| basic.allreduce(&mut [1; 8], &sum()).err());
            sender.send((own, error, basic, team, fabric)).unwrap();
        });
    }
    for _ in 0..2 {
        let (own, error, ..) = ended.recv_timeout(LIMIT).expect("a member does not end");
        assert!(error.is_some(), "rank {own}");
    }
}
