//! Where one rank sleeps: a word of shared memory that others can wake it by.
//!
//! Dekker's question: the sleeper says that it sleeps, then looks for what it awaits; who announces something stores
//! it, then looks whether somebody sleeps. Between its store and its look each side has a sequentially consistent
//! fence, so at least one of them sees the other's store.

use std::time::Duration;

use svmio_transport::futex::{self, AtomicU32, AtomicU64, Ordering, fence};

/// A sleeping place. All zeroes is one in which nobody ever slept.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct Bed {
    /// What the sleeper awaits, as its owner writes it down; 0 where nobody sleeps.
    awaits: AtomicU64,
    /// How often the sleeper was roused: the word that it sleeps on.
    calls: AtomicU32,
}

impl Bed {
    /// What the sleeper awaits; 0 where nobody sleeps. To be asked after a fence that comes after what may have to be
    /// told to the sleeper.
    #[inline]
    pub(super) fn awaits(&self) -> u64 {
        // Relaxed: the caller's fence orders it.
        self.awaits.load(Ordering::Relaxed)
    }

    /// Has the sleeper look again.
    pub(super) fn rouse(&self) {
        // Release: a sleeper that reads the new count sees what was stored before.
        self.calls.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.calls);
    }

    /// Sleeps, awaiting what `awaits` stands for (not 0), until `look` has an answer. `look` is called at least once
    /// after all that was stored before anybody roused.
    pub(super) fn sleep<R>(&self, awaits: u64, look: impl FnMut() -> Option<R>) -> R {
        self.doze(awaits, None, look)
    }

    /// The same, but with a look at least every `nap`, where there is one.
    pub(super) fn doze<R>(
        &self,
        awaits: u64,
        nap: Option<Duration>,
        mut look: impl FnMut() -> Option<R>,
    ) -> R {
        let answer = loop {
            // Acquire, and before the announcement: who sees the announcement and rouses changes this word after it was
            // read here.
            let seen = self.calls.load(Ordering::Acquire);
            self.awaits.store(awaits, Ordering::Relaxed);
            // Dekker: after the announcement, before the look.
            fence(Ordering::SeqCst);
            if let Some(answer) = look() {
                break answer;
            }
            futex::wait(&self.calls, seen, nap);
        };
        // Relaxed: who still sees the old value rouses somebody who is up, which does no harm.
        self.awaits.store(0, Ordering::Relaxed);
        answer
    }
}
