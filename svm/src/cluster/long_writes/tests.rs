use proptest::prelude::*;

use super::*;

/// What [`MOST`] bytes take by the cache: a nanosecond for each.
const CACHED: Duration = Duration::from_nanos(MOST);

/// A fabric: what a straight write takes whatever its length, and for each KiB more; nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Fabric {
    once: u64,
    per_kib: u64,
}

impl Fabric {
    fn took(self, bytes: u64) -> Duration {
        Duration::from_nanos(self.once + self.per_kib * bytes / 1024)
    }

    /// Writes in turn of all sizes that go straight; the bound afterwards.
    fn bound_after(self, bound: &Bound, writes: u32) -> u64 {
        for _ in 0..writes {
            for bytes in (11..=20).map(|power| 1 << power) {
                if bytes >= bound.bytes.load(Relaxed) {
                    bound.note(bytes, self.took(bytes), CACHED);
                }
            }
        }
        bound.bytes.load(Relaxed)
    }
}

#[test]
fn the_bound_is_where_both_ways_take_as_long() {
    let shm = Fabric { once: 600, per_kib: 100 };
    let loopback = Fabric { once: 40_000, per_kib: 300 };
    let adapter = Fabric { once: 5_000, per_kib: 80 };
    let slow_wire = Fabric { once: 100_000, per_kib: 8_400 };
    let found = [(shm, LEAST), (loopback, 64 << 10), (adapter, 8 << 10), (slow_wire, MOST)];
    for (fabric, expected) in found {
        assert_eq!(fabric.bound_after(&Bound::new(LEAST), 20), expected, "{fabric:?}");
        // From above it may stop one class before.
        let from_above = fabric.bound_after(&Bound::new(MOST), 20);
        assert!([expected, 2 * expected].contains(&from_above), "{from_above}: {fabric:?}");
    }
}

#[test]
fn what_flushes_take_counts_once_it_is_known() {
    let writes = LongWrites::default();
    let micros = Duration::from_micros;
    let copying = *writes.copying.get_or_init(|| micros(50));
    assert_eq!(writes.cached(), copying * COPIES);
    writes.note_flush(ASKED - 1, 1, micros(1));
    writes.note_flush(MOST, MOST / 8, micros(100_000));
    assert_eq!(writes.cached(), copying * COPIES);
    writes.note_flush(MOST, MOST / LEAST, micros(400));
    assert_eq!(writes.cached(), copying + micros(400));
    writes.note_flush(2 * MOST, 1, micros(1600));
    assert_eq!(writes.cached(), copying + micros(500));
    // One that was interrupted for long counts as one of twice the mean.
    writes.note_flush(MOST, 1, micros(100_000));
    assert_eq!(writes.cached(), copying + micros(625));
}

#[test]
fn few_slow_or_fast_writes_change_nothing_and_a_bound_goes_down_again() {
    let (bound, slow, fast) = (Bound::new(LEAST), Duration::from_millis(9), Duration::from_nanos(LEAST));
    for _ in 0..9 {
        (1..IN_A_ROW).for_each(|_| bound.note(LEAST, slow, CACHED));
        bound.note(LEAST, fast, CACHED);
    }
    assert_eq!(bound.bytes.load(Relaxed), LEAST);
    (0..IN_A_ROW).for_each(|_| bound.note(100 << 10, slow, CACHED));
    assert_eq!(bound.bytes.load(Relaxed), 128 << 10);
    for _ in 0..9 {
        (1..IN_A_ROW).for_each(|_| bound.note(300 << 10, fast, CACHED));
        bound.note(300 << 10, slow, CACHED);
    }
    assert_eq!(bound.bytes.load(Relaxed), 128 << 10);
    // As the slowest of them says.
    bound.note(300 << 10, Duration::from_nanos(30 << 10), CACHED);
    (1..IN_A_ROW).for_each(|_| bound.note(300 << 10, fast, CACHED));
    assert_eq!(bound.bytes.load(Relaxed), 32 << 10);
    (0..IN_A_ROW).for_each(|_| bound.note(MOST, fast, CACHED));
    assert_eq!(bound.bytes.load(Relaxed), LEAST);
}

#[test]
fn what_needs_a_question_has_a_bound_of_its_own() {
    let writes = LongWrites::default();
    let begins = |bytes, is_stored, is_locked| {
        writes.begin(bytes, || Circumstances { is_stored, is_locked }).is_some()
    };
    assert!(begins(LEAST, true, false) && !begins(LEAST, false, false) && !begins(LEAST, true, true));
    assert!(begins(ASKED, true, true) && begins(ASKED, false, false));
    assert!(!writes.is_long(LEAST - 1, || panic!("nobody has to look")));
    writes.set(Some(9));
    assert!(!begins(8, true, false) && begins(9, false, true) && writes.bound() == 9);
    writes.set(None);
    assert!(!begins(9, true, false) && writes.bound() == LEAST);
}

#[test]
fn a_bound_that_was_raised_for_a_while_comes_down_though_all_writes_are_as_long() {
    let writes = LongWrites::default();
    let stored = || Circumstances { is_stored: true, is_locked: false };
    let write = |took| {
        if let Some(write) = writes.begin(3 << 10, stored) {
            write.bound.note(write.bytes, took, CACHED);
        }
    };
    (0..IN_A_ROW).for_each(|_| write(Duration::from_millis(9)));
    assert_eq!(writes.bound(), 4 << 10);
    let enough = TRIED * u64::from(IN_A_ROW);
    (1..enough).for_each(|_| write(Duration::from_micros(1)));
    assert_eq!(writes.bound(), 4 << 10);
    write(Duration::from_micros(1));
    assert_eq!(writes.bound(), LEAST);
}

proptest! {
    #[test]
    fn the_bound_stays_within_its_limits(
        notes in prop::collection::vec((1_u64..1 << 22, 0_u64..1 << 40), 1..99),
        cached in 0_u64..1 << 40,
    ) {
        let bound = Bound::new(ASKED);
        for (bytes, took) in notes {
            bound.note(bytes, Duration::from_nanos(took), Duration::from_nanos(cached));
            let bytes = bound.bytes.load(Relaxed);
            prop_assert!(bytes.is_power_of_two() && (LEAST..=MOST).contains(&bytes), "{bytes}");
        }
    }
}
