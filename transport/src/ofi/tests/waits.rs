//! Waiting, and being woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{PROVIDERS, SEGMENT, anonymous, on_each, until};
use crate::back_end::{Wait, Waited};
use crate::ofi::within_process;
use crate::{Error, Interrupt, Rank};

#[test]
fn closing_ends_waits() {
    let fabrics = within_process(1, "net").unwrap();
    let fabric = &fabrics[0];
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut never = || false;
            fabric.wait_until(Wait { deadline: None, attends: Some(Interrupt(2)), ready: &mut never })
        });
        let sleeping = scope.spawn(|| fabric.wait_interrupt(Interrupt(1), None));
        fabric.close();
        assert_eq!(waiting.join().unwrap(), Waited::TimedOut);
        assert!(matches!(sleeping.join().unwrap(), Err(Error::Ending { .. })));
    });
    assert!(matches!(fabric.create(SEGMENT, &anonymous(8)), Err(Error::Ending { .. })));
}

#[test]
fn interrupts_wake_and_are_counted() {
    on_each(2, |fabric| {
        let line = Interrupt(3);
        if fabric.rank() == Rank(0) {
            for _ in 0..5 {
                fabric.trigger(Rank(1), line).unwrap();
            }
            let mut count = 0;
            while count < 5 {
                count += fabric.wait_interrupt(line, None).unwrap();
            }
        } else {
            let total = Arc::new(AtomicU64::new(0));
            let copy = (Arc::clone(&total), fabric.clone());
            let service = fabric
                .on_interrupt(line, move |count| {
                    for _ in 0..count {
                        copy.1.trigger(Rank(0), line).unwrap();
                    }
                    copy.0.fetch_add(count, Ordering::SeqCst);
                    copy.1.back_end().wake();
                })
                .unwrap();
            until(&fabric, || total.load(Ordering::SeqCst) == 5);
            // Held, the callback would keep the fabric; it ends with it.
            thread::spawn(move || service.join());
        }
        let before = fabric.now();
        let deadline = Some(before.after(Duration::from_millis(5)));
        assert_eq!(fabric.wait_interrupt(Interrupt(9), deadline).unwrap(), 0);
        assert!(fabric.now().since(before) >= Duration::from_millis(5));
    });
}

#[test]
fn waits_for_a_lost_peer_end_with_its_name() {
    for provider in PROVIDERS {
        // A busy machine may hold up a thread for as long, but not each time.
        let is_soon = |(waits, closing): (Duration, Duration)| {
            println!("{provider}: waits ended after {waits:?}, and closing after {closing:?}");
            waits.max(closing) < Duration::from_secs(2)
        };
        assert!((0..3).map(|_| end_of_waits_for_a_lost_peer(provider)).any(is_soon), "{provider}");
    }
}

/// How long the waits for a peer last that is declared lost, and how long closing takes then.
fn end_of_waits_for_a_lost_peer(provider: &str) -> (Duration, Duration) {
    let mut fabrics = within_process(2, provider).unwrap();
    let (one, zero) = (fabrics.pop().unwrap(), fabrics.pop().unwrap());
    let segment = one.create(SEGMENT, &anonymous(1 << 20)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    remote.write(0, &[1; 8]).unwrap();
    zero.store_barrier(Rank(1)).unwrap();
    drop(segment);
    one.close();
    let declared = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| zero.connect(Rank(1), SEGMENT));
        let sleeping = scope.spawn(|| zero.wait_interrupt(Interrupt(1), None));
        zero.membership().declare_lost(Rank(1), "it was told to go");
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
        assert!(error.to_string().contains("told to go") || error.to_string().contains("connection"));
        assert_eq!(sleeping.join().unwrap().unwrap(), 0);
    });
    let waits = declared.elapsed();
    assert!(matches!(remote.write(0, &[1; 8]), Err(Error::PeerLost { .. })));
    let began = Instant::now();
    zero.close();
    zero.close();
    let closing = began.elapsed();
    assert!(matches!(zero.wait_interrupt(Interrupt(1), None), Err(Error::Ending { .. })));
    (waits, closing)
}
