//! All interleavings of a writer and a reader, the credits included.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::reader::Incoming;
use super::{Found, Peek, Reader};
use crate::message::wire::{Closing, Kind};

const PARTS: usize = 2;

/// A ring of two parts with payloads of one word, in memory that loom watches.
struct Ring {
    payloads: [UnsafeCell<u8>; PARTS],
    closings: [AtomicU64; PARTS],
    /// How many parts the reader has given back.
    credit: AtomicU32,
}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            payloads: [UnsafeCell::new(0), UnsafeCell::new(0)],
            closings: [AtomicU64::new(0), AtomicU64::new(0)],
            credit: AtomicU32::new(0),
        })
    }

    /// As the mapped ring does it: the payload, then the closing word.
    fn put(&self, number: u32, payload: u8, more: bool) {
        while number - self.credit.load(Ordering::Acquire) >= PARTS as u32 {
            thread::yield_now();
        }
        let slot = number as usize % PARTS;
        // SAFETY: the reader has given the part back, and looks at it again only when it is closed; loom checks it.
        self.payloads[slot].with_mut(|place| unsafe { *place = payload });
        let closing = Closing { kind: Kind::Short, more, length: 1, id: number + 1 };
        self.closings[slot].store(closing.encode(), Ordering::Release);
    }
}

impl Incoming for Arc<Ring> {
    fn closing(&self, number: u32) -> u64 {
        self.closings[number as usize % PARTS].load(Ordering::Acquire)
    }

    fn copy_out(&self, number: u32, _: usize, into: &mut [u8]) {
        // SAFETY: the part is closed, and not given back yet; loom checks it.
        into[0] = self.payloads[number as usize % PARTS].with(|place| unsafe { *place });
    }
}

fn next(reader: &mut Reader<Arc<Ring>>) -> Found {
    loop {
        if let Peek::Packet(found) = reader.peek().unwrap() {
            return found;
        }
        thread::yield_now();
    }
}

#[test]
fn loom_messages_come_whole_and_in_order_over_reused_parts() {
    loom::model(|| {
        let ring = Ring::new();
        let writing = Arc::clone(&ring);
        let writer = thread::spawn(move || {
            for number in 0..3 {
                writing.put(number, 10 + number as u8, false);
            }
        });
        let mut reader = Reader::over(Arc::clone(&ring), 16, 2);
        for number in 0..3 {
            let found = next(&mut reader);
            let mut payload = [0];
            reader.copy(found, &mut payload);
            assert_eq!(payload, [10 + number]);
            reader.consume(found);
            ring.credit.store(reader.consumed(), Ordering::Release);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_packet_of_two_parts_is_seen_only_when_both_are_there() {
    loom::model(|| {
        let ring = Ring::new();
        let (first, second) = (Arc::clone(&ring), Arc::clone(&ring));
        // The parts arrive in any order: as if each were on a way of its own.
        let first = thread::spawn(move || first.put(0, 1, true));
        let second = thread::spawn(move || second.put(1, 2, false));
        let mut reader = Reader::over(Arc::clone(&ring), 16, 2);
        let found = next(&mut reader);
        assert_eq!((found.parts, found.length), (2, 2));
        let mut payload = [0; 2];
        reader.copy(found, &mut payload);
        assert_eq!(payload, [1, 2]);
        first.join().unwrap();
        second.join().unwrap();
    });
}
