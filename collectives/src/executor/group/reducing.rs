//! Data combined: allreduce, reduce, reduce_scatter.

use super::{CARD_BYTES, Group};
use crate::executor::arguments;
use crate::executor::blocks::part;
use crate::executor::board::{Words, words_of};
use crate::executor::error::Result;
use crate::executor::operation::Operation;

/// Members whose cards are combined by one call of the operation.
const TOGETHER: usize = 16;

impl Group {
    /// `data` becomes, for all, all members' `data` combined in the order of members.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length) where it is no whole number of elements; the fabric's, for a
    /// lost member.
    pub fn allreduce(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.check_elements(data.len(), operation)?;
        if self.size() == 1 {
            return Ok(());
        }
        if data.len() <= CARD_BYTES {
            let own = words_of(data);
            let turn = self.hold_meeting(&own[..data.len().div_ceil(size_of::<u64>())])?;
            self.combine_words(&own, data, operation, |member, into| {
                self.board.take_from_meeting(member, turn, into);
            });
        } else if self.is_reduced_alone(data.len()) {
            let number = self.begin()?;
            self.put(number, data)?;
            self.await_all(number)?;
            self.fold_slots(number, 0, data, operation)?;
        } else {
            let pieces = self.piece(operation);
            for piece in data.chunks_mut(pieces) {
                let number = self.reduce_shares(piece, operation)?;
                self.await_all(number)?;
                for member in 0..self.size() {
                    let share = self.share_of(member, piece.len(), operation);
                    self.memories.read(member, number, 0, &mut piece[share])?;
                }
            }
        }
        self.leave();
        Ok(())
    }

