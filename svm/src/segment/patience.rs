//! Whether large pages are worth their time at present.
//!
//! Where the machine is a virtual one, its host may have taken back the memory that lay free in large blocks, while
//! what lies in small pieces is still there. Large pages then take ten times as long, once, and small ones are the
//! faster ones. Nobody tells; it shows in the time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether large pages are worth their time.
pub(super) enum Pace {
    Fast,
    Slow,
    Unknown,
}

/// Since when something takes time.
pub(super) struct Clock {
    began: Instant,
    computed: Duration,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { began: Instant::now(), computed: processor_time() }
    }

    /// How long it has taken, and how long of that this thread has computed.
    pub(super) fn taken(&self) -> (Duration, Duration) {
        (self.began.elapsed(), processor_time() - self.computed)
    }
}

/// How long this thread has computed: what the host takes to find memory counts, what other threads take does not.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// How often to ask a system that refuses, or is slow: it may have to move a lot of memory about before it does.
pub(super) struct Patience {
    /// In a row.
    failures: AtomicU32,
    /// How many bytes to write before asking again.
    waiting: AtomicU64,
}

pub(super) static PATIENCE: Patience = Patience { failures: AtomicU32::new(0), waiting: AtomicU64::new(0) };

// Relaxed everywhere: no other memory depends on it, and a lost update means one question more or less.
impl Patience {
    /// Before so many bytes are written.
    pub(super) fn may_try(&self, bytes: u64) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting.saturating_sub(bytes), Ordering::Relaxed);
        waiting == 0
    }

    /// Whether some are to be written before.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) fn granted(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// The next question comes after `bytes`; each time that it fails in a row, after twice as many.
    pub(super) fn failed(&self, bytes: u64) {
        /// Of two.
        const MOST: u32 = 10;
        let failures = self.failures.load(Ordering::Relaxed);
        self.failures.store((failures + 1).min(MOST), Ordering::Relaxed);
        self.waiting.store(bytes << failures, Ordering::Relaxed);
    }
}
