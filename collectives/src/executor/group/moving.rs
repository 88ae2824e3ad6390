//! Data from member to member: bcast, gather, scatter, allgather, alltoall, where all know all lengths.

use std::ops::Range;

use super::two_ways::{ForAll, Watch, Way};
use super::{CARD_BYTES, Group};
use crate::executor::blocks::{Given, Room, Row, apart_mut, copy, longest, piece_of, room_of};
use crate::executor::board::words_of;
use crate::executor::error::Result;

impl Group {
    /// All get `root`'s `data`, which has the same length everywhere.
    ///
    /// # Errors
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            return self.bcast_from(data);
        }
        if let Some(of_two) = self.of_two(ForAll::Bcast, data.len()) {
            return self.copy_one_way(of_two, |group, way, watch| match way {
                Way::Slots => group.bcast_pieces(root, data, watch),
                Way::Directly => group.bcast_halves(data, watch),
            });
        }
        self.bcast_pieces(root, data, &mut Watch::idle())
    }

    fn bcast_pieces(&mut self, root: usize, data: &mut [u8], watch: &mut Watch) -> Result<()> {
        let (slot, whole) = (self.settings.slot, data.len());
        for piece in data.chunks_mut(slot) {
            let number = self.begin_silently();
            watch.meet(|| self.await_member(root, number))?;
            self.take_part(root, number, piece, whole)?;
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// [`bcast`](Self::bcast) as its root, which is this member, and only reads.
    ///
    /// # Errors
    /// As [`bcast`](Self::bcast).
    pub fn bcast_from(&mut self, data: &[u8]) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        if let Some(of_two) = self.of_two(ForAll::Bcast, data.len()) {
            return self.copy_one_way(of_two, |group, way, watch| match way {
                Way::Slots => group.bcast_pieces_from(data),
                Way::Directly => group.bcast_halves_from(data, watch),
            });
        }
        self.bcast_pieces_from(data)
    }

    fn bcast_pieces_from(&mut self, data: &[u8]) -> Result<()> {
        for piece in data.chunks(self.settings.slot) {
            let number = self.begin()?;
            self.put(number, piece)?;
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// All get all members' `own`, which have the same length, one behind the other.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn allgather(&mut self, own: &[u8], into: &mut [u8]) -> Result<()> {
        let length = own.len();
        self.check_length("what is gathered", into.len(), length * self.size())?;
        self.share(Some(own), &mut Row { bytes: into, length }, length)
    }

    /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's own is
    /// there already.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length), also for blocks that lie over each other; the fabric's, for a
    /// lost member.
    pub fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let mut apart = self.tell(apart_mut(data, blocks))?;
        self.allgather_blocks(&mut apart)
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`allgatherv`](Self::allgatherv).
    pub fn allgather_blocks(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.check_count(blocks.len())?;
        self.share(None, blocks, longest(blocks))
    }

    /// The same, where each member's own is what it gives: `own`.
    ///
    /// # Errors
    /// As [`allgather_blocks`](Self::allgather_blocks).
    pub fn allgather_blocks_from(&mut self, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.check_count(blocks.len())?;
        self.check_length("what a member gives to all", own.len(), blocks[self.own].len())?;
        self.share(Some(own), blocks, longest(blocks))
    }

    /// All get each member's block, of at most `longest` bytes; this member's is `own`, or where it has to be already.
    pub(super) fn share(
        &mut self,
        own: Option<&[u8]>,
        blocks: &mut (impl Room + ?Sized),
        longest: usize,
    ) -> Result<()> {
        if self.size() == 1 {
            if let Some(own) = own {
                copy(own, blocks.of(self.own), longest);
            }
            return Ok(());
        }
        if let Some(of_two) = self.of_two(ForAll::Allgather, longest) {
            return self.copy_one_way(of_two, |group, way, watch| match way {
                Way::Slots => group.share_pieces(own, blocks, longest, watch),
                Way::Directly => group.exchange_blocks(own, blocks, watch),
            });
        }
        self.share_pieces(own, blocks, longest, &mut Watch::idle())
    }

    /// Each piece is published before the one before is read: who is late holds up nobody for more than a piece.
    fn share_pieces(
        &mut self,
        own: Option<&[u8]>,
        blocks: &mut (impl Room + ?Sized),
        longest: usize,
        watch: &mut Watch,
    ) -> Result<()> {
        let slot = self.settings.slot;
        let (pieces, whole) = (longest.div_ceil(slot), longest.saturating_mul(self.size()));
        let (first, mut published) = (self.number + 1, 0);
        for piece in 0..pieces {
            while published < pieces.min(piece + 2) {
                let number = self.begin()?;
                let room = room_of(blocks.of(self.own), published, slot);
                if let Some(own) = own.map(|own| piece_of(own, published, slot)) {
                    // Twice, while it is in the caches.
                    self.put(number, own)?;
                    copy(own, room, whole);
                } else {
                    self.put(number, room)?;
                }
                published += 1;
            }
            let number = first + piece as u64;
            for member in self.others() {
                watch.meet(|| self.await_member(member, number))?;
                self.take_part(member, number, room_of(blocks.of(member), piece, slot), whole)?;
            }
            self.knows_published(number);
        }
        self.leave();
        Ok(())
    }

    /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is not used.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length),
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        let length = own.len();
        if self.own == root {
            self.check_length("what is gathered", into.len(), length * self.size())?;
            into[root * length..][..length].copy_from_slice(own);
        }
        self.gather_others(root, length, own, into)
    }

    /// All but the root's own, which is there.
    pub(super) fn gather_others(
        &mut self,
        root: usize,
        length: usize,
        own: &[u8],
        into: &mut [u8],
    ) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        if self.goes_directly(length) {
            return self.gather_directly(root, own, into);
        }
        self.gather_pieces(root, own, &mut Row { bytes: into, length }, length)
    }

    /// Pieces of blocks of at most `longest` bytes to `root`, into its `blocks`.
    pub(super) fn gather_pieces(
        &mut self,
        root: usize,
        own: &[u8],
        blocks: &mut (impl Room + ?Sized),
        longest: usize,
    ) -> Result<()> {
        let slot = self.settings.slot;
        for piece in 0..longest.div_ceil(slot) {
            let number;
            if self.own == root {
                number = self.begin_silently();
                for member in self.others() {
                    self.await_member(member, number)?;
                    self.take(member, number, room_of(blocks.of(member), piece, slot))?;
                }
            } else {
                number = self.begin()?;
                self.put(number, piece_of(own, piece, slot))?;
            }
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`; elsewhere
    /// `data` is not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        let length = into.len();
        if self.own == root {
            self.check_length("what is scattered", data.len(), length * self.size())?;
            into.copy_from_slice(&data[root * length..][..length]);
        }
        self.scatter_others(root, length, data, into)
    }

    /// All but the root's own part.
    pub(super) fn scatter_others(
        &mut self,
        root: usize,
        length: usize,
        data: &[u8],
        into: &mut [u8],
    ) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        if self.goes_directly(length) {
            return self.scatter_directly(root, data, into);
        }
        self.scatter_pieces(root, &Row { bytes: data, length }, into, length)
    }

    /// Pieces of `blocks` of at most `longest` bytes from `root`.
    fn scatter_pieces(
        &mut self,
        root: usize,
        blocks: &impl Given,
        into: &mut [u8],
        longest: usize,
    ) -> Result<()> {
        let share = self.portion();
        for piece in 0..longest.div_ceil(share) {
            let number;
            if self.own == root {
                number = self.begin()?;
                for member in self.others() {
                    let bytes = piece_of(blocks.of(member), piece, share);
                    self.memories.write(self.own, number, member * share, bytes)?;
                }
                self.publish(number, &[]);
            } else {
                number = self.begin_silently();
                self.await_member(root, number)?;
                self.memories.read(root, number, self.own * share, room_of(into, piece, share))?;
            }
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// Each gets from each: part `i` of `data` goes to member `i`, and into part `j` comes what member `j` has for this
    /// one. All parts are equally long.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn alltoall(&mut self, data: &[u8], into: &mut [u8]) -> Result<()> {
        let length = data.len() / self.size();
        self.check_length("what is sent", data.len(), length * self.size())?;
        self.check_length("what is received", into.len(), data.len())?;
        let own = self.own * length..(self.own + 1) * length;
        into[own.clone()].copy_from_slice(&data[own]);
        if self.goes_directly(length) {
            return self.alltoall_directly(data, into, length);
        }
        self.alltoall_pieces(&Row { bytes: data, length }, &mut Row { bytes: into, length }, length)
    }

    /// Pieces of blocks of at most `longest` bytes from each to each.
    fn alltoall_pieces(&mut self, sent: &impl Given, received: &mut impl Room, longest: usize) -> Result<()> {
        let share = self.portion();
        let pieces = longest.div_ceil(share);
        let (first, mut published) = (self.number + 1, 0);
        for piece in 0..pieces {
            while published < pieces.min(piece + 2) {
                let number = self.begin()?;
                for member in self.others() {
                    let bytes = piece_of(sent.of(member), published, share);
                    self.memories.write(self.own, number, member * share, bytes)?;
                }
                self.publish(number, &[]);
                published += 1;
            }
            let number = first + piece as u64;
            for member in self.others() {
                self.await_member(member, number)?;
                let into = room_of(received.of(member), piece, share);
                self.memories.read(member, number, self.own * share, into)?;
            }
            self.knows_published(number);
        }
        self.leave();
        Ok(())
    }

    /// The members but this one, the next first: no two begin with the same one.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (own, size) = (self.own, self.size());
        (1..size).map(move |distance| (own + distance) % size)
    }

    /// Bytes of a slot for each member.
    pub(super) fn portion(&self) -> usize {
        self.settings.portion(self.size())
    }

    /// Whether data of that length is copied between private memories.
    pub(super) fn goes_directly(&self, length: usize) -> bool {
        self.copies_directly && length >= self.settings.direct.max(1)
    }

    /// Publishes at most a slot of bytes.
    #[inline]
    pub(super) fn put(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= CARD_BYTES {
            self.publish(number, &words_of(bytes));
        } else {
            self.memories.write(self.own, number, 0, bytes)?;
            self.publish(number, &[]);
        }
        Ok(())
    }

    /// Takes what a member has [put](Self::put), of that length.
    #[inline]
    pub(super) fn take(&self, member: usize, number: u64, into: &mut [u8]) -> Result<()> {
        self.take_part(member, number, into, into.len())
    }

    /// The same of a part of `whole` bytes that come together.
    #[inline]
    fn take_part(&self, member: usize, number: u64, into: &mut [u8], whole: usize) -> Result<()> {
        if into.len() <= CARD_BYTES {
            self.board.take(member, number, into);
            return Ok(());
        }
        self.memories.read_part(member, number, into, whole)
    }
}
