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

use std::ffi::OsStr;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use svmio_transport::run_with_helpers;

use super::large_pages;

/// More cores than that beside the one that asks gain little: memory is busy then.
const MOST: usize = 3;

/// Bytes that a core takes at a time, from a multiple of them on: whole large pages, and long beside the time in which a
/// thread begins, some 30 µs.
fn part_bytes() -> u64 {
    const LEAST: u64 = 4 << 20;
    static BYTES: LazyLock<u64> = LazyLock::new(|| large_pages::size().unwrap_or(0).max(LEAST));
    *BYTES
}

/// Accesses of so many bytes are worth sharing.
pub(super) fn least() -> u64 {
    2 * part_bytes()
}

/// How many cores are to help this thread: those that have nothing to do at this moment and that it could run on, and of
/// them its share, as others may be asking, too. `SVMIO_IDLE_CORES` can forbid it.
pub(super) fn helpers() -> usize {
    // This crate's own tests always share: they are about what becomes of that.
    if cfg!(test) {
        return 2;
    }
    static MAY_HELP: LazyLock<bool> =
        LazyLock::new(|| may_help(std::env::var_os("SVMIO_IDLE_CORES").as_deref()));
    if !*MAY_HELP {
        return 0;
    }
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count() as usize);
    let running = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| running(&text));
    match running.map_or(0, |running| share_of(allowed, running)) {
        0 => 0,
        // Asked last, because it takes longest: what a control group grants.
        helpers => helpers.min(std::thread::available_parallelism().map_or(1, NonZero::get) - 1),
    }
}

/// Of the cores of `allowed` ones on which none of `running` threads is, what falls to one of these.
fn share_of(allowed: usize, running: usize) -> usize {
    (allowed.saturating_sub(running) / running.max(1)).min(MOST)
}

/// Carries out all parts of `range` by `part`, on this core and `helpers` others. Where some fail, the rest is left, and
/// the error is that of the first of them, with its beginning: all before it has been done.
pub(super) fn share<E: Send>(
    range: Range<u64>,
    helpers: usize,
    part: impl Fn(Range<u64>) -> Result<(), E> + Sync,
) -> Result<(), (u64, E)> {
    let bytes = part_bytes();
    let next = AtomicU64::new(range.start / bytes);
    let failed: Mutex<Option<(u64, E)>> = Mutex::new(None);
    run_with_helpers(helpers, "svmio idle core", || {
        loop {
            // Relaxed: the number alone matters; what parts do to memory is ordered by the end of the threads.
            let start = (next.fetch_add(1, Ordering::Relaxed) * bytes).max(range.start);
            if start >= range.end {
                return;
            }
            let end = (start / bytes + 1) * bytes;
            if let Err(problem) = part(start..end.min(range.end)) {
                next.store(range.end.div_ceil(bytes), Ordering::Relaxed);
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

/// Whether idle cores may help, by what `SVMIO_IDLE_CORES` says.
fn may_help(word: Option<&OsStr>) -> bool {
    match word {
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
            start in 0..3 * part_bytes(),
            length in 1..6 * part_bytes(),
            helpers in 0usize..4,
            failing in prop::collection::btree_set(0u64..10, 0..3),
        ) {
            let range = start..start + length;
            let bytes = part_bytes();
            let done = Mutex::new(BTreeSet::new());
            let outcome = share(range.clone(), helpers, |part| {
                assert!(part.start / bytes == (part.end - 1) / bytes, "parts lie within multiples");
                if failing.contains(&(part.start / bytes)) {
                    return Err(part.start / bytes);
                }
                assert!(done.lock().unwrap().insert((part.start, part.end)), "{part:?} twice");
                Ok(())
            });
            let numbers = range.start / bytes..range.end.div_ceil(bytes);
            let first = failing.into_iter().find(|number| numbers.contains(number));
            let until = match (first, outcome) {
                (None, Ok(())) => range.end,
                (Some(first), Err((at, number))) => {
                    prop_assert_eq!((at, number), ((first * bytes).max(range.start), first));
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
    fn idle_cores_are_shared_by_those_who_run() {
        for (allowed, running, share) in
            [(2, 1, 1), (2, 2, 0), (1, 1, 0), (16, 1, 3), (64, 32, 1), (64, 33, 0), (4, 9, 0), (2, 0, 2)]
        {
            assert_eq!(share_of(allowed, running), share, "{running} of {allowed}");
        }
    }

    #[test]
    fn idle_cores_help_unless_they_must_not() {
        assert!(may_help(None));
        for (word, helps) in [("never", false), ("auto", true), ("", true), ("often", true)] {
            assert_eq!(may_help(Some(OsStr::new(word))), helps, "{word}");
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
