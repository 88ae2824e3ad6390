//! Homes for segments, given at the master beside locks that are held there.
//!
//! What has no home yet is locked at the master. Once it has one, whoever learns of it locks there, and would not meet
//! those who have locked it at the master before. So the master looks for such locks as it gives the home, with the
//! segment locked so that none comes after the look. Where there is one, ranges of the file are locked at the master,
//! too, from then on ([`State::are_also_locked_at_master`]). Whoever is told of the home is told of that with it; the
//! node that is the home, and hears of that from who writes there, asks the master before it relies on it
//! ([`State::add_unasked_homes`]).

use std::ops::Range;

use crate::error::{Error, Result};
use crate::locks::{Claim, LockTable, LockToken, Mode, Owner, ThreadId};
#[cfg(doc)]
use crate::state::State;
use crate::units::{SegmentIndex, SegmentSize};

use super::{Attachment, Filling};

/// Who gives homes locks in this thread's name, which is no thread's: others who do know it from who has locked a
/// range.
const GIVER: ThreadId = ThreadId(u32::MAX);

/// How often the core is left to others who give homes, and are about to have done so. Then they count as who has
/// locked a range: that is right, and only dearer, and one of them may stand still.
const TURNS: u32 = 100;

/// What comes of asking for homes for segments.
#[derive(Debug)]
pub(crate) enum Given {
    /// The homes in force.
    Homes(Vec<(SegmentIndex, u32)>),
    /// Segments are of that size, and not of the one by which these were counted; or another one is being settled. None
    /// has got a home.
    OtherSize(Option<SegmentSize>),
}

impl Attachment {
    /// [`Attachment::enter_homes`] at the master, for segments that were counted by `size`, of which some may be locked
    /// there.
    ///
    /// # Errors
    /// As [`Attachment::enter_homes`]; [`Error::Lock`].
    pub(crate) fn give_homes(
        &self,
        homes: &[(SegmentIndex, u32)],
        size: SegmentSize,
        filling: Filling,
    ) -> Result<Given> {
        if !self.writable()?.0.fix_segment_size() {
            return Ok(Given::OtherSize(None));
        }
        if self.segment_size() != size {
            return Ok(Given::OtherSize(Some(self.segment_size())));
        }
        self.give_counted(homes, filling).map(Given::Homes)
    }

    fn give_counted(
        &self,
        homes: &[(SegmentIndex, u32)],
        filling: Filling,
    ) -> Result<Vec<(SegmentIndex, u32)>> {
        let mut held = Vec::new();
        let given = self.hold_off_locks(homes, &mut held).and_then(|()| self.enter_homes(homes, filling));
        // Each of them, whatever becomes of the others.
        held.into_iter().fold(given, |outcome, token| {
            let released = self.writable()?.0.locks().and_then(|locks| locks.release(token));
            released.map_err(|source| Error::Lock { name: self.name().into(), source }).and(outcome)
        })
    }

    /// Enters homes that the master has given, which has said besides whether ranges are locked at it, too.
    ///
    /// # Errors
    /// As [`Attachment::enter_homes`].
    pub(crate) fn note_homes(
        &self,
        homes: &[(SegmentIndex, u32)],
        filling: Filling,
        also_locked_at_master: bool,
    ) -> Result<Vec<(SegmentIndex, u32)>> {
        if also_locked_at_master {
            self.writable()?.0.set_also_locked_at_master();
        }
        self.enter_homes(homes, filling)
    }

    /// Locks those of the segments that have no home, as far as nobody has locked any of them, and notes whether
    /// somebody has.
    fn hold_off_locks(&self, homes: &[(SegmentIndex, u32)], held: &mut Vec<LockToken>) -> Result<()> {
        let (state, presence) = self.writable()?;
        let failed = |source| Error::Lock { name: self.name().into(), source };
        let locks = state.locks().map_err(failed)?;
        let owner = Owner { slot: presence.slot(), thread: GIVER };
        let alive = |slot| state.is_alive(presence, slot, self.own());
        let mut holes: Vec<_> = homes.iter().map(|(index, _)| *index).collect();
        holes.retain(|index| state.home(*index).is_none());
        holes.sort_unstable();
        holes.dedup();
        for range in self.ranges(&holes) {
            let mut turns = TURNS;
            loop {
                let token =
                    locks.try_acquire(owner, range.clone(), Mode::Exclusive, &alive).map_err(failed)?;
                if let Some(token) = token {
                    held.push(token);
                    break;
                }
                let claims = locks.claims().map_err(failed)?;
                let is_in_the_way = |claim: &Claim| claim.start < range.end && range.start < claim.end;
                let mut in_the_way = claims.iter().filter(|claim| is_in_the_way(claim));
                let is_locked = claims.len() >= LockTable::CAPACITY
                    || in_the_way.any(|claim| claim.owner.thread != GIVER);
                if is_locked || turns == 0 {
                    state.set_also_locked_at_master();
                    break;
                }
                turns -= 1;
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Ranges that have all bytes of the segments: those that follow each other in one, and all in one where there
    /// would be too many.
    fn ranges(&self, ascending: &[SegmentIndex]) -> Vec<Range<u64>> {
        /// The lock table is to have room for others, too.
        const MOST: usize = 16;
        let size = self.segment_size();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for start in ascending.iter().map(|index| size.start_of(*index).0) {
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += size.bytes(),
                _ => ranges.push(start..start + size.bytes()),
            }
        }
        if let ([first, .., last], true) = (&ranges[..], ranges.len() > MOST) {
            let all = first.start..last.end;
            ranges.clear();
            ranges.push(all);
        }
        ranges
    }
}
