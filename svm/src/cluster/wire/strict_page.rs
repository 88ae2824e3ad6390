//! What is said of pages that processes have mapped strictly.

use serde::{Deserialize, Serialize};

use crate::units::SegmentIndex;

use super::Part;

/// A page that processes have mapped strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct PagePlace {
    pub(crate) segment: SegmentIndex,
    /// From the segment's beginning, bytes.
    pub(crate) within: u64,
}

/// What a mapping wants of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) page: PagePlace,
    /// To store into it.
    pub(crate) is_exclusive: bool,
    /// It has a copy for loads.
    pub(crate) has_copy: bool,
    /// Tells what is granted from what the mapping was granted before of the page.
    pub(crate) ticket: u64,
}

/// A copy for loads that a mapping has no more, and by which wish it had got it.
pub(crate) type Gone = (PagePlace, u64);

/// What a mapping has to do with its copy of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) page: PagePlace,
    /// By which wish it got the copy.
    pub(crate) ticket: u64,
    /// It may keep it for loads.
    pub(crate) keeps: bool,
}

/// A page that a mapping brings home. The bytes that were stored there follow behind, in the order of the parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Surrendered {
    pub(crate) page: PagePlace,
    /// It keeps its copy.
    pub(crate) keeps: bool,
    pub(crate) changes: Vec<Part>,
}
