//! Remote writes, and interrupts with them: by messages what is short, directly what is long.

use super::here;
use crate::back_end::{Piece, Remote};
use crate::error::Result;
use crate::ofi::TRANSACTION_SIZE;
use crate::ofi::adapter::{Adapter, Target};
use crate::ofi::wire::Message;
use crate::units::{Interrupt, Rank};

impl Adapter {
    /// Which memory all `pieces` go to, if there are any, and how many bytes they have.
    fn resolve_all(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<(Option<Target>, usize)> {
        let mut total = 0;
        let mut target = None;
        for piece in pieces {
            target = Some(self.resolve(remote, piece.offset, piece.bytes.len())?);
            total += piece.bytes.len();
        }
        Ok((target, total))
    }

    pub(super) fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        let (Some(target), total) = self.resolve_all(remote, pieces)? else { return Ok(()) };
        let peer = self.peer(remote.owner)?;
        if remote.owner == self.rank() {
            let mut pieces = pieces.iter();
            let written = self.exports.with(target.memory.key, |memory| {
                pieces.all(|piece| memory.write(target.memory.place(piece.offset), piece.bytes))
            });
            self.waiters.look_again();
            return here(written, remote.owner, 0, total);
        }
        if total <= self.longest_by_message() {
            return self.write_by_messages(peer, &target, pieces, None);
        }
        // Runs of short pieces by messages, long ones directly, in order.
        for run in pieces.chunk_by(|one, next| self.is_short(one) && self.is_short(next)) {
            match run {
                [long] if !self.is_short(long) => {
                    self.write_directly(peer, &target, long.offset, long.bytes)?;
                }
                short => self.write_by_messages(peer, &target, short, None)?,
            }
        }
        Ok(())
    }

    pub(super) fn write_and_trigger(
        &self,
        remote: &Remote,
        pieces: &[Piece<'_>],
        interrupt: Interrupt,
    ) -> Result<()> {
        if let (Some(target), total) = self.resolve_all(remote, pieces)?
            && total <= self.longest_by_message()
            && remote.owner != self.rank()
        {
            return self.write_by_messages(self.peer(remote.owner)?, &target, pieces, Some(interrupt));
        }
        self.write(remote, pieces)?;
        self.trigger(remote.owner, interrupt)
    }

    pub(super) fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        if peer == self.rank() {
            self.interrupts.raise(interrupt);
            self.waiters.look_again();
            return Ok(());
        }
        self.tell(self.peer(peer)?, &Message::Trigger(interrupt))
    }

    fn is_short(&self, piece: &Piece<'_>) -> bool {
        piece.bytes.len() <= self.longest_by_message()
    }

    /// The longest write, in bytes, that goes by messages. What may be a transaction always does: the provider stores
    /// the bytes of a transfer in whatever order it likes, and only who applies a message stores the last word last.
    fn longest_by_message(&self) -> usize {
        self.settings.longest_store.max(TRANSACTION_SIZE)
    }
}
