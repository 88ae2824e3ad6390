//! How many locks processes wait for: each wait takes a thread of the agent's, so that there is an end to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use svmio_transport::Rank;

use crate::cluster::wire::Request;
use crate::error::{Error, Result};
use crate::node::NodeName;

/// The most locks that one process may wait for at a time: more than it has threads, if it is in its senses.
pub(super) const MOST: usize = 512;

/// How many locks each process waits for.
#[derive(Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<Rank, usize>>>);

/// A process waits for a lock as long as this lives.
pub(super) struct Wait {
    rank: Rank,
    waiting: Waiting,
}

impl Waiting {
    /// Counts a request, if it is one that waits for a lock.
    ///
    /// # Errors
    /// [`Error::TooManyWaiting`], in the name of `node`.
    pub(super) fn begin(&self, rank: Rank, request: &Request, node: &NodeName) -> Result<Option<Wait>> {
        if !matches!(request, Request::Lock { .. } | Request::AskBack { .. }) {
            return Ok(None);
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(rank).or_default();
        if *count >= MOST {
            return Err(Error::TooManyWaiting { rank: rank.0, most: MOST, node: node.clone() });
        }
        *count += 1;
        Ok(Some(Wait { rank, waiting: Waiting(Arc::clone(&self.0)) }))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // A panic elsewhere leaves the counts whole.
        let mut counts = self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.rank) {
            *count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FileId;

    #[test]
    fn each_process_may_wait_for_so_many_locks_and_not_for_more() {
        let (waiting, node) = (Waiting::default(), NodeName::new("n"));
        let file = FileId::from_bytes([1; 16]);
        let lock = Request::Lock { file, range: 0..1, thread: 1, exclusive: true, place: None };
        let mut waits: Vec<_> =
            (0..MOST).map(|_| waiting.begin(Rank(1), &lock, &node).unwrap().unwrap()).collect();
        let error = waiting.begin(Rank(1), &lock, &node).err().unwrap().to_string();
        assert!(error.contains("rank 1") && error.contains("node n"), "{error}");
        assert!(waiting.begin(Rank(2), &lock, &node).unwrap().is_some());
        assert!(waiting.begin(Rank(1), &Request::Forget { file }, &node).unwrap().is_none());
        waits.pop();
        assert!(waiting.begin(Rank(1), &lock, &node).unwrap().is_some());
    }
}
