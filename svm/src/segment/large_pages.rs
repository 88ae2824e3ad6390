//! Large pages for a segment on tmpfs.
//!
//! A tmpfs gives pages of the smallest size unless it was mounted with `huge=`, and `/dev/shm` is not. But the kernel
//! puts any aligned part of a mapped file into one large page where it is asked to (`MADV_COLLAPSE`, Linux 6.1): what
//! has storage is copied, the rest is zero. That costs an eighth of what the small pages cost, the first write of a
//! file becomes three times faster, and whoever maps the file later finds one page where there were 512. Kernels before
//! that give a large page when it is first touched, where the file system was mounted so: with `huge=advise` if the mapping
//! asks for it (`MADV_HUGEPAGE`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::retry_on_intr;

use super::maker::{Maker, wait_for_makers};
use super::mapping::Mapping;
use super::next_data;
use super::patience::{Clock, PATIENCE, Pace};

/// Of a large page, this part (one in so many) has to be known to be in use: making the page costs what as many small
/// ones do, and files that stay small, or have holes, do not take many times their size.
pub(super) const DESERVING: u64 = 8;

/// Large pages, where a segment can have them.
#[derive(Debug, Clone, Copy)]
pub(super) struct LargePages {
    bytes: u64,
    wish: Wish,
}

impl LargePages {
    /// Those of a segment of `segment` bytes; `None` where it has no room for any, where the system has none, or where
    /// `SVMIO_LARGE_PAGES` is `never`.
    pub(super) fn of(segment: u64) -> Option<LargePages> {
        static PAGES: OnceLock<Option<LargePages>> = OnceLock::new();
        let pages = *PAGES.get_or_init(|| match Wish::told() {
            Wish::Never => None,
            wish => size().map(|bytes| LargePages { bytes, wish }),
        });
        pages.filter(|pages| segment.is_multiple_of(pages.bytes))
    }

