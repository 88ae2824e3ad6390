//! A member that cannot do an operation leaves, so that nobody waits for it.
//!
//! ```text
//!   error ─► its messenger is closed            who sends to it or receives from it ends with an error, and leaves, too
//!        └─► its signals of the barrier refuse  who awaits one of them ends with an error, and leaves, too
//! ```
//!
//! Over a host library's messages there is no more to it than what that has for it (`PointToPoint::leave`).
//!
//! Who waits, waits for somebody: for one who has left, or for one who waits himself. So all end, one after the other.
//! Of a lost member all hear by themselves, and that it was lost.

use super::group::NetworkGroup;
use super::two_level::TwoLevelGroup;
use crate::executor::error::{Error, Result};

impl NetworkGroup {
    /// Does no more operations, and has the others hear of it: for a host library that cannot do what it has to before
    /// an operation.
    #[cold]
    pub fn withdraw(&mut self, reason: &str) {
        self.give_up(&Error::Host { reason: reason.to_owned() });
    }

    /// Has this member do its part of an operation by `body`, unless one has failed before. Where it fails, nobody goes
    /// on waiting for this member.
    #[inline]
    pub(super) fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.refused {
            return Err((**error).clone());
        }
        body(self).inspect_err(|error| self.give_up(error))
    }

    /// Does no operation any more, and has the others hear of it, unless they do by themselves.
    #[cold]
    pub(super) fn give_up(&mut self, error: &Error) {
        if self.refused.is_some() {
            return;
        }
        self.refused = Some(Box::new(error.clone()));
        if error.is_heard_by_all(&self.watched) || self.size() == 1 {
            return;
        }
        self.barrier.refuse();
        self.messages.leave(error);
    }
}

impl TwoLevelGroup {
    /// Does no more operations, and has the others hear of it: for a host library that cannot do what it has to before
    /// an operation.
    #[cold]
    pub fn withdraw(&mut self, reason: &str) {
        // Of no use to this member, which knows.
        let _ = self.attempt::<()>(|_| Err(Error::Host { reason: reason.to_owned() }));
    }

    /// The same as [`NetworkGroup::attempt`].
    pub(super) fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.all.refused {
            return Err((**error).clone());
        }
        let done = body(self);
        // Also where `body` makes nothing of an error of the members by messages alone: they have heard that this one
        // has left.
        if let Some(error) = done.as_ref().err().or(self.all.refused.as_deref()).cloned() {
            self.give_up(&error);
        }
        done
    }

    #[cold]
    fn give_up(&mut self, error: &Error) {
        // Before the messenger is closed, which may take a while.
        if let Some(node) = &mut self.node {
            node.refuse_next(error);
        }
        self.all.give_up(error);
        if let Some(first) = &mut self.first {
            first.give_up(error);
        }
    }
}
