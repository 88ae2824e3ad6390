//! Bells, interrupts, deadlines, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::within_process;
use super::{SEGMENT, anonymous, pair, wait_for};
use crate::back_end::{Wait, Waited};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::units::{Interrupt, Rank};

const INTERRUPT: Interrupt = Interrupt(63);

/// The processor time that the calling thread has used.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn interrupts_are_counted_and_none_is_lost() {
    const TIMES: u64 = 2000;
    let fabrics = within_process(3);
    std::thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(move || (0..TIMES).for_each(|_| fabric.trigger(Rank(1), INTERRUPT).unwrap()));
        }
        let mut count = 0;
        while count < 3 * TIMES {
            count += fabrics[1].wait_interrupt(INTERRUPT, None).unwrap();
        }
        assert_eq!(count, 3 * TIMES);
    });
    let now = fabrics[1].now();
    assert_eq!(fabrics[1].wait_interrupt(INTERRUPT, Some(now)).unwrap(), 0);
}

#[test]
fn an_interrupt_that_does_not_exist_is_refused() {
    let (one, _other) = pair();
    assert!(matches!(one.trigger(Rank(1), Interrupt(64)), Err(Error::OutOfBounds { size: 64, .. })));
    assert!(one.wait_interrupt(Interrupt(64), None).is_err());
}

#[test]
fn waits_end_at_their_deadline_and_use_no_processor() {
    let (one, _other) = pair();
    let used = thread_time();
    let limit = Duration::from_millis(200);
    let deadline = one.now().after(limit);
    assert_eq!(one.wait_interrupt(INTERRUPT, Some(deadline)).unwrap(), 0);
    assert!(one.now() >= deadline);
    let deadline = one.now().after(limit);
    let mut never = || false;
    let wait = Wait { deadline: Some(deadline), attends: Some(INTERRUPT), ready: &mut never };
    assert_eq!(one.wait_until(wait), Waited::TimedOut);
    assert!(one.now() >= deadline);
    // At most what it polls, and that never for long.
    let used = thread_time() - used;
    assert!(used < Duration::from_millis(20), "{used:?}");
}

#[test]
fn what_is_declared_wakes_who_waits_for_interrupts_and_who_polls() {
    let (one, _other) = pair();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| one.wait_interrupt(INTERRUPT, None).unwrap());
        let membership = one.membership();
        let poller = scope.spawn(|| wait_for(&one, || membership.check(Rank(1)).is_err()));
        membership.declare_lost(Rank(1), "for the test");
        assert_eq!(sleeper.join().unwrap(), 0);
        poller.join().unwrap();
    });
    // Whoever comes after a declaration is told, too, and once.
    assert_eq!(one.wait_interrupt(Interrupt(0), None).unwrap(), 0);
    one.trigger(Rank(0), Interrupt(0)).unwrap();
    assert_eq!(one.wait_interrupt(Interrupt(0), None).unwrap(), 1);
}

#[test]
fn all_who_wait_for_one_interrupt_are_told_of_what_is_declared() {
    let (one, _other) = pair();
    let (begin, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sleepers: Vec<_> = (0..3)
            .map(|_| {
                let (one, begin) = (&one, begin.clone());
                scope.spawn(move || {
                    begin.send(rustix::thread::gettid()).unwrap();
                    let deadline = one.now().after(Duration::from_secs(20));
                    assert_eq!(one.wait_interrupt(INTERRUPT, Some(deadline)).unwrap(), 0);
                    assert!(one.now() < deadline, "it was told of nothing");
                })
            })
            .collect();
        for thread in begun.iter().take(3) {
            // After what it sent it sleeps nowhere else.
            let status = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
            while !std::fs::read_to_string(&status).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
        }
        one.membership().declare_lost(Rank(1), "for the test");
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn closing_ends_the_waits_for_interrupts_and_the_callbacks() {
    let (one, other) = pair();
    let sum = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sum);
    let service = one
        .on_interrupt(INTERRUPT, move |count| {
            counter.fetch_add(count, Ordering::Relaxed);
        })
        .unwrap();
    other.trigger(Rank(0), INTERRUPT).unwrap();
    while sum.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    one.close();
    service.join();
    assert!(matches!(one.wait_interrupt(INTERRUPT, None), Err(Error::Ending { .. })));
}

#[test]
fn a_callback_that_panics_is_called_again() {
    let (one, other) = pair();
    let sum = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sum);
    let service = one
        .on_interrupt(INTERRUPT, move |count| {
            assert!(counter.fetch_add(count, Ordering::Relaxed) > 0, "the first time");
        })
        .unwrap();
    for count in 1..=3 {
        other.trigger(Rank(0), INTERRUPT).unwrap();
        let began = std::time::Instant::now();
        while sum.load(Ordering::Relaxed) < count {
            assert!(began.elapsed() < Duration::from_secs(20), "it was called {} times", count - 1);
            std::thread::yield_now();
        }
    }
    one.close();
    service.join();
}

#[test]
fn threads_of_the_back_end_leave_signals_to_the_application() {
    let (one, _other) = pair();
    let body = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM] {
            assert_ne!(blocked & 1 << (signal - 1), 0, "signal {signal}");
        }
    };
    let (tell, told) = std::sync::mpsc::channel();
    let service = one.back_end().spawn(
        "a test with a long name",
        Box::new(move || {
            body();
            tell.send(()).unwrap();
        }),
    );
    service.unwrap().join();
    told.recv().unwrap();
}

/// A sender that triggers for each message; a receiver that has a thread for the interrupt, which takes messages
/// while nobody else does, and a waiter that takes them itself. Whoever takes them, all are taken.
#[test]
fn a_waiter_that_attends_and_a_thread_that_sleeps_together_lose_nothing() {
    const MESSAGES: u64 = 3000;
    let (sender, receiver) = pair();
    let segment = receiver.create(SEGMENT, &anonymous(8)).unwrap();
    let (taken, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let take = |fabric: &Fabric| {
        let sent = segment.memory().word64(0).unwrap().load(Ordering::Acquire);
        if taken.fetch_max(sent, Ordering::AcqRel) < sent {
            fabric.back_end().wake();
        }
    };
    std::thread::scope(|scope| {
        let progress = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                receiver.wait_interrupt(INTERRUPT, None).unwrap();
                take(&receiver);
            }
        });
        scope.spawn(|| {
            let remote = sender.connect(Rank(1), SEGMENT).unwrap();
            for message in 1..=MESSAGES {
                // One at a time: whoever sleeps through it is never woken again.
                let sent = || taken.load(Ordering::Acquire) == message - 1;
                while !sent() {
                    std::thread::yield_now();
                }
                remote.write(0, &message.to_ne_bytes()).unwrap();
                sender.trigger(Rank(1), INTERRUPT).unwrap();
            }
        });
        for message in 1..=MESSAGES / 3 {
            // It attends for some, and is away for the others.
            let mut ready = || {
                take(&receiver);
                taken.load(Ordering::Acquire) >= message * 3
            };
            let wait = Wait { deadline: None, attends: Some(INTERRUPT), ready: &mut ready };
            assert_eq!(receiver.wait_until(wait), Waited::Ready);
        }
        is_over.store(true, Ordering::Release);
        receiver.trigger(Rank(1), INTERRUPT).unwrap();
        progress.join().unwrap();
    });
    assert_eq!(taken.load(Ordering::Relaxed), MESSAGES);
}
