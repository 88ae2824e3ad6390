//! Sleeping on a word of shared memory, and the atomics that the words are made of: the kernel's and the
//! processor's, or loom's. For all who keep words in segments of the fabric.

#[cfg(loom)]
pub use self::model::{AtomicU32, AtomicU64, Ordering, fence, wait, wake_all};
#[cfg(not(loom))]
pub use self::real::{AtomicU32, AtomicU64, Ordering, fence, wait, wake_all};

#[cfg(not(loom))]
mod real {
    use std::time::Duration;

    use rustix::thread::futex;
    use rustix::time::Timespec;

    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// Sleeps if `word` is `expected`, until it is woken, or for `limit`, or for no reason.
    pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        // Every way in which it ends (woken, another value, a signal, the time) has the caller look again. The word
        // may be in memory shared between processes, so not the private kind.
        let _ = futex::wait(word, futex::Flags::empty(), expected, limit.as_ref());
    }

    /// Wakes all who sleep on `word`, in any process.
    pub fn wake_all(word: &AtomicU32) {
        // It fails only for addresses that are not mapped, and a reference is.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    loom::lazy_static! {
        /// The kernel's side of all futexes: comparing and falling asleep is one step for those who wake.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// As the kernel's, but for ever.
    pub fn wait(word: &AtomicU32, expected: u32, _limit: Option<Duration>) {
        let (lock, sleepers) = &*SLEEPERS;
        let guard = lock.lock().expect("loom poisons nothing");
        if word.load(Ordering::Relaxed) == expected {
            drop(sleepers.wait(guard).expect("loom poisons nothing"));
        }
    }

    /// Wakes all who sleep on any word.
    pub fn wake_all(_word: &AtomicU32) {
        let (lock, sleepers) = &*SLEEPERS;
        let _guard = lock.lock().expect("loom poisons nothing");
        sleepers.notify_all();
    }
}
