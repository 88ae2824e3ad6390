//! Peers that are lost, jobs that end, and peers that write nonsense.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use super::worlds::run_threads;
use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::message::context::Role;
use crate::message::credits::FIRST;
use crate::message::layout::{HEADER, Layout, Sizes};
use crate::ofi;
use crate::shm;

fn open(fabric: &Fabric) -> Messenger {
    Messenger::open(fabric, Port::FIRST, &MessageSettings::default()).unwrap()
}

/// Has rank 0 do `body` and wait in it; meanwhile it learns that rank 1 is lost.
fn lose_while(body: impl Fn(&Messenger) -> Result<(), Error> + Sync) {
    let fabrics = shm::within_process(3);
    let begun = Barrier::new(2);
    run_threads(&fabrics[..2], |fabric| {
        if fabric.rank() == Rank(0) {
            let messenger = open(fabric);
            begun.wait();
            let error = body(&messenger).unwrap_err();
            assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
            assert!(matches!(messenger.send(Rank(1), b"x"), Err(Error::PeerLost { .. })));
        } else {
            let _messenger = open(fabric);
            begun.wait();
            fabric.back_end().sleep(std::time::Duration::from_millis(20));
            fabrics[0].membership().declare_lost(Rank(1), "the test says so");
        }
    });
}

#[test]
fn a_receive_from_a_lost_peer_ends() {
    lose_while(|messenger| messenger.receive(Rank(1), &mut [0; 8]).map(|_| ()));
}

#[test]
fn a_watched_loss_ends_a_receive_from_another() {
    let fabrics = shm::within_process(3);
    let begun = Barrier::new(2);
    run_threads(&fabrics[..2], |fabric| {
        let (settings, port) =
            (MessageSettings { asynchronous: false, ..Default::default() }, Port::silent(7).unwrap());
        let messenger = Messenger::open(fabric, port, &settings).unwrap();
        messenger.watch(&[Rank(0), Rank(1), Rank(2)]);
        begun.wait();
        if fabric.rank() == Rank(0) {
            let error = messenger.receive(Rank(1), &mut [0; 8]).unwrap_err();
            assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
            // Neither of two that wait by rendezvous waits for ever.
            let error = messenger.send(Rank(1), &vec![0; 1 << 20]).unwrap_err();
            assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
        } else {
            fabric.back_end().sleep(std::time::Duration::from_millis(20));
            fabrics[0].membership().declare_lost(Rank(2), "the test says so");
        }
        begun.wait();
    });
}

#[test]
fn a_watched_loss_ends_every_receive_from_anybody() {
    const THREADS: usize = 2;
    const CALLS: usize = 2;
    let fabrics = shm::within_process(3);
    let membership = fabrics[0].membership();
    let messenger = open(&fabrics[0]);
    messenger.watch(&[Rank(1), Rank(2)]);
    let (report, reports) = mpsc::channel();
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (messenger, report) = (&messenger, report.clone());
            scope.spawn(move || {
                for _ in 0..CALLS {
                    report.send(messenger.receive_any(&mut [0; 8]).unwrap_err()).unwrap();
                }
            });
        }
        membership.declare_lost(Rank(2), "the test says so");
        while told.len() < THREADS * CALLS {
            match reports.recv_timeout(Duration::from_secs(60)) {
                Ok(error) => told.push(error),
                // It ends those, too, to whom the loss does not come.
                Err(_) => membership.declare_ending("a receive waits for ever"),
            }
        }
    });
    for error in told {
        assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
    }
}

#[test]
fn a_watched_loss_ends_the_wait_for_a_peer_to_open_its_messenger() {
    let fabrics = shm::within_process(3);
    let messenger = open(&fabrics[0]);
    messenger.watch(&[Rank(1), Rank(2)]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fabrics[0].back_end().sleep(std::time::Duration::from_millis(20));
            fabrics[0].membership().declare_lost(Rank(2), "the test says so");
        });
        let error = messenger.send(Rank(1), b"x").unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
    });
}

#[test]
fn something_is_done_while_a_call_waits() {
    static TIMES: AtomicU32 = AtomicU32::new(0);
    run_threads(&shm::within_process(2), |fabric| {
        let messenger = open(fabric);
        if fabric.rank() == Rank(1) {
            messenger.do_meanwhile(|| {
                TIMES.fetch_add(1, Ordering::Relaxed);
            });
            messenger.receive(Rank(0), &mut []).unwrap();
        } else {
            while TIMES.load(Ordering::Relaxed) < 3 {
                fabric.back_end().sleep(std::time::Duration::from_millis(1));
            }
            messenger.send(Rank(1), &[]).unwrap();
        }
    });
}

