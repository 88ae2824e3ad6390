//! How a member gets through a barrier, and how others hear that it will not come.

use super::plan::{Level, Planned};
use crate::executor::error::{Error, Result};
use crate::executor::flags::Wanted;
use crate::executor::ground::{Ground, Place};
use crate::rank::Rank;

/// The members' words, as one of them reaches them.
pub(super) trait Words {
    /// This member's place.
    fn own(&self) -> usize;
    /// Adds one to a word; returns what it was.
    ///
    /// # Errors
    /// Where the member cannot be reached.
    fn count(&self, place: Place) -> Result<u64>;
    /// Writes the generation into words.
    ///
    /// # Errors
    /// Where a member cannot be reached.
    fn signal(&self, places: &[Place], generation: u64) -> Result<()>;
    /// What is in a word of this member's; 0 where there is none.
    fn word(&self, place: Place) -> u64;
}

impl Words for Ground {
    fn own(&self) -> usize {
        self.own()
    }

    fn count(&self, place: Place) -> Result<u64> {
        self.count(place)
    }

    fn signal(&self, places: &[Place], generation: u64) -> Result<()> {
        self.signal(places, generation)
    }

    fn word(&self, place: Place) -> u64 {
        self.word(place)
    }
}

/// Does what is planned for a generation; `await_all` returns when what is wanted of each of some words has come.
///
/// # Errors
/// [`Error::Refused`] where somebody will not come; those of `words` and of `await_all`.
pub(super) fn pass(
    planned: &[Planned],
    generation: u64,
    words: &impl Words,
    mut await_all: impl FnMut(&[Place], Wanted) -> Result<()>,
) -> Result<()> {
    planned.iter().try_for_each(|planned| match planned {
        Planned::Signals { signal, awaited } => {
            words.signal(signal, generation)?;
            await_or_refused(words, awaited, generation, &mut await_all)
        }
        Planned::Counting { levels, resumed, own } => {
            if comes_last(words, levels)? {
                words.signal(resumed, generation)
            } else {
                await_or_refused(words, &[*own], generation, &mut await_all)
            }
        }
    })
}

/// Has all whom this member signals hear that it will not come any more, because of `member`; all have come to barriers
/// up to the `completed` one. What is awaited of counters, nobody hears, but all who count wait for a resume word.
pub(super) fn refuse(planned: &[Planned], words: &impl Words, member: usize, completed: u64) {
    for planned in planned {
        let (Planned::Signals { signal: places, .. } | Planned::Counting { resumed: places, .. }) = planned;
        // In words of their own: what was signalled before may not be seen yet, and of a resume word who came last
        // before may still be writing it.
        let refusals: Vec<_> = places.iter().map(|place| refusal_of(*place)).collect();
        let refusal = Refusal { member, completed };
        // Who cannot be reached is lost, or has left itself.
        let _ = words.signal(&refusals, refusal.to_word());
    }
}

/// That a member comes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    member: usize,
    /// The latest barrier for which it knows that all have come.
    completed: u64,
}

impl Refusal {
    /// How many bits of a word tell the member.
    const MEMBER: u32 = 24;

    /// Never 0, as a word is to which nothing was written.
    fn to_word(self) -> u64 {
        self.completed << Self::MEMBER | (self.member as u64 + 1)
    }

    fn from_word(word: u64) -> Self {
        let member = word & ((1 << Self::MEMBER) - 1);
        Self { member: (member as usize).saturating_sub(1), completed: word >> Self::MEMBER }
    }
}

/// How far behind a word that a member awaits the one is that tells who will not come any more: a [`Refusal`]. Each has a
/// cache line, which has room for both.
const REFUSAL: u64 = size_of::<u64>() as u64;

fn refusal_of(word: Place) -> Place {
    Place { offset: word.offset + REFUSAL, ..word }
}

/// Returns when all of these words have come to the generation.
///
/// # Errors
/// [`Error::Refused`] for one that will not.
fn await_or_refused(
    words: &impl Words,
    awaited: &[Place],
    generation: u64,
    await_all: &mut impl FnMut(&[Place], Wanted) -> Result<()>,
) -> Result<()> {
    await_all(awaited, Wanted { generation, or_beside: Some(REFUSAL) })?;
    // Who has come and left since has come.
    match awaited.iter().find(|word| words.word(**word) < generation) {
        None => Ok(()),
        Some(word) => {
            let Refusal { member, completed } = Refusal::from_word(words.word(refusal_of(*word)));
            if completed >= generation {
                // All have come, and who came last writes one resume word after the other: it was before this one.
                return await_all(awaited, Wanted { generation, or_beside: None });
            }
            Err(Error::has_left(member))
        }
    }
}

/// Counts in, level by level; tells whether this member is the last of all.
fn comes_last(words: &impl Words, levels: &[Level]) -> Result<bool> {
    let mut acting = Rank(words.own() as u32);
    for level in levels {
        let Some(counter) = level.counter_of(acting) else { continue };
        // Each generation counts up by as many as take part: the last one is known by the number alone.
        let before = words.count(counter.place)?;
        if !(before + 1).is_multiple_of(counter.participants) {
            return Ok(false);
        }
        acting = counter.head;
    }
    Ok(true)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Refusal;

    #[test]
    fn refusals_are_words() {
        for (member, completed) in [(0, 0), (0, 1), ((1 << 24) - 2, 0), (99_999, (1 << 40) - 1)] {
            let refusal = Refusal { member, completed };
            assert_ne!(refusal.to_word(), 0);
            assert_eq!(Refusal::from_word(refusal.to_word()), refusal);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
