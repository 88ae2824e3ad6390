//! Pages that are mapped, read past the cache.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::cluster::{NodeIndex, SharedFile};
use crate::units::SegmentIndex;

use super::Fetching;
use super::choice::{For, Kind};
use super::opened::Found;

/// Whether whoever reads may wait for others: for a home, by which a segment is opened, or for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    DoesNotWait,
}

impl SharedFile {
    /// Chooses the way by which so many pages come that are mapped, all of one home.
    pub(in crate::cluster) fn fetch_mapped(&self, home: NodeIndex, pages: u64, bytes: u64) -> Fetching {
        let mut fetching = Fetching::from(home);
        self.begin(&mut fetching, Kind::of(home, For::Mapping, bytes), pages);
        fetching
    }

    /// Reads runs of segments, one after the other. `None` where not all can be read: then the home is asked.
    pub(in crate::cluster) fn read_runs_natively(
        &self,
        fetching: &mut Fetching,
        runs: &[(SegmentIndex, Range<u64>)],
        patience: Patience,
    ) -> Option<Vec<u8>> {
        // All of them first: nothing is to be read in vain.
        let mut segments = BTreeMap::new();
        for (index, _) in runs {
            if let Entry::Vacant(entry) = segments.entry(*index) {
                let is_at_once = self.cluster().native_reads().forced().is_some();
                let segment = match (patience, self.sources().segments.find(*index, is_at_once)) {
                    (Patience::DoesNotWait, Found::Open(segment)) => {
                        Some(segment).filter(|segment| segment.is_in_memory)
                    }
                    (Patience::DoesNotWait, Found::Closed) if !is_at_once => {
                        fetching.wanted.push(*index);
                        None
                    }
                    (_, found) => self.source_of(fetching, *index, found),
                };
                entry.insert(segment?);
            }
        }
        let bytes: u64 = runs.iter().map(|(_, run)| run.end - run.start).sum();
        let mut all = vec![0; bytes as usize];
        let mut rest = &mut all[..];
        for (index, run) in runs {
            let (these, others) = rest.split_at_mut((run.end - run.start) as usize);
            let read = segments.get(index)?.file.read_exact_at(these, run.start);
            read.inspect_err(|e| tracing::debug!("a part of segment {index} is asked for: {e}")).ok()?;
            rest = others;
        }
        self.cluster().native_reads().count(runs.len() as u64);
        Some(all)
    }

    /// Opens the segments that a fetch would have read if they had been open. The home is waited for.
    pub(crate) fn open_wanted(&self, fetching: &Fetching) {
        for index in &fetching.wanted {
            self.open_segment(fetching.home, *index);
        }
    }
}
