//! How a file is to be opened.

use serde::{Deserialize, Serialize};

use crate::node::NodeName;
use crate::placement::{Placement, Policies, SizeReason};
use crate::units::SegmentSize;

/// How to open a file. By default for reading an existing one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) temporary: bool,
    pub(crate) segment_size: Option<SegmentSize>,
    pub(crate) placement: Option<Placement>,
    /// Why the segment size is what it is; [`SizeReason::Asked`] where nothing is said.
    pub(crate) size_reason: Option<SizeReason>,
}

impl OpenOptions {
    /// For reading only.
    pub fn reading() -> OpenOptions {
        OpenOptions { read: true, ..OpenOptions::default() }
    }

    /// For reading and writing.
    pub fn read_write() -> OpenOptions {
        OpenOptions { read: true, write: true, ..OpenOptions::default() }
    }

    /// For writing only.
    pub fn writing() -> OpenOptions {
        OpenOptions { write: true, ..OpenOptions::default() }
    }

    /// Makes the file where there is none.
    pub fn create(mut self, yes: bool) -> OpenOptions {
        self.create = yes;
        self
    }

    /// With [`OpenOptions::create`]: fails where the file exists.
    pub fn exclusive(mut self, yes: bool) -> OpenOptions {
        self.exclusive = yes;
        self
    }

    /// A file made by this call needs to survive neither a crash nor a reboot, and goes for good if its last
    /// user dies without removing it.
    pub fn temporary(mut self, yes: bool) -> OpenOptions {
        self.temporary = yes;
        self
    }

    /// The segment size of a file made by this call; [`SegmentSize::DEFAULT`] where none is given.
    pub fn segment_size(mut self, size: Option<SegmentSize>) -> OpenOptions {
        self.segment_size = size;
        self
    }

    /// What the manifest of a file made by this call tells.
    pub(crate) fn policies(&self) -> Policies {
        let size_reason = match self.segment_size {
            Some(_) => self.size_reason.unwrap_or(SizeReason::Asked),
            None => SizeReason::Default,
        };
        Policies {
            placement: Some(self.placement.clone().unwrap_or_default()),
            size_reason: Some(size_reason),
        }
    }

    /// The same for a file made by this call whose manifest tells `policies`.
    pub(crate) fn policies_of(mut self, policies: Policies) -> OpenOptions {
        (self.placement, self.size_reason) = (policies.placement, policies.size_reason);
        self
    }

    /// The placement that is asked for, if it can be had where only `nodes` take part.
    pub(crate) fn placement_among(&self, nodes: &[NodeName]) -> Option<Placement> {
        self.placement.clone().filter(|placement| placement.in_force(nodes) == *placement)
    }

    /// The placement in force for who opens a file that has such policies, where only `nodes` take part: the one that
    /// is asked for, else the file's own. If it is asked for by who may write, it is the file's own from then on.
    pub(crate) fn enforce_placement(&self, policies: &mut Policies, nodes: &[NodeName]) -> Placement {
        let asked = self.placement_among(nodes);
        if asked.is_some() && self.write {
            policies.placement.clone_from(&asked);
        }
        asked.or_else(|| policies.placement.clone()).unwrap_or_default().in_force(nodes)
    }

    /// Tells of the file `file` of which something about its placement cannot be had where only `nodes` take part.
    pub(crate) fn warn_of_missing(&self, own: Option<&Placement>, file: &str, nodes: &[NodeName]) {
        let asked = self.placement.as_ref();
        let own = own.filter(|_| self.write && self.placement_among(nodes).is_none());
        for placement in asked.into_iter().chain(own) {
            placement.warn_of_missing(file, nodes);
        }
    }

    /// Which node becomes the home of a segment that this handle is the first to write to, where nobody places it
    /// for a collective access. A file that is made, or whose segment table grows, goes by it from then on. `None`: as
    /// the file has been so far; a new one by [`Placement::FirstTouch`].
    pub fn placement(mut self, placement: impl Into<Option<Placement>>) -> OpenOptions {
        self.placement = placement.into();
        self
    }
}