    /// Bytes of each.
    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }

    /// The large pages to make before `range`, which has no storage as far as is known, is written: all that lie in it,
    /// and the first and the last where `deserves` says so of the whole page and the part of it to be written.
    pub(super) fn around(
        self,
        range: &Range<u64>,
        deserves: impl Fn(Range<u64>, Range<u64>) -> bool,
    ) -> Range<u64> {
        let bytes = self.bytes;
        let is_worth = |start: u64| {
            let part = start.max(range.start)..(start + bytes).min(range.end);
            part.end - part.start == bytes || deserves(start..start + bytes, part)
        };
        let mut start = range.start / bytes * bytes;
        let mut end = range.end.next_multiple_of(bytes);
        if !is_worth(start) {
            start += bytes;
        }
        if start < end && !is_worth(end - bytes) {
            end -= bytes;
        }
        start..end.max(start)
    }

    /// Puts `pages` of the mapped `file`, whole large pages, into large pages, with storage for all their bytes. Each
    /// has bytes in `range`, which is about to be written, and all but the first and the last no others. Where that does
    /// not come about, nothing has changed but where bytes lie.
    pub(super) fn make(
        self,
        file: &File,
        map: &Mapping,
        pages: Range<u64>,
        range: &Range<u64>,
        when_busy: WhenBusy<impl FnOnce()>,
    ) -> Outcome {
        if !PATIENCE.may_try(range.end - range.start) {
            return Outcome::Refused;
        }
        let (number, clock) = (self.number(&pages), Clock::start());
        let made = self.make_beside_others(file, map, pages, range, when_busy);
        // Small pages are written at 2 to 5 GB/s.
        self.learn(made, clock, number, Duration::from_nanos(self.bytes / 2))
    }

    /// The same before anybody writes to the pages, while other processes make others. Does not wait for who has hold of
    /// one of them.
    pub(super) fn make_ahead(self, file: &File, map: &Mapping, pages: Range<u64>) -> Outcome {
        if PATIENCE.is_waiting() {
            return Outcome::Busy;
        }
        let (number, clock) = (self.number(&pages), Clock::start());
        let made = Maker::of(file, &pages).and_then(|maker| match maker {
            Some(_) if self.give_storage(file, map, pages.clone(), &pages)? => Ok(()),
            Some(_) => map.collapse(pages),
            None => Err(io::ErrorKind::WouldBlock.into()),
        });
        // All share what the memory carries.
        self.learn(made, clock, number, Duration::from_nanos(self.bytes))
    }

    fn number(self, pages: &Range<u64>) -> u32 {
        ((pages.end - pages.start) / self.bytes) as u32
    }

    /// What has become of so many of them, and what that tells of the next ones. Each that has taken more than `most` was
    /// slow.
    fn learn(self, made: io::Result<()>, clock: Clock, number: u32, most: Duration) -> Outcome {
        match made {
            Ok(()) => {
                match self.pace(clock, number, most) {
                    // Each time costs as much as a dozen others.
                    Pace::Slow => PATIENCE.failed(16 * self.bytes),
                    Pace::Fast => PATIENCE.granted(),
                    Pace::Unknown => {}
                }
                Outcome::Made
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Outcome::Busy,
            Err(_) => {
                PATIENCE.failed(self.bytes);
                Outcome::Refused
            }
        }
    }

    fn pace(self, clock: Clock, number: u32, most: Duration) -> Pace {
        // Nothing fills large ones at 40 GB/s.
        let least = Duration::from_nanos(self.bytes / 40);
        let (elapsed, computed) = clock.taken();
        match (elapsed / number, computed / number) {
            (_, computed) if computed > most && self.wish == Wish::Auto => Pace::Slow,
            // Waited for another process that made the same, or had nothing to do.
            (elapsed, computed) if elapsed > most || computed < least => Pace::Unknown,
            _ => Pace::Fast,
        }
    }

    /// What has no storage at all stays as it is: each large page gets some, where it will be written. Returns whether
    /// all are large with that: others were making them, or the file system has no other pages.
    fn give_storage(
        self,
        file: &File,
        map: &Mapping,
        pages: Range<u64>,
        range: &Range<u64>,
    ) -> io::Result<bool> {
        let mut are_made = true;
        for page in pages.step_by(self.bytes as usize) {
            let is_given = self.give_content(file, map, page.max(range.start))?;
            are_made &= is_given && self.is_whole(file, page)?;
        }
        Ok(are_made)
    }

    /// Has the page at `at` not only storage but content. Returns whether it got some now.
    ///
    /// fallocate(2) gives storage that nobody has cleared: a whole large page of it, where the file system has such ones by
    /// itself. `MADV_COLLAPSE` maps that page as it is (Linux 6.18). Others then read zeros where this process stores
    /// something, and clear the page when they map it. A write by a page fault has it cleared before.
    fn give_content(self, file: &File, map: &Mapping, at: u64) -> io::Result<bool> {
        // What another process has locked has some; giving it more would be waiting.
        match next_data(file, at..at + 1)? {
            Some(_) => Ok(false),
            None => {
                if !map.knows_collapsing() {
                    // Refused where there are none at all; and the page is looked at anyway.
                    let page = at / self.bytes * self.bytes;
                    let _ = map.ask_for_large_pages(page..page + self.bytes);
                }
                map.populate_for_writing(at..at + 1).map(|()| true)
            }
        }
    }

    /// Whether the page has storage for all its bytes.
    fn is_whole(self, file: &File, page: u64) -> io::Result<bool> {
        let page = page..page + self.bytes;
        Ok(next_data(file, page.clone())? == Some(page))
    }

    /// Makes those of `pages` that nobody else makes, and then sees to the others.
    fn make_beside_others(
        self,
        file: &File,
        map: &Mapping,
        pages: Range<u64>,
        range: &Range<u64>,
        when_busy: WhenBusy<impl FnOnce()>,
    ) -> io::Result<()> {
        let page = |start: u64| start..start + self.bytes;
        let (first, last) = (page(pages.start), page(pages.end - self.bytes));
        let maker_of_first = Maker::of(file, &first)?;
        let maker_of_last = if first == last { None } else { Maker::of(file, &last)? };
        let mut free = pages;
        let mut busy = Vec::new();
        if maker_of_first.is_none() {
            free.start = first.end;
            busy.push(first.start);
        }
        if maker_of_last.is_none() && first != last {
            free.end = last.start;
            busy.push(last.start);
        }
        if !free.is_empty() {
            self.make_now(file, map, free, range)?;
        }
        drop((maker_of_first, maker_of_last));
        match when_busy {
            _ if busy.is_empty() => return Ok(()),
            WhenBusy::Leave => return Err(io::ErrorKind::WouldBlock.into()),
            WhenBusy::WaitAfter(meanwhile) => meanwhile(),
        }
        busy.into_iter().try_for_each(|start| self.make_behind_others(file, map, start, range))
    }

    /// Makes `pages`, which no other process that knows of makers makes.
    fn make_now(self, file: &File, map: &Mapping, pages: Range<u64>, range: &Range<u64>) -> io::Result<()> {
        if self.give_storage(file, map, pages.clone(), range)? {
            return Ok(());
        }
        match map.collapse(pages.clone()) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            made => return made,
        }
        // Somebody has written small pages into one of them, or has one in hand for another reason.
        pages.step_by(self.bytes as usize).try_for_each(|page| self.insist(file, map, page, range))
    }

    /// Makes one page of which the kernel has said that it is in somebody's hands.
    fn insist(self, file: &File, map: &Mapping, page: u64, range: &Range<u64>) -> io::Result<()> {
        let mut made = Err(io::ErrorKind::WouldBlock.into());
        for _ in 0..TRIES {
            let at = page.max(range.start);
            // Waits where the page that has storage is locked.
            retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), at, 1))?;
            self.give_content(file, map, at)?;
            if self.is_whole(file, page)? {
                return map.populate(at..at + 1);
            }
            made = map.collapse(page..page + self.bytes);
            if !matches!(&made, Err(e) if e.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
        }
        made
    }

    /// Maps one page that another process makes, when it has; makes it if that one has not.
    fn make_behind_others(self, file: &File, map: &Mapping, page: u64, range: &Range<u64>) -> io::Result<()> {
        let whole = page..page + self.bytes;
        for _ in 0..TRIES {
            wait_for_makers(file, &whole)?;
            if self.is_whole(file, page)? {
                let at = page.max(range.start);
                return map.populate(at..at + 1);
            }
            if let Some(_maker) = Maker::of(file, &whole)? {
                return self.make_now(file, map, whole, range);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Who has waited once, mostly finds a page made.
const TRIES: u32 = 4;

/// What to do about pages that other processes make at this moment.
pub(super) enum WhenBusy<M> {
    /// Leave them to those.
    Leave,
    /// Do something else, and then wait until they are made.
    WaitAfter(M),
}

/// What became of pages that were to be large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Made,
    /// Another process has hold of one of them at this moment, perhaps to do the same.
    Busy,
    /// They are better left as they are.
    Refused,
}

/// Bytes of the system's large pages.
pub(super) fn size() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
    text.trim().parse().ok().filter(|bytes: &u64| bytes.is_power_of_two())
}

/// Whether large pages are to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Never,
    /// As long as they come quickly.
    Auto,
    /// However long they take.
    Always,
}

