//! Which segments a process has open to read them by itself: those of all its files that were read last.
//!
//! Opening one takes a question and some system calls, and another one is closed for it where as many are open as may
//! be. So a segment is asked for some times first: at the beginning [`BEFORE`] times, and twice as often from then on
//! whenever one of its file is closed that was not of use [`WORTH`] times. Who goes round more segments than can be
//! open so gets to where opening costs next to nothing, and the segments of other files stay; who comes back to some of
//! them has these open in the end.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::units::SegmentIndex;

/// So many times a segment is asked for before it is opened: one page is not worth it.
const BEFORE: u32 = 1;

/// The most often that one is: then opening, which is a question more, costs as much as a sixty-fourth of the
/// questions.
const MOST_BEFORE: u32 = 64;

/// So many times it is asked for after it could not be opened.
const BEFORE_AGAIN: u32 = 1000;

/// So many fetches that need not be asked for are worth opening a segment: even where each takes two thirds of the
/// time, they save a question and a third, which is more than opening takes.
const WORTH: u32 = 4;

/// Of how many closed segments of a file it is remembered how often they were asked for; of more than that, those are
/// never opened that are read once in a round.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// What is open, of all files.
pub(super) struct Opened<T>(Mutex<Entries<T>>);

/// By the number of the file's candidates, and the segment.
type Entries<T> = LruCache<(u64, SegmentIndex), Arc<Entry<T>>>;

struct Entry<T> {
    what: Arc<T>,
    /// How often it was found.
    uses: AtomicU32,
    /// That of its file.
    needed: Arc<AtomicU32>,
}

/// The segments of one file.
pub(super) struct Candidates<T> {
    opened: Arc<Opened<T>>,
    /// Tells them from other files'.
    number: u64,
    /// How many times more closed ones are asked for before they are opened.
    closed: Mutex<LruCache<SegmentIndex, u32>>,
    /// How often one is asked for before that.
    needed: Arc<AtomicU32>,
}

/// What is known of a segment.
pub(super) enum Found<T> {
    /// It can be read.
    Open(Arc<T>),
    /// It should be opened.
    Closed,
    /// It is to be asked for.
    Nothing,
}

impl<T> Opened<T> {
    /// Of which there are `most` at a time, besides those that are just being read.
    pub(super) fn new(most: NonZeroUsize) -> Opened<T> {
        Opened(Mutex::new(LruCache::new(most)))
    }

    fn all(&self) -> MutexGuard<'_, Entries<T>> {
        // A panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Candidates<T> {
    /// Of a file of which nothing is open.
    pub(super) fn new(opened: Arc<Opened<T>>) -> Candidates<T> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (closed, needed) = (Mutex::new(LruCache::new(REMEMBERED)), Arc::new(AtomicU32::new(BEFORE)));
        // Relaxed: only uniqueness counts.
        Candidates { opened, number: NEXT.fetch_add(1, Ordering::Relaxed), closed, needed }
    }

    /// What is known of a segment, which is wanted once more; `at_once` where it is worth it to open it the first time.
    pub(super) fn find(&self, index: SegmentIndex, at_once: bool) -> Found<T> {
        if let Some(entry) = self.opened.all().get(&(self.number, index)) {
            // Relaxed, as all numbers here: each stands for itself.
            entry.uses.fetch_add(1, Ordering::Relaxed);
            return Found::Open(Arc::clone(&entry.what));
        }
        if at_once {
            return Found::Closed;
        }
        let mut closed = self.closed();
        let left = closed.get_or_insert_mut(index, || self.needed.load(Ordering::Relaxed));
        match left.checked_sub(1) {
            None => Found::Closed,
            Some(less) => {
                *left = less;
                Found::Nothing
            }
        }
    }

    /// A segment is open from now on; `None` where it could not be opened.
    pub(super) fn put(&self, index: SegmentIndex, what: Option<Arc<T>>) {
        let Some(what) = what else {
            self.closed().put(index, BEFORE_AGAIN);
            return;
        };
        self.closed().pop(&index);
        let entry = Arc::new(Entry { what, uses: AtomicU32::new(0), needed: Arc::clone(&self.needed) });
        let replaced = self.opened.all().push((self.number, index), entry);
        // It goes only here, when the mutex is free.
        if let Some((key, replaced)) = replaced
            && key != (self.number, index)
        {
            replaced.learn();
        }
    }

    fn closed(&self) -> MutexGuard<'_, LruCache<SegmentIndex, u32>> {
        // A panic elsewhere leaves the map whole.
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Entry<T> {
    /// It was closed to make room.
    fn learn(&self) {
        // It never becomes less: of those that go round, the ones that stay open are of much use, and each that is
        // opened drives one of them out.
        if self.uses.load(Ordering::Relaxed) < WORTH {
            let twice = |needed: u32| Some((2 * needed).min(MOST_BEFORE));
            let _ = self.needed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, twice);
        }
    }
}

