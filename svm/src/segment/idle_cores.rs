//! Long accesses that cores with nothing to do take a share of.
//!
//! One core copies a part of what a machine's memory carries, and making pages takes it longer than the copy. Where
//! nobody else wants the other cores (a program of several threads whose first one does the input and output, a rank
//! that writes for all), each takes parts of the access: makes their pages, and copies. With a second core that makes a
//! first write 1.3 to 1.6 times as fast, other writes and reads 1.6 times. Having the other core make pages ahead of the
//! one that copies gains as much in first writes, but nothing in others.
//!
//! ```text
//!   segment   |  part 0  |  part 1  |  part 2  |  part 3  |     each core takes the next one
//! ```

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use svmio_transport::run_with_helpers;

/// Bytes that a core takes at a time, from a multiple of them on: whole large pages, and long beside the time in which a
/// thread begins, some 30 µs.
const PART: u64 = 4 << 20;

/// Accesses of so many bytes are worth sharing.
pub(super) const LEAST: u64 = 2 * PART;

/// More cores than that beside the one that asks gain little: memory is busy then.
const MOST: usize = 3;

/// How many cores have nothing to do that this thread could run on, at this moment; at most as many as are of use.
/// `SVMIO_IDLE_CORES` can forbid it.
pub(super) fn idle() -> usize {
    // This crate's own tests always share: they are about what becomes of that.
    if cfg!(test) {
        return 2;
    }
    static MAY_HELP: LazyLock<bool> = LazyLock::new(may_help);
    // What a control group grants is found out once: asking reads several files.
    static GRANTED: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));
    if !*MAY_HELP || *GRANTED == 1 {
        return 0;
    }
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count() as usize);
    let running = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| running(&text));
    running.map_or(0, |running| allowed.min(*GRANTED).saturating_sub(running).min(MOST))
}

/// Carries out all parts of `range` by `part`, on this core and `helpers` others. Where some fail, the rest is left, and
/// the error is that of the first of them, with its beginning: all before it has been done.
pub(super) fn share<E: Send>(
    range: Range<u64>,
    helpers: usize,
    part: impl Fn(Range<u64>) -> Result<(), E> + Sync,
) -> Result<(), (u64, E)> {
    let next = AtomicU64::new(range.start / PART);
    let failed: Mutex<Option<(u64, E)>> = Mutex::new(None);
    run_with_helpers(helpers, "svmio idle core", || {
        loop {
            // Relaxed: the number alone matters; what parts do to memory is ordered by the end of the threads.
            let start = (next.fetch_add(1, Ordering::Relaxed) * PART).max(range.start);
            if start >= range.end {
                return;
            }
            let end = (start / PART + 1) * PART;
            if let Err(problem) = part(start..end.min(range.end)) {
                next.store(range.end.div_ceil(PART), Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| start < *first) {
                    *failed = Some((start, problem));
                }
                return;
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// How many threads have a core, or wait for one: the fourth field of `/proc/loadavg`, see proc_loadavg(5). Who reads it
/// is one of them.
fn running(text: &str) -> Option<usize> {
    text.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// What `SVMIO_IDLE_CORES` says.
fn may_help() -> bool {
    match std::env::var_os("SVMIO_IDLE_CORES") {
        Some(word) if word == "never" => false,
        Some(word) if word != "auto" && !word.is_empty() => {
            let word = word.display();
            tracing::warn!("SVMIO_IDLE_CORES={word} is none of auto and never: auto it is");
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_done_once_and_all_before_the_first_failure(
            start in 0..3 * PART,
            length in 1..6 * PART,
            helpers in 0usize..4,
            failing in prop::collection::btree_set(0u64..10, 0..3),
        ) {
            let range = start..start + length;
            let done = Mutex::new(BTreeSet::new());
            let outcome = share(range.clone(), helpers, |part| {
                assert!(part.start / PART == (part.end - 1) / PART, "parts lie within multiples");
                if failing.contains(&(part.start / PART)) {
                    return Err(part.start / PART);
                }
                assert!(done.lock().unwrap().insert((part.start, part.end)), "{part:?} twice");
                Ok(())
            });
            let numbers = range.start / PART..range.end.div_ceil(PART);
            let first = failing.into_iter().find(|number| numbers.contains(number));
            let until = match (first, outcome) {
                (None, Ok(())) => range.end,
                (Some(first), Err((at, number))) => {
                    prop_assert_eq!((at, number), ((first * PART).max(range.start), first));
                    at
                }
                (first, outcome) => return Err(TestCaseError::fail(format!("{first:?}, {outcome:?}"))),
            };
            let mut at = range.start;
            for (start, end) in done.into_inner().unwrap() {
                if at < until {
                    prop_assert_eq!(start, at);
                }
                at = end;
            }
            prop_assert!(at >= until);
        }
    }

    #[test]
    fn who_runs_is_read_from_the_load() {
        assert_eq!(running("0.42 0.31 0.17 3/217 4711\n"), Some(3));
        assert_eq!(running(""), None);
        let here = std::fs::read_to_string("/proc/loadavg").unwrap();
        assert!(running(&here).is_some_and(|running| running > 0), "{here}");
    }
}
