//! What the machine itself does at the moment: virtual cores drift.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use svmio_transport::copy_past_caches;

/// The machine's speed at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// A cache line's way to another core and back, nanoseconds.
    pub round_trip_ns: f64,
    /// What one core copies, GB/s.
    pub copy_gb_per_s: f64,
}

impl Phase {
    /// Measures it, in a fraction of a second.
    pub fn now() -> Phase {
        Phase { round_trip_ns: round_trip_ns(), copy_gb_per_s: copy_gb_per_s(1) }
    }
}

/// Below this share of the processors, somebody else is at work, and nothing that is measured says anything.
const CALM: f64 = 0.9;

/// How much of two processors' time two threads get that compute for a moment: 1 on a machine that nobody else uses.
pub fn granted() -> f64 {
    const MOMENT: Duration = Duration::from_millis(100);
    let compute = || {
        let started = Instant::now();
        while started.elapsed() < MOMENT {}
        let got = clock_gettime(ClockId::ThreadCPUTime);
        (got.tv_sec as f64 + got.tv_nsec as f64 / 1e9) / started.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(compute), scope.spawn(compute)];
        threads.map(|thread| thread.join().unwrap_or(0.0)).into_iter().fold(1.0, f64::min)
    })
}

/// Whether the machine does little else at the moment.
pub fn is_calm() -> bool {
    granted() >= CALM
}

/// Keeps two cores busy for a moment, as a program does that starts slowly: they are awake then, and near each other if
/// they come near. Returns a cache line's way to another core and back, nanoseconds.
pub fn settle() -> f64 {
    round_trip_ns()
}

/// Touches so many bytes of memory, and gives them back: a virtual machine's host has taken what was not used for a
/// second or two, and who uses it first waits for it. It takes what lies free in large blocks, and so does this.
///
/// # Panics
/// Where there is no such memory.
pub fn warm_memory(bytes: usize) {
    const PAGE: usize = 4096;
    let mut memory = memmap2::MmapMut::map_anon(bytes).expect("memory to touch");
    // Without large pages it comes from other blocks, but is touched as well.
    let _ = memory.advise(memmap2::Advice::HugePage);
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(memory);
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (line, copy) = (self.round_trip_ns, self.copy_gb_per_s);
        write!(f, "a cache line goes to and fro in {line:.0} ns, one core copies {copy:.1} GB/s")
    }
}

fn round_trip_ns() -> f64 {
    const TRIPS: u32 = 200_000;
    let ball = AtomicU32::new(0);
    let wait_for = |value| {
        // Acquire and release: nothing but the ball is passed, but a real message would need them.
        while ball.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS {
                wait_for(2 * trip + 1);
                ball.store(2 * trip + 2, Ordering::Release);
            }
        });
        let started = Instant::now();
        for trip in 0..TRIPS {
            ball.store(2 * trip + 1, Ordering::Release);
            wait_for(2 * trip + 2);
        }
        started.elapsed().as_nanos() as f64 / f64::from(TRIPS)
    })
}

/// What so many threads copy together in memory, each from one large block into another, GB/s: the limit of everything
/// that moves as much data. It is the faster one of plain stores and such past the caches, on large pages where there are
/// any.
///
/// # Panics
/// Where there is no such memory.
pub fn copy_gb_per_s(threads: usize) -> f64 {
    const BYTES: usize = 128 << 20;
    const PASSES: usize = 4;
    let together = Barrier::new(threads);
    let block = |value| {
        let mut memory = memmap2::MmapMut::map_anon(BYTES).expect("memory to copy");
        // Without large pages it is small ones.
        let _ = memory.advise(memmap2::Advice::HugePage);
        memory.fill(value);
        memory
    };
    let copy = || {
        let (source, mut target) = (block(1), block(2));
        [false, true].map(|past_caches| {
            together.wait();
            let started = Instant::now();
            for _ in 0..PASSES {
                let source = std::hint::black_box(&source);
                if past_caches {
                    // SAFETY: two blocks of so many bytes.
                    unsafe { copy_past_caches(source.as_ptr(), target.as_mut_ptr(), BYTES) };
                } else {
                    target.copy_from_slice(source);
                }
                std::hint::black_box(&mut target);
            }
            started.elapsed().as_secs_f64()
        })
    };
    let slowest = std::thread::scope(|scope| {
        let copying: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        let times = copying.into_iter().map(|thread| thread.join().expect("it copies"));
        times.fold([0.0, 0.0], |[plain, past], [own_plain, own_past]| {
            [f64::max(plain, own_plain), f64::max(past, own_past)]
        })
    });
    (threads * BYTES * PASSES) as f64 / 1e9 / f64::min(slowest[0], slowest[1])
}
