//! Closing, while others are in calls.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::Fabric;
use crate::back_end::{Wait, Waited};
use crate::message::{MessageSettings, Messenger, Port};
use crate::sim::{Model, SimOptions, World};
use crate::{Error, Rank, SegmentId, ofi, shm};

fn open(fabric: &Fabric) -> Messenger {
    Messenger::open(fabric, Port::FIRST, &MessageSettings::default()).unwrap()
}

/// Closes `fabric` while `call` is made on another thread; returns what came of it.
fn close_during<R: Send>(fabric: &Fabric, call: impl FnOnce() -> R + Send) -> R {
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            begun.wait();
            call()
        });
        begun.wait();
        // So that it is likely to sleep by now; it ends in any case.
        thread::sleep(Duration::from_millis(20));
        fabric.close();
        calling.join().unwrap()
    })
}

fn close_while_others_wait(fabrics: &[Fabric]) {
    let [zero, one] = fabrics else { unreachable!() };
    let waited = close_during(one, || {
        let mut ready = || one.membership().check_job().is_err();
        one.wait_until(Wait { deadline: None, attends: None, ready: &mut ready })
    });
    assert_eq!(waited, Waited::Ready);
    let refused = one.connect(Rank(0), SegmentId::new(9, 9));
    assert!(matches!(refused, Err(Error::Ending { .. })), "{refused:?}");

    let messenger = open(zero);
    let received = close_during(zero, || messenger.receive(Rank(1), &mut [0; 8]));
    assert!(matches!(received, Err(Error::Ending { .. })), "{received:?}");
    // The messenger ends after the fabric, and does not wait for anybody.
    drop(messenger);
}

#[test]
fn closing_ends_calls_of_other_threads_over_shared_memory() {
    close_while_others_wait(&shm::within_process(2));
}

#[test]
fn closing_ends_calls_of_other_threads_over_libfabric() {
    for provider in ["net", "tcp;ofi_rxm"] {
        close_while_others_wait(&ofi::within_process(2, provider).unwrap());
    }
}

#[test]
fn closing_ends_calls_of_other_tasks_in_a_simulated_world() {
    let program = |fabric: Fabric| {
        let closer = fabric.clone();
        let close = Box::new(move || {
            closer.back_end().sleep(Duration::from_millis(1));
            closer.close();
        });
        let service = fabric.back_end().spawn("closer", close).unwrap();
        if fabric.rank() == Rank(0) {
            let received = open(&fabric).receive(Rank(1), &mut [0; 8]);
            assert!(matches!(received, Err(Error::Ending { .. })), "{received:?}");
        } else {
            let mut ready = || fabric.membership().check_job().is_err();
            let wait = Wait { deadline: None, attends: None, ready: &mut ready };
            assert_eq!(fabric.wait_until(wait), Waited::Ready);
        }
        service.join();
    };
    World::new(SimOptions::new(2, Model::named("sci-ring").unwrap())).run(program).unwrap();
}
