//! What a process changed of a file: to be told to other nodes, and to be brought to the storage device.
//!
//! Writes are many, and segments that they change few. So a segment bears a [`Mark`]: the number of the **period**,
//! the time between two tellings or syncs, in which it was last entered here. Who finds the mark of the period of
//! now need not enter it again. Three things make that true, whoever writes, tells and syncs at the same time:
//!
//! * A mark is set after the segment was entered, both in one go of the sets' mutex: who finds it, finds it entered.
//! * The sets are taken in one go with the change of the period. Who has stored bytes and then finds the old period's
//!   mark, has stored them before the sets were taken: they go with what is told or synced.
//! * Of two who tell or sync at the same time, the second waits until the first is done, who may have taken what was
//!   the second's.

use std::collections::BTreeSet;
use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering, fence},
};

use crate::error::{Error, Result, Unsynced};
use crate::units::SegmentIndex;

/// Segments that this process changed.
pub(crate) struct Changes {
    /// By a number that no other file and no other time has in this process: segments' mappings outlive what has a
    /// file open, so that a mere flag would lie. Changes only under the sets' mutex.
    period: AtomicU64,
    sets: Mutex<Sets>,
    /// Held during a sync. What the storage device did not take.
    syncing: Mutex<Option<Unsynced>>,
}

/// When a segment was last entered.
#[derive(Debug, Default)]
pub(crate) struct Mark(AtomicU64);

#[derive(Default)]
struct Sets {
    /// Not brought to the storage device yet.
    unsynced: BTreeSet<SegmentIndex>,
    /// Other nodes have not been told. Empty where the file is on this node alone.
    untold: BTreeSet<SegmentIndex>,
}

impl Default for Changes {
    fn default() -> Changes {
        let (sets, syncing) = (Mutex::default(), Mutex::default());
        Changes { period: AtomicU64::new(next_period()), sets, syncing }
    }
}

