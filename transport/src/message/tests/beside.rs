//! Operations that go on while programs compute, and how their ends are told.

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::meeting::until_asleep;
use super::worlds::{self, Ground};
use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::faulty::FaultPlan;
use crate::memory::UserMemory;
use crate::message::layout::Layout;
use crate::message::{Posted, ends};
use crate::units::Interrupt;

/// No messenger's.
const START: Interrupt = Interrupt(0);

/// Computes, and calls nothing of the messenger, until `are_over`.
fn compute_until(fabric: &Fabric, are_over: impl Fn() -> bool) {
    let began = Instant::now();
    while !are_over() {
        fabric.back_end().compute(Duration::from_micros(100));
        assert!(began.elapsed() < Duration::from_secs(30), "rank {} waits in vain", fabric.rank());
    }
}

#[test]
fn what_waits_for_credit_goes_on_while_both_programs_compute() {
    const EAGER: usize = 20;
    for ground in [Ground::Threads, Ground::Tcp] {
        worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
            let other = Rank(1 - fabric.rank().0);
            let length = |number: usize| if number.is_multiple_of(2) { 700 } else { 60_000 };
            let mut messages: Vec<Vec<u8>> =
                (0..EAGER).map(|number| vec![number as u8 + 1; length(number)]).collect();
            let bytes: usize = messages.iter().map(Vec::len).sum();
            let MessageSettings { eager_buffer, eager_buffers, .. } = *messenger.settings();
            assert!(bytes > eager_buffer as usize * eager_buffers as usize);
            messages.push(vec![99; 1 << 20]);
            if fabric.rank() == Rank(0) {
                let mode = |message: &[u8]| {
                    if message.len() < 1 << 20 { Mode::Eager } else { Mode::RendezvousDirect }
                };
                let posted: Vec<_> = messages
                    .iter()
                    // SAFETY: the messages stay, unchanged, until all have ended.
                    .map(|message| unsafe {
                        messenger.post_send(other, UserMemory::of(message), mode(message)).unwrap()
                    })
                    .collect();
                compute_until(fabric, || posted.iter().all(Posted::has_ended));
                posted.iter().for_each(|posted| assert!(posted.wait().is_ok()));
                messenger.receive(other, &mut [0; 4]).unwrap();
            } else {
                let mut places: Vec<Vec<u8>> =
                    messages.iter().map(|message| vec![0; message.len()]).collect();
                let posted: Vec<_> = places
                    .iter_mut()
                    // SAFETY: the places stay, and are left alone, until all have ended.
                    .map(|place| unsafe { messenger.post_receive(other, UserMemory::of_mut(place)).unwrap() })
                    .collect();
                let link = messenger.engine().link(other).unwrap();
                let (last, eager) = posted.split_last().unwrap();
                compute_until(fabric, || {
                    // Where only the sender moves it, its last word on it is for whoever calls next.
                    eager.iter().all(Posted::has_ended)
                        && (last.has_ended() || link.signs.control.has_arrived())
                });
                for (posted, message) in posted.iter().zip(&messages) {
                    assert_eq!(posted.wait().unwrap(), message.len());
                }
                assert!(places == messages);
                messenger.send(other, b"done").unwrap();
            }
        });
    }
}

#[test]
fn what_its_sender_has_left_goes_on_while_he_computes_and_its_memory_is_given_back() {
    const COUNT: u8 = 12;
    let lengths = [3000, 60_000, 1 << 20];
    let messages = || (0..COUNT).flat_map(move |number| lengths.map(|length| vec![number; length]));
    for ground in [Ground::Threads, Ground::Tcp] {
        worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
            let other = Rank(1 - fabric.rank().0);
            if fabric.rank() == Rank(0) {
                // All of it at once, though there is room for little, and nobody receives yet.
                messages().for_each(|message| messenger.send_kept(other, message).unwrap());
                let link = messenger.engine().link(other).unwrap();
                assert!(!link.take_turn().queued.is_empty());
                fabric.trigger(other, START).unwrap();
                compute_until(fabric, || {
                    let state = link.take_turn();
                    state.queued.is_empty() && state.sending.is_empty()
                });
            } else {
                while fabric.wait_interrupt(START, None).unwrap() == 0 {}
                let mut place = vec![0; 1 << 20];
                for message in messages() {
                    assert_eq!(messenger.receive(other, &mut place).unwrap(), message.len());
                    assert!(place[..message.len()] == message);
                }
            }
        });
    }
}

