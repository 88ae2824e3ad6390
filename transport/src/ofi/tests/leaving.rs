//! What was sent before the fabric was closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::hanging::{quick, ranks, ranks_by, within_some_seconds};
use super::{PROVIDERS, SEGMENT, anonymous, until};
use crate::ofi::OfiSettings;
use crate::{Fabric, Rank};

#[test]
fn what_was_sent_arrives_at_a_peer_that_takes_its_time() {
    assert!(within_some_seconds(|_| all_arrives_at_a_slow_peer()));
}

/// Whether all is there when closing has ended, where the peer takes one message after the other, for longer than
/// closing waits where nothing happens.
fn all_arrives_at_a_slow_peer() -> bool {
    const MESSAGES: u64 = 512;
    const LENGTH: usize = 64 << 10;
    // That provider sends long messages, so that what is under way is more than the system keeps by itself.
    let quick = quick(PROVIDERS[0], 20);
    let [(zero, _), (one, its_adapter)] =
        ranks_by(&OfiSettings { send_buffers: 2 * MESSAGES as usize, receive_buffers: 1, ..quick });
    let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    its_adapter.stop_attendant();
    let is_closed = AtomicBool::new(false);
    let last = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=MESSAGES {
                remote.write(0, &[[0; LENGTH - 8].as_slice(), &number.to_ne_bytes()].concat()).unwrap();
            }
            zero.close();
            is_closed.store(true, Ordering::SeqCst);
        });
        while !is_closed.load(Ordering::SeqCst) {
            its_adapter.process().unwrap();
            // It is slow.
            thread::sleep(Duration::from_millis(2));
        }
        segment.memory().word64(LENGTH as u64 - 8).unwrap().load(Ordering::Acquire)
    });
    println!("{last} of {MESSAGES} have arrived");
    drop((remote, segment));
    one.close();
    last == MESSAGES
}

#[test]
fn who_leaves_tells_what_has_arrived() {
    for provider in PROVIDERS {
        let [(zero, adapter), (one, _)] = ranks(provider);
        let segment = one.create(SEGMENT, &anonymous(8)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        remote.write(0, &[1; 8]).unwrap();
        until(&one, || segment.memory().word64(0).unwrap().load(Ordering::Acquire) != 0);
        one.close();
        let peer = &adapter.peers[1];
        until(&zero, || peer.has_applied(peer.outgoing().sent));
        drop((remote, segment));
        [zero, one].iter().for_each(Fabric::close);
    }
}
