//! How many calls were taken, and how many left to MPI: told at the end where `SVMIO_STATS` asks for it.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::setting::Collective;

#[derive(Default)]
struct Counts {
    taken: AtomicU64,
    left: AtomicU64,
}

static COUNTS: [Counts; Collective::ALL.len()] =
    [const { Counts { taken: AtomicU64::new(0), left: AtomicU64::new(0) } }; Collective::ALL.len()];

/// Counts a call.
#[inline]
pub(crate) fn count(collective: Collective, was_taken: bool) {
    if !is_wanted() {
        return;
    }
    let Counts { taken, left } = &COUNTS[collective as usize];
    // Relaxed: only a number.
    if was_taken { taken } else { left }.fetch_add(1, Ordering::Relaxed);
}

/// Tells the numbers of this process, which is rank `rank`.
pub(crate) fn tell(rank: i32) {
    if !is_wanted() {
        return;
    }
    let told: Vec<_> = Collective::ALL
        .into_iter()
        .filter_map(|collective| {
            let Counts { taken, left } = &COUNTS[collective as usize];
            // Relaxed: as above.
            let (taken, left) = (taken.load(Ordering::Relaxed), left.load(Ordering::Relaxed));
            (taken + left > 0).then(|| format!("{} {taken}/{}", collective.name(), taken + left))
        })
        .collect();
    let told = if told.is_empty() { "none".into() } else { told.join(", ") };
    // In one piece: others may write at the same time. There is nobody else to tell.
    let line = format!("svmio: rank {rank}: collectives done by svmio, of all: {told}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[inline]
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        std::env::var_os("SVMIO_STATS").is_some_and(|value| !value.is_empty() && value != "0")
    })
}
