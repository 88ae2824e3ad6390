//! How many collectives of a communicator MPI does before there is a group.
//!
//! Programs, and MPI itself, make communicators for a few calls: ROMIO one for each file that is open. Forming a group
//! takes longer than all of these, and memory, and one of the places that a process has for them. As with skis that are
//! rented until they could have been bought, a communicator that has cost MPI as much as a group would have gets one.

use std::sync::atomic::{AtomicU32, Ordering};

/// So many, where the user says nothing. On two cores forming a group takes 3 to 5 ms with 2 processes, and 25 with 8;
/// a call by it takes up to 200 µs less than MPI's own with 8, and hardly less with 2 that have a core each. It is the
/// same for what the ranks of files tell each other, which have a group after as many times.
pub(crate) const USUAL: u32 = 512;

/// As the processes of `MPI_COMM_WORLD` have agreed, or [`NOBODY_HAS`].
static AGREED: AtomicU32 = AtomicU32::new(NOBODY_HAS);

const NOBODY_HAS: u32 = u32::MAX;

/// How many it is of a communicator that has its first collective now: the same in all processes. What their users say
/// may be different, and counts when they have [agreed](agree). Until then it is as where these say nothing: with a
/// component they agree when `MPI_COMM_WORLD` has a collective that blocks, which may come late, or never.
pub(crate) fn length() -> u32 {
    // Relaxed: what is agreed on is a number, and the collective in which it was makes all threads wait that need it.
    match AGREED.load(Ordering::Relaxed) {
        NOBODY_HAS => USUAL,
        agreed => agreed,
    }
}

/// The processes of `MPI_COMM_WORLD` have shown each other these numbers.
pub(crate) fn agree(shown: impl Iterator<Item = u32>) {
    if let Some(most) = shown.max() {
        // Relaxed: as above.
        AGREED.store(most.min(NOBODY_HAS - 1), Ordering::Relaxed);
    }
}
