//! The atomics that flags are made of, and sleeping on a word of shared memory: the processor's and the kernel's, or
//! loom's.

#[cfg(loom)]
pub(super) use self::model::{AtomicU32, AtomicU64, Ordering, fence, wait, wake_all};
#[cfg(not(loom))]
pub(super) use self::real::{AtomicU32, AtomicU64, Ordering, fence, wait, wake_all};

#[cfg(not(loom))]
mod real {
    use rustix::thread::futex;

    pub(in super::super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// Sleeps if `word` is `expected`, until it is woken, or for no reason.
    pub(in super::super) fn wait(word: &AtomicU32, expected: u32) {
        // However it ends (woken, another value, a signal), the caller looks again. The word is in memory that
        // processes share, so not the private kind.
        let _ = futex::wait(word, futex::Flags::empty(), expected, None);
    }

    /// Wakes all who sleep on `word`, in any process.
    pub(in super::super) fn wake_all(word: &AtomicU32) {
        // It fails only for addresses that are not mapped, and a reference is.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::{Condvar, Mutex};

    pub(in super::super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    loom::lazy_static! {
        /// The kernel's side of all such words: comparing and falling asleep is one step for those who wake.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(in super::super) fn wait(word: &AtomicU32, expected: u32) {
        let (lock, sleepers) = &*SLEEPERS;
        let guard = lock.lock().expect("loom poisons nothing");
        if word.load(Ordering::Relaxed) == expected {
            drop(sleepers.wait(guard).expect("loom poisons nothing"));
        }
    }

    pub(in super::super) fn wake_all(_word: &AtomicU32) {
        let (lock, sleepers) = &*SLEEPERS;
        let _guard = lock.lock().expect("loom poisons nothing");
        sleepers.notify_all();
    }
}
