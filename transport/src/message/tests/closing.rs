//! Peers that close their messengers, or open none.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::worlds::{self, Ground, bad_plan};
use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::Error;
use crate::message::context::Role;
use crate::shm;
use crate::sim::{Model, SimOptions, World};
use crate::units::SegmentId;

const GROUNDS: [Ground; 2] = [Ground::Threads, Ground::Tcp];

fn is_closed(error: &Error) -> bool {
    matches!(error, Error::NoMessenger { rank: Rank(1), port: 0, .. })
        && error.to_string().contains("closed it")
}

/// Has rank 0 do `body`, while rank 1 closes its messenger when it has done `last`.
fn close_while(
    ground: &Ground,
    last: impl Fn(&Messenger) + Sync,
    body: impl Fn(&Messenger) -> Result<(), Error> + Sync,
) {
    worlds::run(ground, 2, &MessageSettings::default(), |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            let error = body(&messenger).unwrap_err();
            assert!(is_closed(&error), "{ground:?}: {error}");
            // It stays like that.
            assert!(is_closed(&messenger.send(Rank(1), b"x").unwrap_err()));
            assert!(is_closed(&messenger.receive(Rank(1), &mut [0; 8]).unwrap_err()));
            messenger.flush(Rank(1)).unwrap();
        } else {
            last(&messenger);
        }
    });
}

/// What rank 1 does before it closes its messenger: it hears something, and says nothing.
fn hear(messenger: &Messenger) {
    messenger.receive(Rank(0), &mut [0; 8]).unwrap();
}

#[test]
fn a_rendezvous_that_nobody_receives_any_more_ends() {
    for ground in GROUNDS {
        close_while(&ground, hear, |messenger| {
            messenger.send(Rank(1), b"hello")?;
            messenger.send_by(Mode::RendezvousStores, Rank(1), &[7; 100_000])
        });
    }
}

#[test]
fn sends_that_nobody_receives_any_more_end_when_there_is_no_room() {
    for ground in [Ground::Threads, Ground::Tcp, Ground::FaultyThreads(bad_plan(3))] {
        for (mode, length) in [(Mode::Short, 8), (Mode::Eager, 3000)] {
            close_while(&ground, hear, |messenger| {
                messenger.send(Rank(1), b"hello")?;
                loop {
                    messenger.send_by(mode, Rank(1), &vec![7; length])?;
                }
            });
        }
    }
}

#[test]
fn what_was_sent_before_the_end_is_received() {
    const COUNT: u8 = 100;
    for ground in [Ground::Threads, Ground::Tcp, Ground::FaultyThreads(bad_plan(4))] {
        let last = |messenger: &Messenger| {
            (0..COUNT).for_each(|count| messenger.send(Rank(0), &[count; 20]).unwrap());
            // Whoever receives this has been told that all ends, or is told soon.
            messenger.send(Rank(0), &[COUNT; 2000]).unwrap();
        };
        close_while(&ground, last, |messenger| {
            let mut into = [0; 2000];
            for count in 0..=COUNT {
                let length = messenger.receive(Rank(1), &mut into)?;
                assert!(into[..length].iter().all(|byte| *byte == count));
            }
            messenger.receive(Rank(1), &mut into).map(|_| ())
        });
    }
}

#[test]
fn receives_that_were_begun_end_with_the_peers_messenger() {
    for ground in GROUNDS {
        let last = |messenger: &Messenger| messenger.send(Rank(0), b"the only one").unwrap();
        close_while(&ground, last, |messenger| {
            let mut places = [[0; 20]; 3];
            messenger.scope(|scope| {
                let [first, second, third] = &mut places;
                let first = scope.receive(Rank(1), first)?;
                scope.receive(Rank(1), second)?;
                scope.receive(Rank(1), third)?;
                assert_eq!(first.wait()?, 12);
                Ok(())
            })
        });
    }
}

#[test]
fn a_messenger_that_is_opened_again_is_connected_anew() {
    let fabrics = shm::within_process(2);
    for round in 0..3 {
        let [zero, one] = [0, 1]
            .map(|rank| Messenger::open(&fabrics[rank], Port::FIRST, &MessageSettings::default()).unwrap());
        zero.send(Rank(1), &[round; 10]).unwrap();
        let mut into = [0; 10];
        one.receive(Rank(0), &mut into).unwrap();
        assert_eq!(into, [round; 10]);
    }
}

#[test]
fn a_messenger_that_is_closed_late_does_not_end_its_peers_next_one() {
    let fabrics = shm::within_process(2);
    // Nothing is dealt with outside of calls.
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    let open = |rank: usize| Messenger::open(&fabrics[rank], Port::FIRST, &settings).unwrap();
    let [zero, one] = [open(0), open(1)];
    zero.send(Rank(1), b"first").unwrap();
    one.receive(Rank(0), &mut [0; 5]).unwrap();
    drop(zero);
    let zero = open(0);
    drop(one);
    let one = open(1);
    one.send(Rank(0), b"second").unwrap();
    assert_eq!(zero.receive(Rank(1), &mut [0; 6]).unwrap(), 6);
    zero.send(Rank(1), b"third").unwrap();
    assert_eq!(one.receive(Rank(0), &mut [0; 5]).unwrap(), 5);
}

