//! Writes of a transaction arrive whole: whoever sees the last word sees all of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use svmio_transport::back_end::{Wait, Waited};
use svmio_transport::{SegmentId, SharedMemory};

use crate::asking::is_full_run;
use crate::face::limit;
use crate::face::participant::Participant;

const SPACE: u32 = 40;

/// A block of a transaction is written again and again, and read all the time.
pub(super) fn arrive_whole(participant: &Participant) {
    let size = participant.capabilities().transaction_size as u64;
    assert!(size >= 16 && size.is_power_of_two(), "a transaction of {size} bytes");
    let times = if is_full_run() { 5 } else { 1 };
    with_answers(participant, size, 1000 * times);
    participant.meet();
    // Without answers, a block is overtaken by the next: that can be judged where writes keep their order.
    if participant.is_ordered() {
        without_answers(participant, size, 20_000 * times);
    }
}

/// The reader answers before the block is written again.
fn with_answers(participant: &Participant, size: u64, rounds: u64) {
    let id = SegmentId::new(SPACE, 0);
    // The block, and behind it how far the reader has come.
    let segment = participant.create(id, size + 8);
    let next = participant.connect(participant.next(), id);
    let previous = participant.connect(participant.previous(), id);
    participant.meet();

    for round in 1..=rounds {
        if participant.is_ordered() {
            next.write(0, &block(size, round)).expect("the peer is there");
            participant.fabric().ring(next.owner()).expect("the peer is there");
        } else {
            participant.write(&next, 0, &block(size, round));
            participant.fabric().ring(next.owner()).expect("the peer is there");
        }
        let memory = segment.memory();
        participant.until("a block", || {
            last_of_whole(memory, size).unwrap_or_else(|torn| panic!("{torn}")) >= round
        });
        participant.tell(&previous, size, round);
        participant.until_word(&segment, size, round);
    }
    participant.meet();
}

/// Written in bursts, while a thread beside the program reads.
fn without_answers(participant: &Participant, size: u64, rounds: u64) {
    let id = SegmentId::new(SPACE, 1);
    let segment = participant.create(id, size);
    let next = participant.connect(participant.next(), id);
    let fabric = participant.fabric();
    let torn = Arc::new(OnceLock::new());
    let reader = {
        let (fabric, torn, memory) = (fabric.clone(), Arc::clone(&torn), segment.memory().clone());
        move || {
            let mut ready = || match last_of_whole(&memory, size) {
                Ok(last) => last == rounds,
                Err(what) => torn.set(what).is_ok(),
            };
            let wait = Wait { deadline: Some(limit(&fabric)), attends: None, ready: &mut ready };
            if fabric.wait_until(wait) == Waited::TimedOut {
                // The first reason stays, and either is one to fail.
                let _ = torn.set("the last block has not come".into());
            }
        }
    };
    let reader = fabric.back_end().spawn("reader", Box::new(reader)).expect("a thread can be had");
    participant.meet();

    for round in 1..=rounds {
        next.write(0, &block(size, round)).expect("the peer is there");
        if round % 50 == 0 || round == rounds {
            fabric.ring(next.owner()).expect("the peer is there");
        }
    }
    reader.join();
    assert_eq!(torn.get(), None::<&String>);
    participant.meet();
}

/// A block of which every word is `round`.
fn block(size: u64, round: u64) -> Vec<u8> {
    (0..size / 8).flat_map(|_| round.to_ne_bytes()).collect()
}

/// The last word of the block, where none of the others is older; else what is torn.
fn last_of_whole(memory: &SharedMemory, size: u64) -> Result<u64, String> {
    let load = |word: u64| {
        let word = memory.word64(8 * word).expect("within the block");
        // Acquire: what was written before this word is to be seen.
        word.load(Ordering::Acquire)
    };
    let words = size / 8;
    let last = load(words - 1);
    for word in 0..words - 1 {
        let found = load(word);
        if found < last {
            return Err(format!("word {word} of {words} is of round {found}, the last one of round {last}"));
        }
    }
    Ok(last)
}
