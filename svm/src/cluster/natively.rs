//! Reading another node's segments without its agent.
//!
//! Where a page comes from is a question of [policy](choice): its home writes it into the cache when it is asked to,
//! or, where this process reaches the home's memory by itself and that is faster, it reads the page from there. Both
//! fill the same frame for the same ticket, with the version that the segment had before; whoever waits does not see
//! the difference.
//!
//! What is read is the segment's file and not a mapping of it: a part without storage reads as zero and gets none by
//! that, and one that is given back meanwhile is no signal to anybody. The version is read before, from a table in the
//! home's memory: its agent [tells](super::version_word) it there after the bytes that it counts. The bytes of a page
//! are read one after the other, while others may be written, as the home's processes do at all times: what such a page
//! lacks is not counted by its version.
//!
//! Pages that a process has [mapped](super::mapped) come by either way, too, past the cache. Their versions are counted
//! by whoever mapped them, and known before.

mod choice;
mod opened;
mod runs;
mod sources;

use std::sync::Arc;
use std::time::Instant;

use svmio_transport::Capabilities;

use crate::cache::FetchTicket;
use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::pages::{Asking, Coming};
use super::wire::Reply;
use super::{Asked, Cluster, NodeIndex, SharedFile};
use choice::{For, Kind, Way};
use opened::Found;
use sources::OpenSegment;

pub(super) use choice::NativeReads;
pub(crate) use runs::Patience;
pub(super) use sources::Sources;

/// What an access fetches from one home: all of it comes by one way.
pub(crate) struct Fetching {
    home: NodeIndex,
    begun: Option<Begun>,
    /// It was not held up by anything that has nothing to do with the way.
    is_typical: bool,
    /// Segments that would have to be open for it, for whoever may wait to [open](SharedFile::open_wanted) them.
    wanted: Vec<SegmentIndex>,
}

struct Begun {
    at: Instant,
    kind: Kind,
    way: Way,
    pages: u64,
}

impl Fetching {
    pub(super) fn from(home: NodeIndex) -> Fetching {
        Fetching { home, begun: None, is_typical: true, wanted: Vec::new() }
    }

    /// Whether segments would have to be [open](SharedFile::open_wanted) for it.
    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether it is to be read by this process.
    pub(super) fn is_native(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.way == Way::Native)
    }

    pub(super) fn home(&self) -> NodeIndex {
        self.home
    }

    /// What the access takes tells nothing of the way.
    pub(crate) fn hold_up(&mut self) {
        self.is_typical = false;
    }
}

impl Cluster {
    /// Has this process read pages of other nodes by itself wherever it can, or nowhere, whatever would be faster;
    /// `None` leaves it to the policy again. For measurements and tests.
    pub fn force_native_reads(&self, always: Option<bool>) {
        self.native_reads.force(always);
    }

    fn native_reads(&self) -> &NativeReads {
        &self.native_reads
    }
}

impl SharedFile {
    /// Has pages come into the cache.
    pub(super) fn begin_pages(&self, fetching: &mut Fetching, tickets: Vec<FetchTicket>) -> Result<Asking> {
        let (home, pages) = (fetching.home, tickets.len() as u64);
        let kind = Kind::of(home, For::Cache, pages * u64::from(self.cache().page()));
        self.begin(fetching, kind, pages);
        if fetching.is_native() {
            if let Some(versions) = self.read_natively(fetching, &tickets) {
                self.cluster().native_reads().count(pages);
                return Ok(Asking {
                    asked: Asked::Answered(Reply::Fetched { versions }, Vec::new()),
                    tickets,
                    coming: Coming::IntoCache,
                });
            }
            fetching.hold_up();
        }
        self.ask_for(home, tickets)
    }

    /// Whether all pages are asked for.
    pub(super) fn homes_are_asked(&self) -> bool {
        match self.cluster().native_reads().forced() {
            Some(way) => way == Way::Asked,
            None => !can_be_faster(self.cluster().context().fabric.capabilities()),
        }
    }

    fn begin(&self, fetching: &mut Fetching, kind: Kind, pages: u64) {
        let begin = || Begun { at: Instant::now(), kind, way: self.way(kind), pages: 0 };
        fetching.begun.get_or_insert_with(begin).pages += pages;
    }

