//! How the lock table lies in shared memory.
//!
//! All is made of atomic integers, so that any content is a value and a damaged table leads to an
//! error, not to undefined behaviour. Only the state of an entry is touched without the mutex (by
//! its waiter); for the rest the mutex gives the order, and `Relaxed` suffices.
//!
//! A process may be killed between any two stores. The state of an entry is therefore stored last
//! when the entry is filled, and first when it is emptied; everything in the header can be worked
//! out anew from the entries.

use std::ops::Range;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::claim::{Claim, Mode, Owner, Standing, ThreadId, Ticket};
use super::queue::RoomQueue;
use super::sleep::{self, Deadline, Woken};
use super::{LockError, LockTable};
use crate::presence::ProcessSlot;

/// The number of entries.
pub(super) const CAPACITY: usize = 256;
const SET_WORDS: usize = CAPACITY / 64;

/// What tells a lock table of this layout from anything else.
#[repr(C, align(64))]
pub(super) struct Identity {
    magic: AtomicU64,
    version: AtomicU32,
    bytes: AtomicU32,
    mutex_bytes: AtomicU32,
}

impl Identity {
    const MAGIC: u64 = u64::from_le_bytes(*b"svmlocks");
    /// To be raised with each change of the layout or of the rules for changing it.
    const VERSION: u32 = 1;
    /// The mutex is the C library's, and libraries differ.
    const MUTEX_BYTES: u32 = size_of::<libc::pthread_mutex_t>() as u32;

    pub(super) fn write(&self) {
        self.version.store(Self::VERSION, Relaxed);
        self.bytes.store(LockTable::BYTES as u32, Relaxed);
        self.mutex_bytes.store(Self::MUTEX_BYTES, Relaxed);
        // Release, with the Acquire below: who sees the magic sees the table.
        self.magic.store(Self::MAGIC, Release);
    }

    pub(super) fn is_right(&self) -> bool {
        self.magic.load(Acquire) == Self::MAGIC
            && self.version.load(Relaxed) == Self::VERSION
            && self.bytes.load(Relaxed) == LockTable::BYTES as u32
            && self.mutex_bytes.load(Relaxed) == Self::MUTEX_BYTES
    }
}

/// What belongs to the table as a whole. Zeros are its initial value.
#[repr(C, align(64))]
pub(super) struct Header {
    /// Which entries are not free.
    live: [AtomicU64; SET_WORDS],
    last_ticket: AtomicU64,
    /// When somebody last looked for the dead, in nanoseconds of [`sleep::now`].
    pub(super) looked_for_dead: AtomicU64,
    /// Who waits for an entry to become free.
    pub(super) queue: RoomQueue,
}

impl Header {
    pub(super) fn live(&self) -> EntrySet {
        EntrySet(self.live.each_ref().map(|word| word.load(Relaxed)))
    }

    pub(super) fn set_live(&self, live: EntrySet) {
        for (word, value) in self.live.iter().zip(live.0) {
            if word.load(Relaxed) != value {
                kill_point();
                word.store(value, Relaxed);
            }
        }
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        Ticket(self.last_ticket.load(Relaxed))
    }

    pub(super) fn set_last_ticket(&self, ticket: Ticket) {
        kill_point();
        self.last_ticket.store(ticket.0, Relaxed);
    }
}

/// A lock that is held or waited for: one cache line, on whose `state` the waiter sleeps.
#[repr(C, align(64))]
pub(super) struct Entry {
    state: AtomicU32,
    slot: AtomicU32,
    thread: AtomicU32,
    mode: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    ticket: AtomicU64,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The state of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    Free = 0,
    /// Waiting, and looking at the state from time to time.
    Waiting = 1,
    /// Waiting, and asleep until called.
    Sleeping = 2,
    Held = 3,
}

impl State {
    const ALL: [State; 4] = [State::Free, State::Waiting, State::Sleeping, State::Held];
}

const SHARED: u32 = 1;
const EXCLUSIVE: u32 = 2;

