//! Where eager messages lie in an inbox: in slots, one behind the other, round and round.
//!
//! ```text
//!   slots       │ 0 │ 1 │ 2 │ 3 │  ...  │ last │ for what goes over the last one
//!   a message           │   a   │       │  another,  b  │
//!   they take           │ 2   3 │           last   0
//! ```
//!
//! A message takes the next slots, as many as its bytes need, and lies in one piece: where it goes over the last slot,
//! into what is behind it, which is its own until the slots that it takes at the beginning are given back.

use crate::capabilities::Capabilities;

/// Bytes of a slot, at most, where a message and its credit take a while: little more than the shortest eager messages
/// have, so that many of these can be under way.
const SMALL: u32 = 1 << 10;

/// The most slots of an inbox: counts of them must not wrap unnoticed.
const MOST: u32 = 1 << 24;

/// Bytes of a slot for messages of up to `longest` bytes, at least one.
pub(super) fn slot_for(longest: u32, capabilities: &Capabilities) -> u32 {
    let whole = longest.checked_next_multiple_of(64).unwrap_or(longest);
    if capabilities.direct_mapping {
        // Each begins where one began before, in lines that both processors have near them: 1 KiB takes 0.29 µs so,
        // and 0.38 µs where messages go through all there is.
        whole
    } else {
        whole.min(SMALL)
    }
}

/// The slots of an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    /// Bytes of one.
    size: u32,
    /// How many there are.
    count: u32,
    /// How many the longest message takes.
    longest: u32,
}

impl Slots {
    /// Slots of `size` bytes with room for `messages`, at least one, of `longest` bytes.
    pub(super) fn of(size: u32, messages: u32, longest: u32) -> Slots {
        let slots = taken(size, longest);
        Slots { size, count: slots * messages.clamp(1, Slots::most(size, longest)), longest: slots }
    }

    /// Whether one message of `longest` bytes takes no more slots of `size` bytes than there can be.
    pub(super) fn can_be(size: u32, longest: u32) -> bool {
        size > 0 && taken(size, longest) <= MOST
    }

    /// How many messages of `longest` bytes there can be room for in slots of `size` bytes, where there
    /// [can be](Self::can_be) one.
    pub(super) fn most(size: u32, longest: u32) -> u32 {
        (MOST / taken(size, longest)).clamp(1, 1 << 16)
    }

    /// Bytes of them and of what is behind them.
    pub(super) fn bytes(self) -> u64 {
        self.start_of(self.count + self.longest - 1)
    }

    /// The first byte of a slot.
    pub(super) fn start_of(self, slot: u32) -> u64 {
        u64::from(self.size) * u64::from(slot)
    }

    /// The slots that a message of so many bytes takes.
    pub(super) fn taken_by(self, length: u32) -> u32 {
        taken(self.size, length)
    }

    /// Whether a message of so many bytes can go, where `filled` slots were taken and `returned` came back.
    pub(super) fn has_room(self, length: u32, filled: u32, returned: u32) -> bool {
        filled.wrapping_sub(returned) <= self.count - self.taken_by(length).min(self.count)
    }

    /// The slot behind a message of so many bytes that begins in `slot`.
    pub(super) fn behind(self, slot: u32, length: u32) -> u32 {
        let behind = slot + self.taken_by(length);
        if behind < self.count { behind } else { behind - self.count }
    }

    /// How many slots are kept before they are given back: about half of them, less where long messages need not fill
    /// these just, and never so many that the longest message has no room.
    pub(super) fn due(self) -> u32 {
        (self.count / 2 - (self.longest - 1) / 2).max(1)
    }
}

fn taken(size: u32, length: u32) -> u32 {
    if length <= size { 1 } else { length.div_ceil(size) }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    /// Messages that are under way, as a sender and a receiver see them.
    struct Inbox {
        slots: Slots,
        filled: u32,
        returned: u32,
        slot: u32,
        under_way: VecDeque<(u32, Range<u64>)>,
    }

    impl Inbox {
        fn send(&mut self, length: u32) -> bool {
            if !self.slots.has_room(length, self.filled, self.returned) {
                return false;
            }
            let start = self.slots.start_of(self.slot);
            let bytes = start..start + u64::from(length);
            assert!(bytes.end <= self.slots.bytes(), "{bytes:?} of {:?}", self.slots);
            for (_, other) in &self.under_way {
                assert!(bytes.end <= other.start || other.end <= bytes.start, "{bytes:?} over {other:?}");
            }
            self.under_way.push_back((length, bytes));
            self.filled = self.filled.wrapping_add(self.slots.taken_by(length));
            self.slot = self.slots.behind(self.slot, length);
            true
        }
    }

    proptest! {
        #[test]
        fn messages_that_are_under_way_lie_side_by_side(
            (size, messages, longest) in (1_u32..5000, 1_u32..6, 1_u32..20_000),
            start in any::<u32>(),
            steps in prop::collection::vec((any::<u32>(), 0_usize..4), 1..200),
        ) {
            let slots = Slots::of(size, messages, longest);
            let mut inbox = Inbox { slots, filled: start, returned: start, slot: 0, under_way: VecDeque::new() };
            // Where the receiver is, and what of that it has told.
            let mut consumed = start;
            for (length, received) in steps {
                let length = 1 + length % longest;
                inbox.send(length);
                for _ in 0..received {
                    let Some((length, _)) = inbox.under_way.pop_front() else { break };
                    consumed = consumed.wrapping_add(slots.taken_by(length));
                    if consumed.wrapping_sub(inbox.returned) >= slots.due() {
                        inbox.returned = consumed;
                    }
                }
                prop_assert!(!inbox.under_way.is_empty() || inbox.send(longest), "nothing would ever come back");
            }
        }

        #[test]
        fn so_many_of_the_longest_are_under_way((size, messages, longest) in (1_u32..5000, 1_u32..9, 1_u32..300_000)) {
            let slots = Slots::of(size, messages, longest);
            let mut inbox = Inbox { slots, filled: 7, returned: 7, slot: 0, under_way: VecDeque::new() };
            let gone = (0..10).take_while(|_| inbox.send(longest)).count();
            prop_assert_eq!(gone, messages as usize);
        }
    }
}