    /// All pages have come.
    pub(crate) fn end_pages(&self, fetching: &Fetching) {
        let reads = self.cluster().native_reads();
        if let Fetching { begun: Some(Begun { at, kind, way, pages }), is_typical: true, .. } = fetching
            && reads.forced().is_none()
        {
            let took = u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX);
            reads.note(*kind, *way, took, *pages);
        }
    }

    fn way(&self, kind: Kind) -> Way {
        let reads = self.cluster().native_reads();
        reads.forced().unwrap_or_else(|| {
            let can_be = can_be_faster(self.cluster().context().fabric.capabilities());
            if can_be { reads.choose(kind) } else { Way::Asked }
        })
    }

    /// Fills the frames of pages; returns their versions. `None` where not all can be read: then the home is asked,
    /// which also tells what is wrong.
    fn read_natively(&self, fetching: &mut Fetching, tickets: &[FetchTicket]) -> Option<Vec<u64>> {
        self.cluster().check_home(fetching.home).ok()?;
        let mut last: Option<(SegmentIndex, Arc<OpenSegment>)> = None;
        let mut versions = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            let part = self.part(ticket.key.page, &(0..self.cache().page()));
            let segment = match last.take() {
                Some((index, segment)) if index == part.segment => segment,
                _ => self.source(fetching, part.segment)?,
            };
            let read = || -> Result<u64> {
                // Before the bytes: what changes later is news.
                let version = segment.version().map_err(|source| Error::Fabric {
                    subject: format!("reading the version of segment {}", part.segment),
                    source,
                })?;
                self.cache().fill(ticket, &segment.file, part.within)?;
                Ok(version)
            };
            match read() {
                Ok(version) => versions.push(version),
                Err(error) => {
                    tracing::debug!("pages of segment {} are asked for: {error}", part.segment);
                    return None;
                }
            }
            last = Some((part.segment, segment));
        }
        Some(versions)
    }

    /// A segment, if it can be read from here and is worth it.
    fn source(&self, fetching: &mut Fetching, index: SegmentIndex) -> Option<Arc<OpenSegment>> {
        let at_once = self.cluster().native_reads().forced().is_some();
        self.source_of(fetching, index, self.sources().segments.find(index, at_once))
    }

    fn source_of(
        &self,
        fetching: &mut Fetching,
        index: SegmentIndex,
        found: Found<OpenSegment>,
    ) -> Option<Arc<OpenSegment>> {
        match found {
            Found::Open(segment) => Some(segment),
            Found::Nothing => None,
            Found::Closed => {
                fetching.hold_up();
                self.open_segment(fetching.home, index)
            }
        }
    }
}

/// Whether native reads may be faster over a fabric that can do so much. Where it does not map memory, the version
/// would be a second round trip: by libfabric over a loopback interface, bare memory of 64 KiB comes in 55 µs by one
/// read and in 84 by a message, over a link of 1 Gbit/s in the same time by both.
fn can_be_faster(capabilities: &Capabilities) -> bool {
    capabilities.remote_read && capabilities.direct_mapping
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use svmio_transport::settings::Settings;
    use svmio_transport::{Fabric, JobSecret, Membership, Rank, ofi, shm};

    use super::*;

    fn capabilities(is_network: bool) -> Capabilities {
        let secret = JobSecret::random().unwrap();
        let membership = Arc::new(Membership::new(Rank(0), vec!["n0".into()]));
        let Settings { shm, mut ofi, .. } = Settings::default();
        ofi.address = "127.0.0.1".into();
        let prepared = match is_network {
            true => ofi::prepare(&ofi, &secret).unwrap(),
            false => shm::prepare(&shm, &secret).unwrap(),
        };
        let address = prepared.address();
        let fabric = Fabric::new(prepared.join(membership, vec![address]).unwrap());
        let capabilities = fabric.capabilities().clone();
        fabric.close();
        capabilities
    }

    #[test]
    fn only_where_memory_is_mapped_it_is_measured_which_way_is_faster() {
        let (shared, network) = (capabilities(false), capabilities(true));
        assert!(can_be_faster(&shared) && !can_be_faster(&network));
        assert!(!can_be_faster(&Capabilities { remote_read: false, ..shared }));
    }
}
