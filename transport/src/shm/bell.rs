//! How a process is woken by others: a bell, and interrupts. All of it lies in memory that is shared.
//!
//! The question everywhere is the same, Dekker's. One side stores what it has to say, then looks whether the
//! other sleeps; the other stores that it sleeps, then looks whether there is something to hear. Between its store
//! and its look each side has a sequentially consistent fence, so at least one of them sees the other's store:
//! nobody sleeps through what was said. Loom tries all interleavings, below.

use std::time::Duration;

use crate::futex::{self, AtomicU32, AtomicU64, Ordering, fence};

/// What waiters of one process sleep on. All zeroes is a bell at rest.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// How often sleepers were woken; the word that they sleep on.
    sequence: AtomicU32,
    /// 1 from when somebody is about to sleep until the next one who rings takes it back.
    has_sleepers: AtomicU32,
}

impl Bell {
    /// Has all sleepers look again at what the caller stored before. A fence and a load where nobody sleeps.
    #[inline]
    pub(super) fn ring(&self) {
        // Dekker: after the caller's stores, before the look for sleepers.
        fence(Ordering::SeqCst);
        self.ring_after_fence();
    }

    #[inline]
    fn ring_after_fence(&self) {
        // Relaxed: the fence above orders it.
        if self.has_sleepers.load(Ordering::Relaxed) != 0 {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        // Whoever takes the mark wakes; others who ring at the same time need not. The increment comes after the
        // mark is taken: a sleeper whose mark was taken has read the sequence before it set the mark, so it finds
        // the sequence changed, or is woken. Release: a sleeper that reads the new sequence sees what was stored.
        if self.has_sleepers.swap(0, Ordering::AcqRel) != 0 {
            self.sequence.fetch_add(1, Ordering::Release);
            futex::wake_all(&self.sequence);
        }
    }

    /// Has all sleepers look again, whatever the mark says: a process that is killed while it rings may have taken the
    /// mark and woken nobody. Its death is told by this.
    pub(super) fn alarm(&self) {
        // Release: as in `rouse`.
        self.sequence.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.sequence);
    }

    /// Sleeps until `look` has an answer, or `remaining` says that no time is left. `look` is called at least once
    /// after everything that was stored before a ring.
    pub(super) fn sleep<R>(
        &self,
        mut remaining: impl FnMut() -> Remaining,
        mut look: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            // Acquire, and before the mark is set: see `rouse`.
            let seen = self.sequence.load(Ordering::Acquire);
            self.has_sleepers.store(1, Ordering::Release);
            // Dekker: after the mark, before the look.
            fence(Ordering::SeqCst);
            // A mark that is left behind here costs the next one who rings a system call, nothing else.
            if let Some(answer) = look() {
                return Some(answer);
            }
            match remaining() {
                Remaining::Nothing => return None,
                Remaining::Time(duration) => futex::wait(&self.sequence, seen, Some(duration)),
                Remaining::Forever => futex::wait(&self.sequence, seen, None),
            }
        }
    }
}

/// How long a sleeper may still sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remaining {
    /// No longer.
    Nothing,
    /// So long.
    Time(Duration),
    /// Until it is woken.
    Forever,
}

/// One interrupt of a process. All zeroes is one that was never triggered.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct InterruptLine {
    bell: Bell,
    /// How often it was triggered since somebody took note.
    pending: AtomicU64,
    /// How many waiters take note of it themselves as they poll.
    attendants: AtomicU32,
}

impl InterruptLine {
    /// Triggers it. `process` is the bell of the process whose interrupt this is: where it is attended, its waiters
    /// are woken instead of the interrupt's own.
    #[inline]
    pub(super) fn trigger(&self, process: &Bell) {
        // Release: whoever takes note sees what was stored before.
        self.pending.fetch_add(1, Ordering::Release);
        // Dekker twice: against a sleeper, and against an attendant that leaves, see `Attendance`.
        fence(Ordering::SeqCst);
        if self.attendants.load(Ordering::Relaxed) != 0 {
            process.ring_after_fence();
        } else {
            self.bell.ring_after_fence();
        }
    }

    /// How often it was triggered since the last time.
    #[inline]
    pub(super) fn take(&self) -> u64 {
        // Relaxed: only a hint that saves the exclusive access; what matters is learnt by the swap.
        if self.pending.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // Acquire: pairs with the Release in `trigger`.
        self.pending.swap(0, Ordering::Acquire)
    }

    /// Sleeps until it is triggered, or `look` has another answer, or no time is left.
    pub(super) fn sleep<R>(
        &self,
        remaining: impl FnMut() -> Remaining,
        mut look: impl FnMut(u64) -> Option<R>,
    ) -> Option<R> {
        self.bell.sleep(remaining, || look(self.take()))
    }

    /// Has those who sleep on it look again.
    pub(super) fn disturb(&self) {
        self.bell.alarm();
    }

    /// Takes note of it by polling, as long as the value lives.
    pub(super) fn attend(&self) -> Attendance<'_> {
        self.attendants.fetch_add(1, Ordering::Relaxed);
        Attendance { line: self }
    }
}

/// A polling waiter that takes note of an interrupt itself.
#[derive(Debug)]
pub(super) struct Attendance<'a> {
    line: &'a InterruptLine,
}

impl Attendance<'_> {
    /// To be called before each look: what was announced until now, the look that follows sees.
    #[inline]
    pub(super) fn take_note(&self) {
        self.line.take();
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.line.attendants.fetch_sub(1, Ordering::Relaxed);
        // Dekker: one who triggers stores `pending`, then looks at `attendants`; here it is the other way round. So
        // either it finds nobody attending and wakes the sleeper, or what it stored is found here and handed on.
        fence(Ordering::SeqCst);
        if self.line.pending.load(Ordering::Relaxed) != 0 {
            self.line.bell.ring_after_fence();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::{Bell, Ordering, Remaining};

    #[test]
    fn an_alarm_wakes_a_sleeper_whose_mark_a_killed_process_took() {
        let bell = Arc::new(Bell::default());
        let is_dead = Arc::new(AtomicBool::new(false));
        let sleeper = std::thread::spawn({
            let (bell, is_dead) = (Arc::clone(&bell), Arc::clone(&is_dead));
            move || {
                bell.sleep(|| Remaining::Forever, || is_dead.load(Ordering::Acquire).then_some(()));
            }
        });
        // What the killed process did: it took the mark, and no more.
        while bell.has_sleepers.swap(0, Ordering::AcqRel) == 0 {
            std::thread::yield_now();
        }
        is_dead.store(true, Ordering::Release);
        bell.ring();
        bell.alarm();
        sleeper.join().expect("the sleeper ends");
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
