//! Sends and receives that are begun and go on by themselves.

use std::sync::Arc;

use super::Messenger;
use super::ends::End;
use super::incoming::Arrival;
use super::outcome::Outcome;
use super::outgoing::{Send, Sender, Sent};
use super::scope::Posted;
use super::settings::Mode;
use super::user;
use crate::error::Result;
use crate::memory::UserMemory;
use crate::units::Rank;

impl Messenger {
    /// Begins to send `memory` by `mode`.
    ///
    /// # Safety
    /// The memory must stay valid and unchanged until the send has ended, as `test` or `wait` tells.
    ///
    /// # Errors
    /// As for [`send`](Self::send), as far as it is known at once.
    pub unsafe fn post_send(&self, to: Rank, memory: UserMemory, mode: Mode) -> Result<Posted<'_>> {
        let link = self.engine.ready_link(to)?;
        self.engine.check(to)?;
        // SAFETY: the caller's promise; they are read at once.
        let bytes = unsafe { user::bytes(memory) };
        if self.sends_short(link, mode, false, bytes) {
            self.engine.context.fabric.ring(to)?;
            return Ok(Posted::ended(self, Ok(memory.length)));
        }
        let sent = self.begin_send(link, Send { memory, mode, sender: Sender::GoesOn }, None)?;
        self.engine.leave_open_shares();
        Ok(match sent {
            Sent::Complete => Posted::ended(self, Ok(memory.length)),
            Sent::Queued(outcome) => Posted::begun(self, outcome, None),
            Sent::Asked { outcome, told_as } => {
                let end = told_as.and_then(|number| End::of(link.inbox.memory(), number, memory.length));
                Posted::begun(self, outcome, end)
            }
        })
    }

    /// Begins to receive the next message of `from` that nobody waits for yet.
    ///
    /// # Safety
    /// The memory must stay valid, and nobody else use it, until the receive has ended, as `test` or `wait` tells.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), as far as it is known at once.
    pub unsafe fn post_receive(&self, from: Rank, memory: UserMemory) -> Result<Posted<'_>> {
        let link = self.engine.ready_link(from)?;
        self.engine.check(from)?;
        let arrival = {
            let mut state = link.take_turn();
            // SAFETY: the caller's promise.
            let arrival = unsafe { state.receive_or_post(link, memory) };
            state.settle_needs(link);
            arrival?
        };
        self.engine.leave_open_shares();
        Ok(match arrival {
            Arrival::Whole(result) => Posted::ended(self, result),
            Arrival::Begun(outcome) => {
                link.expect();
                Posted::begun(self, outcome, None)
            }
        })
    }

    /// Sends a message, by the settings' mode, without waiting for anything that the peer's program does: where there
    /// is no room for it yet, or the peer has to be asked, it goes on by itself, in the order of messages, as those do
    /// that are posted. What becomes of it then, nobody is told.
    ///
    /// # Errors
    /// As for [`send`](Self::send), as far as it is known at once.
    pub fn send_kept(&self, to: Rank, bytes: Vec<u8>) -> Result<()> {
        let mode = self.engine.context.settings.mode;
        let link = self.engine.ready_link(to)?;
        self.engine.check(to)?;
        if self.sends_short(link, mode, true, &bytes) {
            return self.engine.context.fabric.ring(to);
        }
        let outcome = Arc::new(Outcome::keeping(bytes));
        let send = Send { memory: UserMemory::of(outcome.kept()), mode, sender: Sender::HasLeft };
        self.begin_send(link, send, Some(outcome))?;
        self.engine.leave_open_shares();
        Ok(())
    }
}
