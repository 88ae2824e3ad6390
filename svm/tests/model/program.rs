//! Random programs.

use std::fmt;

use proptest::prelude::*;
use svmio_svm::{NodeName, OpenOptions, Placement, SegmentSize};

/// No program reads or writes behind this offset, bytes: six segments of the smallest size.
pub(crate) const LONGEST: u64 = 6 << 16;
const PAGE: u64 = 1 << 12;
const SEGMENT: u64 = 1 << 16;

/// What all ranks do with one new file.
#[derive(Clone)]
pub(crate) struct Program {
    /// Bytes.
    pub(crate) segment_size: u64,
    pub(crate) placement: Policy,
    pub(crate) steps: Vec<Step>,
}

/// A [`Placement`], whatever the nodes are called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Policy {
    FirstTouch,
    RoundRobin,
    Block,
    Node(u8),
}

/// Ranks are numbers modulo the number of ranks. Where accesses change from without locks to under locks or back, all
/// ranks sync.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The ranks do this at the same time, each its own part in order, and meet behind it.
    Accesses(Vec<(u8, Access)>),
    /// The same, after homes were given to all segments that are written: from this node on, one after the other.
    Placed(u8, Vec<(u8, Access)>),
    /// All ranks write, block by block by turns.
    Interleaved {
        start: u64,
        length: u64,
        turns: u8,
        first: u8,
    },
    /// As in atomic mode.
    UnderLocks(Vec<(u8, Locked)>),
    /// All ranks read all, and ask for the size.
    ReadAll,
    Sync(Around),
    SetSize(u64),
    Preallocate(u64),
    Reopen(Around),
}

/// What is around a call of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    /// The ranks meet before it and behind it.
    Meetings,
    /// Each comes to it straight from its accesses, which others may be at still, and goes on to the next ones.
    Nothing,
}

#[derive(Debug, Clone)]
pub(crate) enum Access {
    Write(Extent),
    Read(Extent),
    /// In one access.
    WritePieces(Pieces),
    ReadPieces(Pieces),
    Size,
}

impl Access {
    /// Where it ends, if it writes.
    pub(crate) fn written_to(&self) -> Option<u64> {
        match self {
            Access::Write(extent) => Some(extent.end()),
            Access::WritePieces(pieces) => Some(pieces.range().end()),
            Access::Read(_) | Access::ReadPieces(_) | Access::Size => None,
        }
    }
}

/// Pieces at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) first: Extent,
    pub(crate) stride: u64,
    pub(crate) count: u64,
}

impl Pieces {
    pub(crate) fn each(&self) -> impl Iterator<Item = Extent> + use<> {
        let Pieces { first, stride, count } = *self;
        (0..count).map(move |number| Extent { start: first.start + number * stride, length: first.length })
    }

    /// From the first byte to the last.
    pub(crate) fn range(&self) -> Extent {
        Extent { start: self.first.start, length: self.stride * (self.count - 1) + self.first.length }
    }
}

/// A range of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// Accesses under one lock, on the range from the first byte of any to the last of any, and `slack` bytes more.
#[derive(Debug, Clone)]
pub(crate) struct Locked {
    pub(crate) slack: u64,
    pub(crate) inner: Vec<LockedAccess>,
}

#[derive(Debug, Clone)]
pub(crate) enum LockedAccess {
    Write(Extent),
    Read(Extent),
    /// Adds one to the number that the eight bytes there are.
    Increment(u64),
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.length
    }

    pub(crate) fn overlaps(&self, other: &Extent) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    fn new(start: u64, length: u64) -> Extent {
        let start = start.min(LONGEST - 1);
        Extent { start, length: length.clamp(1, LONGEST - start) }
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end())
    }
}

/// A line for each step.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segments of {} bytes, {:?}", self.segment_size, self.placement)?;
        self.steps.iter().try_for_each(|step| write!(f, "\n  {step:?}"))
    }
}

impl LockedAccess {
    pub(crate) fn extent(&self) -> Extent {
        match self {
            LockedAccess::Write(extent) | LockedAccess::Read(extent) => *extent,
            LockedAccess::Increment(at) => Extent { start: *at, length: 8 },
        }
    }

    pub(crate) fn writes(&self) -> bool {
        !matches!(self, LockedAccess::Read(_))
    }
}

impl Locked {
    pub(crate) fn range(&self) -> Extent {
        let start = self.inner.iter().map(|access| access.extent().start).min().unwrap_or(0);
        let end = self.inner.iter().map(|access| access.extent().end()).max().unwrap_or(1);
        Extent { start, length: end - start + self.slack }
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.inner.iter().any(LockedAccess::writes)
    }

    /// Where the last write ends, if there is one.
    pub(crate) fn written_to(&self) -> Option<u64> {
        self.inner.iter().filter(|access| access.writes()).map(|access| access.extent().end()).max()
    }
}

/// The content of a write is told by its tag. Two with different tags differ in every byte.
pub(crate) fn pattern(tag: u8, at: u64) -> u8 {
    tag.wrapping_add((at as u8).wrapping_mul(7)).wrapping_add(((at >> 8) as u8).wrapping_mul(13))
}