impl Changes {
    /// Enters a segment into which bytes were stored, for other nodes to be told if it `is_shared`.
    pub(crate) fn enter(&self, index: SegmentIndex, mark: &Mark, is_shared: impl FnOnce() -> bool) {
        // Between the bytes and the look at the period, as between the change of the period and the telling in
        // `take`: either the period is found to be a new one, or who took the sets has seen the bytes.
        fence(Ordering::SeqCst);
        // Acquire: with the Release below. Relaxed: the fence orders it.
        if mark.0.load(Ordering::Acquire) == self.period.load(Ordering::Relaxed) {
            return;
        }
        let is_shared = is_shared();
        let mut sets = self.sets();
        sets.unsynced.insert(index);
        if is_shared {
            sets.untold.insert(index);
        }
        // Relaxed: under the mutex the period does not change. Release: who finds the mark finds the entry.
        mark.0.store(self.period.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Enters a segment into which bytes were stored at another's word, to be brought to the storage device. Other
    /// nodes learn whose change that was otherwise: told here, it would be news to the node that made it, too.
    ///
    /// The segment's mark stays as it is: who finds that of now relies on it that other nodes will be told.
    pub(crate) fn enter_for_another(&self, index: SegmentIndex) {
        self.sets().unsynced.insert(index);
    }

    /// Hands over those of which other nodes have not been told. On return all are told that were entered before,
    /// whoever did so.
    pub(crate) fn tell(&self, tell: impl FnMut(SegmentIndex)) {
        let mut sets = self.sets();
        if !sets.untold.is_empty() {
            self.take(&mut sets.untold).into_iter().for_each(tell);
        }
    }

    /// Hands over those that are not on the storage device yet. On success all are that were entered before, whoever
    /// did so; otherwise that one is kept for which there was an error, and those after it.
    ///
    /// After an [`Unsynced`] there is never success again: the system tells once of bytes that it could not write back,
    /// and takes them for written from then on.
    ///
    /// # Errors
    /// What `sync` says; once that was [`Error::Unsynced`], the same each time.
    pub(crate) fn sync(&self, mut sync: impl FnMut(SegmentIndex) -> Result<()>) -> Result<()> {
        let mut unsynced = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &*unsynced {
            return Err(Error::Unsynced(first.clone()));
        }
        let mut remaining = {
            let mut sets = self.sets();
            self.take(&mut sets.unsynced).into_iter()
        };
        while let Some(index) = remaining.next() {
            if let Err(error) = sync(index) {
                if let Error::Unsynced(first) = &error {
                    *unsynced = Some(first.clone());
                }
                let mut sets = self.sets();
                sets.unsynced.insert(index);
                sets.unsynced.extend(remaining);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Hands over those that are not on the storage device yet, for others to bring them there: who calls this changes
    /// nothing any more.
    pub(crate) fn hand_over(&self, hand: impl FnMut(SegmentIndex)) {
        let mut sets = self.sets();
        if !sets.unsynced.is_empty() {
            self.take(&mut sets.unsynced).into_iter().for_each(hand);
        }
    }

    /// Whether there was something that the storage device did not take.
    pub(crate) fn have_failed(&self) -> bool {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// How many are not on the storage device yet.
    #[cfg(test)]
    pub(crate) fn unsynced(&self) -> usize {
        self.sets().unsynced.len()
    }

    /// Takes one of the sets, whose mutex is held, and begins a period.
    fn take(&self, set: &mut BTreeSet<SegmentIndex>) -> BTreeSet<SegmentIndex> {
        // Relaxed: the fence orders it, see `enter`.
        self.period.store(next_period(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        std::mem::take(set)
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        // A panic elsewhere leaves the sets whole.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next_period() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    // Relaxed: only uniqueness counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const SEGMENT: SegmentIndex = SegmentIndex(7);

    #[test]
    fn a_sync_returns_when_another_one_has_brought_home_what_it_took() {
        let (changes, mark) = (Changes::default(), Mark::default());
        changes.enter(SEGMENT, &mark, || true);
        let is_there = std::sync::atomic::AtomicBool::new(false);
        let (taken, is_taken) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sync = |_| {
                    taken.send(()).unwrap();
                    // As if the device were slow.
                    (0..1000).for_each(|_| std::thread::yield_now());
                    is_there.store(true, Ordering::Release);
                    Ok(())
                };
                changes.sync(sync).unwrap();
            });
            is_taken.recv().unwrap();
            changes.sync(|_| panic!("it was taken")).unwrap();
            assert!(is_there.load(Ordering::Acquire));
        });
    }

    #[test]
    fn what_was_stored_for_another_is_synced_and_not_told() {
        let (changes, mark) = (Changes::default(), Mark::default());
        let (mut told, mut synced) = (0, 0);
        changes.enter_for_another(SEGMENT);
        changes.tell(|_| told += 1);
        assert_eq!(told, 0);
        // One's own change is told, whether or not the segment was entered before.
        changes.enter(SEGMENT, &mark, || true);
        changes.enter_for_another(SEGMENT);
        changes.tell(|_| told += 1);
        let sync = |_| {
            synced += 1;
            Ok(())
        };
        changes.sync(sync).unwrap();
        assert_eq!((told, synced, changes.unsynced()), (1, 1, 0));
    }

    #[test]
    fn what_could_not_be_synced_is_tried_again() {
        let (changes, marks) = (Changes::default(), [0, 1, 2].map(|_| Mark::default()));
        (0..).zip(&marks).for_each(|(index, mark)| changes.enter(SegmentIndex(index), mark, || false));
        let fails = |index| match index {
            SegmentIndex(1) => {
                Err(Error::io("mapping", "store".as_ref(), std::io::Error::other("no descriptors left")))
            }
            _ => Ok(()),
        };
        assert!(changes.sync(fails).is_err());
        let mut again = Vec::new();
        changes
            .sync(|index| {
                again.push(index.0);
                Ok(())
            })
            .unwrap();
        assert_eq!(again, [1, 2]);
        assert!(!changes.have_failed());
    }

    #[test]
    fn what_the_device_did_not_take_once_is_never_taken_for_synced() {
        let (changes, mark) = (Changes::default(), Mark::default());
        let unsynced = || {
            let (name, path, kind) = ("/f".to_owned(), "store".into(), ErrorKind::NoSpace);
            Error::Unsynced(Unsynced { name, segment: SEGMENT, path, kind, problem: "it is full".into() })
        };
        changes.enter(SEGMENT, &mark, || false);
        assert!(changes.sync(|_| Err(unsynced())).is_err());
        changes.enter(SEGMENT, &mark, || false);
        for _ in 0..2 {
            let error = changes.sync(|_| Ok(())).unwrap_err();
            assert_eq!((error.to_string(), error.kind()), (unsynced().to_string(), ErrorKind::NoSpace));
        }
        assert!(changes.have_failed());
    }
}

/// All interleavings of two threads that change one segment.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::Relaxed;
    use loom::thread;

    use super::*;

    #[derive(Default)]
    struct Shared {
        changes: Changes,
        mark: Mark,
        /// What each stores, and what was seen of that by who handed the segment over.
        bytes: [AtomicU64; 2],
        seen: [AtomicU64; 2],
    }

    impl Shared {
        fn change(&self, own: usize) {
            self.bytes[own].store(1, Relaxed);
            self.changes.enter(SegmentIndex(7), &self.mark, || true);
        }

        /// As an agent does.
        fn change_for_another(&self, own: usize) {
            self.bytes[own].store(1, Relaxed);
            self.changes.enter_for_another(SegmentIndex(7));
        }

        fn look(&self) {
            for (bytes, seen) in self.bytes.iter().zip(&self.seen) {
                seen.fetch_max(bytes.load(Relaxed), Relaxed);
            }
        }

        fn hand_over(&self, own: usize, how: fn(&Shared)) {
            how(self);
            assert_eq!(
                self.seen[own].load(Relaxed),
                1,
                "what {own} stored before goes with what is handed over"
            );
        }
    }

    fn tell(shared: &Shared) {
        shared.changes.tell(|_| shared.look());
    }

    fn sync(shared: &Shared) {
        shared
            .changes
            .sync(|_| {
                shared.look();
                Ok(())
            })
            .expect("nothing fails");
    }

    /// One hands over, the other only changes, or also hands over.
    fn check(hows: [Option<fn(&Shared)>; 2]) {
        check_changes([Shared::change; 2], hows);
    }

    fn check_changes(changes: [fn(&Shared, usize); 2], hows: [Option<fn(&Shared)>; 2]) {
        loom::model(move || {
            let shared = Arc::new(Shared::default());
            let act = move |own: usize, shared: &Shared| {
                changes[own](shared, own);
                if let Some(how) = hows[own] {
                    shared.hand_over(own, how);
                }
            };
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || act(1, &shared))
            };
            act(0, &shared);
            other.join().expect("it ends");
        });
    }

    #[test]
    fn who_tells_what_others_change_too_tells_his_own() {
        check([Some(tell), None]);
    }

    #[test]
    fn who_syncs_what_others_change_too_syncs_his_own() {
        check([Some(sync), None]);
    }

    #[test]
    fn who_tells_what_is_changed_for_another_too_tells_his_own() {
        check_changes([Shared::change, Shared::change_for_another], [Some(tell), None]);
    }

    #[test]
    fn who_syncs_what_is_changed_for_another_too_syncs_his_own() {
        check_changes([Shared::change, Shared::change_for_another], [Some(sync), None]);
    }

    #[test]
    fn who_changes_for_another_and_syncs_syncs_that_while_others_tell_and_sync() {
        check_changes([Shared::change, Shared::change_for_another], [Some(tell), Some(sync)]);
        check_changes([Shared::change, Shared::change_for_another], [Some(sync), Some(sync)]);
    }

    #[test]
    fn two_tell() {
        check([Some(tell), Some(tell)]);
    }

    #[test]
    fn two_sync() {
        check([Some(sync), Some(sync)]);
    }

    #[test]
    fn one_tells_and_one_syncs() {
        check([Some(tell), Some(sync)]);
    }
}
