//! What the ranks of a program do with one new file.

use std::fmt;

use super::span::View;

/// No program reads or writes behind this offset, bytes: four segments of the smallest size.
pub(crate) const LONGEST: u64 = 4 << 16;

/// A program, of steps that all ranks go through in their order; nobody waits for others between them.
#[derive(Clone, PartialEq)]
pub(crate) struct Program {
    /// What the file is opened with.
    pub(crate) hints: Vec<(&'static str, &'static str)>,
    pub(crate) steps: Vec<Step>,
}

/// Ranks are numbers modulo the number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Each rank does its own ones in their order.
    Alone(Vec<(u8, Access)>),
    Together(Together),
    Sync,
    Barrier,
    /// Sync, barrier, sync: as MPI wants it of who is to see what others have written.
    Exchange,
    SetSize(u64),
    Preallocate(u64),
    Atomic(bool),
    /// Closes and opens the file; with a barrier in between, or without.
    Reopen(bool),
    /// Sets views, rank by rank.
    Views(Vec<View>),
    /// Writes records by the shared pointer, and reads them again by it.
    Shared(Shared),
    /// Accesses in the ranks' order.
    Ordered(Ordered),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Access {
    Write(Bytes, Way),
    Read(Bytes, Way),
    Size,
}

/// Bytes of the view, and of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) at: u64,
    pub(crate) length: u64,
    /// Whether there is a gap in memory behind each.
    pub(crate) is_spaced: bool,
}

/// How an access of one rank is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    At,
    Seek,
    /// Without blocking, and waited for after so many further accesses of the rank.
    Begun(u8),
    BegunSeek(u8),
}

/// A collective access, with a part for each rank; the file has none for those that are missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Together {
    pub(crate) writes: bool,
    pub(crate) way: TogetherWay,
    pub(crate) is_by_pointer: bool,
    pub(crate) parts: Vec<Bytes>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TogetherWay {
    Blocking,
    /// What ranks do by themselves until it ends.
    Split(Vec<(u8, Access)>),
    /// Waited for after so many further accesses of the rank.
    Begun(u8),
}

/// All have one view; each writes so many records by `writers`, and reads so many by `readers`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shared {
    pub(crate) view: View,
    pub(crate) at: u64,
    pub(crate) record: u64,
    /// The ranks that write one each, in an order that only counts for each by itself; without blocking or not.
    pub(crate) writers: Vec<(u8, bool)>,
    /// As many that read one.
    pub(crate) readers: Vec<(u8, bool)>,
}

/// All have one view; each has so many bytes of each access, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ordered {
    pub(crate) view: View,
    pub(crate) at: u64,
    /// Whether it writes, and whether it is split.
    pub(crate) accesses: Vec<(bool, bool)>,
    pub(crate) lengths: Vec<u64>,
}

/// A line for each step.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.hints)?;
        self.steps.iter().try_for_each(|step| write!(f, "\n  {step:?}"))
    }
}

/// What a write with a tag puts at a place, as the MPI program has it: never 0, and never what another tag puts
/// there.
pub(crate) fn pattern(tag: u8, place: u64) -> u8 {
    let more = (u64::from(tag) + place * 7 + (place >> 8) * 13) % 255;
    1 + more as u8
}
