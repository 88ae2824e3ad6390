//! From how many bytes on a write goes straight into its home's segment, past the cache.
//!
//! What goes by the cache is copied several times more: into a page, out of it, into a message, out of the message.
//! What goes straight waits until it is there, each write for itself. What that takes is the fabric's: a store
//! where the home's memory is mapped, a round trip elsewhere, and the time on the wire. Nobody has to be asked for
//! it, because both ways tell: each straight write is timed, and compared with what as many bytes take by the
//! cache, as long flushes of dirty bytes show. Before the first of these, it is compared with copies.
//!
//! ```text
//!   bytes   2 Ki    4 Ki    8 Ki   16 Ki   32 Ki   64 Ki  ...  512 Ki
//!           └ cached ┴───────┴───────┴───► bound ◄── straight ──┘
//!                 a few straight writes in a row       each of a few straight writes in a row took less
//!                 took longer than by the cache        than the cache does for so many bytes: it goes there
//! ```
//!
//! A shorter write takes no longer than a longer one, so going down needs no trial. Going either way takes a few writes
//! of one size class in a row that say so: a process that lost its core for a while changes nothing, nor does one write
//! that was fast by chance. Of writes just below the bound one in some goes straight all the same, or a bound that a
//! busy minute has raised would stay where it is for a program that writes no longer ones. A bound that is wrong costs
//! time and nothing else: both ways are right for any number of bytes.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::statistics::StraightStatistics;

/// Fewer bytes are never worth it: what a cached write costs whatever its length is not looked at.
const LEAST: u64 = 2 << 10;

/// So many always are: the cache is not to be filled with what passes once.
const MOST: u64 = 512 << 10;

/// The bound, before something is known, for bytes for which the home has to be asked first: about what copying takes
/// as long as a question.
const ASKED: u64 = 64 << 10;

/// The powers of two from [`LEAST`] to below [`MOST`].
const CLASSES: usize = (MOST / LEAST).ilog2() as usize;

/// How many writes in a row have to say the same.
const IN_A_ROW: u32 = 4;

/// Of so many writes just below the bound, one is tried.
const TRIED: u64 = 128;

/// How often more the bytes of a cached write are copied, each time into fresh memory.
const COPIES: u32 = 4;

/// The bounds of one process.
#[derive(Debug)]
pub(super) struct LongWrites {
    /// What somebody has set instead; 0 where nobody has.
    set: AtomicU64,
    /// For bytes that are known to have storage at their home.
    stored: Bound,
    /// For bytes for which the home is asked to give them storage.
    asked: Bound,
    /// How long bringing [`MOST`] bytes home from the cache takes, nanoseconds; 0 where that is not known.
    flushing: AtomicU64,
    copying: OnceLock<Duration>,
    /// How many writes were just below the bound.
    below: AtomicU64,
    /// What went straight.
    writes: AtomicU64,
    bytes: AtomicU64,
}

/// What a write meets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    /// Whether its bytes are known to have storage at their home.
    pub(super) is_stored: bool,
    /// Whether the file has a range locked: at the release homes have to be told of straight writes. Of cached ones
    /// they need not be told where this node keeps the lock.
    pub(super) is_locked: bool,
}

/// A write that goes straight.
#[must_use = "it tells how long it took"]
pub(super) struct LongWrite<'w> {
    writes: &'w LongWrites,
    bound: &'w Bound,
    bytes: u64,
    begun: Instant,
}

#[derive(Debug)]
struct Bound {
    bytes: AtomicU64,
    /// By class; the last one is of writes from [`MOST`] to twice that: longer ones tell little of shorter ones.
    rows: [Row; CLASSES + 1],
}

/// The last writes of a class, as far back as all say the same.
#[derive(Debug, Default)]
struct Row {
    /// How many took longer than by the cache.
    slow: AtomicU32,
    /// How many did not.
    fast: AtomicU32,
    /// As many bytes take as long by the cache as each of the fast ones at most.
    worth: AtomicU64,
}

impl Default for LongWrites {
    fn default() -> LongWrites {
        let (stored, asked) = (Bound::new(LEAST), Bound::new(ASKED));
        let [set, flushing, below, writes, bytes] = [const { AtomicU64::new(0) }; 5];
        LongWrites { set, stored, asked, flushing, copying: OnceLock::new(), below, writes, bytes }
    }
}

// Relaxed, everywhere: each number stands for itself, and any of them is right.
impl LongWrites {
    /// Sets the bound for all writes; `None` for what is measured.
    pub(super) fn set(&self, bytes: Option<u64>) {
        self.set.store(bytes.map_or(0, |bytes| bytes.max(1)), Relaxed);
    }

    /// The bound for bytes that are known to have storage.
    pub(super) fn bound(&self) -> u64 {
        match self.set.load(Relaxed) {
            0 => self.stored.bytes.load(Relaxed),
            set => set,
        }
    }

