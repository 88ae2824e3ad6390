//! Gather, scatter and alltoall of blocks of different lengths, of which each member knows only its own. Short ones go
//! through slots. Where one is longer, who has it says so, and lends the memory in which it is, or, of a gather, the
//! root that in which it is going to be; where nobody can copy from it or to it, pieces go through slots.

use std::ops::Range;

use svmio_transport::back_end::Piece;
use svmio_transport::{Registration, UserMemory};

use super::Group;
use crate::executor::blocks::{apart, apart_mut, longest, piece_of, room_of};
use crate::executor::board::{Awaited, Deed, Whom};
use crate::executor::error::{Error, Result};
use crate::executor::operation::Elementwise;

/// Bytes of a key of lent memory in a table of them.
const KEY: usize = 3 * size_of::<u64>();

/// The key of memory that nobody has.
const NO_ROOM: [u64; 3] = [0; 3];

/// What a member publishes for operation `number` that has a block of so many bytes, more than a slot has; a root,
/// without a length, that has places for such blocks; and nobody by chance.
fn long_mark(number: u64, length: usize) -> [u64; 3] {
    [number, !number, length as u64]
}

/// What a member publishes that lends its memory instead of sending pieces.
const LENT: u64 = 0;

impl Group {
    /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather); also for blocks that lie over each other, and [`Error::Unequal`] for a long one
    /// that has another length at the other end.
    pub fn gatherv(
        &mut self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        let mut apart = if self.own == root { self.tell(apart_mut(into, blocks))? } else { Vec::new() };
        self.gather_blocks(root, own, &mut apart)
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`gatherv`](Self::gatherv).
    pub fn gather_blocks(&mut self, root: usize, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            self.check_count(blocks.len())?;
            self.check_length("the root's own block", blocks[root].len(), own.len())?;
            blocks[root].copy_from_slice(own);
        }
        self.gather_other_blocks(root, own.len(), own, blocks)
    }

    /// All but the root's own, which is there and has `length` bytes.
    pub(super) fn gather_other_blocks(
        &mut self,
        root: usize,
        length: usize,
        own: &[u8],
        blocks: &mut [&mut [u8]],
    ) -> Result<()> {
        if !self.copies_directly {
            let mut longest = (length as u64).to_ne_bytes();
            self.allreduce(&mut longest, &Elementwise::commutative(u64::max))?;
            let longest = u64::from_ne_bytes(longest) as usize;
            return self.gather_pieces(root, own, blocks, longest);
        }
        let slot = self.settings.slot;
        if self.own == root {
            self.gather_at_root(blocks)?;
        } else if own.len() <= slot {
            let number = self.begin()?;
            self.put(number, own)?;
            self.finish(number);
        } else {
            let number = self.begin()?;
            self.publish(number, &long_mark(number, own.len()));
            self.await_member(root, number)?;
            // The root may have gone since, with an error: then nobody keeps its memory.
            self.check(Awaited { whom: Whom::Member(root), deed: Deed::Published, number })?;
            let key = self.read_key(root, number)?;
            if self.long_at(root, number).is_none() || key == NO_ROOM {
                return self.differs(root, number, own.len());
            }
            let room = self.remote(root, key);
            self.push(number, &room, Piece { offset: 0, bytes: own })?;
            self.finish(number);
        }
        self.leave();
        Ok(())
    }

    /// The root's part: short blocks it takes, into its places for long ones others write.
    fn gather_at_root(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let slot = self.settings.slot;
        let lends = self.others().any(|member| blocks[member].len() > slot);
        if !lends {
            let number = self.begin_silently();
            self.take_or_await(number, blocks)?;
            self.finish(number);
            return Ok(());
        }
        let number = self.begin()?;
        let _rooms = self.lend_rooms(number, blocks)?;
        if let Err(error) = self.take_or_await(number, blocks) {
            // Who comes later finds no place to write to. The error that came first is the one to be told.
            let _ = self.others().try_for_each(|member| self.write_key(number, member, NO_ROOM));
            return Err(error);
        }
        self.finish(number);
        Ok(())
    }

    /// Publishes keys of the blocks that are longer than a slot, into which those who have them write side by side.
    fn lend_rooms(&mut self, number: u64, blocks: &mut [&mut [u8]]) -> Result<Vec<Registration>> {
        let slot = self.settings.slot;
        let mut registrations = Vec::with_capacity(blocks.len());
        for member in self.others() {
            let block = &mut *blocks[member];
            let mut key = NO_ROOM;
            if block.len() > slot {
                let registration = self.register(UserMemory::of_mut(block))?;
                key = registration.key().0;
                registrations.push(registration);
            }
            self.write_key(number, member, key)?;
        }
        self.publish(number, &long_mark(number, 0));
        Ok(registrations)
    }

    /// Takes short blocks, and waits until long ones have been written.
    fn take_or_await(&mut self, number: u64, blocks: &mut [&mut [u8]]) -> Result<()> {
        let slot = self.settings.slot;
        for member in self.others() {
            let length = blocks[member].len();
            self.await_member(member, number)?;
            let expected = (length > slot).then_some(length as u64);
            if self.long_at(member, number) != expected {
                return self.differs(member, number, length);
            }
            if expected.is_none() {
                self.take(member, number, &mut *blocks[member])?;
            }
        }
        for member in self.others().filter(|&member| blocks[member].len() > slot) {
            self.await_finished_by(member, number)?;
        }
        Ok(())
    }

    /// How long the block of a member is that has said for operation `number` that it is long.
    fn long_at(&self, member: usize, number: u64) -> Option<u64> {
        let [first, second, length] = *self.board.words(member, number).first_chunk()?;
        ([first, second] == long_mark(number, 0)[..2]).then_some(length)
    }

    /// That a block of operation `number` has another length at the other end, which all are told.
    fn differs(&mut self, member: usize, number: u64, length: usize) -> Result<()> {
        let error = Error::Unequal { member, length };
        self.refuse(number, &error);
        Err(error)
    }

    /// All get their block of `root`'s `data`, as long as `into`; elsewhere `data` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatterv(
        &mut self,
        root: usize,
        data: &[u8],
        blocks: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        let apart = if self.own == root { self.tell(apart(data, blocks))? } else { Vec::new() };
        self.scatter_blocks(root, &apart, into)
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatter_blocks(&mut self, root: usize, blocks: &[&[u8]], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            self.check_count(blocks.len())?;
            self.check_length("the root's own block", blocks[root].len(), into.len())?;
            into.copy_from_slice(blocks[root]);
            return self.scatter_to_others(blocks);
        }
        let (share, mut piece) = (self.portion(), 0);
        loop {
            let number = self.begin_silently();
            self.await_member(root, number)?;
            let pieces = self.board.words(root, number)[0];
            if pieces == LENT {
                self.read_lent(root, number, into)?;
            } else {
                self.memories.read(root, number, self.own * share, room_of(into, piece, share))?;
            }
            self.finish(number);
            self.leave();
            piece += 1;
            if piece >= pieces as usize {
                return Ok(());
            }
        }
    }

    pub(super) fn scatter_to_others(&mut self, blocks: &[&[u8]]) -> Result<()> {
        if self.is_lent(blocks) {
            let number = self.begin()?;
            let _registrations = self.lend_blocks(number, blocks)?;
            self.finish(number);
            self.await_finished(number)?;
        } else {
            let pieces = self.pieces(blocks);
            for piece in 0..pieces {
                let number = self.begin()?;
                self.publish_pieces(number, blocks, piece, pieces)?;
                self.finish(number);
                self.leave();
            }
        }
        self.leave();
        Ok(())
    }

    /// Each gets from each: block `i` of `data`, by `sent`, goes to member `i`; into block `j` of `into`, by
    /// `received`, comes what member `j` has for this one.
    ///
    /// Blocks are ranges of bytes: they may lie anywhere, in any order, those of `sent` also over each other, and each
    /// pair of members has a length of its own. So elements of a different size for each pair, as MPI's `alltoallw` has
    /// them, need no other operation as long as each block is contiguous.
    ///
    /// # Errors
    /// [`Error::Length`], also for blocks of `received` that lie over each other; the fabric's, for a lost member.
    pub fn alltoallv(
        &mut self,
        data: &[u8],
        sent: &[Range<usize>],
        into: &mut [u8],
        received: &[Range<usize>],
    ) -> Result<()> {
        let sent = self.tell(apart(data, sent))?;
        let mut received = self.tell(apart_mut(into, received))?;
        self.alltoall_blocks(&sent, &mut received)
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`alltoallv`](Self::alltoallv).
    pub fn alltoall_blocks(&mut self, sent: &[&[u8]], received: &mut [&mut [u8]]) -> Result<()> {
        self.check_count(sent.len())?;
        self.check_count(received.len())?;
        let own = sent[self.own];
        self.check_length("what a member sends to itself", own.len(), received[self.own].len())?;
        received[self.own].copy_from_slice(own);
        let lends = self.is_lent(sent);
        let mut registrations = Vec::new();
        let own_pieces = if lends { LENT as usize } else { self.pieces(sent) };
        let (share, mut piece, mut most) = (self.portion(), 0, 1);
        let mut number = self.number;
        while piece < most {
            number = self.begin()?;
            if lends && piece == 0 {
                registrations = self.lend_blocks(number, sent)?;
            } else {
                self.publish_pieces(number, sent, piece, own_pieces)?;
            }
            for member in self.others() {
                self.await_member(member, number)?;
                let into = &mut *received[member];
                let pieces = self.board.words(member, number)[0] as usize;
                most = most.max(pieces);
                if piece < pieces {
                    let into = room_of(into, piece, share);
                    self.memories.read(member, number, self.own * share, into)?;
                } else if pieces == LENT as usize && piece == 0 {
                    self.read_lent(member, number, into)?;
                }
            }
            most = most.max(own_pieces);
            self.finish(number);
            self.leave();
            piece += 1;
        }
        if lends {
            self.await_finished(number)?;
        }
        drop(registrations);
        Ok(())
    }

    /// Whether blocks are so long that their memory is lent.
    fn is_lent(&self, blocks: &[&[u8]]) -> bool {
        self.copies_directly && self.pieces(blocks) > 1
    }

    /// How many pieces the longest block has: at least one.
    fn pieces(&self, blocks: &[&[u8]]) -> usize {
        longest(blocks).div_ceil(self.portion()).max(1)
    }

    /// Publishes a piece of each block, and how many there are.
    fn publish_pieces(&mut self, number: u64, blocks: &[&[u8]], piece: usize, pieces: usize) -> Result<()> {
        let share = self.portion();
        for member in self.others() {
            let bytes = piece_of(blocks[member], piece, share);
            self.memories.write(self.own, number, member * share, bytes)?;
        }
        self.publish(number, &[pieces as u64]);
        Ok(())
    }

    /// Publishes the keys of blocks that are lent, each by itself: what is between them, is nobody's.
    fn lend_blocks(&mut self, number: u64, blocks: &[&[u8]]) -> Result<Vec<Registration>> {
        let mut registrations = Vec::with_capacity(blocks.len());
        for member in self.others().filter(|&member| !blocks[member].is_empty()) {
            let registration = self.register(UserMemory::of(blocks[member]))?;
            self.write_key(number, member, registration.key().0)?;
            registrations.push(registration);
        }
        self.publish(number, &[LENT]);
        Ok(registrations)
    }

    /// Puts the key of memory that is lent to `member` into its place of the table.
    fn write_key(&mut self, number: u64, member: usize, key: [u64; 3]) -> Result<()> {
        for (at, word) in key.iter().enumerate() {
            let place = member * KEY + at * size_of::<u64>();
            self.memories.write(self.own, number, place, &word.to_ne_bytes())?;
        }
        Ok(())
    }

    /// The key of memory that `member` lends to this one.
    fn read_key(&mut self, member: usize, number: u64) -> Result<[u64; 3]> {
        let mut key = [0; KEY];
        self.memories.read(member, number, self.own * KEY, &mut key)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| key[8 * at + byte]));
        Ok(std::array::from_fn(word))
    }

    /// Reads the block that a member lends to this one by operation `number`, for which it was seen to have published.
    fn read_lent(&mut self, member: usize, number: u64, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let key = self.read_key(member, number)?;
        let remote = self.remote(member, key);
        self.pull(number, &remote, 0, into)
    }
}