impl Entry {
    /// The state; a value that is none counts as free.
    pub(super) fn state(&self) -> State {
        // Acquire, with the Release of `grant`: who sees his lock granted sees what the previous
        // holder wrote to the locked bytes.
        let value = self.state.load(Acquire);
        State::ALL.into_iter().find(|state| *state as u32 == value).unwrap_or(State::Free)
    }

    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.ticket.load(Relaxed))
    }

    /// What is claimed here; nothing, if the entry is free.
    pub(super) fn claim(&self) -> Option<Claim> {
        let standing = match self.state() {
            State::Free => return None,
            State::Waiting | State::Sleeping => Standing::Waiting,
            State::Held => Standing::Held,
        };
        let mode = match self.mode.load(Relaxed) {
            SHARED => Mode::Shared,
            EXCLUSIVE => Mode::Exclusive,
            _ => return None,
        };
        Some(Claim {
            owner: Owner {
                slot: ProcessSlot(u16::try_from(self.slot.load(Relaxed)).ok()?),
                thread: ThreadId(self.thread.load(Relaxed)),
            },
            start: self.start.load(Relaxed),
            end: self.end.load(Relaxed),
            mode,
            ticket: self.ticket(),
            standing,
        })
    }

    /// Fills a free entry.
    pub(super) fn fill(&self, claim: &Claim) {
        let mode = number_of(claim.mode);
        let state = match claim.standing {
            Standing::Waiting => State::Waiting,
            Standing::Held => State::Held,
        };
        kill_point();
        self.slot.store(claim.owner.slot.0.into(), Relaxed);
        self.thread.store(claim.owner.thread.0, Relaxed);
        self.mode.store(mode, Relaxed);
        kill_point();
        self.start.store(claim.start, Relaxed);
        self.end.store(claim.end, Relaxed);
        self.ticket.store(claim.ticket.0, Relaxed);
        kill_point();
        // Release: none of the stores above comes after it.
        self.state.store(state as u32, Release);
        kill_point();
    }

    /// Makes the claim one of less. It remains a claim if the process is killed on the way: its owner is dead then.
    pub(super) fn narrow(&self, range: Range<u64>, mode: Mode) {
        kill_point();
        self.mode.store(number_of(mode), Relaxed);
        kill_point();
        self.start.store(range.start, Relaxed);
        kill_point();
        self.end.store(range.end, Relaxed);
    }

    /// Makes the claim another owner's. If the process is killed on the way, so that it is neither's, both die with it.
    pub(super) fn set_owner(&self, owner: Owner) {
        kill_point();
        self.slot.store(owner.slot.0.into(), Relaxed);
        kill_point();
        self.thread.store(owner.thread.0, Relaxed);
    }

    /// Grants a waiting entry; tells whether its waiter has to be woken.
    pub(super) fn grant(&self) -> bool {
        kill_point();
        // Release: what this process wrote to the locked bytes comes before.
        let before = self.state.swap(State::Held as u32, Release);
        kill_point();
        before == State::Sleeping as u32
    }

    /// Empties the entry, whatever is in it.
    pub(super) fn clear(&self) {
        if self.state.load(Relaxed) == State::Free as u32 {
            return;
        }
        kill_point();
        // Relaxed: the unlocking of the mutex gives the order.
        self.state.store(State::Free as u32, Relaxed);
        kill_point();
    }

    /// Sleeps until the entry is no longer waiting, or for any other reason of [`Woken`].
    pub(super) fn sleep_while_waiting(&self, deadline: Deadline) -> Result<Woken, LockError> {
        // From now on the entry must be woken. If it is asleep already or waits no more, that
        // stays so. Relaxed: no other memory hangs on it.
        let _ = self.state.compare_exchange(State::Waiting as u32, State::Sleeping as u32, Relaxed, Relaxed);
        let expected = State::Sleeping as u32;
        sleep::sleep(&self.state, expected, deadline, sleep::EVERYBODY)
    }

    /// Wakes the waiter.
    pub(super) fn wake(&self) {
        kill_point();
        sleep::wake(&self.state, sleep::EVERYBODY);
    }
}

fn number_of(mode: Mode) -> u32 {
    match mode {
        Mode::Shared => SHARED,
        Mode::Exclusive => EXCLUSIVE,
    }
}

/// A set of entries, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EntrySet([u64; SET_WORDS]);

impl EntrySet {
    pub(super) fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    pub(super) fn is_full(&self) -> bool {
        self.first_absent().is_none()
    }

    /// The lowest index that is not in the set.
    pub(super) fn first_absent(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != u64::MAX)?;
        Some(word * 64 + self.0[word].trailing_ones() as usize)
    }
}

/// Goes through the indices in the set, upwards.
impl Iterator for EntrySet {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        let bit = self.0[word].trailing_zeros() as usize;
        self.0[word] &= self.0[word] - 1;
        Some(word * 64 + bit)
    }
}

/// A point at which a process may be killed; the tests try them all.
#[inline(always)]
pub(super) fn kill_point() {
    #[cfg(test)]
    crate::killing::point();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_entries_is_a_set(
            changes in prop::collection::vec((0..CAPACITY, prop::bool::ANY), 0..600)
        ) {
            let mut set = EntrySet::default();
            let mut oracle = BTreeSet::new();
            for (index, present) in changes {
                if present {
                    set.insert(index);
                    oracle.insert(index);
                } else {
                    set.remove(index);
                    oracle.remove(&index);
                }
                prop_assert!(set.eq(oracle.iter().copied()));
                let absent = (0..CAPACITY).find(|index| !oracle.contains(index));
                prop_assert_eq!(set.first_absent(), absent);
            }
        }
    }

    #[test]
    fn the_full_set_has_no_absent_index() {
        let mut set = EntrySet::default();
        (0..CAPACITY).for_each(|index| set.insert(index));
        assert!(set.is_full() && set.first_absent().is_none());
        set.remove(200);
        assert_eq!(set.first_absent(), Some(200));
    }
}
