//! Pairs that talk to each other for the first time, both at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::worlds::{self, Ground};
use super::{MessageSettings, Messenger, Rank};
use crate::fabric::Fabric;
use crate::message::link::Link;

/// How long what must happen may take on a machine with much to do.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits until a thread of this process sleeps.
pub(super) fn until_asleep(thread: i32) {
    let began = Instant::now();
    let sleeps = || {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        text.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    while !sleeps() {
        assert!(began.elapsed() < LIMIT, "thread {thread} does not sleep");
        std::thread::yield_now();
    }
}

/// Rank 0 waits for anybody in one thread, and is about to send in another one, for which it makes the inbox of rank 1.
fn make_an_inbox_while_it_is_written_to(fabric: &Fabric, messenger: &Messenger, met: &Barrier) {
    let (id, (ended, receives)) = (AtomicI32::new(0), channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            id.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
            let received = messenger.receive_any(&mut [0; 8]);
            ended.send(received).unwrap();
        });
        while id.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let receiver = id.load(Ordering::Acquire);
        until_asleep(receiver);
        let engine = messenger.engine();
        let make = || {
            let link = Link::new(&engine.context, Rank(1))?;
            met.wait();
            met.wait();
            // It was woken, and has found no link.
            until_asleep(receiver);
            Ok(link)
        };
        engine.make_link_by(Rank(1), make).unwrap();
        let received = receives.recv_timeout(LIMIT);
        if received.is_err() {
            fabric.membership().declare_lost(Rank(1), "the test gives up");
        }
        // Rank 1 says nothing more before.
        met.wait();
        assert_eq!(received.expect("it sleeps through the message").unwrap(), (Rank(1), 5));
    });
}

#[test]
fn a_message_that_comes_before_its_link_is_known_wakes_who_waits_for_anybody() {
    for ground in [Ground::Threads, Ground::Tcp] {
        let met = Barrier::new(2);
        worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
            if fabric.rank() == Rank(0) {
                return make_an_inbox_while_it_is_written_to(fabric, &messenger, &met);
            }
            met.wait();
            messenger.send(Rank(0), b"hello").unwrap();
            met.wait();
            met.wait();
        });
    }
}
