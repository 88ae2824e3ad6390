//! Cards: what each member has for one operation, all of them in a row.

use svmio_transport::futex::{AtomicU64, Ordering};

/// How many operations a member can be ahead of those who still read what it published.
#[cfg(not(loom))]
pub(in crate::executor) const CARDS: usize = 8;
#[cfg(loom)]
pub(in crate::executor) const CARDS: usize = 2;

/// Words that a card has for data.
#[cfg(not(loom))]
pub(in crate::executor) const WORDS: usize = 7;
#[cfg(loom)]
pub(in crate::executor) const WORDS: usize = 1;

/// What a card carries.
pub(in crate::executor) type Words = [u64; WORDS];

/// Rows for meetings.
#[cfg(not(loom))]
const MEETING_ROWS: usize = 4;
#[cfg(loom)]
const MEETING_ROWS: usize = 2;

/// Rows of cards: for operations, and for meetings.
pub(in crate::executor) const ROWS: usize = CARDS + MEETING_ROWS;

/// A row of cards, by its index, which is always less than [`ROWS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executor) struct CardRow(usize);

impl CardRow {
    /// That of an operation that is no meeting.
    #[inline]
    pub(in crate::executor) fn of(number: u64) -> Self {
        Self(number as usize % CARDS)
    }

    #[inline]
    pub(super) fn of_meeting(turn: Turn) -> Self {
        Self(CARDS + usize::from(turn.0))
    }

    /// From 0.
    #[inline]
    pub(in crate::executor) fn index(self) -> usize {
        self.0
    }
}

/// Whose turn it is of the rows for meetings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::executor) struct Turn(u8);

impl Turn {
    /// That of the next meeting.
    #[inline]
    #[must_use]
    pub(in crate::executor) fn next(self) -> Self {
        if usize::from(self.0) + 1 < MEETING_ROWS { Self(self.0 + 1) } else { Self(0) }
    }

    /// From 0, less than there are rows for meetings.
    pub(super) fn index(self) -> u8 {
        self.0
    }

    /// The one of that index, which another process may have told: whatever it is, there is such a row.
    pub(super) fn at(index: u8) -> Self {
        Self(index % MEETING_ROWS as u8)
    }
}

/// What a member has for one operation: one cache line, so that it arrives at once.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(in crate::executor) struct Card {
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Card {
    /// Closes `words` with the number of the operation that they are for. Only the card's own member does.
    #[inline]
    pub(super) fn write(&self, number: u64, words: &[u64]) {
        for (to, word) in self.words.iter().zip(words) {
            // Relaxed: closed by the number.
            to.store(*word, Ordering::Relaxed);
        }
        // Release: who sees the number sees the words, and all memory that was written before.
        self.number.store(number, Ordering::Release);
    }

    /// Whether it was written for that operation, or a later one.
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        // Acquire: pairs with the Release in `write`.
        self.number.load(Ordering::Acquire) >= number
    }

    /// What it carries for an operation that it [has](Self::has).
    #[inline]
    pub(super) fn words(&self) -> Words {
        // Relaxed: that the number was seen, orders it.
        std::array::from_fn(|word| self.words[word].load(Ordering::Relaxed))
    }

    /// The first bytes of that, at most as many as a card carries.
    #[inline]
    pub(super) fn copy_to(&self, into: &mut [u8]) {
        let (whole, rest) = into.as_chunks_mut();
        // Relaxed: as above.
        for (word, into) in self.words.iter().zip(&mut *whole) {
            *into = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let (Some(word), false) = (self.words.get(whole.len()), rest.is_empty()) {
            rest.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
        }
    }
}

/// At most as many bytes as a card carries, as words.
#[inline]
pub(in crate::executor) fn words_of(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    // Word by word: a call of a library's for a few bytes takes longer than these.
    let (whole, rest) = bytes.as_chunks();
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_ne_bytes(*bytes);
    }
    if let (Some(word), false) = (words.get_mut(whole.len()), rest.is_empty()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        *word = u64::from_ne_bytes(last);
    }
    words
}
