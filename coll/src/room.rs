//! How many groups this process can be in: a program may make communicators without end, and each group takes memory and
//! a descriptor. A process that is short of these tells the others before they form a group, and not in the middle of it.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// In how many it is at most: each has about 1 MiB of memory that the members share.
const MOST: usize = 256;

/// Which part of the descriptors that the process may have groups may take.
const SHARE: usize = 4;

/// How many descriptors must be left: for a group's memory, for that of a member that connects, and for its socket, in
/// several threads at once; and so many for each member, up to so many of these, with whom a job may have to be formed.
const SPARE: usize = 32;
const SPARE_FOR_EACH: usize = 2;
const MOST_MEMBERS: usize = 256;

/// In how many it is.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether it has waited in vain for others who were to join a group.
static HAS_STALLED: AtomicBool = AtomicBool::new(false);

/// A group's place among those that this process is in, which goes with this.
#[derive(Debug)]
pub(crate) struct Place(());

impl Place {
    /// That of one more.
    pub(crate) fn take() -> Self {
        // Relaxed: it counts, and orders nothing.
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Relaxed: as above.
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a process is in no more groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Shortage {
    #[error("it is in those of {0} communicators, and in no more at a time")]
    Groups(usize),
    #[error(
        "it is in those of {0} communicators, as many as it may have with its limit of descriptors (ulimit -n)"
    )]
    GroupsByDescriptors(usize),
    #[error("of its descriptors (ulimit -n) fewer than {0} are left")]
    Descriptors(usize),
    #[error("it has waited in vain for others who were to join one")]
    Stalled,
}

/// Why this process cannot be in one more group, of so many members; `None` where it can.
pub(crate) fn shortage(members: usize) -> Option<Shortage> {
    // Relaxed: as above, and the next card tells it.
    let (count, has_stalled) = (COUNT.load(Ordering::Relaxed), HAS_STALLED.load(Ordering::Relaxed));
    shortage_of(count, has_stalled, getrlimit(Resource::Nofile).current, members)
}

/// Tells, the first time, what this process, `rank` in some communicator, is short of.
pub(crate) fn tell(rank: i32, shortage: Shortage) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    // Relaxed: only that one tells it matters.
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!("MPI's own collectives are used for further communicators: rank {rank}: {shortage}");
    }
}

/// From now on, this process joins no groups: another one would have it wait as long again, and come to the same.
pub(crate) fn stall() {
    // Relaxed: the next card tells it.
    HAS_STALLED.store(true, Ordering::Relaxed);
}

fn shortage_of(
    groups: usize,
    has_stalled: bool,
    descriptors: Option<u64>,
    members: usize,
) -> Option<Shortage> {
    let needed = SPARE + SPARE_FOR_EACH * members.min(MOST_MEMBERS);
    if has_stalled {
        Some(Shortage::Stalled)
    } else if groups >= MOST {
        Some(Shortage::Groups(groups))
    } else if groups >= most(descriptors) {
        Some(Shortage::GroupsByDescriptors(groups))
    } else if descriptors.is_some_and(|limit| !are_left(limit, needed)) {
        Some(Shortage::Descriptors(needed))
    } else {
        None
    }
}

/// In how many groups a process is at most that may have so many descriptors.
fn most(descriptors: Option<u64>) -> usize {
    let share = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX) / SHARE;
    descriptors.map_or(MOST, |limit| share(limit).min(MOST))
}

/// Whether so many of `limit` descriptors are left.
fn are_left(limit: u64, needed: usize) -> bool {
    // Looking takes one, trying would take them from other threads.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let is_below = |name: &OsStr| {
        name.to_str().and_then(|name| name.parse().ok()).is_some_and(|number: u64| number < limit)
    };
    let taken = open.flatten().filter(|entry| is_below(&entry.file_name())).count();
    limit >= (taken + needed) as u64
}

#[cfg(test)]
mod tests {
    use super::{COUNT, MOST, Ordering, Place, SPARE, Shortage, most, shortage_of};

    #[test]
    fn groups_take_a_part_of_the_descriptors() {
        assert_eq!(most(Some(64)), 16);
        for limit in [Some(1 << 20), Some(u64::MAX), None] {
            assert_eq!(most(limit), MOST);
        }
    }

    #[test]
    fn what_a_process_is_short_of_is_told() {
        for limit in [Some(1 << 30), None] {
            assert_eq!(shortage_of(MOST - 1, false, limit, 2), None);
            assert_eq!(shortage_of(MOST, false, limit, 2), Some(Shortage::Groups(MOST)));
            assert_eq!(shortage_of(0, true, limit, 2), Some(Shortage::Stalled));
        }
        assert_eq!(shortage_of(0, false, Some(SPARE as u64), 2), Some(Shortage::Descriptors(SPARE + 4)));
        assert_eq!(shortage_of(16, false, Some(64), 2), Some(Shortage::GroupsByDescriptors(16)));
        assert!(!Shortage::Groups(MOST).to_string().contains("ulimit"));
        assert!(Shortage::GroupsByDescriptors(16).to_string().contains("ulimit"));
    }

    #[test]
    fn places_are_counted() {
        let before = COUNT.load(Ordering::Relaxed);
        let places = [Place::take(), Place::take()];
        assert_eq!(COUNT.load(Ordering::Relaxed), before + 2);
        drop(places);
        assert_eq!(COUNT.load(Ordering::Relaxed), before);
    }
}