    /// Begins a write of so many bytes, if it is to go straight.
    pub(super) fn begin(
        &self,
        bytes: u64,
        circumstances: impl FnOnce() -> Circumstances,
    ) -> Option<LongWrite<'_>> {
        let bound = self.bound_for(bytes, circumstances, || self.is_turn_to_try())?;
        Some(LongWrite { writes: self, bound, bytes, begun: Instant::now() })
    }

    /// Whether such a write would go straight.
    pub(super) fn is_long(&self, bytes: u64, circumstances: impl FnOnce() -> Circumstances) -> bool {
        self.bound_for(bytes, circumstances, || false).is_some()
    }

    /// What is less never goes straight.
    pub(super) fn least(&self) -> u64 {
        match self.set.load(Relaxed) {
            0 => LEAST,
            set => set,
        }
    }

    /// So many dirty bytes, in so many runs, went home in so long.
    pub(super) fn note_flush(&self, bytes: u64, runs: u64, took: Duration) {
        // It was a round trip more than anything else, or the pieces took more than the bytes.
        if bytes < ASKED || bytes / LEAST < runs {
            return;
        }
        let one = (took.as_secs_f64() * 1e9 * MOST as f64 / bytes as f64) as u64;
        let mean = match self.flushing.load(Relaxed) {
            0 => one,
            // A flush during which this process, or the home, lost its core says little.
            before => before - before / 4 + one.clamp(before / 2, before.saturating_mul(2)) / 4,
        };
        self.flushing.store(mean.max(1), Relaxed);
    }

    pub(super) fn statistics(&self) -> StraightStatistics {
        let (writes, bytes) = (self.writes.load(Relaxed), self.bytes.load(Relaxed));
        StraightStatistics { writes, bytes, from: self.bound() }
    }

    /// The bound for which such a write counts, if it is to go straight; where it is a little too short, if `is_tried`.
    fn bound_for(
        &self,
        bytes: u64,
        circumstances: impl FnOnce() -> Circumstances,
        is_tried: impl FnOnce() -> bool,
    ) -> Option<&Bound> {
        if bytes < self.least() {
            return None;
        }
        let Circumstances { is_stored, is_locked } = circumstances();
        // Telling the home takes as long as asking it.
        let deciding = if is_stored && !is_locked { &self.stored } else { &self.asked };
        let bound = if is_stored { &self.stored } else { &self.asked };
        let decided = deciding.bytes.load(Relaxed);
        let is_long = self.set.load(Relaxed) > 0 || bytes >= decided;
        (is_long || is_stored && !is_locked && bytes >= decided / 2 && is_tried()).then_some(bound)
    }

    fn is_turn_to_try(&self) -> bool {
        self.below.fetch_add(1, Relaxed) % TRIED == TRIED - 1
    }

    /// How long [`MOST`] bytes take by the cache.
    fn cached(&self) -> Duration {
        let copying = *self.copying.get_or_init(copying_once);
        match self.flushing.load(Relaxed) {
            0 => COPIES * copying,
            flushing => copying + Duration::from_nanos(flushing),
        }
    }
}

impl LongWrite<'_> {
    /// It is there; not straight where the home had to be sent messages instead.
    pub(super) fn finish(self, is_straight: bool) {
        let took = self.begun.elapsed();
        if is_straight {
            self.writes.writes.fetch_add(1, Relaxed);
            self.writes.bytes.fetch_add(self.bytes, Relaxed);
        }
        if self.writes.set.load(Relaxed) == 0 {
            self.bound.note(self.bytes, took, self.writes.cached());
        }
    }
}

impl Bound {
    fn new(bytes: u64) -> Bound {
        Bound { bytes: AtomicU64::new(bytes), rows: Default::default() }
    }

    /// A straight write of so many bytes took so long, where [`MOST`] bytes by the cache take `cached`.
    fn note(&self, bytes: u64, took: Duration, cached: Duration) {
        let worth = took.as_secs_f64() / cached.as_secs_f64().max(1e-9) * MOST as f64;
        // Saturates.
        let worth = worth.ceil() as u64;
        let Some(row) = self.rows.get(class_of(bytes)) else { return };
        if worth <= bytes {
            row.slow.store(0, Relaxed);
            row.worth.fetch_max(worth, Relaxed);
            if row.fast.fetch_add(1, Relaxed) + 1 >= IN_A_ROW {
                row.fast.store(0, Relaxed);
                // So many bytes, and so all numbers above, are better off straight.
                let worth = row.worth.swap(0, Relaxed).clamp(LEAST, MOST);
                self.bytes.fetch_min(worth.next_power_of_two(), Relaxed);
            }
        } else {
            row.fast.store(0, Relaxed);
            row.worth.store(0, Relaxed);
            if row.slow.fetch_add(1, Relaxed) + 1 >= IN_A_ROW {
                row.slow.store(0, Relaxed);
                let next = 2 << bytes.clamp(LEAST, MOST / 2).ilog2();
                self.bytes.fetch_max(next, Relaxed);
            }
        }
    }
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(LEAST) / LEAST).ilog2() as usize
}

/// How long copying [`MOST`] bytes into fresh memory takes here.
fn copying_once() -> Duration {
    const TIMES: usize = 3;
    let from = vec![1_u8; MOST as usize];
    let copying = (0..TIMES).map(|_| {
        let begun = Instant::now();
        black_box(black_box(&from).clone());
        begun.elapsed()
    });
    copying.min().unwrap_or_default()
}

#[cfg(test)]
mod tests;
