//! More news for a peer than it has room for, while its program computes.

use std::sync::Barrier;
use std::time::Duration;

use super::worlds::{self, Ground};
use super::{MessageSettings, Messenger, Mode, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::Posted;

/// So many that the ends of far more than there is room for are told when all have been begun.
const COUNT: usize = 160;

/// So many bytes that a message takes longer than it takes to begin one.
const LENGTH: usize = 1 << 20;

/// Far less than what a close waits for a peer that takes nothing.
const SOON: Duration = Duration::from_secs(5);

const NETWORK: Ground = Ground::Simulated { model: "infiniband-hdr", seed: 1, faults: false };

/// Sends so many messages by DMA, and returns how long the end of the messenger takes then.
fn send_and_close(fabric: &Fabric, messenger: Messenger) -> Duration {
    let bytes = vec![7; LENGTH];
    let send = |_| {
        // SAFETY: the bytes stay, unchanged, until all have ended.
        unsafe { messenger.post_send(Rank(1), UserMemory::of(&bytes), Mode::RendezvousDirect).unwrap() }
    };
    let posted: Vec<Posted> = (0..COUNT).map(send).collect();
    posted.iter().for_each(|posted| assert_eq!(posted.wait().unwrap(), LENGTH));
    drop(posted);
    close(fabric, messenger)
}

/// How long the end of the messenger takes.
fn close(fabric: &Fabric, messenger: Messenger) -> Duration {
    let began = fabric.now();
    drop(messenger);
    fabric.now().since(began)
}

/// Posts as many receives, and asks for their ends after `meanwhile`.
fn receive_after(messenger: &Messenger, meanwhile: impl FnOnce()) -> Vec<Result<usize, Error>> {
    let mut places = vec![vec![0; LENGTH]; COUNT];
    let receive = |place: &mut Vec<u8>| {
        // SAFETY: the places stay, and are left alone, until all have ended.
        unsafe { messenger.post_receive(Rank(0), UserMemory::of_mut(place)).unwrap() }
    };
    let posted: Vec<Posted> = places.iter_mut().map(receive).collect();
    meanwhile();
    let results = posted.iter().map(Posted::wait).collect();
    drop(posted);
    let bytes = vec![7; LENGTH];
    assert!(places.iter().all(|place| *place == bytes), "all of it had come");
    results
}

#[test]
fn the_ends_of_many_messages_reach_a_program_that_computes_until_their_sender_has_closed() {
    worlds::run(&NETWORK, 2, &MessageSettings::default(), |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            let took = send_and_close(fabric, messenger);
            assert!(took < SOON, "the end took {took:?}");
        } else {
            let compute = || fabric.back_end().compute(Duration::from_secs(60));
            for result in receive_after(&messenger, compute) {
                assert_eq!(result.unwrap(), LENGTH);
            }
        }
    });
}

#[test]
fn the_same_over_tcp() {
    let closed = Barrier::new(2);
    worlds::run(&Ground::Tcp, 2, &MessageSettings::default(), |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            let took = send_and_close(fabric, messenger);
            closed.wait();
            assert!(took < SOON, "the end took {took:?}");
        } else {
            for result in receive_after(&messenger, || _ = closed.wait()) {
                assert_eq!(result.unwrap(), LENGTH);
            }
        }
    });
}

#[test]
fn who_has_received_much_of_a_program_that_computes_closes_at_once_and_the_sends_are_received() {
    const LENGTH: usize = 32 << 10;
    let closed = Barrier::new(2);
    worlds::run(&Ground::Threads, 2, &MessageSettings::default(), |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            let bytes = vec![7; LENGTH];
            let send = |_| {
                // SAFETY: the bytes stay, unchanged, until all have ended.
                unsafe {
                    messenger.post_send(Rank(1), UserMemory::of(&bytes), Mode::RendezvousDirect).unwrap()
                }
            };
            let posted: Vec<Posted> = (0..COUNT).map(send).collect();
            closed.wait();
            for (number, posted) in posted.iter().enumerate() {
                assert!(matches!(posted.wait(), Ok(LENGTH)), "{number}: {:?}", posted.wait());
            }
        } else {
            let mut place = vec![0; LENGTH];
            (0..COUNT).for_each(|_| assert_eq!(messenger.receive(Rank(0), &mut place).unwrap(), LENGTH));
            let took = close(fabric, messenger);
            closed.wait();
            assert!(took < SOON, "the end took {took:?}");
        }
    });
}

/// Without a service thread nobody takes them until then, and the sender waits for it in vain.
#[test]
fn receives_whose_ends_there_was_no_room_for_fail_when_their_sender_has_closed() {
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    worlds::run(&NETWORK, 2, &settings, |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            send_and_close(fabric, messenger);
            return;
        }
        let results = receive_after(&messenger, || {
            let link = messenger.engine().link(Rank(0)).unwrap();
            let are_begun = || {
                let state = link.take_turn();
                state.posted.is_empty() && state.departing.is_empty()
            };
            while !are_begun() {
                fabric.back_end().sleep(Duration::from_micros(10));
                messenger.progress();
            }
            fabric.back_end().compute(Duration::from_secs(60));
        });
        let (received, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert!(!received.is_empty() && !failed.is_empty(), "{} were received", received.len());
        for result in failed {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::NoMessenger { rank: Rank(0), .. }), "{error}");
            assert!(error.to_string().contains("closed it"), "{error}");
        }
    });
}
