//! Questions to peers, and their answers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::exports::Description;
use crate::units::Rank;

/// Questions to peers that are not answered yet.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<u64, Open>>,
    numbers: OnceLock<AtomicU64>,
}

/// Who is asked, and where the answer goes.
type Open = (Rank, Arc<OnceLock<Answer>>);

/// What a peer answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// The segment is there.
    Segment(Description),
    /// What the word was.
    Was(u64),
    /// There is no such thing.
    Refused,
}

/// A question, until it is dropped.
pub(super) struct Question<'a> {
    questions: &'a Questions,
    /// Its number, which the answer repeats.
    pub(super) ticket: u64,
    /// What was answered.
    pub(super) answer: Arc<OnceLock<Answer>>,
}

impl Questions {
    /// Begins one, which only `peer` can answer.
    pub(super) fn ask(&self, peer: Rank) -> Question<'_> {
        // From a random number on, so that an answer of an earlier life of this address is not taken for one of this.
        let numbers = self.numbers.get_or_init(|| AtomicU64::new(RandomState::new().hash_one(0)));
        let ticket = numbers.fetch_add(1, Ordering::Relaxed);
        let answer = Arc::new(OnceLock::new());
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, (peer, Arc::clone(&answer)));
        Question { questions: self, ticket, answer }
    }

    /// An answer came.
    pub(super) fn answer(&self, from: Rank, ticket: u64, answer: Answer) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = open.get(&ticket).filter(|(asked, _)| *asked == from) {
            // The first answer counts; a peer gives only one.
            let _ = slot.set(answer);
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.ticket);
    }
}
