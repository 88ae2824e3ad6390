//! Homes for segments, which the master node gives.

use std::time::Duration;

use crate::attachment::{Filling, Given, Home};
use crate::cluster::wire::{Reply, Request, SegmentHome};
use crate::cluster::{NodeIndex, Roster};
use crate::error::Result;
use crate::units::{SegmentIndex, SegmentSize};

use super::SharedFile;

/// How long is waited before it is asked anew whether another size has been settled: that takes a message to each node.
const PAUSE: Duration = Duration::from_micros(100);

impl SharedFile {
    /// Has segments stay of the size in force if that is `size`; false where it is another one, or about to be.
    pub(crate) fn fix_segment_size(&self, size: SegmentSize) -> Result<bool> {
        if self.attachment.writable()?.0.is_segment_size_fixed() {
            return Ok(self.attachment.segment_size() == size);
        }
        Ok(self.give(&[], size, Filling::Sparse)?.is_some())
    }

    /// Gives segments homes that have none yet, and were counted by `size`, at the master node; returns the homes in
    /// force. `None` where segments are of another size, which may have been settled meanwhile: they are to be counted
    /// anew.
    pub(crate) fn place(
        &self,
        homes: &[SegmentHome],
        size: SegmentSize,
        filling: Filling,
    ) -> Result<Option<Vec<SegmentHome>>> {
        let own = self.attachment.own();
        let (state, _) = self.attachment.writable()?;
        let mut made: Vec<SegmentIndex> = Vec::new();
        // Before, one of another size might be left: its file would count as damaged, and to remove it is only safe where
        // nobody else can have made the same.
        if state.is_segment_size_fixed() {
            if self.attachment.segment_size() != size {
                return Ok(None);
            }
            let wanted = homes.iter().filter(|(_, home)| Some(*home) == own).map(|(index, _)| *index);
            made.extend(wanted.filter(|index| self.attachment.home(*index) == Home::Hole));
        }
        for index in &made {
            // Before others hear of it.
            self.attachment.make_segment(*index, filling)?;
        }
        let given = self.give(homes, size, filling)?;
        // Others may have been faster. Storage for all of a segment is not to stay beside its home.
        let elsewhere = |index: &&SegmentIndex| matches!(self.attachment.home(**index), Home::There(_));
        made.iter().filter(elsewhere).for_each(|index| self.attachment.unmake_segment(*index));
        Ok(given)
    }

    fn give(
        &self,
        homes: &[SegmentHome],
        size: SegmentSize,
        filling: Filling,
    ) -> Result<Option<Vec<SegmentHome>>> {
        let roster = &self.cluster.context().roster;
        let given = if roster.is_master_node() {
            self.attachment.give_homes(homes, size, filling)?
        } else {
            let file = self.attachment.id();
            let request = Request::Place { file, homes: homes.to_vec(), segment_size: size };
            match self.cluster.ask(Roster::MASTER, &request)? {
                Reply::Homes { homes, also_locked_at_master } => {
                    // From here on it is known, also to this node, that it stays so.
                    self.attachment.writable()?.0.fix_segment_size();
                    Given::Homes(self.attachment.note_homes(&homes, filling, also_locked_at_master)?)
                }
                Reply::OtherSize(size) => {
                    let (state, _) = self.attachment.writable()?;
                    size.into_iter().for_each(|size| state.set_segment_size(size));
                    Given::OtherSize(size)
                }
                _ => return Err(self.cluster.context().out_of_place(Roster::MASTER)),
            }
        };
        Ok(match given {
            Given::Homes(homes) => Some(homes),
            Given::OtherSize(Some(_)) => None,
            Given::OtherSize(None) => {
                // Who is lost over that does not come to its end.
                self.lost_leader().map_or(Ok(()), Err)?;
                std::thread::sleep(PAUSE);
                None
            }
        })
    }

    /// Where a segment is, which was counted by `size` and gets `wanted` for its home if it has none; `None` as for
    /// [`SharedFile::place`].
    pub(crate) fn claim(
        &self,
        index: SegmentIndex,
        size: SegmentSize,
        wanted: NodeIndex,
        filling: Filling,
    ) -> Result<Option<Home>> {
        match self.attachment.home(index) {
            Home::Hole => {
                let placed = self.place(&[(index, self.position_of(wanted)?)], size, filling)?;
                Ok(placed.map(|_| self.attachment.home(index)))
            }
            home => Ok(Some(home)),
        }
    }
}
