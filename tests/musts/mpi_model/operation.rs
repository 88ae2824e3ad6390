//! What the ranks of a program do, one by one, as far as the judge is to know of it.

use super::script::Script;
use super::span::{Span, View};

/// What all ranks do, in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Sync,
    Barrier,
    Open,
    Close,
    SetSize,
    Preallocate,
    Views,
    Atomic,
    SeekShared,
    /// A collective write that is over when it returns.
    Write,
    Read,
    /// The beginning of a split one.
    SplitWrite,
    SplitRead,
    /// One that is only begun.
    BegunWrite,
    BegunRead,
    /// By the shared pointer.
    Ordered,
    /// The end of a split one.
    End,
}

/// Something of which the order with others matters.
#[derive(Debug)]
pub(crate) struct Operation {
    /// None where all ranks do it as one.
    pub(crate) rank: Option<usize>,
    pub(crate) what: What,
    /// The lines in which it begins and ends.
    pub(crate) lines: (usize, usize),
    /// When it begins and ends, by [`moment`].
    pub(crate) moments: (usize, usize),
    /// Which time of atomic mode it is in.
    pub(crate) atomic: Option<usize>,
    pub(crate) is_collective: bool,
    pub(crate) is_ordered: bool,
}

/// Moments around events.
pub(crate) mod moment {
    /// All that is done between an event and the one before it.
    pub(crate) fn before(event: usize) -> usize {
        4 * event
    }

    /// Where all have come to it, and none has begun.
    pub(crate) fn met(event: usize) -> usize {
        4 * event + 1
    }

    /// Where ranks begin their parts of it.
    pub(crate) fn begun(event: usize) -> usize {
        4 * event + 2
    }

    /// Where it is done by all.
    pub(crate) fn done(event: usize) -> usize {
        4 * event + 3
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Write {
        span: Span,
        is_plain: bool,
        tag: u8,
    },
    /// Plain, if it blocks and there are no gaps in the file or in memory.
    Read {
        span: Span,
        is_plain: bool,
    },
    Size,
    SetSize(u64),
    Preallocate(u64),
    /// By the shared pointer, so that only [`Records`] tell where.
    WriteRecord {
        tag: u8,
    },
    ReadRecord,
}

impl What {
    /// How many bytes are written or asked for, where it is known which.
    pub(crate) fn length(&self) -> u64 {
        self.span().map_or(0, |span| span.length)
    }

    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            What::Write { span, .. } | What::Read { span, .. } => Some(*span),
            _ => None,
        }
    }

    /// Whether it is an access that is not plain.
    pub(crate) fn is_special(&self) -> bool {
        matches!(self, What::Write { is_plain: false, .. } | What::Read { is_plain: false, .. })
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self, What::Write { .. } | What::WriteRecord { .. })
    }
}

/// Records that are written by the shared pointer.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) view: View,
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) writes: Vec<usize>,
    /// The read by which it is found out where they are.
    pub(crate) found_by: usize,
    pub(crate) reads: Vec<usize>,
}

impl Operation {
    /// What is told of it when something is wrong.
    pub(crate) fn tell(&self, script: &Script) -> String {
        format!("line {}, `{}`", self.lines.0, script.lines[self.lines.0])
    }
}
