//! A ring on plain memory, with parts that arrive in any order.

use std::ptr::NonNull;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Peek, Reader};
use crate::memory::SharedMemory;
use crate::message::wire::{Closing, Kind, Malformed};

const PART: usize = 64;
const PARTS: u32 = 8;
const LONGEST: u32 = 4;

fn memory() -> SharedMemory {
    let words = Arc::new(vec![0_u64; PART * PARTS as usize / 8].into_boxed_slice());
    let start = NonNull::new(words.as_ptr() as *mut u8).unwrap();
    // SAFETY: the words stay as long as they are held, and are reached only through this.
    unsafe { SharedMemory::new(start, PART * PARTS as usize, words) }
}

fn reader(memory: &SharedMemory) -> Reader {
    let (mut reader, _) = Reader::new(memory, 0, PART as u32, PARTS, LONGEST).unwrap();
    reader.skip_to(0);
    reader
}

/// A part as it is written: where, and which bytes.
fn part(number: u32, kind: Kind, more: bool, payload: &[u8]) -> (u64, Vec<u8>) {
    let closing = Closing { kind, more, length: payload.len() as u16, id: number.wrapping_add(1) };
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&closing.encode().to_le_bytes());
    let end = (u64::from(number % PARTS) + 1) * PART as u64;
    (end - bytes.len() as u64, bytes)
}

/// The parts of a packet that begins with part `first`.
fn packet(first: u32, payload: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let pieces: Vec<&[u8]> =
        if payload.is_empty() { vec![payload] } else { payload.chunks(PART - 8).collect() };
    let last = pieces.len() - 1;
    let one = |(index, piece): (usize, &&[u8])| part(first + index as u32, Kind::Short, index < last, piece);
    pieces.iter().enumerate().map(one).collect()
}

proptest! {
    #[test]
    fn packets_are_whole_in_whatever_order_their_parts_come(
        lengths in prop::collection::vec(0_usize..=LONGEST as usize * 56, 1..20),
        seed: u64,
    ) {
        let memory = memory();
        let mut reader = reader(&memory);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut old: Vec<(u64, Vec<u8>)> = Vec::new();
        for (index, length) in lengths.into_iter().enumerate() {
            let payload: Vec<u8> = (0..length).map(|byte| (byte * 7 + index) as u8).collect();
            let mut parts = packet(reader.consumed(), &payload);
            let count = parts.len();
            let first_slot = parts[0].0 / PART as u64;
            random.shuffle(&mut parts);
            for (arrived, (offset, bytes)) in parts.iter().enumerate() {
                let Ok(Peek::Nothing { missing }) = reader.peek() else { panic!("{arrived} of {count} are enough") };
                prop_assert!(missing.wrapping_sub(reader.consumed()) < count as u32);
                memory.write(*offset, bytes).unwrap();
                // A part of before that arrives once more, in a slot that is not in use again.
                if let Some((offset, bytes)) = random.choice(&old) {
                    let slot = offset / PART as u64;
                    let distance = (slot + u64::from(PARTS) - first_slot) % u64::from(PARTS);
                    if distance >= count as u64 {
                        memory.write(*offset, bytes).unwrap();
                    }
                }
            }
            let Ok(Peek::Packet(found)) = reader.peek() else { panic!("the packet is there") };
            prop_assert_eq!((found.kind, found.length, found.parts), (Kind::Short, length, count as u32));
            let mut into = vec![0; length];
            reader.copy(found, &mut into);
            prop_assert_eq!(&into, &payload);
            reader.consume(found);
            old.extend(parts);
        }
    }

    #[test]
    fn no_bytes_in_a_ring_make_its_reader_panic(bytes in prop::collection::vec(any::<u8>(), PART * PARTS as usize)) {
        let memory = memory();
        memory.write(0, &bytes).unwrap();
        let mut reader = reader(&memory);
        let mut into = [0; 100];
        for number in 0..PARTS {
            // The only thing that has to fit for the reader to look at the rest.
            let place = (u64::from(number) + 1) * PART as u64 - 4;
            memory.write(place, &(number + 1).to_le_bytes()).unwrap();
        }
        let _ = reader.take_short(&mut into);
        if let Ok(Peek::Packet(found)) = reader.peek() {
            reader.copy(found, &mut into);
            reader.consume(found);
        }
    }
}

#[test]
fn a_packet_without_end_is_malformed() {
    let memory = memory();
    for number in 0..PARTS {
        let (offset, bytes) = part(number, Kind::Short, true, b"more");
        memory.write(offset, &bytes).unwrap();
    }
    assert_eq!(reader(&memory).peek(), Err(Malformed::Parts { most: LONGEST }));
}

#[test]
fn ids_wrap() {
    let memory = memory();
    let mut reader = reader(&memory);
    for number in (u32::MAX - 20)..=u32::MAX {
        reader.skip_to(number);
        assert!(matches!(reader.peek(), Ok(Peek::Nothing { .. })));
        let (offset, bytes) = part(number, Kind::Short, false, b"part");
        memory.write(offset, &bytes).unwrap();
        let mut into = [0; 4];
        assert_eq!(reader.take_short(&mut into), Some(4));
        assert_eq!(reader.consumed(), number.wrapping_add(1));
    }
}
