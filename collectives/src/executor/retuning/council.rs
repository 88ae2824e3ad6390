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

/// Members who come to know what all of them know. It has no time limit: who waits there hears of a member that is
/// lost, and of one that [leaves](Council::leave).
#[derive(Debug)]
pub(super) struct Council {
    ground: Ground,
    patience: Patience,
    drowsy: Patience,
    meetings: u64,
    has_left: bool,
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
        Ok(Self { patience: ground.patience(), drowsy, ground, meetings: 0, has_left: false })
    }

    /// This member's place.
    pub(super) fn own(&self) -> usize {
        self.ground.own()
    }

    /// The largest of what the members bring, number by number. Returns when all members have come, and who has left it
    /// knows that all have come: it is a barrier, too. After an error the others are told that this member leaves.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::executor::Error::Refused) where a member has left; the fabric's.
    pub(super) fn largest(&mut self, known: [f64; WORDS], waiting: Waiting) -> Result<[f64; WORDS]> {
        let found = self.exchange(known, waiting);
        if let Err(error) = &found
            && let Some(member) = error.who_leaves(self.own())
        {
            self.leave(member);
        }
        found
    }

    /// Has the others hear that this member will not come any more, and that it is because of `member`. Nothing is told
    /// twice.
    pub(super) fn leave(&mut self, member: usize) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        let (own, size) = (self.ground.own(), self.ground.size());
        // Those for whom nothing more is to be read here have their flags by now.
        let flags = (0..).zip(distances(size)).flat_map(|(step, far)| {
            [0, 1].map(|meeting| Place { member: (own + far) % size, offset: flag(step, meeting) })
        });
        self.ground.refuse(flags, member);
    }

    fn exchange(&mut self, mut known: [f64; WORDS], waiting: Waiting) -> Result<[f64; WORDS]> {
        self.meetings += 1;
        let Self { ground, patience, drowsy, meetings, .. } = self;
        let patience = if waiting == Waiting::Awake { patience } else { drowsy };
        let (own, size) = (ground.own(), ground.size());
        for (step, far) in (0..).zip(distances(size)) {
            let flag = flag(step, *meetings);
            let mut bytes = [0; WORDS * WORD];
            for (bytes, word) in bytes.chunks_exact_mut(WORD).zip(known) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            ground.send(&bytes, Place { member: (own + far) % size, offset: flag }, *meetings)?;
            let teller = (own + size - far) % size;
            ground.await_flags_or_refusal(&[Place { member: teller, offset: flag }], *meetings, patience)?;
            ground.read_own(teller, flag - bytes.len() as u64, &mut bytes)?;
            for (word, bytes) in known.iter_mut().zip(bytes.chunks_exact(WORD)) {
                *word = word.max(f64::from_ne_bytes(std::array::from_fn(|at| bytes[at])));
            }
        }
        Ok(known)
    }
}

/// Where the flag of a step is, behind the numbers that come with it, and with a word behind it that tells who has left.
/// A line is written again two meetings later: who is there has left the meeting between, to which all had come who had
/// read the line.
fn flag(step: u64, meeting: u64) -> u64 {
    (2 + 2 * step + meeting % 2) * LINE - 2 * WORD as u64
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
