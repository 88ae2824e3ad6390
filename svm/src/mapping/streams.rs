//! What faults tell of those to come: who touches pages one after the other, forwards, backwards or at a distance, will
//! probably go on.
//!
//! A stream is a row of faults. Once it is recognised, the pages ahead of it are fetched, a window at a time. The first
//! page of a window is kept [ready](super::page::PageState::Ready) and not in place, so that touching it is a fault,
//! which tells that the window is of use: the next one, of twice the size, is then asked for, while this one is worked
//! on.

use std::collections::VecDeque;

/// The most streams that are followed at a time; the one that went on the longest time ago makes room.
const STREAMS: usize = 16;
/// Faults further apart, in pages, belong to different streams.
const FARTHEST: u64 = 256;
/// Pages of the first window.
const FIRST: u64 = 4;

/// Rows of faults.
#[derive(Debug)]
pub(super) struct Streams {
    /// Those that went on last come last.
    streams: VecDeque<Stream>,
    /// The most pages of a window.
    most: u64,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    last: u64,
    /// From one fault to the next, pages; 0 where there was one only.
    stride: i64,
    /// Which fault means that the stream goes on.
    next: Option<u64>,
    /// Behind the last page that was fetched ahead.
    frontier: u64,
    /// Pages of the last window.
    window: u64,
}

/// Pages that are to be fetched ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The first of them, by which it is told that the window is of use.
    pub(super) first: u64,
    pub(super) stride: i64,
    pub(super) count: u64,
}

impl Window {
    /// Its pages, as far as they lie within the file.
    pub(super) fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        let Window { first, stride, count } = *self;
        (0..count as i64).map_while(move |number| first.checked_add_signed(stride.checked_mul(number)?))
    }
}

impl Streams {
    /// Which fetch at most so many pages ahead; none for 0.
    pub(super) fn new(most: u64) -> Streams {
        Streams { streams: VecDeque::new(), most }
    }

    /// Takes note of a fault; returns what is to be fetched ahead. `is_sequential` says that the program has announced
    /// to go through these pages one after the other.
    pub(super) fn touched(&mut self, page: u64, is_sequential: bool) -> Option<Window> {
        if self.most == 0 {
            return None;
        }
        let goes_on = |stream: &Stream| stream.next == Some(page) || stream.has_foreseen(page);
        if let Some(at) = self.streams.iter().position(goes_on) {
            let mut stream = self.streams.remove(at)?;
            stream.last = page;
            let window = if stream.is_of_use(page) { stream.advance(page, self.most) } else { None };
            self.streams.push_back(stream);
            return window;
        }
        let distance = |stream: &Stream| stream.last.abs_diff(page);
        let nearest = self.streams.iter().enumerate().filter(|(_, stream)| distance(stream) <= FARTHEST);
        let nearest = nearest.min_by_key(|(_, stream)| distance(stream)).map(|(at, _)| at);
        let Some(at) = nearest else {
            let next = is_sequential.then_some(page);
            let stride = i64::from(is_sequential);
            let mut stream = Stream { last: page, stride, next, frontier: page + 1, window: 0 };
            let window = if is_sequential { stream.advance(page, self.most) } else { None };
            if self.streams.len() >= STREAMS {
                self.streams.pop_front();
            }
            self.streams.push_back(stream);
            return window;
        };
        if distance(&self.streams[at]) == 0 {
            return None;
        }
        let mut stream = self.streams.remove(at)?;
        let stride = page.wrapping_sub(stream.last).cast_signed();
        let is_new = stride != stream.stride;
        (stream.last, stream.stride) = (page, stride);
        (stream.window, stream.frontier) = (0, page);
        // Neighbours are convincing at once; a distance, when it comes again.
        let window = if stride.abs() == 1 || !is_new {
            stream.advance(page, self.most)
        } else {
            stream.next = page.checked_add_signed(stride);
            None
        };
        self.streams.push_back(stream);
        window
    }
}