#[test]
fn a_silent_port_has_no_thread() {
    let fabric = &shm::within_process(1)[0];
    let opened = Messenger::open(fabric, Port::silent(0).unwrap(), &MessageSettings::default());
    assert!(matches!(opened, Err(Error::Unsupported { .. })), "{opened:?}");
}

#[test]
fn a_receive_from_anybody_tells_of_a_loss() {
    lose_while(|messenger| messenger.receive_any(&mut [0; 8]).map(|_| ()));
}

#[test]
fn a_receive_from_anybody_serves_what_waits_before_it() {
    run_threads(&shm::within_process(2), |fabric| {
        let messenger = open(fabric);
        if fabric.rank() == Rank(1) {
            // One that a receive waits for, and one for whoever comes next.
            messenger.receive(Rank(0), &mut []).unwrap();
            messenger.send(Rank(0), b"first").unwrap();
            messenger.send(Rank(0), b"second").unwrap();
            return;
        }
        let (mut posted, mut any) = ([0; 8], [0; 8]);
        let length = messenger.scope(|scope| {
            let request = scope.receive(Rank(1), &mut posted)?;
            messenger.send(Rank(1), &[])?;
            let (from, length) = messenger.receive_any(&mut any)?;
            assert_eq!((from, length), (Rank(1), 6));
            request.wait()
        });
        assert_eq!(length.unwrap(), 5);
        assert_eq!((&posted[..5], &any[..6]), (&b"first"[..], &b"second"[..]));
    });
}

#[test]
fn each_loss_is_told_once_in_whatever_order_they_come() {
    let fabrics = shm::within_process(4);
    let messenger = open(&fabrics[0]);
    for lost in [Rank(2), Rank(1)] {
        fabrics[0].membership().declare_lost(lost, "the test says so");
        let error = messenger.receive_any(&mut [0; 8]).unwrap_err();
        assert_eq!(error.lost_peer(), Some(lost), "{error}");
    }
}

#[test]
fn sends_that_nobody_receives_end_with_the_loss() {
    for mode in
        [Mode::Short, Mode::Eager, Mode::RendezvousDirect, Mode::RendezvousStaged, Mode::RendezvousStores]
    {
        lose_while(|messenger| {
            loop {
                messenger.send_by(mode, Rank(1), &[7; 900])?;
            }
        });
    }
}

#[test]
fn all_that_was_begun_ends_with_the_loss() {
    lose_while(|messenger| {
        let ours = vec![0; 100_000];
        let mut theirs = vec![[0; 10]; 5];
        messenger.scope(|scope| {
            for place in &mut theirs {
                scope.receive(Rank(1), place)?;
            }
            for _ in 0..5 {
                scope.send(Rank(1), &ours)?;
            }
            Ok(())
        })
    });
}

/// Whoever was just about to look at what a peer sent may see its last word before it sees that the peer is lost.
#[test]
fn what_ends_by_the_last_word_of_a_lost_peer_ends_with_the_loss() {
    let fabrics = shm::within_process(3);
    let messenger = open(&fabrics[0]);
    messenger.watch(&[Rank(1), Rank(2)]);
    let context = &messenger.engine.context;
    let told = || [context.has_closed(Rank(1)), context.has_given_up(Rank(1))].map(|error| error.lost_peer());
    assert_eq!(told(), [None; 2]);
    // A reason that is not certain is told when the loss behind it has had the time to be declared.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fabrics[0].back_end().sleep(Duration::from_millis(20));
            fabrics[0].membership().declare_lost(Rank(2), "the test says so");
        });
        let error = context.unless_disturbed(Rank(1), context.no_messenger(Rank(1), "a test"), || false);
        assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
    });
    assert_eq!(told(), [Some(Rank(2)); 2]);
    fabrics[0].membership().declare_lost(Rank(1), "the test says so");
    assert_eq!(told(), [Some(Rank(1)); 2]);
}

#[test]
fn the_others_go_on_after_a_loss() {
    let fabrics = shm::within_process(3);
    run_threads(&fabrics[..2], |fabric| {
        fabric.membership().declare_lost(Rank(2), "the test says so");
        let messenger = open(fabric);
        let error = messenger.receive_any(&mut [0; 8]).unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(2)));
        let other = Rank(1 - fabric.rank().0);
        messenger.send(other, b"still").unwrap();
        assert_eq!(messenger.receive_any(&mut [0; 8]).unwrap(), (other, 5));
    });
}

