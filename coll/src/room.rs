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

/// Whether this process can be in one more, of so many members.
pub(crate) fn has_room(members: usize) -> bool {
    // Relaxed: as above, and the next card tells it.
    let (count, has_stalled) = (COUNT.load(Ordering::Relaxed), HAS_STALLED.load(Ordering::Relaxed));
    let descriptors = getrlimit(Resource::Nofile).current;
    count < most(descriptors) && !has_stalled && descriptors.is_none_or(|limit| are_left(limit, members))
}

/// From now on, this process joins no groups: another one would have it wait as long again, and come to the same.
pub(crate) fn stall() {
    // Relaxed: the next card tells it.
    HAS_STALLED.store(true, Ordering::Relaxed);
}

/// In how many groups a process is at most that may have so many descriptors.
fn most(descriptors: Option<u64>) -> usize {
    let share = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX) / SHARE;
    descriptors.map_or(MOST, |limit| share(limit).min(MOST))
}

/// Whether enough of `limit` descriptors are left.
fn are_left(limit: u64, members: usize) -> bool {
    // Looking takes one, trying would take them from other threads.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let is_below = |name: &OsStr| {
        name.to_str().and_then(|name| name.parse().ok()).is_some_and(|number: u64| number < limit)
    };
    let taken = open.flatten().filter(|entry| is_below(&entry.file_name())).count();
    let needed = SPARE + SPARE_FOR_EACH * members.min(MOST_MEMBERS);
    limit >= (taken + needed) as u64
}

#[cfg(test)]
mod tests {
    use super::{COUNT, MOST, Ordering, Place, SPARE, are_left, has_room, most, stall};

    #[test]
    fn groups_take_a_part_of_the_descriptors() {
        assert_eq!(most(Some(64)), 16);
        for limit in [Some(1 << 20), Some(u64::MAX), None] {
            assert_eq!(most(limit), MOST);
        }
    }

    #[test]
    fn descriptors_are_counted_that_are_open() {
        assert!(are_left(1 << 30, 2) && !are_left(SPARE as u64, 0));
    }

    #[test]
    fn who_has_waited_in_vain_joins_no_more() {
        stall();
        assert!(!has_room(2));
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
