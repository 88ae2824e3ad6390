//! Several threads of each process use the fabric at once.

use std::sync::{Arc, OnceLock};

use svmio_transport::{Error, Fabric, Rank, Result, SegmentId};

use crate::face::participant::Participant;
use crate::face::writes::first_difference;
use crate::random::Random;

const SPACE: u32 = 120;
const THREADS: u64 = 3;
const TIMES: u64 = 30;
/// Where each thread writes to; behind all of these lies a word that all add to.
const PART: u64 = 20_000;

/// Each thread writes to a part of its own, in every other process, and adds to the word.
pub(super) fn at_once(participant: &Participant) {
    let id = SegmentId::new(SPACE, 0);
    let size = u64::from(participant.size());
    let word = THREADS * size * PART;
    let segment = participant.create(id, word + 8);
    participant.meet();

    let problem = Arc::new(OnceLock::new());
    let threads = (0..THREADS).map(|thread| {
        let (fabric, problem) = (participant.fabric().clone(), Arc::clone(&problem));
        let body = move || {
            if let Err(error) = work(&fabric, id, thread, word) {
                // The first one is enough to fail.
                let _ = problem.set(error);
            }
        };
        participant.fabric().back_end().spawn("worker", Box::new(body)).expect("a thread can be had")
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join());
    assert!(problem.get().is_none(), "a thread failed: {:?}", problem.get());
    participant.meet();

    for writer in participant.others() {
        for thread in 0..THREADS {
            let mut expected = vec![0; PART as usize];
            let mut found = expected.clone();
            let mut random = seeded(writer, thread);
            for _ in 0..TIMES {
                let (offset, bytes) = write(&mut random);
                expected[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            }
            segment.memory().read(part(writer, thread), &mut found).expect("within the segment");
            let wrong = first_difference(&found, &expected);
            assert_eq!(wrong, None, "thread {thread} of rank {writer}");
        }
    }
    let mut sum = [0; 8];
    segment.memory().read(word, &mut sum).expect("within the segment");
    assert_eq!(u64::from_ne_bytes(sum), THREADS * TIMES * (size - 1));
}

/// What one thread does.
fn work(fabric: &Fabric, id: SegmentId, thread: u64, word: u64) -> Result<(), Error> {
    let own = fabric.rank();
    for peer in fabric.membership().ranks().filter(|rank| *rank != own) {
        let remote = fabric.connect(peer, id)?;
        let mut random = seeded(own, thread);
        for _ in 0..TIMES {
            let (offset, bytes) = write(&mut random);
            fabric.write_checked(peer, || remote.write(part(own, thread) + offset, &bytes))?;
            remote.fetch_add(word, 1)?;
        }
    }
    Ok(())
}

fn part(writer: Rank, thread: u64) -> u64 {
    (u64::from(writer.0) * THREADS + thread) * PART
}

fn seeded(writer: Rank, thread: u64) -> Random {
    Random::new(u64::from(writer.0) << 32 | thread)
}

/// A random write: where, and what.
fn write(random: &mut Random) -> (u64, Vec<u8>) {
    let most = if random.below(3) > 0 { 100 } else { PART };
    let length = random.below(most);
    (random.below(PART - length), random.bytes(length as usize))
}