#[test]
fn the_error_of_a_peer_without_messenger_names_it_its_node_and_the_port() {
    let fabrics = shm::within_process(2);
    let messenger = Messenger::open(&fabrics[0], Port::new(5).unwrap(), &MessageSettings::default()).unwrap();
    let peer = Messenger::open(&fabrics[1], Port::new(5).unwrap(), &MessageSettings::default()).unwrap();
    peer.send(Rank(0), b"I was here").unwrap();
    // It has none any more, without having said so: as one that is killed.
    fabrics[1].back_end().remove(SegmentId::new(peer.engine().context.space, 0));
    fabrics[1].set_provider(peer.engine().context.space, std::sync::Arc::new(Nothing));
    let error = messenger.send(Rank(1), b"x").unwrap_err().to_string();
    let node = fabrics[0].membership().node(Rank(1)).to_owned();
    for part in ["rank 1", &format!("node {node}"), "port 5", "closed"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // What it sent can be received all the same.
    assert_eq!(messenger.receive(Rank(1), &mut [0; 10]).unwrap(), 10);
}

#[test]
fn nobody_gets_an_inbox_of_a_messenger_that_was_closed() {
    let fabrics = shm::within_process(2);
    let messenger = Messenger::open(&fabrics[0], Port::FIRST, &MessageSettings::default()).unwrap();
    // As of one who asks for it just then.
    let engine = std::sync::Arc::clone(&messenger.engine);
    drop(messenger);
    let inbox = engine.context.segment(Role::Inbox, Rank(1));
    let connected = fabrics[1].connect(Rank(0), inbox);
    assert!(matches!(connected, Err(Error::UnknownSegment { .. })), "{connected:?}");
    assert!(engine.ready_link(Rank(1)).is_err());
}

/// Who has heard that the job ends closes its messenger, and says nothing of that: all are told, some a moment later.
#[test]
fn who_meets_one_that_has_left_an_ending_job_is_told_of_the_ending() {
    for model in ["sci-ring", "infiniband-hdr"] {
        let zero = OnceLock::new();
        let run = World::new(SimOptions::new(2, Model::named(model).unwrap())).run(|fabric| {
            let peer = Rank(1 - fabric.rank().0);
            let messenger = Messenger::open(&fabric, Port::FIRST, &MessageSettings::default()).unwrap();
            if fabric.rank() == Rank(0) {
                messenger.receive(peer, &mut [0; 5]).unwrap();
                zero.get_or_init(|| Arc::clone(fabric.membership()));
                fabric.back_end().sleep(Duration::from_millis(1));
                let began = fabric.now();
                let error = messenger.send(peer, b"who has left").unwrap_err();
                assert!(matches!(error, Error::Ending { .. }), "{model}: {error}");
                assert!(fabric.now().since(began) < Duration::from_millis(200), "{model}");
            } else {
                messenger.send(peer, b"hello").unwrap();
                fabric.membership().declare_ending("enough");
                drop(messenger);
                fabric.back_end().sleep(Duration::from_millis(100));
                zero.get().unwrap().declare_ending("enough");
            }
        });
        run.unwrap();
    }
}

struct Nothing;

impl crate::back_end::Provider for Nothing {
    fn provide(&self, _: Rank, _: SegmentId) {}
}

#[test]
fn a_peer_that_opens_none_is_told_by_name_and_can_open_one_later() {
    let options = SimOptions::new(2, Model::named("sci-ring").unwrap());
    let run = World::new(options).run(|fabric| {
        let open = || Messenger::open(&fabric, Port::FIRST, &MessageSettings::default()).unwrap();
        if fabric.rank() == Rank(0) {
            let messenger = open();
            let began = fabric.now();
            let error = messenger.send(Rank(1), b"too early").unwrap_err();
            let waited = fabric.now().since(began);
            assert!((Duration::from_secs(30)..Duration::from_secs(31)).contains(&waited), "{waited:?}");
            assert!(matches!(error, Error::NoMessenger { rank: Rank(1), port: 0, .. }), "{error}");
            let text = error.to_string();
            let node = format!("rank 1 on node {}", fabric.membership().node(Rank(1)));
            assert!(text.contains(&node) && text.contains("within 30s"), "{text}");
            // It has opened one meanwhile.
            fabric.back_end().sleep(Duration::from_secs(60));
            messenger.send(Rank(1), b"now").unwrap();
        } else {
            fabric.back_end().sleep(Duration::from_secs(60));
            assert_eq!(open().receive(Rank(0), &mut [0; 3]).unwrap(), 3);
        }
    });
    run.unwrap();
}

#[test]
fn a_messenger_ends_while_another_thread_waits_in_it() {
    for ground in GROUNDS {
        worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
            if fabric.rank() == Rank(1) {
                messenger.send(Rank(0), b"hello").unwrap();
                return;
            }
            messenger.receive(Rank(1), &mut [0; 8]).unwrap();
            std::thread::scope(|scope| {
                // From itself nothing comes.
                let waiting = scope.spawn(|| messenger.receive(Rank(0), &mut [0; 8]));
                while !messenger.engine().context.waiters.are_there() {
                    std::thread::yield_now();
                }
                messenger.end();
                fabric.membership().declare_ending("for the test");
                let error = waiting.join().unwrap().unwrap_err();
                assert!(matches!(error, Error::Ending { .. }), "{ground:?}: {error}");
            });
        });
    }
}
