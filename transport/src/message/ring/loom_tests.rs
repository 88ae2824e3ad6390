//! All interleavings of a writer and a reader, the credits included: what programs run, over memory that loom watches.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::parts::{Parts, Slots};
use super::{Found, Peek, Promises, Reader, Target, Writer};
use crate::message::credits::Counts;
use crate::message::layout::Layout;
use crate::message::wire::{CLOSING, Closing, Kind};

const PARTS: usize = 2;

/// Bytes of payload in a part.
const ROOM: usize = 8;

/// A ring of two parts, and the credit words for it.
struct Memory {
    payloads: [UnsafeCell<[u8; ROOM]>; PARTS],
    closings: [AtomicU64; PARTS],
    credits: [AtomicU64; 2],
}

#[derive(Clone)]
struct Ring(Arc<Memory>);

impl Ring {
    fn new() -> Self {
        Self(Arc::new(Memory {
            payloads: [UnsafeCell::new([0; ROOM]), UnsafeCell::new([0; ROOM])],
            closings: [AtomicU64::new(0), AtomicU64::new(0)],
            credits: [AtomicU64::new(0), AtomicU64::new(0)],
        }))
    }

    fn writer(&self) -> Writer<Target<Self>> {
        let promises = Promises { reliable: true, ordered: true };
        Writer::new(Target::Mapped(Parts::new(self.clone())), (ROOM + CLOSING) as u32, PARTS as u32, promises)
    }

    fn reader(&self) -> Reader<Parts<Self>> {
        Reader::over(Parts::new(self.clone()), ROOM + CLOSING, PARTS as u32)
    }

    /// A credit word; the others that an inbox has are for fabrics without order.
    fn credit(&self, offset: u64) -> Option<&AtomicU64> {
        let index = offset.checked_sub(Layout::credits(0))? / 8;
        self.0.credits.get(index as usize)
    }
}

impl Slots for Ring {
    type Word = AtomicU64;

    fn closing_word(&self, number: u32) -> &AtomicU64 {
        &self.0.closings[number as usize % PARTS]
    }

    fn copy_out(&self, number: u32, length: usize, into: &mut [u8]) {
        // SAFETY: the part is closed, and not given back yet; loom checks it.
        let payload = self.0.payloads[number as usize % PARTS].with(|place| unsafe { *place });
        into.copy_from_slice(&payload[..into.len().min(length)]);
    }

    fn put(&self, number: u32, payload: &[u8]) {
        // SAFETY: the reader has given the part back, and looks at it again only when it is closed; loom checks it.
        self.0.payloads[number as usize % PARTS]
            .with_mut(|place| unsafe { (&mut (*place))[..payload.len()].copy_from_slice(payload) });
    }
}

/// Writes messages, each once there is room for it.
fn write(ring: &Ring, messages: &[&[u8]]) {
    let mut writer = ring.writer();
    let mut seen = Counts::default();
    for message in messages {
        while !writer.write_short(message) {
            thread::yield_now();
            seen = Counts::newest_of(|offset| ring.credit(offset), 1, seen);
            writer.credit(seen.ring);
        }
    }
}

fn give_back(ring: &Ring, consumed: u32) {
    let counts = Counts { ring: consumed, ..Counts::default() };
    counts.store(|offset| Ok(ring.credit(offset).unwrap())).unwrap();
}

fn next(reader: &mut Reader<Parts<Ring>>) -> Found {
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
        let writing = ring.clone();
        let writer = thread::spawn(move || write(&writing, &[b"one", b"two", b"three"]));
        let mut reader = ring.reader();
        for expected in [&b"one"[..], b"two", b"three"] {
            let found = next(&mut reader);
            let mut payload = vec![0; found.length];
            reader.copy(found, &mut payload);
            assert_eq!(payload, expected);
            reader.consume(found);
            give_back(&ring, reader.consumed());
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_short_messages_are_taken_at_once_or_left() {
    loom::model(|| {
        let ring = Ring::new();
        let writing = ring.clone();
        let writer = thread::spawn(move || write(&writing, &[b"of two parts", b"one"]));
        let mut reader = ring.reader();
        for expected in [&b"of two parts"[..], b"one"] {
            let mut payload = [0; 2 * ROOM];
            let length = loop {
                if let Some(length) = reader.take_short(&mut payload) {
                    break length;
                }
                thread::yield_now();
            };
            assert_eq!(&payload[..length], expected);
            give_back(&ring, reader.consumed());
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_packet_of_two_parts_is_seen_only_when_both_are_there() {
    loom::model(|| {
        let ring = Ring::new();
        // The parts arrive in any order: as if each were on a way of its own.
        let arrive = |number: u32, payload: &'static [u8], more| {
            let parts = Parts::new(ring.clone());
            let closing = Closing { kind: Kind::Short, more, length: payload.len() as u16, id: number + 1 };
            thread::spawn(move || parts.write(number, payload, closing.encode()))
        };
        let (first, second) = (arrive(0, b"it is in", true), arrive(1, b" two", false));
        let mut reader = ring.reader();
        let found = next(&mut reader);
        assert_eq!((found.parts, found.length), (2, 12));
        let mut payload = [0; 12];
        reader.copy(found, &mut payload);
        assert_eq!(&payload, b"it is in two");
        first.join().unwrap();
        second.join().unwrap();
    });
}