impl Program {
    pub(crate) fn options(&self, nodes: &[NodeName]) -> OpenOptions {
        let placement = match self.placement {
            Policy::FirstTouch => Placement::FirstTouch,
            Policy::RoundRobin => Placement::RoundRobin,
            Policy::Block => Placement::Block,
            Policy::Node(node) => Placement::Node(nodes[usize::from(node) % nodes.len()].clone()),
        };
        let size = SegmentSize::new(self.segment_size).expect("programs have sizes that there are");
        OpenOptions::read_write().create(true).segment_size(Some(size)).placement(placement)
    }
}

pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let segment_size = prop_oneof![4 => Just(SEGMENT), 1 => Just(2 * SEGMENT), 1 => Just(4 * SEGMENT)];
    let placement = prop_oneof![
        3 => Just(Policy::FirstTouch),
        2 => Just(Policy::RoundRobin),
        1 => Just(Policy::Block),
        1 => (0_u8..4).prop_map(Policy::Node),
    ];
    let steps = prop::collection::vec(step(), 1..14);
    (segment_size, placement, steps).prop_map(|(segment_size, placement, steps)| Program {
        segment_size,
        placement,
        steps,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let accesses = || prop::collection::vec((0_u8..8, access()), 1..14);
    let locked = prop::collection::vec((0_u8..8, locked()), 1..14);
    let length = prop_oneof![3 => 1_u64..20, 2 => 1_u64..700, 1 => 3000_u64..9000];
    let interleaved = (offset(), length, 1_u8..4, 0_u8..8)
        .prop_map(|(start, length, turns, first)| Step::Interleaved { start, length, turns, first });
    prop_oneof![
        8 => accesses().prop_map(Step::Accesses),
        2 => (0_u8..4, accesses()).prop_map(|(first, accesses)| Step::Placed(first, accesses)),
        2 => interleaved,
        5 => locked.prop_map(Step::UnderLocks),
        2 => Just(Step::ReadAll),
        5 => around().prop_map(Step::Sync),
        3 => size().prop_map(Step::SetSize),
        1 => size().prop_map(Step::Preallocate),
        2 => around().prop_map(Step::Reopen),
    ]
}

fn around() -> impl Strategy<Value = Around> {
    prop_oneof![Just(Around::Meetings), Just(Around::Nothing)]
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        5 => extent().prop_map(Access::Write),
        5 => extent().prop_map(Access::Read),
        2 => pieces().prop_map(Access::WritePieces),
        2 => pieces().prop_map(Access::ReadPieces),
        1 => Just(Access::Size),
    ]
}

fn pieces() -> impl Strategy<Value = Pieces> {
    let length = prop_oneof![4 => 1_u64..17, 2 => 1_u64..600, 1 => 3000_u64..9000];
    let gap = prop_oneof![3 => 0_u64..30, 2 => 0_u64..3000, 1 => 3000_u64..SEGMENT];
    let count = prop_oneof![4 => 1_u64..20, 2 => 1_u64..300, 1 => 1_u64..3000];
    (offset(), length, gap, count).prop_map(|(start, length, gap, count)| {
        let first = Extent::new(start, length);
        let stride = first.length + gap;
        Pieces { first, stride, count: count.min((LONGEST - first.end()) / stride + 1) }
    })
}

fn locked() -> impl Strategy<Value = Locked> {
    let access = || {
        prop_oneof![
            4 => extent().prop_map(LockedAccess::Write),
            4 => extent().prop_map(LockedAccess::Read),
            2 => offset().prop_map(|at| LockedAccess::Increment(at.min(LONGEST - 8))),
            4 => (0_u64..2).prop_map(|at| LockedAccess::Increment(SEGMENT - 4 + 4 * at)),
        ]
    };
    let slack = prop_oneof![3 => Just(0), 1 => Just(1_u64), 1 => 0_u64..2 * SEGMENT];
    let inner = prop_oneof![
        4 => access().prop_map(|access| vec![access]),
        1 => prop::collection::vec(access(), 1..4),
    ];
    (slack, inner).prop_map(|(slack, inner)| Locked { slack, inner })
}

fn extent() -> impl Strategy<Value = Extent> {
    let length = prop_oneof![
        4 => 1_u64..17,
        3 => 1_u64..600,
        2 => PAGE - 1..PAGE + 2,
        2 => 1_u64..9000,
        1 => 1..SEGMENT + 5000,
        1 => 1..3 * SEGMENT,
    ];
    (offset(), length).prop_map(|(start, length)| Extent::new(start, length))
}

/// Often at or beside the border of a segment or page, and often the same.
fn offset() -> impl Strategy<Value = u64> {
    let places = vec![0, SEGMENT, SEGMENT + PAGE, 2 * SEGMENT, 3 * SEGMENT - PAGE];
    let anchor = prop_oneof![
        5 => prop::sample::select(places),
        2 => (0..LONGEST / SEGMENT).prop_map(|segment| segment * SEGMENT),
        2 => (0..LONGEST / PAGE).prop_map(|page| page * PAGE),
        1 => 0..LONGEST,
    ];
    let beside = prop_oneof![3 => Just(0_i64), 2 => -9_i64..10, 1 => -5000_i64..5001];
    (anchor, beside).prop_map(|(anchor, beside)| anchor.saturating_add_signed(beside).min(LONGEST - 1))
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 6 => offset(), 1 => Just(LONGEST)]
}
