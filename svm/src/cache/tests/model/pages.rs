//! What is known of a page, and what is under way.

use super::*;

#[derive(Clone)]
pub(super) struct PageModel {
    pub(super) home: Vec<u8>,
    /// Counts what others change. What is changed from here is no news here.
    pub(super) version: u64,
    /// By byte: the set of values that a read here may give.
    pub(super) readable: Vec<u64>,
    pub(super) dirty: Vec<Option<u8>>,
    pub(super) flushing: Vec<Option<u8>>,
}

impl PageModel {
    pub(super) fn new() -> PageModel {
        let bytes = PAGE as usize;
        let none = vec![None; bytes];
        PageModel {
            home: vec![0; bytes],
            version: 0,
            readable: vec![1; bytes],
            dirty: none.clone(),
            flushing: none,
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.iter().chain(&self.flushing).any(Option::is_some)
    }

    /// From now on only what the home has, or is dirty, may be read.
    pub(super) fn forget_old(&mut self) {
        for at in 0..PAGE as usize {
            let here = self.dirty[at].or(self.flushing[at]).unwrap_or(self.home[at]);
            self.readable[at] = 1 << here;
        }
    }
}

pub(super) struct PendingFetch {
    pub(super) by: usize,
    pub(super) ticket: FetchTicket,
    pub(super) served: Served,
}

#[derive(Clone, Copy)]
pub(super) enum Served {
    Nothing,
    /// So many bytes, after the version was taken.
    Part(u32, u64),
    /// All, and the version.
    All(u64),
}

pub(super) struct PendingFlush {
    pub(super) by: usize,
    pub(super) flush: Flush,
    pub(super) is_home: bool,
}

pub(super) struct PendingOverwrite {
    pub(super) by: usize,
    pub(super) key: PageKey,
    pub(super) within: Range<u32>,
    pub(super) value: u8,
    /// The version that was announced.
    pub(super) announced: Option<u64>,
    pub(super) is_home: bool,
}

pub(super) struct PendingScatter {
    pub(super) key: PageKey,
    pub(super) within: Range<u32>,
    pub(super) value: u8,
}
