//! Peers that close their messengers before anything was exchanged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{MessageSettings, Messenger, Port, Rank};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::faulty::FaultPlan;
use crate::memory::UserMemory;
use crate::ofi;
use crate::shm;
use crate::sim::{Model, SimOptions, World};

use super::worlds::{bad_plan, faulty, run_threads};

/// How long what must happen may take on a machine with much to do.
const LIMIT: Duration = Duration::from_secs(60);

/// What a fabric is made of.
#[derive(Debug, Clone, Copy)]
enum Ground {
    Memory,
    Faulty(FaultPlan),
    Network(&'static str),
    Simulated(&'static str),
}

fn grounds() -> Vec<Ground> {
    vec![
        Ground::Memory,
        Ground::Faulty(bad_plan(11)),
        Ground::Network("net"),
        Ground::Network("tcp;ofi_rxm"),
        Ground::Simulated("sci-ring"),
        Ground::Simulated("infiniband-hdr"),
    ]
}

/// Runs `body` for each of `size` ranks. Fabrics that it does not drop are kept until all have ended.
fn run(ground: Ground, size: u32, body: impl Fn(&Fabric) + Sync) {
    match ground {
        Ground::Memory => run_threads(&shm::within_process(size), body),
        Ground::Faulty(plan) => run_threads(&faulty(size, &plan), body),
        Ground::Network(provider) => run_threads(&ofi::within_process(size, provider).unwrap(), body),
        Ground::Simulated(model) => {
            let world = World::new(SimOptions::new(size, Model::named(model).unwrap()));
            // A rank that panics leaves a thread behind that counts as panicking.
            std::thread::scope(|scope| scope.spawn(|| world.run(|fabric| body(&fabric))).join().unwrap())
                .unwrap();
        }
    }
}

fn open(fabric: &Fabric, asynchronous: bool) -> Messenger {
    let settings = MessageSettings { asynchronous, ..MessageSettings::default() };
    Messenger::open(fabric, Port::FIRST, &settings).unwrap()
}

/// Lets time pass until `ready` holds.
fn until(fabric: &Fabric, ready: impl Fn() -> bool) {
    let began = fabric.now();
    while !ready() {
        assert!(fabric.now().since(began) < LIMIT, "that does not come about");
        fabric.back_end().sleep(Duration::from_millis(1));
    }
}

/// Returns when `peer` has said that it waits for this process.
fn until_awaited(fabric: &Fabric, peer: Rank) {
    until(fabric, || fabric.ports().is_awaited(Port::FIRST.space(), peer));
}

fn assert_closed(result: &Result<usize>, what: &str) {
    let is_closed = matches!(result, Err(Error::NoMessenger { rank: Rank(1), port: 0, .. }));
    let text = result.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    assert!(is_closed && text.contains("closed it"), "{what}: {text}");
}

/// A way to wait for a message of rank 1.
type Way = (&'static str, fn(&Fabric, &Messenger) -> Result<usize>);

const WAYS: [Way; 4] = [
    ("receive", |_, messenger| messenger.receive(Rank(1), &mut [0; 8])),
    ("posted, waited for", |_, messenger| {
        let mut into = [0; 8];
        messenger.scope(|scope| scope.receive(Rank(1), &mut into)?.wait())
    }),
    ("posted, tested", |fabric, messenger| {
        let mut into = [0; 8];
        // SAFETY: it has ended below.
        let posted = unsafe { messenger.post_receive(Rank(1), UserMemory::of_mut(&mut into)) }?;
        loop {
            if let Some(result) = posted.test() {
                return result;
            }
            fabric.back_end().sleep(Duration::from_millis(1));
        }
    }),
    ("probed", |fabric, messenger| {
        loop {
            if let Some(length) = messenger.probe(Rank(1))? {
                return Ok(length);
            }
            fabric.back_end().sleep(Duration::from_millis(1));
        }
    }),
];

/// Has rank 0 wait in each way, with a service thread and without.
fn in_each_way(body: impl Fn(Ground, &Way, bool) + Sync) {
    let body = &body;
    // Beside each other: each waits for a while.
    std::thread::scope(|scope| {
        for ground in grounds() {
            for way in &WAYS {
                scope.spawn(move || [true, false].map(|asynchronous| body(ground, way, asynchronous)));
            }
        }
    });
}

#[test]
fn who_waits_for_one_that_has_closed_learns_it() {
    in_each_way(|ground, (name, wait), asynchronous| {
        let has_closed = AtomicBool::new(false);
        run(ground, 2, |fabric| {
            let messenger = open(fabric, asynchronous);
            if fabric.rank() == Rank(0) {
                until(fabric, || has_closed.load(Ordering::Acquire));
                let began = fabric.now();
                assert_closed(&wait(fabric, &messenger), &format!("{ground:?}, {name}"));
                assert!(fabric.now().since(began) < LIMIT);
                // It stays like that.
                assert_closed(&messenger.receive(Rank(1), &mut [0; 8]), name);
            } else {
                drop(messenger);
                has_closed.store(true, Ordering::Release);
            }
        });
    });
}

#[test]
fn who_waits_for_one_that_closes_later_is_told() {
    in_each_way(|ground, (name, wait), asynchronous| {
        run(ground, 3, |fabric| {
            let messenger = open(fabric, asynchronous);
            match fabric.rank() {
                Rank(0) => assert_closed(&wait(fabric, &messenger), &format!("{ground:?}, {name}")),
                Rank(1) => {
                    until_awaited(fabric, Rank(0));
                    drop(messenger);
                }
                _ => {}
            }
            // Nothing was connected for it.
            assert!(
                matches!(ground, Ground::Simulated(_)) || fabric.connected_peers().is_empty(),
                "{ground:?}"
            );
        });
    });
}

#[test]
fn who_is_late_or_waits_itself_has_not_closed() {
    in_each_way(|ground, (name, wait), asynchronous| {
        run(ground, 2, |fabric| {
            let peer = Rank(1 - fabric.rank().0);
            if fabric.rank() == Rank(0) {
                let messenger = open(fabric, asynchronous);
                assert_eq!(wait(fabric, &messenger).unwrap(), 4, "{ground:?}, {name}");
                let engine = messenger.engine();
                assert_eq!(engine.next_inquiry(), None, "it is asked once");
                if *name == "probed" {
                    messenger.receive(peer, &mut [0; 8]).unwrap();
                }
                // Rank 1 waits itself now.
                until_awaited(fabric, peer);
                messenger.send(peer, b"too").unwrap();
                assert_closed(&messenger.receive(peer, &mut [0; 8]), name);
            } else {
                // It opens none before it was asked.
                until_awaited(fabric, peer);
                let messenger = open(fabric, asynchronous);
                messenger.send(peer, b"late").unwrap();
                assert_eq!(messenger.receive(peer, &mut [0; 8]).unwrap(), 3);
            }
        });
    });
}

#[test]
fn who_closes_the_one_before_late_is_waited_for() {
    for ground in grounds() {
        run(ground, 2, |fabric| {
            let first = open(fabric, true);
            if fabric.rank() == Rank(0) {
                drop(first);
                let second = open(fabric, true);
                assert_eq!(second.receive(Rank(1), &mut [0; 8]).unwrap(), 6, "{ground:?}");
                assert_closed(&second.receive(Rank(1), &mut [0; 8]), "the second");
            } else {
                until_awaited(fabric, Rank(0));
                drop(first);
                // Still: for the next one.
                assert!(fabric.ports().is_awaited(Port::FIRST.space(), Rank(0)));
                let second = open(fabric, true);
                second.send(Rank(0), b"second").unwrap();
            }
        });
    }
}

/// Who has received nothing yet from a peer that sends to it, and ends because of a loss, tells that peer, which need
/// not hear of the loss.
#[test]
fn who_waits_for_one_that_ends_because_of_a_loss_learns_it() {
    // Also of messages that wait for room.
    for (ground, count) in
        [(Ground::Memory, 1), (Ground::Network("net"), 1), (Ground::Network("tcp;ofi_rxm"), 400)]
    {
        let (sender, has_learned) = (OnceLock::<Fabric>::new(), AtomicBool::new(false));
        run(ground, 3, |fabric| match fabric.rank() {
            Rank(1) => {
                let messenger = open(fabric, true);
                messenger.watch(&[Rank(2)]);
                until(fabric, || messenger.probe(Rank(0)).unwrap().is_some());
                assert!(fabric.connected_peers().is_empty(), "{ground:?}: it has sent something");
                fabric.membership().declare_lost(Rank(2), "the test says so");
                messenger.end();
                // Should nothing else end it.
                let began = fabric.now();
                while !has_learned.load(Ordering::Acquire) && fabric.now().since(began) < LIMIT {
                    fabric.back_end().sleep(Duration::from_millis(1));
                }
                if let Some(sender) = sender.get() {
                    sender.membership().declare_ending("the test is over");
                }
            }
            Rank(0) => {
                sender.get_or_init(|| fabric.clone());
                let messenger = open(fabric, true);
                let bytes = vec![7; if count == 1 { 1 << 20 } else { 1000 }];
                let sent = (0..count).try_for_each(|_| messenger.send(Rank(1), &bytes));
                assert_closed(&sent.map(|()| 0), &format!("{ground:?}"));
                has_learned.store(true, Ordering::Release);
            }
            _ => {}
        });
    }
}

#[test]
fn nothing_stays_of_messengers_that_were_closed() {
    const COUNT: u32 = 1000;
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    for ground in grounds() {
        run(ground, 1, |fabric| {
            for number in 0..COUNT {
                let messenger = Messenger::open(fabric, Port::silent(number).unwrap(), &settings).unwrap();
                let provider = Arc::downgrade(messenger.engine().provider.get().unwrap());
                assert!(provider.upgrade().is_some());
                drop(messenger);
                assert!(provider.upgrade().is_none(), "{ground:?}: who makes its inboxes is there still");
            }
            assert!(fabric.ports().entries() <= 20, "{ground:?}: {}", fabric.ports().entries());
        });
    }
}

/// A messenger may be ended while others hold it, and the next one be opened meanwhile.
#[test]
fn the_end_of_a_messenger_leaves_the_next_one_who_makes_its_inboxes() {
    for ground in grounds() {
        let (is_open, has_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        run(ground, 2, |fabric| {
            if fabric.rank() == Rank(0) {
                let first = open(fabric, true);
                let engine = Arc::clone(&first.engine);
                drop(first);
                let second = open(fabric, true);
                engine.remove_provider();
                is_open.store(true, Ordering::Release);
                until(fabric, || has_sent.load(Ordering::Acquire));
                assert_eq!(second.receive(Rank(1), &mut [0; 8]).unwrap(), 5, "{ground:?}");
            } else {
                drop(open(fabric, true));
                let second = open(fabric, true);
                until(fabric, || is_open.load(Ordering::Acquire));
                second.send(Rank(0), b"hello").unwrap();
                has_sent.store(true, Ordering::Release);
            }
        });
    }
}

#[test]
fn what_the_next_one_sends_early_waits_for_the_peers_next_one() {
    for ground in grounds() {
        for have_talked in [false, true] {
            // Rank 0's fabric, and how often it had connected before it sent early.
            let early = OnceLock::new();
            run(ground, 2, |fabric| {
                let (first, peer) = (open(fabric, true), Rank(1 - fabric.rank().0));
                if have_talked {
                    first.send(peer, b"hi").unwrap();
                    assert_eq!(first.receive(peer, &mut [0; 8]).unwrap(), 2);
                }
                if fabric.rank() == Rank(0) {
                    drop(first);
                    let second = open(fabric, true);
                    early.get_or_init(|| (fabric.clone(), fabric.statistics().connections));
                    second.send(peer, b"early").unwrap();
                    assert_eq!(second.receive(peer, &mut [0; 8]).unwrap(), 6, "{ground:?}, {have_talked}");
                    second.send(peer, &[7; 200_000]).unwrap();
                } else {
                    // It has found the first one open.
                    let has_tried = |(zero, before): &(Fabric, u64)| zero.statistics().connections > *before;
                    until(fabric, || early.get().is_some_and(has_tried));
                    let seen = first.probe(peer);
                    assert!(!matches!(seen, Ok(Some(_))), "{ground:?}, {have_talked}: {seen:?}");
                    drop(first);
                    let (second, mut into) = (open(fabric, true), vec![0; 200_000]);
                    assert_eq!(second.receive(peer, &mut into).unwrap(), 5, "{ground:?}, {have_talked}");
                    assert_eq!(into[..5], *b"early");
                    second.send(peer, b"second").unwrap();
                    assert_eq!(second.receive(peer, &mut into).unwrap(), into.len());
                }
            });
        }
    }
}

#[test]
fn who_has_not_closed_the_one_before_does_not_reach_the_peers_next_one() {
    for ground in grounds() {
        let (has_next, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        run(ground, 2, |fabric| {
            let (first, peer) = (open(fabric, true), Rank(1 - fabric.rank().0));
            if fabric.rank() == Rank(1) {
                drop(first);
                let second = open(fabric, true);
                has_next.store(true, Ordering::Release);
                until(fabric, || has_failed.load(Ordering::Acquire));
                let seen = second.probe(peer);
                assert!(matches!(seen, Ok(None)), "{ground:?}: {seen:?}");
                second.send(peer, b"second").unwrap();
            } else {
                until(fabric, || has_next.load(Ordering::Acquire));
                assert_closed(&first.send(peer, b"late").map(|()| 0), &format!("{ground:?}"));
                has_failed.store(true, Ordering::Release);
                drop(first);
                assert_eq!(open(fabric, true).receive(peer, &mut [0; 8]).unwrap(), 6, "{ground:?}");
            }
        });
    }
}

/// Over a network, [it is lost](crate::ofi).
#[test]
fn who_waits_for_one_whose_fabric_is_gone_learns_that_it_has_closed() {
    let [fabric, gone] = <[Fabric; 2]>::try_from(shm::within_process(2)).unwrap();
    drop(open(&gone, true));
    drop(gone);
    let messenger = open(&fabric, true);
    let began = fabric.now();
    assert_closed(&messenger.receive(Rank(1), &mut [0; 8]), "gone");
    assert!(fabric.now().since(began) < LIMIT);
}

#[test]
fn who_closes_the_fabric_under_an_open_messenger_has_closed_that() {
    for ground in grounds() {
        run(ground, 2, |fabric| {
            let messenger = open(fabric, true);
            if fabric.rank() == Rank(0) {
                assert_closed(&messenger.receive(Rank(1), &mut [0; 8]), &format!("{ground:?}"));
            } else {
                until_awaited(fabric, Rank(0));
                fabric.close();
            }
        });
    }
}
