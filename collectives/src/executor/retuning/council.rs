//! What all members know at once: the largest of the numbers that they bring.
//!
//! By dissemination: in step *i* each member tells the one 2ⁱ further what it knows. The largest of some numbers
//! stays the same when one of them is counted twice, so this is right for any number of members.

use svmio_transport::{Rank, SegmentId};

use crate::executor::error::Result;
use crate::executor::ground::{Ground, Place};
use crate::executor::joining::{self, distances};
use crate::executor::network::Fabrics;
use crate::executor::patience::{Patience, PatienceSettings};

/// How many numbers a member brings at a time.
pub(super) const WORDS: usize = 4;

const LINE: u64 = 64;
const WORD: usize = size_of::<f64>();

/// Members who come to know what all of them know. It has no time limit but the loss of a member.
#[derive(Debug)]
pub(super) struct Council {
    ground: Ground,
    patience: Patience,
    drowsy: Patience,
    meetings: u64,
}

/// How a member waits for the others' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// As in a barrier.
    Awake,
    /// Asleep at once: others need the cores.
    Asleep,
}

impl Council {
    /// Joins the council of `members`, who call this with the same arguments, within a [`joining::attempt`].
    ///
    /// # Errors
    /// Those of [`Ground::join`].
    pub(super) fn join(fabrics: &Fabrics, members: &[Rank], id: SegmentId) -> Result<Self> {
        let own = joining::place_of(fabrics.job().rank(), members, id)?;
        let told: Vec<usize> = distances(members.len()).map(|far| (own + far) % members.len()).collect();
        // In front, the sleeping place; for each step, a line for odd meetings and one for even ones.
        let length = (1 + 2 * told.len() as u64) * LINE;
        let ground = Ground::join(fabrics, members, id, length, |place| told.contains(&place))?;
        let drowsy = PatienceSettings {
            spinning: std::time::Duration::ZERO,
            spinning_among_thieves: std::time::Duration::ZERO,
            yielding_beside_companions: std::time::Duration::ZERO,
            yielding: std::time::Duration::ZERO,
            crowded_yielding: std::time::Duration::ZERO,
            vain_yields: 0,
            leaves_shared_core: false,
        };
        let drowsy = Patience::of_process(drowsy, fabrics.job());
        Ok(Self { patience: ground.patience(), drowsy, ground, meetings: 0 })
    }

    /// The largest of what the members bring, number by number. Returns when all members have come, and who has left it
    /// knows that all have come: it is a barrier, too.
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub(super) fn largest(&mut self, mut known: [f64; WORDS], waiting: Waiting) -> Result<[f64; WORDS]> {
        self.meetings += 1;
        let Self { ground, patience, drowsy, meetings } = self;
        let patience = if waiting == Waiting::Awake { patience } else { drowsy };
        let (own, size) = (ground.own(), ground.size());
        for (step, far) in (0..).zip(distances(size)) {
            // A line is written again two meetings later. Who is there has left the meeting between, to which all had
            // come who had read the line.
            let line = (1 + 2 * step + *meetings % 2) * LINE;
            let flag = line + LINE - WORD as u64;
            let mut bytes = [0; WORDS * WORD];
            for (bytes, word) in bytes.chunks_exact_mut(WORD).zip(known) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            ground.send(&bytes, Place { member: (own + far) % size, offset: flag }, *meetings)?;
            let teller = (own + size - far) % size;
            ground.await_flags(&[Place { member: teller, offset: flag }], *meetings, patience)?;
            ground.read_own(teller, flag - bytes.len() as u64, &mut bytes)?;
            for (word, bytes) in known.iter_mut().zip(bytes.chunks_exact(WORD)) {
                *word = word.max(f64::from_ne_bytes(std::array::from_fn(|at| bytes[at])));
            }
        }
        Ok(known)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use svmio_transport::{Rank, SegmentId, shm};

    use super::{Council, WORDS, Waiting};
    use crate::executor::Fabrics;

    #[test]
    fn all_know_the_largest_whoever_brings_it() {
        for size in [1, 2, 3, 5, 8] {
            let fabrics = shm::within_process(size);
            let members: Vec<Rank> = (0..size).map(Rank).collect();
            thread::scope(|scope| {
                for fabric in &fabrics {
                    let members = &members;
                    scope.spawn(move || {
                        let id = SegmentId::new(9, 0);
                        let mut council = Council::join(&Fabrics::of_job(fabric), members, id).unwrap();
                        for meeting in 0..200_u32 {
                            let bring = |rank: u32| {
                                [0, 1, 2, 3]
                                    .map(|word| f64::from((rank * 7 + meeting * (word + 3)) % 23) - 11.0)
                            };
                            let expected = (0..size).map(bring).fold([f64::MIN; WORDS], |known, brought| {
                                std::array::from_fn(|word| known[word].max(brought[word]))
                            });
                            let waiting = if meeting % 3 == 0 { Waiting::Asleep } else { Waiting::Awake };
                            let known = council.largest(bring(fabric.rank().0), waiting).unwrap();
                            assert_eq!(known, expected, "meeting {meeting} of {size}");
                        }
                    });
                }
            });
        }
    }
}