#[test]
fn all_ends_when_the_job_does() {
    let fabrics = shm::within_process(2);
    let begun = Barrier::new(2);
    run_threads(&fabrics, |fabric| {
        let messenger = open(fabric);
        begun.wait();
        if fabric.rank() == Rank(0) {
            let error = messenger.receive(Rank(1), &mut [0; 8]).unwrap_err();
            assert!(matches!(error, Error::Ending { .. }), "{error}");
        } else {
            fabrics[0].membership().declare_ending("the test is over");
        }
    });
}

#[test]
fn nonsense_fails_the_pair_and_not_the_process() {
    let fabrics = shm::within_process(2);
    let (made, done) = (Barrier::new(2), Barrier::new(2));
    run_threads(&fabrics, |fabric| {
        let messenger = open(fabric);
        if fabric.rank() == Rank(0) {
            messenger.engine().link(Rank(1)).unwrap();
            made.wait();
            let error = messenger.receive(Rank(1), &mut [0; 8]).unwrap_err();
            assert!(matches!(&error, Error::Wire { from: Rank(1), .. }), "{error}");
            assert!(error.to_string().contains("node here"), "{error}");
            assert!(matches!(messenger.send(Rank(1), b"x"), Err(Error::Wire { .. })));
            assert!(matches!(messenger.check(Rank(1)), Err(Error::Wire { .. })));
            messenger.check(Rank(0)).unwrap();
            messenger.send(Rank(0), b"myself").unwrap();
            assert_eq!(messenger.receive_any(&mut [0; 8]).unwrap(), (Rank(0), 6));
            done.wait();
        } else {
            made.wait();
            // What this rank's packets to rank 0 would be written into.
            let inbox =
                fabric.connect(Rank(0), messenger.engine().context.segment(Role::Inbox, Rank(1))).unwrap();
            let memory = inbox.mapping().unwrap();
            let mut header = [0; HEADER];
            memory.read(0, &mut header).unwrap();
            let sizes = Sizes::decode(&header).unwrap().unwrap();
            let behind_first = FIRST % sizes.ring_parts + 1;
            let first_closing = Layout::of(&sizes).ring + u64::from(behind_first * sizes.part) - 8;
            let id = u64::from(FIRST.wrapping_add(1));
            memory.write(first_closing, &(id << 32 | 0xfff3).to_le_bytes()).unwrap();
            fabric.ring(Rank(0)).unwrap();
            done.wait();
        }
    });
}

#[test]
fn a_receive_ends_when_the_fabric_is_closed_under_it() {
    for asynchronous in [true, false] {
        let settings = MessageSettings { asynchronous, ..MessageSettings::default() };
        for fabrics in [shm::within_process(2), ofi::within_process(2, "tcp").unwrap()] {
            let messenger = Messenger::open(&fabrics[0], Port::FIRST, &settings).unwrap();
            std::thread::scope(|scope| {
                let one = scope.spawn(|| messenger.receive(Rank(1), &mut [0; 8]).map(|_| ()));
                let any = scope.spawn(|| messenger.receive_any(&mut [0; 8]).map(|_| ()));
                // Both wait in earnest, or are about to.
                while messenger.engine().links().len() == 0 {
                    std::thread::yield_now();
                }
                fabrics[0].close();
                for receiving in [one, any] {
                    let error = receiving.join().unwrap().unwrap_err();
                    assert!(matches!(error, Error::Ending { .. }), "{error}");
                }
            });
            let error = messenger.send(Rank(1), b"late").unwrap_err();
            assert!(matches!(error, Error::Ending { .. }), "{error}");
        }
    }
}

#[test]
fn a_receive_from_anybody_is_told_of_a_loss_that_somebody_else_has_dealt_with() {
    let fabrics = shm::within_process(2);
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    let messenger = Messenger::open(&fabrics[0], Port::FIRST, &settings).unwrap();
    let tries = Cell::new(0);
    let told = messenger.engine().wait(
        || false,
        || {
            tries.set(tries.get() + 1);
            if tries.get() > 1 {
                return Ok(Some(fabrics[0].membership().check(Rank(1))));
            }
            // After this attempt has looked: the loss is declared, and another thread deals with it.
            fabrics[0].membership().declare_lost(Rank(1), "the test says so");
            messenger.engine().nudge();
            Ok(None)
        },
    );
    assert!(matches!(told, Ok(Err(Error::PeerLost { .. }))));
}
