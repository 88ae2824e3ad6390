//! A member's memory in a group: two lanes, each a line, and behind it a ring of slots for data.
//!
//! ```text
//!   calls        line │ slot 0 │ slot 1 │ …     the operations that a member waits in
//!   background   line │ slot 0 │ slot 1 │ …     those that it goes on from; see `group::progress`
//! ```
//!
//! Operations of the two lanes never meet, so members may do them in different orders.
//!
//! The slot of an operation is `number mod CARDS`, as the card is, and the card's number closes both: a slot is read
//! after its number was seen, and written again when all have finished with what was in it.

use svmio_transport::SharedMemory;

use super::board::{CARDS, Line, Lines};
use super::error::Result;

/// Where the slots begin: a page to itself for the line, so that no copy disturbs who polls there.
const SLOTS_AT: usize = 4096;

const _: () = assert!(size_of::<Line>() <= SLOTS_AT);

/// Which part of a member's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// That of operations that a member waits in.
    Calls,
    /// That of operations that go on while a member does something else.
    Background,
}

impl Lane {
    /// Where it begins, with slots of `slot` bytes.
    fn start(self, slot: usize) -> usize {
        match self {
            Self::Calls => 0,
            Self::Background => (SLOTS_AT + CARDS * slot).next_multiple_of(SLOTS_AT),
        }
    }
}

/// Bytes of a member's segment with slots of `slot` bytes.
pub(super) fn length(slot: usize) -> u64 {
    2 * Lane::Background.start(slot) as u64
}

/// A lane in the memories of all members.
#[derive(Debug)]
pub(super) struct Memories {
    memories: Vec<SharedMemory>,
    /// Where the lane begins.
    start: usize,
    slot: usize,
}

impl Memories {
    /// A lane of a group's: each memory begins with a page and has [`length`] bytes.
    pub(super) fn new(memories: Vec<SharedMemory>, slot: usize, lane: Lane) -> Self {
        assert!(
            memories.iter().all(|memory| memory.len() as u64 >= length(slot)),
            "a member's memory is whole"
        );
        Self { memories, start: lane.start(slot), slot }
    }

    /// Another lane of the same memories.
    pub(super) fn beside(&self, lane: Lane) -> Self {
        Self::new(self.memories.clone(), self.slot, lane)
    }

    fn offset(&self, number: u64, at: usize) -> u64 {
        (self.start + SLOTS_AT + (number as usize % CARDS) * self.slot + at) as u64
    }

    /// Writes `bytes` at `at` of the slot of operation `number` in the memory of `member`, which is the caller.
    #[inline]
    pub(super) fn write(&self, member: usize, number: u64, at: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.memories[member].write(self.offset(number, at), bytes)?)
    }

    /// Reads what a member published for operation `number`, from `at` on.
    #[inline]
    pub(super) fn read(&self, member: usize, number: u64, at: usize, into: &mut [u8]) -> Result<()> {
        Ok(self.memories[member].read(self.offset(number, at), into)?)
    }

    /// What a member published for operation `number`, in place.
    ///
    /// # Safety
    /// The member has published for `number`, and the caller does not finish with it as long as the answer is used:
    /// until then nobody writes there.
    #[inline]
    pub(super) unsafe fn bytes(&self, member: usize, number: u64, at: usize, length: usize) -> Result<&[u8]> {
        let start = self.memories[member].span(self.offset(number, at), length)?;
        // SAFETY: `span` checked the range, which stays mapped as long as `self`; nobody writes there, as the caller
        // promises.
        Ok(unsafe { std::slice::from_raw_parts(start, length) })
    }

    /// This member's own slot of operation `number`, to be filled.
    ///
    /// # Safety
    /// `member` is the caller, which has room for `number` and has not published for it yet: until then nobody reads
    /// there. Only one such range is held at a time.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is shared with other processes; the protocol keeps it exclusive"
    )]
    pub(super) unsafe fn bytes_mut(
        &self,
        member: usize,
        number: u64,
        at: usize,
        length: usize,
    ) -> Result<&mut [u8]> {
        let start = self.memories[member].span(self.offset(number, at), length)?;
        // SAFETY: as above; nobody else reads or writes there, as the caller promises.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }
}

impl Lines for Memories {
    #[inline]
    fn count(&self) -> usize {
        self.memories.len()
    }

    #[inline]
    fn line(&self, member: usize) -> &Line {
        let memory = &self.memories[member];
        debug_assert!(memory.len() >= self.start + SLOTS_AT);
        // SAFETY: `new` checked the size; segments begin at pages and lanes are whole pages, which is more than the
        // alignment asks for. A line is all atomics, for which any bytes are valid and which others may change; it
        // stays mapped as long as the memory.
        unsafe { &*memory.as_ptr().add(self.start).cast::<Line>() }
    }
}