#[test]
fn a_scope_returns_the_errors_that_its_body_was_not_told_of() {
    let is_truncated = |result: Result<(), Error>| matches!(result, Err(Error::Truncated { length: 10, .. }));
    worlds::run(&Ground::Threads, 1, &MessageSettings::default(), |fabric, messenger| {
        let me = fabric.rank();
        for is_posted_first in [true, false] {
            for (waits, tests) in [(true, false), (false, true), (false, false)] {
                let mut short = [0; 4];
                let result = messenger.scope(|scope| {
                    if !is_posted_first {
                        messenger.send(me, &[1; 10])?;
                    }
                    let request = scope.receive(me, &mut short)?;
                    if is_posted_first {
                        messenger.send(me, &[1; 10])?;
                    }
                    if tests {
                        let told = loop {
                            match request.test() {
                                Ok(None) => {}
                                told => break told.map(|_| ()),
                            }
                        };
                        assert!(is_truncated(told));
                    } else if waits {
                        assert!(is_truncated(request.wait().map(|_| ())));
                    }
                    Ok(())
                });
                let is_told = waits || tests;
                assert_eq!(result.is_ok(), is_told, "{result:?}");
                assert!(is_told || is_truncated(result));
            }
        }
    });
}

#[test]
fn what_is_met_by_who_receives_a_later_message_is_copied() {
    let (met, bytes) = (Barrier::new(2), vec![7; 40 << 10]);
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    worlds::run(&Ground::Threads, 2, &settings, |fabric, messenger| {
        let other = Rank(1 - fabric.rank().0);
        if fabric.rank() == Rank(0) {
            met.wait();
            // SAFETY: the bytes stay, unchanged, until it has ended.
            let posted =
                unsafe { messenger.post_send(other, UserMemory::of(&bytes), Mode::Automatic) }.unwrap();
            messenger.send(other, b"then").unwrap();
            met.wait();
            assert_eq!(posted.wait().unwrap(), bytes.len());
        } else {
            let mut place = vec![0; bytes.len()];
            // SAFETY: the place stays, and is left alone, until it has ended.
            let posted = unsafe { messenger.post_receive(other, UserMemory::of_mut(&mut place)) }.unwrap();
            met.wait();
            met.wait();
            let mut short = [0; 4];
            assert_eq!(messenger.receive(other, &mut short).unwrap(), 4);
            let began = Instant::now();
            while posted.test().is_none() {
                assert!(began.elapsed() < Duration::from_secs(30), "it is not copied");
            }
            assert_eq!(posted.wait().unwrap(), bytes.len());
            assert!(short == *b"then" && place == bytes);
        }
    });
}