impl Wish {
    /// What `SVMIO_LARGE_PAGES` says. This crate's own tests always want them: they are about what becomes of them.
    fn told() -> Wish {
        if cfg!(test) {
            return Wish::Always;
        }
        match std::env::var_os("SVMIO_LARGE_PAGES") {
            None => Wish::Auto,
            Some(word) if word == "never" => Wish::Never,
            Some(word) if word == "always" => Wish::Always,
            Some(word) if word == "auto" || word.is_empty() => Wish::Auto,
            Some(word) => {
                let word = word.display();
                tracing::warn!("SVMIO_LARGE_PAGES={word} is none of always, auto and never: auto it is");
                Wish::Auto
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_pages_are_made_and_parts_where_they_deserve_it(
            start in 0u64..500, length in 1u64..500, deserving in 0u64..120,
        ) {
            let large = LargePages { bytes: 100, wish: Wish::Auto };
            let range = start..start + length;
            let made = large.around(&range, |_, part| part.end - part.start >= deserving);
            prop_assert!(made.start.is_multiple_of(100) && made.end.is_multiple_of(100));
            for page in (0..1200).step_by(100) {
                let part = page.max(range.start)..(page + 100).min(range.end);
                let bytes = part.end.saturating_sub(part.start);
                let is_worth = bytes > 0 && (bytes == 100 || bytes >= deserving);
                prop_assert_eq!(made.contains(&page), is_worth, "{}", page);
            }
        }
    }
}
