//! That all members have come as far as this one: by dissemination, with flags behind what the segments are for.
//!
//! In step *i* each member tells the one 2ⁱ further that it and those whom it knows of have come.

use std::time::Duration;

use svmio_transport::back_end::Wait;
use svmio_transport::futex::Ordering;
use svmio_transport::{Error as FabricError, Fabric, Rank, SegmentId};

use super::{Joined, LINE, distances, limit, timed_out};
use crate::executor::error::Result;

/// After how long a member that waits looks for a gravestone: at first, and at most. A look costs as much as
/// connecting.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// Bytes of a flag.
const FLAG: u64 = size_of::<u64>() as u64;

/// Bytes that the flags of so many members take in a segment.
pub(super) fn length(members: usize) -> u64 {
    (distances(members).count() as u64 * FLAG).next_multiple_of(LINE)
}

/// Whether a member has to be connected to another one, given their places, for a muster of so many.
pub(in crate::executor) fn is_told(own: usize, place: usize, members: usize) -> bool {
    distances(members).any(|far| (own + far) % members == place)
}

impl Joined {
    /// Returns when all members have come to this, who are connected to whom they [tell](is_told). After it, nothing
    /// can keep a member from the group that would be told by a gravestone.
    ///
    /// # Errors
    /// `NotJoined`; the fabric's.
    pub(in crate::executor) fn muster(&self, fabric: &Fabric, members: &[Rank], id: SegmentId) -> Result<()> {
        let size = members.len();
        for (step, far) in (0..).zip(distances(size)) {
            self.tell((self.own + far) % size, fabric, members, id, step)?;
            self.await_teller(members[(self.own + size - far) % size], fabric, members, id, step)?;
        }
        Ok(())
    }

    fn tell(&self, place: usize, fabric: &Fabric, members: &[Rank], id: SegmentId, step: u64) -> Result<()> {
        let unknown = FabricError::UnknownSegment { owner: members[place], id };
        let remote = self.remote[place].as_ref().ok_or(unknown)?;
        let write = || remote.write(self.flag(step), &1_u64.to_ne_bytes());
        if fabric.capabilities().is_reliable {
            write()?;
        } else {
            fabric.write_checked(members[place], write)?;
        }
        Ok(fabric.ring(members[place])?)
    }

    fn await_teller(
        &self,
        teller: Rank,
        fabric: &Fabric,
        members: &[Rank],
        id: SegmentId,
        step: u64,
    ) -> Result<()> {
        let flag = self.local.memory().word64(self.flag(step))?;
        // Acquire: who sees it sees what the teller did before.
        let has_told = || flag.load(Ordering::Acquire) != 0;
        // Any of them: one that is not lost itself may have left because another one is.
        let check = || members.iter().try_for_each(|&member| fabric.membership().check(member));
        let [mut pause, longest] = LOOKS;
        let limit = limit(fabric);
        let deadline = fabric.now().after(limit);
        loop {
            let look = fabric.now().after(pause).min(deadline);
            let mut ready = || has_told() || check().is_err();
            let _ = fabric.wait_until(Wait { deadline: Some(look), attends: None, ready: &mut ready });
            if has_told() {
                return Ok(());
            }
            check()?;
            match fabric.connect(teller, id) {
                Ok(remote) => super::check(fabric, &remote, self.local.memory().len() as u64)?,
                // It has not come yet, or has left no stone for want of memory.
                Err(FabricError::UnknownSegment { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if fabric.now() >= deadline {
                return Err(timed_out(fabric, teller, id, limit));
            }
            pause = (2 * pause).min(longest);
        }
    }

    fn flag(&self, step: u64) -> u64 {
        self.tail + step * FLAG
    }
}
