//! Words in memory that is mapped: signals as stores, counting, and sleeping until they have come.
//!
//! Who signals stores, then looks whether the receiver sleeps; who awaits says that it sleeps, then looks for what it
//! awaits. See [`Bed`].

use std::time::Duration;

use svmio_transport::SharedMemory;
use svmio_transport::futex::{Ordering, fence};

use super::bed::Bed;
use super::error::Result;
use super::ground::Place;

/// A member's memory: words, and at its beginning where the member sleeps.
pub(super) trait Memory {
    /// The word at an offset.
    ///
    /// # Errors
    /// Where there is none; so for the others.
    fn load(&self, offset: u64, ordering: Ordering) -> Result<u64>;
    /// Stores into the word.
    fn store(&self, offset: u64, value: u64, ordering: Ordering) -> Result<()>;
    /// Adds to the word; returns what it was.
    fn fetch_add(&self, offset: u64, amount: u64, ordering: Ordering) -> Result<u64>;
    /// Where the member sleeps.
    fn bed(&self) -> &Bed;
}

impl Memory for SharedMemory {
    #[inline]
    fn load(&self, offset: u64, ordering: Ordering) -> Result<u64> {
        Ok(self.word64(offset)?.load(ordering))
    }

    #[inline]
    fn store(&self, offset: u64, value: u64, ordering: Ordering) -> Result<()> {
        self.word64(offset)?.store(value, ordering);
        Ok(())
    }

    #[inline]
    fn fetch_add(&self, offset: u64, amount: u64, ordering: Ordering) -> Result<u64> {
        Ok(self.word64(offset)?.fetch_add(amount, ordering))
    }

    fn bed(&self) -> &Bed {
        debug_assert!(self.len() >= size_of::<Bed>());
        // SAFETY: the layout begins with it; mapped segments begin at pages, which is more than the alignment asks for.
        // It is all atomics, for which any bytes are valid and which others may change; it stays mapped as long as the
        // memory.
        unsafe { &*self.as_ptr().cast::<Bed>() }
    }
}

/// What is awaited of a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// That it is at least this.
    pub(super) generation: u64,
    /// Anything in the word that has this distance from it will do as well.
    pub(super) or_beside: Option<u64>,
}

impl Wanted {
    /// Whether that has come. The layout has all words within the memory.
    #[inline]
    fn has_come(self, memory: &impl Memory, offset: u64) -> bool {
        let is_at_least = |offset, least| word(memory, offset).is_ok_and(|word| word >= least);
        is_at_least(offset, self.generation)
            || self.or_beside.is_some_and(|distance| is_at_least(offset + distance, 1))
    }
}

/// What is in a word that others store into.
#[inline]
pub(super) fn word(memory: &impl Memory, offset: u64) -> Result<u64> {
    // Acquire: pairs with the Release of who signals.
    memory.load(offset, Ordering::Acquire)
}

/// Adds one to a word; returns what it was.
pub(super) fn count(memory: &impl Memory, offset: u64) -> Result<u64> {
    // AcqRel: who counts last has seen what all did before they counted.
    memory.fetch_add(offset, 1, Ordering::AcqRel)
}

/// Stores the generation into flags, each at an offset in a member's memory, and has those look who sleep there.
pub(super) fn signal<'m, M: Memory + 'm>(
    flags: impl Iterator<Item = Result<(&'m M, u64)>> + Clone,
    generation: u64,
) -> Result<()> {
    let mut is_any = false;
    for flag in flags.clone() {
        let (memory, offset) = flag?;
        // Release: who sees the flag sees what came before the barrier.
        memory.store(offset, generation, Ordering::Release)?;
        is_any = true;
    }
    if is_any {
        // Dekker: after the flags, before the look for sleepers; see `Bed`.
        fence(Ordering::SeqCst);
    }
    for flag in flags {
        let bed = flag?.0.bed();
        if bed.awaits() != 0 {
            bed.rouse();
        }
    }
    Ok(())
}

/// Looks whether those flags of a member's that it `is_to_watch` have come; each call goes on where the one before found
/// one missing.
pub(super) fn all_come<'flags, M: Memory>(
    memory: &'flags M,
    flags: &'flags [Place],
    is_to_watch: impl Fn(&Place) -> bool + 'flags,
    wanted: Wanted,
) -> impl FnMut() -> bool + 'flags {
    let mut at = 0;
    move || {
        while flags.get(at).is_some_and(|flag| !is_to_watch(flag) || wanted.has_come(memory, flag.offset)) {
            at += 1;
        }
        at == flags.len()
    }
}

/// Sleeps in a member's own memory until all has come, or `go_on` has a reason not to. Where there is a `nap`, `go_on` is
/// asked at least that often.
pub(super) fn doze(
    memory: &impl Memory,
    nap: Option<Duration>,
    mut all_came: impl FnMut() -> bool,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<()> {
    memory.bed().doze(1, nap, || if all_came() { Some(Ok(())) } else { go_on().err().map(Err) })
}