impl<T> Drop for Candidates<T> {
    /// What is open of the file is closed.
    fn drop(&mut self) {
        let mut all = self.opened.all();
        let own: Vec<_> =
            all.iter().map(|(key, _)| *key).filter(|(number, _)| *number == self.number).collect();
        let gone: Vec<_> = own.iter().filter_map(|key| all.pop(key)).collect();
        drop(all);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 64;

    fn opened() -> Arc<Opened<()>> {
        Arc::new(Opened::new(NonZeroUsize::new(MOST as usize).unwrap()))
    }

    /// Fetches from a segment, which is opened when it should be; whether it was.
    fn fetch(file: &Candidates<()>, index: u32) -> bool {
        let is_opened = matches!(file.find(SegmentIndex(index), false), Found::Closed);
        if is_opened {
            file.put(SegmentIndex(index), Some(Arc::default()));
        }
        is_opened
    }

    fn is_open(file: &Candidates<()>, index: u32) -> bool {
        matches!(file.find(SegmentIndex(index), false), Found::Open(_))
    }

    #[test]
    fn a_segment_is_asked_for_before_it_is_opened() {
        let (file, index) = (Candidates::new(opened()), SegmentIndex(3));
        assert!(matches!(file.find(index, true), Found::Closed));
        for _ in 0..BEFORE {
            assert!(matches!(file.find(index, false), Found::Nothing));
        }
        assert!(matches!(file.find(index, false), Found::Closed));
        file.put(index, None);
        assert!(matches!(file.find(index, true), Found::Closed));
        assert!((0..BEFORE_AGAIN).all(|_| matches!(file.find(index, false), Found::Nothing)));
        assert!(matches!(file.find(index, false), Found::Closed));
    }

    #[test]
    fn who_goes_round_more_segments_than_can_be_open_opens_few() {
        for (segments, fetches) in [(MOST + 1, 1), (MOST + 1, 3), (4 * MOST, 3), (20 * MOST, 2)] {
            let file = Candidates::new(opened());
            let rounds = 400;
            let one = |number| fetch(&file, number / fetches % segments);
            let opened = (0..rounds * segments * fetches).filter(|number| one(*number)).count() as u32;
            // Each some times until it is known what comes, and then one fetch of many.
            let bound = 8 * segments + rounds * segments * fetches / (MOST_BEFORE / 2);
            assert!(opened <= bound, "{opened} of {segments}, each {fetches} times in a row");
        }
    }

    #[test]
    fn what_is_worth_it_is_opened_each_time() {
        let file = Candidates::new(opened());
        let segments = 2 * MOST;
        for round in 0..5 {
            for index in 0..segments {
                let opened = (0..2 + WORTH).filter(|_| fetch(&file, index)).count();
                assert_eq!(opened, 1, "in round {round}");
            }
        }
    }

    #[test]
    fn no_file_keeps_others_from_having_their_segments_open() {
        let opened = opened();
        let (one, other) = (Candidates::new(Arc::clone(&opened)), Candidates::new(opened));
        for index in 0..MOST {
            while !is_open(&one, index) {
                fetch(&one, index);
            }
        }
        assert!(!fetch(&other, 0) && fetch(&other, 0) && is_open(&other, 0));
        // The one that was not read for longest made room.
        assert!(!is_open(&one, 0) && (1..MOST).all(|index| is_open(&one, index)));
        // Whoever goes round many does not drive out what is read all the time.
        for number in 0..100 * MOST {
            fetch(&one, number % (2 * MOST));
            assert!(is_open(&other, 0));
        }
    }

    #[test]
    fn what_is_open_of_a_file_goes_with_it() {
        let opened = opened();
        let files = [0, 1].map(|_| Candidates::new(Arc::clone(&opened)));
        for file in &files {
            file.put(SegmentIndex(0), Some(Arc::default()));
        }
        let [gone, stays] = files;
        drop(gone);
        assert!(is_open(&stays, 0));
        assert_eq!(opened.all().len(), 1);
    }
}
