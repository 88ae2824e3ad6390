//! The ends of messages that a peer has copied alone, each told by a word.
//!
//! Whoever has computed meanwhile finds nothing of what a turn needs in its caches, and such an end concerns nobody but
//! whoever asks for it: so it is found by a look at one word of the own inbox. The packet that tells the same comes
//! behind it. It is read when there is other work on the link, and the sending forgotten then, several at a time.

use std::sync::atomic::Ordering;

use super::atomic::Atomic;
use super::layout::Layout;
use crate::memory::SharedMemory;

/// How many messages one after the other have different words: those of a cache line.
pub(super) const WORDS: u32 = 8;

/// What a word holds from when the peer has all of `transfer` until the sending is forgotten; at rest it is zero.
fn told(transfer: u32) -> u64 {
    u64::from(transfer) + 1
}

/// Tells the end of `transfer` in the `inbox` of its sender. What was read of the sender's memory was read before.
pub(super) fn tell(inbox: &SharedMemory, transfer: u32) {
    // The word is within every inbox.
    if let Ok(word) = inbox.word64(Layout::end(transfer)) {
        store(word, transfer);
    }
}

pub(super) fn store(word: &impl Atomic, transfer: u32) {
    // Release: whoever sees it may use the memory for something else.
    word.store(told(transfer), Ordering::Release);
}

/// Takes what was told of `transfer` back, before its number can come again; in the own `inbox`, and once all else that
/// the peer says of it has come.
pub(super) fn forget(inbox: &SharedMemory, transfer: u32) {
    if let Ok(word) = inbox.word64(Layout::end(transfer))
        // Relaxed, twice: the peer tells nothing more of this one. Of a later one with this word it may, just now; then
        // that one's end is found as if it had not been told.
        && word.load(Ordering::Relaxed) == told(transfer)
    {
        word.store(0, Ordering::Relaxed);
    }
}

/// Where the end of a message of this process's is told.
#[derive(Debug)]
pub(super) struct End<'a, W = std::sync::atomic::AtomicU64> {
    word: &'a W,
    transfer: u32,
    /// Bytes of the message.
    pub(super) length: usize,
}

impl<'a> End<'a> {
    /// Of `transfer`, with `length` bytes, in the own `inbox`.
    pub(super) fn of(inbox: &'a SharedMemory, transfer: u32, length: usize) -> Option<Self> {
        inbox.word64(Layout::end(transfer)).ok().map(|word| Self::at(word, transfer, length))
    }
}

impl<'a, W> End<'a, W> {
    pub(super) fn at(word: &'a W, transfer: u32, length: usize) -> Self {
        Self { word, transfer, length }
    }
}

impl<W: Atomic> End<'_, W> {
    /// Whether it was told. Later ones may have taken its word since, or it may be told by packets only.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        // Acquire: pairs with the Release of the peer.
        self.word.load(Ordering::Acquire) == told(self.transfer)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{End, WORDS, forget, tell};
    use crate::message::lease::tests::inbox;

    #[test]
    fn an_end_is_told_of_one_message_until_it_is_forgotten() {
        let inbox = inbox();
        for transfer in [0, 5, u32::MAX] {
            let ends = [transfer, transfer.wrapping_add(1), transfer.wrapping_add(WORDS)]
                .map(|transfer| End::of(&inbox, transfer, 1).unwrap());
            let are_told = || ends.each_ref().map(|end| end.is_told());
            assert_eq!(are_told(), [false; 3], "{transfer}");
            tell(&inbox, transfer);
            assert_eq!(are_told(), [true, false, false], "{transfer}");
            forget(&inbox, transfer.wrapping_add(WORDS));
            assert_eq!(are_told(), [true, false, false], "{transfer}");
            forget(&inbox, transfer);
            assert_eq!(are_told(), [false; 3], "{transfer}");
        }
    }

    #[test]
    fn a_later_message_takes_the_word_of_an_earlier_one() {
        let inbox = inbox();
        let [earlier, later] = [3, 3 + WORDS].map(|transfer| End::of(&inbox, transfer, 1).unwrap());
        tell(&inbox, 3);
        tell(&inbox, 3 + WORDS);
        assert!(!earlier.is_told() && later.is_told());
        forget(&inbox, 3);
        assert!(later.is_told());
    }
}
