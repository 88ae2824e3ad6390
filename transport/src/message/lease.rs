//! Who copies straight from or to user memory of a peer says so in the peer's inbox, before and after.
//!
//! A receive or a send that fails gives its memory back to the program. Its peer need not be dead then: the job may
//! only be ending, or the peer was taken for dead because it stood still, and goes on in the middle of a copy. Into a
//! receive's memory it would write what the program does not expect there; from a send's memory it would read what is
//! no message any more. So each such copy is counted twice in the inbox of whose memory it is, when it begins and when
//! it is over. Who gives a pair up closes the first count: nothing begins after that, and what has begun before is
//! waited for, unless the peer's process has ended, and its copies with it.
//!
//! Fabrics that map nothing are not counted. There, the registration of a receive's memory is revoked
//! ([`BackEnd::revoke`](crate::back_end::BackEnd::revoke)): the fabric sees to it that nothing more begins, and tells
//! when what has begun is over, too.

use std::sync::atomic::Ordering;

use super::layout::LEASES_AT;
use crate::error::Result;
use crate::memory::SharedMemory;

/// How many copies were begun; and [`CLOSED`], once none begins any more.
const BEGUN: u64 = LEASES_AT;

/// How many of them are over.
const ENDED: u64 = LEASES_AT + 8;

const CLOSED: u64 = 1 << 63;

/// A copy from or to user memory of a peer, as long as it may be under way.
#[derive(Debug)]
pub(super) struct Lease(SharedMemory);

impl Lease {
    /// Says in the peer's `inbox` that a copy begins; `None` where the peer allows none any more.
    ///
    /// # Errors
    /// Where the words are not within the inbox.
    pub(super) fn take(inbox: &SharedMemory) -> Result<Option<Self>> {
        // Within the inbox, so that dropping cannot fail.
        inbox.word64(ENDED)?;
        // AcqRel: closing and taking are in one order; who finds it open copies after the peer has lent the memory.
        let begun = inbox.word64(BEGUN)?.fetch_add(1, Ordering::AcqRel);
        Ok((begun < CLOSED).then(|| Self(inbox.clone())))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(word) = self.0.word64(ENDED) {
            // Release: whoever counts it sees what was copied.
            word.fetch_add(1, Ordering::Release);
        }
    }
}

/// Has no copy begin any more from or to memory that belongs to this process's `inbox`; returns how many have begun.
/// Called once.
pub(super) fn close(inbox: &SharedMemory) -> u64 {
    // The word is within every inbox. AcqRel: as in `take`.
    inbox.word64(BEGUN).map_or(0, |word| word.fetch_add(CLOSED, Ordering::AcqRel))
}

/// Whether the `begun` ones are all over.
pub(super) fn are_over(inbox: &SharedMemory, begun: u64) -> bool {
    // Acquire: pairs with the Release of whoever wrote.
    inbox.word64(ENDED).is_ok_and(|word| word.load(Ordering::Acquire) >= begun)
}

/// How many copies were begun, and how many are over.
#[cfg(test)]
#[cfg(not(loom))]
pub(super) fn counts(inbox: &SharedMemory) -> (u64, u64) {
    let count = |offset| inbox.word64(offset).map_or(0, |word| word.load(Ordering::Acquire));
    (count(BEGUN) % CLOSED, count(ENDED))
}

#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::{Lease, are_over, close, counts};
    use crate::memory::SharedMemory;

    /// An inbox of zeros.
    pub(in crate::message) fn inbox() -> SharedMemory {
        let words = Arc::new(vec![0_u64; 1024].into_boxed_slice());
        let start = NonNull::new(words.as_ptr() as *mut u8).unwrap();
        // SAFETY: the words stay as long as they are held, and are reached only through this.
        unsafe { SharedMemory::new(start, 8 * 1024, words) }
    }

    #[test]
    fn what_has_begun_is_waited_for_and_nothing_begins_afterwards() {
        let inbox = inbox();
        drop(Lease::take(&inbox).unwrap().unwrap());
        let first = Lease::take(&inbox).unwrap().unwrap();
        let second = Lease::take(&inbox).unwrap().unwrap();
        let begun = close(&inbox);
        assert_eq!(begun, 3);
        assert!(Lease::take(&inbox).unwrap().is_none());
        assert!(!are_over(&inbox, begun));
        drop(second);
        assert!(!are_over(&inbox, begun));
        drop(first);
        assert!(are_over(&inbox, begun));
        assert_eq!(counts(&inbox).1, 3);
    }
}
