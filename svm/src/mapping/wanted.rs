//! What is to be fetched before anybody waits for it: windows ahead of rows of faults, and what the program asks for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::streams::Window;

/// What is to be fetched.
#[derive(Default)]
pub(super) struct Ahead {
    wanted: Mutex<VecDeque<Wanted>>,
    changed: Condvar,
}

struct Wanted {
    pages: VecDeque<u64>,
    /// The page that is to be kept ready and not in place.
    marker: Option<u64>,
    done: Option<Arc<Done>>,
}

/// Pages of one segment that are to be fetched next.
pub(super) struct Next {
    pub(super) segment: SegmentIndex,
    pub(super) pages: Vec<u64>,
    /// The page that is to be kept ready and not in place.
    pub(super) marker: Option<u64>,
    pub(super) done: Option<Arc<Done>>,
}

/// The outcome of an explicit fetch. It is told when all who have a part in it have dropped theirs.
#[derive(Default)]
struct Outcome {
    is_done: bool,
    failed: Option<Error>,
}

/// A part in an explicit fetch.
pub(super) struct Done(Arc<Awaited>);

#[derive(Default)]
struct Awaited {
    outcome: Mutex<Outcome>,
    changed: Condvar,
}

impl Awaited {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.0.outcome().is_done = true;
        self.0.changed.notify_all();
    }
}

/// Pages that were asked for by [`Mapping::fetch`](super::Mapping::fetch). It goes on if this is dropped.
#[must_use = "wait for it, or advise WillNeed"]
pub struct Fetch(Arc<Awaited>);

impl Fetch {
    /// Whether all has come, or failed to.
    pub fn is_done(&self) -> bool {
        self.0.outcome().is_done
    }

    /// Waits until all pages are here, as far as there was room for them; not for those that somebody else was fetching
    /// already, or that are not fetched any more because the mapping ends.
    ///
    /// # Errors
    /// Why a part of them could not be had.
    pub fn wait(self) -> Result<()> {
        let outcome = self.0.changed.wait_while(self.0.outcome(), |outcome| !outcome.is_done);
        outcome.unwrap_or_else(PoisonError::into_inner).failed.take().map_or(Ok(()), Err)
    }
}

impl Ahead {
    /// Has a window fetched.
    pub(super) fn want(&self, window: Window) {
        let wanted = Wanted { pages: window.pages().collect(), marker: Some(window.first), done: None };
        self.wanted().push_back(wanted);
        self.changed.notify_one();
    }

    /// Has pages fetched that the program asks for.
    pub(super) fn want_all(&self, pages: impl Iterator<Item = u64>) -> Fetch {
        let awaited = Arc::new(Awaited::default());
        let done = Some(Arc::new(Done(Arc::clone(&awaited))));
        self.wanted().push_back(Wanted { pages: pages.collect(), marker: None, done });
        self.changed.notify_one();
        Fetch(awaited)
    }

    /// Has the thread look whether it is to stop.
    pub(super) fn stop(&self) {
        drop(self.wanted());
        self.changed.notify_all();
    }

    /// Takes the next pages, at most so many, that lie in one segment, by `segment_of`; others are passed over. `None`
    /// where there are none, which is waited for if `waits`, or where the mapping ends.
    pub(super) fn next(
        &self,
        waits: bool,
        most: usize,
        is_stopping: &AtomicBool,
        segment_of: impl Fn(u64) -> Option<SegmentIndex>,
    ) -> Option<Next> {
        let mut all = self.wanted();
        loop {
            // Acquire: with the Release of who ends it.
            if is_stopping.load(Ordering::Acquire) {
                all.clear();
                return None;
            }
            let Some(first) = all.front_mut() else {
                if !waits {
                    return None;
                }
                all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let mut pages: Vec<u64> = Vec::new();
            let mut index = None;
            while let Some(page) = first.pages.front().copied() {
                let its = segment_of(page);
                if pages.len() >= most || its.is_some() && index.is_some() && its != index {
                    break;
                }
                first.pages.pop_front();
                if its.is_some() {
                    index = its;
                    pages.push(page);
                }
            }
            let (marker, done) = (first.marker, first.done.clone());
            if first.pages.is_empty() {
                all.pop_front();
            }
            if let Some(segment) = index {
                return Some(Next { segment, pages, marker, done });
            }
        }
    }

    fn wanted(&self) -> MutexGuard<'_, VecDeque<Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whoever asked that pages cannot be had.
pub(super) fn tell_failure(done: Option<Arc<Done>>, error: Error) {
    match done {
        Some(done) => {
            done.0.outcome().failed.get_or_insert(error);
        }
        None => tracing::debug!("nothing is fetched ahead: {error}"),
    }
}

/// Requests that are under way at a time: about a mebibyte, which takes a network of a gigabit 8 ms, many times a round
/// trip.
const UNDER_WAY: usize = 16;

/// Begins requests as long as there are some, and finishes them in the same order. `begin` waits for one to be wanted
/// where it is told to, and then has none only if all is over.
pub(super) fn keep_under_way<Request>(
    mut begin: impl FnMut(bool) -> Option<Request>,
    mut finish: impl FnMut(Request),
) {
    let mut under_way = VecDeque::new();
    loop {
        let begun = if under_way.len() < UNDER_WAY { begin(under_way.is_empty()) } else { None };
        match (begun, under_way.is_empty()) {
            (Some(request), _) => under_way.push_back(request),
            (None, true) => return,
            (None, false) => under_way.pop_front().into_iter().for_each(&mut finish),
        }
    }
}
