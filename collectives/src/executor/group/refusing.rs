//! A member that cannot do an operation tells the others, so that nobody waits for it.

use super::Group;
use crate::executor::arguments;
use crate::executor::board::{Awaited, Board, Places, Refusal};
use crate::executor::error::{Error, Result};

impl Group {
    /// That all that is awaited can still come.
    pub(super) fn check(&mut self, awaited: Awaited) -> Result<()> {
        let checked = self.check_members().and_then(|()| self.board.check(awaited));
        checked.inspect_err(|error| self.give_up(error))
    }

    #[inline]
    pub(super) fn check_goes_on(&self) -> Result<()> {
        self.refused.as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// After an error in a wait, nothing more is done here. After a refusal, nobody waits for this member's reading:
    /// who refuses, does not finish with the operation itself, so none takes it for done. Of all else the others hear
    /// by themselves.
    #[cold]
    pub(super) fn give_up(&mut self, error: &Error) {
        if self.refused.is_some() {
            return;
        }
        self.refused = Some(Box::new(error.clone()));
        if matches!(error, Error::Refused { .. }) {
            self.board.finish_for_good(self.number);
            // One that is ahead may sleep until this member has finished with what came before the refusal.
            self.board.rouse();
        }
    }

    /// Does no operation from that number on, and has the others hear of it, unless they do by themselves. After an
    /// error in an operation, that is the operation's own number: to the others, it has not finished with it.
    #[cold]
    pub(super) fn refuse(&mut self, number: u64, error: &Error) {
        if self.refused.is_some() || self.size() == 1 {
            return;
        }
        // A refusal is none of this group's: where those are met, `refused` is set.
        if error.is_heard_by_all(&self.watched) {
            self.refused = Some(Box::new(error.clone()));
            return;
        }
        let reason = error.to_string();
        self.board.finish_for_good(number.saturating_sub(1));
        self.board.refuse(number, &reason);
        self.refused = Some(Box::new(Error::Refused { member: self.own, reason }));
    }

    /// Does no more operations, and has the others hear why, unless they do by themselves: of what is none of the
    /// group's, between two operations. After an error of an operation of the group, they have heard.
    #[cold]
    pub fn refuse_next(&mut self, error: &Error) {
        self.refuse(self.number + 1, error);
    }

    /// Does no more operations, waited for or in the background, and has the others hear why: for a host library that
    /// cannot do what it has to before an operation. What is under way in the background is carried out before.
    #[cold]
    pub fn withdraw(&mut self, reason: &str) {
        let error = Error::Host { reason: reason.to_owned() };
        self.refuse_next(&error);
        // Where nothing carries operations out in the background, the others have heard of that.
        drop(self.start((), move |_, ()| Err(error)));
    }

    /// A check of what the next operation is given: all others are told where it fails.
    #[inline]
    pub(super) fn tell<T>(&mut self, checked: Result<T>) -> Result<T> {
        checked.inspect_err(|error| self.refuse(self.number + 1, error))
    }

    #[inline]
    pub(super) fn check_length(&mut self, what: &'static str, found: usize, expected: usize) -> Result<()> {
        self.tell(arguments::check_length(what, found, expected))
    }

    pub(super) fn check_count(&mut self, blocks: usize) -> Result<()> {
        let checked = arguments::check_count(blocks, self.size());
        self.tell(checked)
    }

    pub(super) fn check_member(&mut self, member: usize) -> Result<()> {
        let checked = arguments::check_member(member, self.size());
        self.tell(checked)
    }
}

impl<P: Places> Board<P> {
    /// That nobody has refused the operation of which something is awaited.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(super) fn check(&self, awaited: Awaited) -> Result<()> {
        let refused = |Refusal { member, reason }: Refusal| Err(Error::Refused { member, reason });
        self.refusal(awaited.number).map_or(Ok(()), refused)
    }
}
