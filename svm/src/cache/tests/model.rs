//! Random operations of several handles, one after the other, against a plain model: for each byte, what its
//! home has, what may be read here, and whether it is dirty or on its way.

mod pages;
mod steps;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use pages::{PageModel, PendingFetch, PendingFlush, PendingOverwrite, PendingScatter, Served};
use steps::{Step, step};

const HANDLES: usize = 3;
/// The handle of a process that writes past the cache, dies over it, and does nothing else.
const MORTAL: usize = HANDLES;
const FILES: u8 = 2;
const PAGES: u64 = 4;

struct Run {
    handles: Vec<PageCache>,
    pages: BTreeMap<PageKey, PageModel>,
    fetches: Vec<PendingFetch>,
    flushes: Vec<PendingFlush>,
    overwrites: Vec<PendingOverwrite>,
    scatters: Vec<PendingScatter>,
}

fn overlaps(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

/// One of those pending, if there are any.
fn take<T>(pending: &mut Vec<T>, which: usize) -> Option<T> {
    (!pending.is_empty()).then(|| pending.swap_remove(which % pending.len()))
}

impl Run {
    fn new(capacity: u64) -> Run {
        let first = cache_of(capacity);
        let mut handles: Vec<_> = (0..HANDLES).map(|_| open_again(&first)).collect();
        handles.push(first);
        let keys = (0..FILES).flat_map(|file| (0..PAGES).map(move |page| key(file, page)));
        let pages = keys.map(|key| (key, PageModel::new())).collect();
        let (fetches, flushes, overwrites, scatters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Run { handles, pages, fetches, flushes, overwrites, scatters }
    }

    fn page(&mut self, key: &PageKey) -> &mut PageModel {
        self.pages.get_mut(key).unwrap()
    }

    /// MPI leaves open what becomes of bytes that are written twice at once: of those written here the test does not.
    fn is_being_overwritten(&self, key: &PageKey, within: &Range<u32>) -> bool {
        let overwrites = self.overwrites.iter().map(|o| (&o.key, &o.within));
        let scatters = self.scatters.iter().map(|s| (&s.key, &s.within));
        overwrites.chain(scatters).any(|(other, there)| other == key && overlaps(there, within))
    }

    /// Whether bytes are on their way home past the cache, and have not come there.
    fn is_sent_past(&self, key: &PageKey, within: &Range<u32>) -> bool {
        let overwrites = self.overwrites.iter().filter(|o| !o.is_home).map(|o| (&o.key, &o.within));
        let scatters = self.scatters.iter().map(|s| (&s.key, &s.within));
        overwrites.chain(scatters).any(|(other, there)| other == key && overlaps(there, within))
    }

    /// Flushes a page that is in the way, at once.
    fn make_way(&mut self, by: usize, victim: PageKey) {
        let model = self.page(&victim);
        assert!(model.dirty.iter().any(Option::is_some), "a clean page is in nobody's way");
        assert!(!model.flushing.iter().any(Option::is_some), "this one cannot be flushed");
        self.begin_flush(by, victim);
        let flush = self.flushes.pop().expect("it is dirty");
        self.finish_flush(flush);
    }

    fn begin_flush(&mut self, by: usize, key: PageKey) {
        let state = self.handles[by].begin_flush(&key).unwrap();
        let model = self.page(&key);
        let flushing = model.flushing.iter().any(Option::is_some);
        let dirty = model.dirty.iter().any(Option::is_some);
        match state {
            FlushState::Elsewhere(_) => assert!(flushing),
            FlushState::Clean => assert!(!dirty && !flushing),
            FlushState::Begun(flush) => {
                assert!(dirty && !flushing);
                let mut bytes = flush.bytes.iter();
                let mut found = vec![None; PAGE as usize];
                for (start, length) in &flush.runs {
                    for byte in &mut found[indices(&(*start..start + length))] {
                        *byte = Some(*bytes.next().unwrap());
                    }
                }
                assert!(bytes.next().is_none() && found == model.dirty, "what is flushed is what is dirty");
                model.flushing = std::mem::replace(&mut model.dirty, vec![None; PAGE as usize]);
                self.flushes.push(PendingFlush { by, flush, is_home: false });
            }
        }
    }

    fn arrive(&mut self, pending: &mut PendingFlush) {
        if !std::mem::replace(&mut pending.is_home, true) {
            let model = self.page(&pending.flush.key);
            for at in 0..PAGE as usize {
                model.home[at] = model.flushing[at].unwrap_or(model.home[at]);
            }
        }
    }

    fn finish_flush(&mut self, mut pending: PendingFlush) {
        self.arrive(&mut pending);
        let PendingFlush { by, flush, .. } = pending;
        let model = self.page(&flush.key);
        for at in 0..PAGE as usize {
            if model.flushing[at].take().is_some() {
                // Others may have changed it since it came home.
                model.readable[at] |= 1 << model.home[at];
            }
        }
        self.handles[by].finish_flush(flush).unwrap();
    }

    /// Ends what is under way with pages that are gone: their bytes do not come home any more.
    fn drop_flushes(&mut self, gone: impl Fn(&PageKey) -> bool) {
        for pending in std::mem::take(&mut self.flushes) {
            if gone(&pending.flush.key) {
                self.handles[pending.by].finish_flush(pending.flush).unwrap();
            } else {
                self.flushes.push(pending);
            }
        }
    }

    fn arrive_past(&mut self, pending: &mut PendingOverwrite) {
        if !std::mem::replace(&mut pending.is_home, true) {
            self.page(&pending.key).home[indices(&pending.within)].fill(pending.value);
        }
    }

    fn take(&mut self, by: usize, key: PageKey, step: Step) {
        match step {
            Step::Read(within) => {
                let mut bytes = vec![0; within.len()];
                match self.handles[by].read_into(&key, within.start, &mut bytes) {
                    ReadOutcome::Copied => {
                        let readable = &self.page(&key).readable[indices(&within)];
                        let right = bytes.iter().zip(readable).all(|(byte, set)| set >> byte & 1 == 1);
                        assert!(right, "a byte that nobody can have written there");
                    }
                    ReadOutcome::Missing => {
                        let dirty = &self.page(&key).dirty[indices(&within)];
                        assert!(!dirty.iter().all(Option::is_some), "dirty bytes are there");
                    }
                    ReadOutcome::Coming(_) => assert!(self.fetches.iter().any(|f| f.ticket.key == key)),
                }
            }
            Step::Write(within, value) => {
                if self.is_being_overwritten(&key, &within) {
                    return;
                }
                let bytes = vec![value; within.len()];
                for _ in 0..2 {
                    match self.handles[by].write_from(&key, within.start, &bytes) {
                        WriteOutcome::Cached => {
                            let model = self.page(&key);
                            model.dirty[indices(&within)].fill(Some(value));
                            model.readable[indices(&within)].fill(1 << value);
                            return;
                        }
                        WriteOutcome::Crowded(victim) => self.make_way(by, victim),
                        WriteOutcome::NoRoom => panic!("nothing is quarantined"),
                        WriteOutcome::Busy(_) => {
                            assert!(!self.fetches.is_empty() || !self.flushes.is_empty());
                            return;
                        }
                    }
                }
                panic!("room has been made");
            }
            Step::BeginFetch => match self.handles[by].begin_fetch(&key).unwrap() {
                Fetch::Begun(ticket) => {
                    self.fetches.push(PendingFetch { by, ticket, served: Served::Nothing });
                }
                Fetch::Coming(_) => assert!(self.fetches.iter().any(|f| f.ticket.key == key)),
                Fetch::Present => {
                    let outcome = self.handles[by].read_into(&key, 0, &mut vec![0; PAGE as usize]);
                    assert_eq!(outcome, ReadOutcome::Copied);
                }
                Fetch::Crowded(victim) => self.make_way(by, victim),
                Fetch::NoRoom => panic!("nothing is quarantined"),
                Fetch::Busy(_) => assert!(!self.fetches.is_empty() || !self.flushes.is_empty()),
            },
            Step::ServePart(which, bytes) => {
                if let Some(mut fetch) = take(&mut self.fetches, which) {
                    if let Served::Nothing = fetch.served {
                        let model = &self.pages[&fetch.ticket.key];
                        self.handles[by].deliver_part(&fetch.ticket, 0..bytes, &model.home);
                        fetch.served = Served::Part(bytes, model.version);
                    }
                    self.fetches.push(fetch);
                }
            }
            Step::Serve(which) => {
                if let Some(mut fetch) = take(&mut self.fetches, which) {
                    let model = &self.pages[&fetch.ticket.key];
                    let (from, version) = match fetch.served {
                        Served::Part(bytes, version) => (bytes, version),
                        _ => (0, model.version),
                    };
                    self.handles[by].deliver_part(&fetch.ticket, from..PAGE, &model.home);
                    fetch.served = Served::All(version);
                    self.fetches.push(fetch);
                }
            }
            Step::FinishFetch(which) => {
                if let Some(fetch) = take(&mut self.fetches, which) {
                    match fetch.served {
                        Served::All(version) => {
                            let _ = self.handles[fetch.by].finish_fetch(fetch.ticket, version).unwrap();
                        }
                        _ => self.fetches.push(fetch),
                    }
                }
            }
            Step::AbandonFetch(which) => {
                if let Some(fetch) = take(&mut self.fetches, which) {
                    self.handles[fetch.by].abandon_fetch(fetch.ticket, false).unwrap();
                }
            }
            Step::BeginFlush => self.begin_flush(by, key),
            Step::ArriveFlush(which) => {
                if let Some(mut pending) = take(&mut self.flushes, which) {
                    self.arrive(&mut pending);
                    self.flushes.push(pending);
                }
            }
            Step::FinishFlush(which) => {
                if let Some(pending) = take(&mut self.flushes, which) {
                    self.finish_flush(pending);
                }
            }
            // Whether or not they have come home.
            Step::FailFlush(which) => {
                if let Some(PendingFlush { by, flush, .. }) = take(&mut self.flushes, which) {
                    let model = self.page(&flush.key);
                    for at in 0..PAGE as usize {
                        let failed = model.flushing[at].take();
                        model.dirty[at] = model.dirty[at].or(failed);
                    }
                    self.handles[by].fail_flush(flush).unwrap();
                }
            }
            Step::BeginOverwrite(within, value) => {
                if self.is_being_overwritten(&key, &within) {
                    return;
                }
                let bytes = vec![value; within.len()];
                match self.handles[by].announce_from(&key, within.start, &bytes) {
                    Overwrite::Busy(_) => {
                        let flushing = &self.page(&key).flushing[indices(&within)];
                        assert!(flushing.iter().any(Option::is_some));
                    }
                    Overwrite::Done(announced) => {
                        let model = self.page(&key);
                        assert!(model.flushing[indices(&within)].iter().all(Option::is_none));
                        for at in indices(&within) {
                            model.dirty[at] = model.dirty[at].map(|_| value);
                            // Until the bytes are at the home either may be read.
                            model.readable[at] |= 1 << value | 1 << model.home[at];
                        }
                        let pending = PendingOverwrite { by, key, within, value, announced, is_home: false };
                        self.overwrites.push(pending);
                    }
                }
            }
            Step::ArriveOverwrite(which) => {
                if let Some(mut pending) = take(&mut self.overwrites, which) {
                    self.arrive_past(&mut pending);
                    self.overwrites.push(pending);
                }
            }
            Step::FinishOverwrite(which) => {
                if let Some(mut pending) = take(&mut self.overwrites, which) {
                    self.arrive_past(&mut pending);
                    let PendingOverwrite { by, key, within, value, announced, .. } = &pending;
                    let bytes = vec![*value; within.len()];
                    let put = self.handles[*by].overwrite_from(key, within.start, &bytes, *announced);
                    let model = self.pages.get_mut(key).unwrap();
                    if let Overwrite::Busy(_) = put {
                        assert!(model.flushing[indices(within)].iter().any(Option::is_some));
                        self.overwrites.push(pending);
                        return;
                    }
                    assert!(model.flushing[indices(within)].iter().all(Option::is_none));
                    model.dirty[indices(within)].fill(None);
                    for at in indices(within) {
                        // Others may have changed it since.
                        model.readable[at] = 1 << value | 1 << model.home[at];
                    }
                }
            }
            Step::Elsewhere(within, value) => {
                if self.is_sent_past(&key, &within) {
                    return;
                }
                let model = self.page(&key);
                model.version += 1;
                for at in indices(&within) {
                    // Also where this node writes: what comes home last stays there.
                    model.home[at] = value;
                    model.readable[at] |= 1 << value;
                }
            }
            Step::BeginScatter(within, value) => {
                let model = &self.pages[&key];
                let mut unsaved = indices(&within).map(|at| model.dirty[at].or(model.flushing[at]));
                // These are brought home before.
                if unsaved.any(|byte| byte.is_some()) || self.is_being_overwritten(&key, &within) {
                    return;
                }
                std::mem::forget(self.handles[MORTAL].begin_past());
                self.scatters.push(PendingScatter { key, within, value });
            }
            Step::FinishScatter(which, dies) => {
                if let Some(scatter) = take(&mut self.scatters, which) {
                    self.finish_scatter(scatter, dies);
                }
            }
            Step::Refresh => {
                self.handles[by].bury_writers().unwrap();
                let pages = &self.pages;
                self.handles[by]
                    .retain(key.file, &all_pages(), |page, version| {
                        version == Some(pages[&PageKey { page, ..key }].version)
                    })
                    .unwrap();
                let overwrites = &self.overwrites;
                for (page, model) in self.pages.iter_mut().filter(|(page, _)| page.file == key.file) {
                    // Bytes on their way home past the cache may be here already.
                    if !overwrites.iter().any(|o| o.key == *page) {
                        model.forget_old();
                    }
                }
            }
            Step::Forget => {
                if self.overwrites.is_empty() && self.scatters.is_empty() {
                    self.handles[by].forget(key.file).unwrap();
                    self.drop_flushes(|other| other.file == key.file);
                    for (_, model) in self.pages.iter_mut().filter(|(page, _)| page.file == key.file) {
                        model.dirty.fill(None);
                        model.flushing.fill(None);
                        model.forget_old();
                    }
                }
            }
            Step::Truncate(size) => {
                if self.overwrites.is_empty() && self.scatters.is_empty() {
                    self.truncate(by, key.file, size);
                }
            }
        }
    }

    fn finish_scatter(&mut self, scatter: PendingScatter, dies: bool) {
        let PendingScatter { key, within, value } = scatter;
        self.page(&key).home[indices(&within)].fill(value);
        if dies && self.scatters.is_empty() {
            // In this order, or who comes next would take its slot and see to it.
            let successor = open_again(&self.handles[MORTAL]);
            drop(std::mem::replace(&mut self.handles[MORTAL], successor));
            self.handles[0].bury_writers().unwrap();
        } else {
            let pages = PageSet::of(std::iter::once(key.page.0..key.page.0 + 1));
            self.handles[MORTAL].expire(key.file, &pages).unwrap();
            drop(self.handles[MORTAL].resume_past());
        }
        self.page(&key).readable[indices(&within)].fill(1 << value);
    }

    fn truncate(&mut self, by: usize, file: FileId, size: u32) {
        self.handles[by].truncate(file, size.into()).unwrap();
        for (page, model) in self.pages.iter_mut().filter(|(page, _)| page.file == file) {
            let cut = size.saturating_sub(page.page.0 as u32 * PAGE).min(PAGE);
            let gone = cut as usize..PAGE as usize;
            if gone.is_empty() {
                continue;
            }
            model.version += 1;
            model.home[gone.clone()].fill(0);
            model.readable[gone.clone()].fill(1);
            model.dirty[gone.clone()].fill(None);
            model.flushing[gone].fill(None);
        }
        // Of these there may be nothing left to finish.
        let pages = self.pages.clone();
        self.drop_flushes(|key| pages[key].flushing.iter().all(Option::is_none));
    }

    fn check(&self) {
        let dirty: Vec<PageKey> =
            self.pages.iter().filter(|(_, model)| model.is_dirty()).map(|(key, _)| *key).collect();
        assert_eq!(self.handles[0].all_dirty().unwrap(), dirty);
        self.handles[0].assert_in_order();
    }

    /// All that was written gets home.
    fn flush_all(&mut self) {
        std::mem::take(&mut self.flushes).into_iter().for_each(|pending| self.finish_flush(pending));
        for file in 0..FILES {
            for page in self.handles[0].dirty_pages(key(file, 0).file).unwrap() {
                self.begin_flush(1, key(file, page.0));
            }
        }
        std::mem::take(&mut self.flushes).into_iter().for_each(|pending| self.finish_flush(pending));
        assert_eq!(self.handles[0].all_dirty().unwrap(), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]
    #[test]
    fn the_cache_does_what_the_model_does(
        capacity in prop_oneof![Just(1u64), 2..5u64, Just(20)],
        steps in prop::collection::vec((0..HANDLES, 0..FILES, 0..PAGES, step()), 1..200),
    ) {
        let mut run = Run::new(capacity);
        for (by, file, page, step) in steps {
            run.take(by, key(file, page), step);
            run.check();
        }
        run.flush_all();
        run.check();
    }
}