impl Stream {
    /// Whether a page is one that was fetched ahead, and is touched before it has come: whoever goes through pages
    /// faster than they come waits for some of them, and goes on.
    fn has_foreseen(&self, page: u64) -> bool {
        self.window > 0
            && self.steps(self.last, page).is_some_and(|steps| steps > 0)
            && self.steps(page, self.frontier).is_some_and(|steps| steps > 0)
    }

    /// Whether touching a page tells that the last window is of use.
    fn is_of_use(&self, page: u64) -> bool {
        self.next.is_some_and(|next| next == page || self.steps(next, page).is_some_and(|steps| steps >= 0))
    }

    /// How many strides it is from one page to another one.
    fn steps(&self, from: u64, to: u64) -> Option<i64> {
        let distance = to.wrapping_sub(from).cast_signed();
        (distance.checked_rem(self.stride) == Some(0)).then(|| distance / self.stride)
    }

    /// The next window, after a fault at `page`.
    fn advance(&mut self, page: u64, most: u64) -> Option<Window> {
        let first = match self.window {
            0 => page.checked_add_signed(self.stride)?,
            _ => self.frontier,
        };
        self.window = (self.window * 2).clamp(FIRST, most.max(FIRST));
        let window = Window { first, stride: self.stride, count: self.window };
        self.next = Some(first);
        self.frontier = first.saturating_add_signed(self.stride.saturating_mul(self.window as i64));
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// How many of the pages, touched in this order, are faults, and how many pages were fetched ahead for nothing.
    fn faults(touched: impl IntoIterator<Item = u64>, is_sequential: bool) -> (usize, usize) {
        let mut streams = Streams::new(1024);
        let (mut here, mut markers, mut used) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut faults = 0;
        for page in touched {
            used.insert(page);
            if here.contains(&page) && !markers.remove(&page) {
                continue;
            }
            faults += 1;
            here.insert(page);
            if let Some(window) = streams.touched(page, is_sequential) {
                markers.extend(window.pages().next().filter(|page| !here.contains(page)));
                here.extend(window.pages());
            }
        }
        (faults, here.difference(&used).count())
    }

    #[test]
    fn who_waits_for_pages_that_come_too_slowly_still_goes_on() {
        for stride in [1i64, -1, 7] {
            let mut streams = Streams::new(1024);
            // Every so many pages are waited for, though they were asked for.
            let (mut asked, mut marker, mut windows) = (BTreeSet::new(), None, 0);
            let page = |number: u64| (1u64 << 40).wrapping_add_signed(number as i64 * stride);
            for number in 0..100_000 {
                let is_there = asked.contains(&page(number));
                if is_there && number % 15 != 0 && marker != Some(page(number)) {
                    continue;
                }
                if let Some(window) = streams.touched(page(number), false) {
                    let before = asked.len();
                    asked.extend(window.pages());
                    marker = Some(window.first);
                    assert_eq!(asked.len() - before, window.count as usize, "nothing is asked for twice");
                    windows += 1;
                }
            }
            assert!(windows < 120 && asked.len() < 103_000, "{windows} windows, {} pages", asked.len());
        }
    }

    #[test]
    fn rows_of_faults_are_foreseen_and_chance_is_not() {
        let many = 100_000;
        for (name, pages) in [
            ("forwards", (0..many).collect::<Vec<u64>>()),
            ("backwards", (0..many).rev().collect()),
            ("every seventh", (0..many).map(|page| page * 7).collect()),
            ("every seventh, backwards", (0..many).rev().map(|page| page * 7).collect()),
            ("two at once", (0..many / 2).flat_map(|page| [page, 1 << 40 | page]).collect()),
        ] {
            let (faults, vain) = faults(pages, false);
            assert!(faults < 250 && vain < 4 * 1024, "{name}: {faults} faults, {vain} pages in vain");
        }
        assert!(faults(0..many, true).0 <= faults(0..many, false).0);
        let mut random = 1u64;
        let chance = (0..many).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 34
        });
        let (_, vain) = faults(chance, false);
        assert!(vain < 100, "{vain} pages in vain");
    }
}
