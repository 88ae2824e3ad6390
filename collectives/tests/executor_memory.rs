//! How much memory collectives of long data take beside what they are given.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "executor_network/seats.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod seats;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seats::{fresh_id, on_all, on_nodes};
use svmio_collectives::executor::{GroupSettings, NetworkSettings, TwoLevelGroup};
use svmio_transport::Rank;

/// Counts what each thread has.
struct Counting;

thread_local! {
    /// Bytes that this thread has asked for and not given back, of which others may have given some back; and the most
    /// that these were.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that ends has none any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: the system's, which is only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one asked for; so below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: see above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: see above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that this thread has in `body` beside what it had before.
fn most_in(body: impl FnOnce()) -> isize {
    let before = HELD.get().0;
    HELD.set((before, before));
    body();
    HELD.get().1 - before
}

const SIZE: usize = 4;

/// Bytes of all blocks together.
const LENGTH: usize = 32 << 20;

/// More than a member needs for anything but copies of long data.
const LITTLE: isize = 4 << 20;

/// Blocks of those lengths, one behind the other.
fn apart(mut data: &mut [u8], lengths: [usize; SIZE]) -> [&mut [u8]; SIZE] {
    lengths.map(|length| data.split_off_mut(..length).unwrap())
}

fn allgather(nodes: [&str; SIZE], between: &NetworkSettings) {
    let seats = on_nodes(&nodes);
    let members: Vec<Rank> = (0..SIZE as u32).map(Rank).collect();
    let id = fresh_id();
    let taken = on_all(&seats, &members, |seat| {
        let (fabrics, messenger) = (&seat.fabrics, &seat.messenger);
        let (within, between) = (GroupSettings::default(), between.clone());
        let mut group = TwoLevelGroup::join(fabrics, messenger, &members, id, within, between).unwrap();
        let member = group.member();
        let mut taken_with = |lengths: [usize; SIZE], is_equal: bool| {
            let (own, mut data) = (vec![member as u8 + 1; lengths[member]], vec![0; LENGTH]);
            let taken = most_in(|| {
                if is_equal {
                    group.allgather(&own, &mut data).unwrap();
                } else {
                    group.allgather_blocks_from(&own, &mut apart(&mut data, lengths)).unwrap();
                }
            });
            for (block, giver) in apart(&mut data, lengths).iter().zip(1..) {
                assert!(**block == vec![giver; block.len()], "on {nodes:?}, member {member}: of {giver}");
            }
            taken
        };
        [
            taken_with([LENGTH / SIZE; SIZE], true),
            taken_with([5, 0, 2, 1].map(|parts| parts * LENGTH / 8), false),
        ]
    });
    assert!(taken.iter().flatten().all(|&taken| taken < LITTLE), "on {nodes:?}: {taken:?}");
}

#[test]
fn what_all_get_of_all_takes_no_memory_beside_where_it_belongs() {
    let settings = NetworkSettings::default();
    allgather(["a", "a", "b", "b"], &settings);
    // Nodes' members do not follow each other, and are not equally many.
    allgather(["a", "b", "a", "b"], &settings);
    allgather(["a", "b", "a", "c"], &settings);
}

#[test]
fn of_many_short_blocks_only_so_much_is_held_at_a_time() {
    // Against such segments, all blocks are short.
    let settings =
        NetworkSettings { segment: LENGTH, held: LITTLE as usize / 4, ..NetworkSettings::default() };
    allgather(["a", "b", "a", "c"], &settings);
}