#[test]
fn what_is_posted_while_another_thread_sleeps_in_a_call_is_copied() {
    let met = Barrier::new(2);
    let bytes = vec![7; 32 << 10];
    worlds::run(&Ground::Threads, 3, &MessageSettings::default(), |fabric, messenger| match fabric.rank() {
        Rank(0) => std::thread::scope(|scope| {
            let (told, ids) = channel();
            let messenger = &messenger;
            scope.spawn(move || {
                told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                messenger.receive(Rank(2), &mut [0; 4]).unwrap();
            });
            let sleeper = ids.recv().unwrap();
            let link = messenger.engine().link(Rank(1)).unwrap();
            compute_until(fabric, || link.signs.messages.has_arrived());
            until_asleep(sleeper);
            let mut place = vec![0; bytes.len()];
            // SAFETY: the place stays, and is left alone, until it has ended.
            let posted = unsafe { messenger.post_receive(Rank(1), UserMemory::of_mut(&mut place)) }.unwrap();
            let began = Instant::now();
            while posted.test().is_none() && began.elapsed() < Duration::from_secs(20) {
                fabric.back_end().compute(Duration::from_micros(100));
            }
            let is_over = posted.test().is_some();
            // What rank 2 says now ends the other thread's call, and so all of this in any case.
            met.wait();
            posted.wait().unwrap();
            assert!(is_over, "it waits for the other thread's call to end");
            assert!(place == bytes);
        }),
        Rank(1) => {
            let memory = UserMemory::of(&bytes);
            // SAFETY: the bytes stay, unchanged, until it has ended.
            let posted = unsafe { messenger.post_send(Rank(0), memory, Mode::RendezvousDirect) }.unwrap();
            compute_until(fabric, || posted.has_ended());
        }
        _ => {
            met.wait();
            messenger.send(Rank(0), b"done").unwrap();
        }
    });
}

#[test]
fn what_was_sent_is_checked_beside_a_program_though_a_waiter_took_the_interrupt_for_it() {
    // Nothing goes wrong, but nobody knows.
    let plan = FaultPlan { dropped: 0.0, late: 0.0, repeated: 0.0, ..worlds::bad_plan(1) };
    let fabrics = worlds::faulty(3, &plan);
    let open =
        |rank: usize| Messenger::open(&fabrics[rank], Port::FIRST, &MessageSettings::default()).unwrap();
    let [zero, _one, two] = [open(0), open(1), open(2)];
    let (told, thread) = channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            zero.receive(Rank(2), &mut [0; 8]).unwrap();
        });
        until_asleep(thread.recv().unwrap());
        zero.send(Rank(1), b"nobody receives it").unwrap();
        two.send(Rank(0), b"go on").unwrap();
        waiting.join().unwrap();
    });
    let link = zero.engine().link(Rank(1)).unwrap();
    compute_until(&fabrics[0], || !link.signs.unchecked.load(Ordering::Relaxed));
}

#[test]
fn who_has_computed_finds_the_ends_of_shared_messages_by_words_and_the_sendings_are_forgotten_meanwhile() {
    const ROUNDS: usize = 40;
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    worlds::run(&Ground::Threads, 2, &settings, |fabric, messenger| {
        let other = Rank(1 - fabric.rank().0);
        // The first chunk is all of it, or one of several.
        for length in [40_000, 1 << 20] {
            let mut bytes = vec![0; length];
            for round in 0..ROUNDS {
                let message = round as u8 + 1;
                if fabric.rank() == Rank(0) {
                    bytes.fill(message);
                    let memory = UserMemory::of(&bytes);
                    // SAFETY: the bytes stay, unchanged, until it has ended.
                    let posted =
                        unsafe { messenger.post_send(other, memory, Mode::RendezvousDirect) }.unwrap();
                    compute_until(fabric, || posted.has_ended());
                    assert_eq!(posted.wait().unwrap(), length);
                    let link = messenger.engine().link(other).unwrap();
                    assert!(link.take_turn().sending.len() <= ends::WORDS as usize);
                    // What tells it, too, is not read by who only asks.
                    compute_until(fabric, || link.signs.control.has_arrived());
                } else {
                    assert_eq!(messenger.receive(other, &mut bytes).unwrap(), length);
                    assert!(bytes.iter().all(|byte| *byte == message));
                }
            }
        }
        if fabric.rank() == Rank(0) {
            messenger.send(other, b"done").unwrap();
            let link = messenger.engine().link(other).unwrap();
            compute_until(fabric, || {
                messenger.progress();
                link.take_turn().sending.is_empty()
            });
            let word =
                |transfer| link.inbox.memory().word64(Layout::end(transfer)).unwrap().load(Ordering::Relaxed);
            assert!((0..ends::WORDS).all(|transfer| word(transfer) == 0));
        } else {
            messenger.receive(other, &mut [0; 4]).unwrap();
        }
    });
}
