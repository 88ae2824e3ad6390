//! Whether the size of a file's segments may still change.
//!
//! Another one may be settled as long as no segment has a home, and a home is given to a segment that was counted by the
//! size in force. So whoever gives the first one, at the master, or maps the file for writing, fixes the size before, and
//! whoever settles another size keeps homes from being given until all nodes know of it. Both go by one word of the state,
//! for both may be done by any process of the master's node.

use std::sync::atomic::Ordering;

use super::State;

/// Nothing has been fixed; what a state is made with.
const OPEN: u64 = 0;
/// Another size is being settled.
const SETTLING: u64 = 1;
/// The size stays as it is.
const FIXED: u64 = 2;

impl State {
    /// Has the size of segments stay as it is. False where another one is being settled.
    pub(crate) fn fix_segment_size(&self) -> bool {
        let sizing = &self.header().sizing;
        // Acquire: pairs with `end_settling`; the size that was settled is seen. A load first: each home asks.
        sizing.load(Ordering::Acquire) == FIXED
            || match sizing.compare_exchange(OPEN, FIXED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(before) => before == FIXED,
            }
    }

    /// Whether the size of segments is known to stay as it is.
    pub(crate) fn is_segment_size_fixed(&self) -> bool {
        self.header().sizing.load(Ordering::Acquire) == FIXED
    }

    /// Begins to settle another size of segments; `None` where that stays as it is, or somebody does so already.
    pub(crate) fn begin_settling(&self) -> Option<Settling<'_>> {
        let sizing = &self.header().sizing;
        // Acquire: pairs with the end of who settled one before.
        let begun = sizing.compare_exchange(OPEN, SETTLING, Ordering::AcqRel, Ordering::Acquire);
        begun.ok().map(|_| Settling(self))
    }
}

/// Another size of segments is being settled, until this is dropped, whatever has come of it: no segment gets a home
/// before.
#[must_use]
pub(crate) struct Settling<'s>(&'s State);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        // Release: whoever fixes the size next sees what was settled.
        self.0.header().sizing.store(OPEN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crate::node::BootId;
    use crate::units::FileId;

    use super::*;

    #[test]
    fn a_size_is_settled_before_it_is_fixed_or_not_at_all() {
        let state = State::map(tempfile::tempfile().unwrap()).unwrap();
        state.reset(BootId([1; 16]), FileId::from_bytes([2; 16]), 0, 0).unwrap();
        for _ in 0..2 {
            let settling = state.begin_settling().expect("several times, as long as it is not fixed");
            let is_another = state.begin_settling().is_some();
            assert!(!is_another && !state.fix_segment_size() && !state.is_segment_size_fixed());
            drop(settling);
        }
        assert!(state.fix_segment_size() && state.fix_segment_size() && state.is_segment_size_fixed());
        assert!(state.begin_settling().is_none() && state.is_segment_size_fixed());
        // Whoever is alone with what others have left.
        state.revive().unwrap();
        std::mem::forget(state.begin_settling().expect("it is not fixed any more"));
        state.revive().unwrap();
        assert!(state.fix_segment_size());
    }
}
