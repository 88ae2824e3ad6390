//! A process of which a write fails while those of its node find each other: nobody waits for it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use svmio_transport::back_end::BackEnd;
use svmio_transport::{Fabric, SegmentId, shm};

use super::Fabrics;
use crate::executor::error::Error;
use crate::executor::failing::Failing;

/// Less than the time limit of joining: all are to hear of it at once.
const LIMIT: Duration = Duration::from_secs(25);

const SIZE: u32 = 3;

/// How many writes of each of them tell that it has come: from then on, they tell each other what they have.
const HAS_COME: u64 = 2;

/// What each process comes to, in the order of ranks, where one has a write fail after so many; and how many that one
/// has made.
fn joined(failing: u32, writes: u64) -> (Vec<Result<Fabrics, Error>>, u64) {
    let (sender, ended) = mpsc::channel();
    for fabric in shm::within_process(SIZE) {
        let sender = sender.clone();
        thread::spawn(move || {
            let back_end = Failing::new(Arc::clone(fabric.back_end()));
            let own = fabric.rank().0;
            if own == failing {
                back_end.fail_after(writes);
            }
            let job = Fabric::new(Arc::clone(&back_end) as Arc<dyn BackEnd>);
            let joined = Fabrics::join(&job, SegmentId::new(90, 0));
            // The process lives on, whatever it has come to.
            sender.send((own, joined, back_end.made_of(writes), job)).unwrap();
        });
    }
    let come = |_| {
        let come = ended.recv_timeout(LIMIT);
        come.unwrap_or_else(|_| panic!("one waits, after {writes} writes of rank {failing}"))
    };
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let made = all[failing as usize].2;
    (all.into_iter().map(|(_, joined, ..)| joined).collect(), made)
}

#[test]
fn who_fails_in_finding_the_others_of_its_node_has_nobody_wait() {
    for failing in 0..SIZE {
        let (all, made) = joined(failing, u64::MAX);
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert!(made > HAS_COME);
        for writes in HAS_COME..made {
            let (all, _) = joined(failing, writes);
            assert!(all[failing as usize].is_err(), "after {writes} writes of rank {failing}: {all:?}");
            for (rank, joined) in all.iter().enumerate() {
                // Who is told in the last round that all could has all that it needs.
                if joined.is_ok() && made - writes < u64::from(SIZE - 1) {
                    continue;
                }
                let told = joined.as_ref().unwrap_err().to_string();
                let is_named = told.contains(&format!("rank {failing} could not join"));
                let is_own = rank == failing as usize && told.contains("a write that is to fail");
                assert!(is_named || is_own, "after {writes} writes of rank {failing}, rank {rank}: {told}");
            }
        }
    }
}