    /// `data` becomes, at `root`, all members' `data` combined in the order of members; elsewhere it stays.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember).
    pub fn reduce(&mut self, root: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        if self.own != root {
            return self.reduce_to(root, data, operation);
        }
        self.check_elements(data.len(), operation)?;
        if self.size() == 1 {
            return Ok(());
        }
        if self.is_given_at_once(data.len()) {
            let number = self.begin()?;
            self.put(number, data)?;
            self.await_all(number)?;
            if data.len() <= CARD_BYTES {
                let own = words_of(data);
                self.combine_words(&own, data, operation, |member, into| {
                    self.board.take(member, number, into)
                });
            } else {
                self.fold_slots(number, 0, data, operation)?;
            }
            self.finish(number);
            self.leave();
            return Ok(());
        }
        let pieces = self.piece(operation);
        for piece in data.chunks_mut(pieces) {
            let number = self.reduce_shares(piece, operation)?;
            self.await_all(number)?;
            for member in 0..self.size() {
                let share = self.share_of(member, piece.len(), operation);
                self.memories.read(member, number, 0, &mut piece[share])?;
            }
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// [`reduce`](Self::reduce) as a member other than its root, which only reads.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); [`Error::IsRoot`](crate::executor::Error::IsRoot).
    pub fn reduce_to(&mut self, root: usize, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.check_member(root)?;
        self.tell(arguments::check_is_not_root(self.own, root))?;
        self.check_elements(data.len(), operation)?;
        if self.is_given_at_once(data.len()) {
            let number = self.begin()?;
            self.put(number, data)?;
            self.finish(number);
            self.leave();
            return Ok(());
        }
        for piece in data.chunks(self.piece(operation)) {
            let number = self.reduce_shares(piece, operation)?;
            self.finish(number);
            self.leave();
        }
        Ok(())
    }

    /// All members' `data` combined in the order of members and divided among them: member `i` gets `counts[i]` bytes,
    /// behind those of the members before. `counts` are the same everywhere.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn reduce_scatter(
        &mut self,
        data: &[u8],
        counts: &[usize],
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        self.check_length("the list of counts", counts.len(), self.size())?;
        self.check_length("what is combined", data.len(), counts.iter().sum())?;
        self.check_length("what is received", into.len(), counts[self.own])?;
        counts.iter().try_for_each(|&count| self.check_elements(count, operation))?;
        let mut begin = 0;
        let blocks: Vec<_> = counts
            .iter()
            .map(|count| {
                begin += count;
                begin - count..begin
            })
            .collect();
        let width = operation.width();
        let share = (self.portion() / width * width).max(width);
        self.check_length("an element", width, width.min(self.portion()))?;
        let longest = counts.iter().copied().max().unwrap_or(0);
        for piece in 0..longest.div_ceil(share) {
            let number = self.begin()?;
            for member in 0..self.size() {
                let bytes = &data[part(blocks[member].clone(), piece, share)];
                self.memories.write(self.own, number, member * share, bytes)?;
            }
            self.publish(number, &[]);
            self.await_all(number)?;
            let own = part(0..into.len(), piece, share);
            self.fold_slots(number, self.own * share, &mut into[own], operation)?;
        }
        self.leave();
        Ok(())
    }

    /// Each member combines its share of all members' `piece` and publishes it, at the beginning of its slot, for the
    /// operation that is returned.
    fn reduce_shares(&mut self, piece: &[u8], operation: &dyn Operation) -> Result<u64> {
        let number = self.begin()?;
        self.memories.write(self.own, number, 0, piece)?;
        self.publish(number, &[]);
        let result = self.begin()?;
        self.await_all(number)?;
        let share = self.share_of(self.own, piece.len(), operation);
        // SAFETY: this member's own slot of an operation that it began and has not published for.
        let into = unsafe { self.memories.bytes_mut(self.own, result, 0, share.len()) }?;
        self.fold_slots(number, share.start, into, operation)?;
        self.publish(result, &[]);
        Ok(result)
    }

    /// Which bytes of a piece a member combines.
    fn share_of(&self, member: usize, length: usize, operation: &dyn Operation) -> std::ops::Range<usize> {
        let width = operation.width();
        // Whole cache lines where that is possible: no two members write into one.
        let unit = if 64 % width == 0 { 64 } else { width };
        let share = length.div_ceil(unit).div_ceil(self.size()) * unit;
        length.min(member * share)..length.min((member + 1) * share)
    }

    /// Bytes of the longest piece of whole elements.
    pub(super) fn piece(&self, operation: &dyn Operation) -> usize {
        self.settings.slot / operation.width() * operation.width()
    }

    /// Whether each member gives all that it has in one operation.
    fn is_given_at_once(&self, length: usize) -> bool {
        length <= CARD_BYTES || self.is_reduced_alone(length)
    }

    fn is_reduced_alone(&self, length: usize) -> bool {
        length * self.size() <= self.settings.reduced_alone && length <= self.settings.slot
    }

    #[inline]
    pub(super) fn check_elements(&mut self, length: usize, operation: &dyn Operation) -> Result<()> {
        self.tell(arguments::check_elements(length, operation))?;
        let width = operation.width().max(1);
        self.check_length("an element", width, width.min(self.settings.slot))
    }

    /// `data` becomes what all have on their cards, combined: from the last member on, as the operation wants it.
    /// `take` gives what another member has; this one has its `own`, since what it has just written may be with another
    /// core by now.
    #[inline]
    fn combine_words(
        &self,
        own: &Words,
        data: &mut [u8],
        operation: &dyn Operation,
        take: impl Fn(usize, &mut [u8]),
    ) {
        // The room for others' data is cleared before: no more of it than is of use.
        match data.len() {
            0 => {}
            1..=8 => self.combine_within::<{ TOGETHER * 8 }>(own, data, operation, take),
            _ => self.combine_within::<{ TOGETHER * CARD_BYTES }>(own, data, operation, take),
        }
    }

    /// The same of `data` of which [`TOGETHER`] have room in so many bytes.
    #[inline]
    fn combine_within<const ROOM: usize>(
        &self,
        own: &Words,
        data: &mut [u8],
        operation: &dyn Operation,
        take: impl Fn(usize, &mut [u8]),
    ) {
        let (length, last) = (data.len(), self.size() - 1);
        let own = own.map(u64::to_ne_bytes);
        let take = |member, into: &mut [u8]| {
            if member == self.own {
                into.copy_from_slice(&own.as_flattened()[..length]);
            } else {
                take(member, into);
            }
        };
        take(last, data);
        let mut room = [0; ROOM];
        let mut end = last;
        while end > 0 {
            let members = end.saturating_sub(TOGETHER)..end;
            end = members.start;
            let lefts = &mut room[..members.len() * length];
            lefts.chunks_exact_mut(length).zip(members).for_each(|(left, member)| take(member, left));
            operation.fold(lefts, data);
        }
    }

    /// `into` becomes what all have published in their slots from `at` on, combined.
    pub(super) fn fold_slots(
        &self,
        number: u64,
        at: usize,
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let last = self.size() - 1;
        self.memories.read(last, number, at, into)?;
        for member in (0..last).rev() {
            // SAFETY: all have published for `number`, and this member finishes with it after its caller's return.
            let left = unsafe { self.memories.bytes(member, number, at, into.len()) }?;
            operation.combine(left, into);
        }
        Ok(())
    }
}
