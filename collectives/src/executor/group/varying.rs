//! Gather, scatter and alltoall of blocks of different lengths, of which each member knows only its own. Short ones go
//! through slots. Where one is longer, who has it says so, and lends the memory in which it is; or, where nobody can copy
//! from it, says how many pieces there will be.

use std::ops::Range;

use svmio_transport::UserMemory;

use super::Group;
use super::moving::part;
use crate::executor::board::WORDS;
use crate::executor::error::Result;
use crate::executor::operation::Elementwise;

/// Bytes of an offset in a table of them.
const OFFSET: usize = size_of::<u64>();

impl Group {
    /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gatherv(
        &mut self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            self.check_blocks(blocks, into.len())?;
            self.check_length("the root's own block", blocks[root].len(), own.len())?;
            into[blocks[root].clone()].copy_from_slice(own);
        }
        self.gatherv_others(root, own.len(), own, into, blocks)
    }

    /// All but the root's own, which is there and has `length` bytes.
    pub(super) fn gatherv_others(
        &mut self,
        root: usize,
        length: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        if !self.copies_directly {
            let mut longest = (length as u64).to_ne_bytes();
            self.allreduce(&mut longest, &Elementwise::commutative(u64::max))?;
            let longest = u64::from_ne_bytes(longest) as usize;
            return self.gather_pieces(root, own, into, longest, |member| blocks[member].clone());
        }
        let slot = self.settings.slot;
        if self.own == root {
            let number = self.begin_silently();
            for member in self.others() {
                let into = &mut into[blocks[member].clone()];
                if into.len() <= slot {
                    self.await_member(member, number)?;
                    self.take(member, number, into)?;
                } else {
                    let remote = self.memory_of(member, number)?;
                    self.fabric.read(&remote, 0, into)?;
                }
            }
            self.finish(number);
        } else if own.len() <= slot {
            let number = self.begin()?;
            self.put(number, own)?;
            self.finish(number);
        } else {
            let number = self.begin()?;
            let registration = self.register(UserMemory::of(own))?;
            self.publish(number, &registration.key().0);
            self.finish(number);
            self.await_finished_by(root, number)?;
        }
        self.leave();
        Ok(())
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
        self.check_member(root)?;
        if self.own == root {
            return self.scatter_from_here(data, blocks, into);
        }
        let (share, mut piece) = (self.share(), 0);
        loop {
            let number = self.begin_silently();
            self.await_member(root, number)?;
            let pieces = self.board.words(root, number)[0] as usize;
            if pieces == 0 {
                let remote = self.lent_by(root, number);
                let offset = self.offset_in_slot(root, number)?;
                self.fabric.read(&remote, offset, into)?;
            } else {
                let length = into.len();
                self.memories.read(
                    root,
                    number,
                    self.own * share,
                    &mut into[part(0..length, piece, share)],
                )?;
            }
            self.finish(number);
            self.leave();
            piece += 1;
            if piece >= pieces {
                return Ok(());
            }
        }
    }

    fn scatter_from_here(&mut self, data: &[u8], blocks: &[Range<usize>], into: &mut [u8]) -> Result<()> {
        self.check_blocks(blocks, data.len())?;
        self.check_length("the root's own block", blocks[self.own].len(), into.len())?;
        into.copy_from_slice(&data[blocks[self.own].clone()]);
        self.scatter_to_others(data, blocks)
    }

    pub(super) fn scatter_to_others(&mut self, data: &[u8], blocks: &[Range<usize>]) -> Result<()> {
        if self.is_lent(blocks) {
            let number = self.begin()?;
            let registration = self.register(UserMemory::of(data))?;
            self.publish_loan(number, registration.key().0, blocks)?;
            self.finish(number);
            self.await_finished(number)?;
        } else {
            let pieces = self.pieces(blocks);
            for piece in 0..pieces {
                let number = self.begin()?;
                self.publish_pieces(number, data, blocks, piece, pieces)?;
                self.finish(number);
                self.leave();
            }
        }
        self.leave();
        Ok(())
    }

    /// Each gets from each: block `i` of `data`, by `sent`, goes to member `i`; into block `j` of `into`, by `received`,
    /// comes what member `j` has for this one.
    ///
    /// Blocks are ranges of bytes: they may lie anywhere, in any order, those of `sent` also over each other, and each pair
    /// of members has a length of its own. So elements of a different size for each pair, as MPI's `alltoallw` has them,
    /// need no other operation as long as each block is contiguous.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length); the fabric's, for a lost member.
    pub fn alltoallv(
        &mut self,
        data: &[u8],
        sent: &[Range<usize>],
        into: &mut [u8],
        received: &[Range<usize>],
    ) -> Result<()> {
        self.check_blocks(sent, data.len())?;
        self.check_blocks(received, into.len())?;
        let own = &data[sent[self.own].clone()];
        self.check_length("what a member sends to itself", own.len(), received[self.own].len())?;
        into[received[self.own].clone()].copy_from_slice(own);
        let registration = self.is_lent(sent).then(|| self.register(UserMemory::of(data))).transpose()?;
        let own_pieces = if registration.is_some() { 0 } else { self.pieces(sent) };
        let (share, mut piece, mut most) = (self.share(), 0, 1);
        let mut number = self.number;
        while piece < most {
            number = self.begin()?;
            match &registration {
                Some(registration) if piece == 0 => {
                    self.publish_loan(number, registration.key().0, sent)?;
                }
                _ => self.publish_pieces(number, data, sent, piece, own_pieces)?,
            }
            for member in self.others() {
                self.await_member(member, number)?;
                let into = &mut into[received[member].clone()];
                let pieces = self.board.words(member, number)[0] as usize;
                most = most.max(pieces);
                if piece < pieces {
                    let length = into.len();
                    let into = &mut into[part(0..length, piece, share)];
                    self.memories.read(member, number, self.own * share, into)?;
                } else if pieces == 0 && piece == 0 {
                    let remote = self.lent_by(member, number);
                    let offset = self.offset_in_slot(member, number)?;
                    self.fabric.read(&remote, offset, into)?;
                }
            }
            most = most.max(own_pieces);
            self.finish(number);
            self.leave();
            piece += 1;
        }
        if registration.is_some() {
            self.await_finished(number)?;
        }
        Ok(())
    }

    /// Whether blocks are so long that their memory is lent.
    fn is_lent(&self, blocks: &[Range<usize>]) -> bool {
        self.copies_directly && self.pieces(blocks) > 1
    }

    /// How many pieces the longest block has: at least one.
    fn pieces(&self, blocks: &[Range<usize>]) -> usize {
        blocks.iter().map(Range::len).max().unwrap_or(0).div_ceil(self.share()).max(1)
    }

    /// Publishes a piece of each block, and how many there are.
    fn publish_pieces(
        &mut self,
        number: u64,
        data: &[u8],
        blocks: &[Range<usize>],
        piece: usize,
        pieces: usize,
    ) -> Result<()> {
        let share = self.share();
        for member in self.others() {
            let bytes = &data[part(blocks[member].clone(), piece, share)];
            self.memories.write(self.own, number, member * share, bytes)?;
        }
        self.publish(number, &[pieces as u64]);
        Ok(())
    }

    /// Publishes where the blocks are in memory that is lent under a key.
    fn publish_loan(&mut self, number: u64, key: [u64; 3], blocks: &[Range<usize>]) -> Result<()> {
        for (member, block) in blocks.iter().enumerate() {
            let offset = (block.start as u64).to_ne_bytes();
            self.memories.write(self.own, number, member * OFFSET, &offset)?;
        }
        let [start, length, stamp] = key;
        self.publish(number, &[0, start, length, stamp]);
        Ok(())
    }

    /// Where this member's block is in the memory that another one lends.
    fn offset_in_slot(&self, member: usize, number: u64) -> Result<u64> {
        let mut offset = [0; OFFSET];
        self.memories.read(member, number, self.own * OFFSET, &mut offset)?;
        Ok(u64::from_ne_bytes(offset))
    }

    /// The memory that a member lends by its card for operation `number`, which was seen.
    fn lent_by(&self, member: usize, number: u64) -> svmio_transport::back_end::Remote {
        let words = self.board.words(member, number);
        self.remote(member, std::array::from_fn(|at| words[(at + 1) % WORDS]))
    }
}
