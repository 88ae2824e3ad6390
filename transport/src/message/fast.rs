//! The way that most messages take: short, and nothing in the way.
//!
//! Everything here is also done by [`outgoing`](super::outgoing) and [`incoming`](super::incoming), to which whatever
//! is not as usual is left.

use super::link::{Link, State};
use super::outbox::Outbox;

impl Link {
    /// Sends a short message, if nothing is before it, there is room, and it needs no more than stores.
    #[inline]
    pub(super) fn send_short(&self, bytes: &[u8]) -> bool {
        let mut state = self.take_turn();
        let State { error: None, queued, outbox: Some(Outbox { messages, sizes, .. }), .. } = &mut *state
        else {
            return false;
        };
        queued.is_empty() && bytes.len() <= sizes.longest_short() && messages.write_short(bytes)
    }

    /// Receives a short message that fits `into`, if it is the next and nobody waits for it.
    #[inline]
    pub(super) fn receive_short(&self, into: &mut [u8]) -> Option<usize> {
        if !self.signs.messages.has_arrived() {
            return None;
        }
        let mut state = self.take_turn();
        let State { error: None, posted, messages, .. } = &mut *state else { return None };
        if !posted.is_empty() {
            return None;
        }
        let length = messages.take_short(into)?;
        let consumed = messages.consumed();
        self.signs.messages.set(consumed);
        state.consumed.ring = consumed;
        if consumed.wrapping_sub(state.told.ring) >= self.inbox.sizes.ring_parts / 2 {
            state.return_credits_or_fail(self);
        }
        Some(length)
    }
}
