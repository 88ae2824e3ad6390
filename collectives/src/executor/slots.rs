//! A member's memory in a group: two lanes, each a line, and behind it a ring of slots for data. The first member's has
//! what is of all members, too.
//!
//! ```text
//!   calls        line │ slot 0 │ slot 1 │ … │ notices, cards     the operations that a member waits in
//!   background   line │ slot 0 │ slot 1 │ … │ notices, cards     those that it goes on from; see `group::progress`
//! ```
//!
//! Operations of the two lanes never meet, so members may do them in different orders.
//!
//! The slot of an operation is its number modulo how many there are, at least as many as cards, and the card's number
//! closes both: a slot is read after its number was seen, and written again when all have finished with what was in it.

use svmio_transport::SharedMemory;

use super::board::{CARDS, Card, CardRow, Line, Notices, Places, ROWS};
use super::error::Result;

/// Bytes of a page, at which the parts of a lane begin: no copy disturbs who polls there.
const PAGE: usize = 4096;

/// How many slots two members have for calls: more than operations that a member can be ahead. What is written again
/// before the caches of who read it have let go of it takes twice as long and more (1 MiB in slots of 64 KiB, between
/// cores with 1 MiB of cache each: 8 slots 83 to 105 µs where they are near each other, 500 where they are far; 32 slots
/// 54 to 61, and 330). More members share two cores in turns, and read what is in these caches still: 16 of them take
/// twice as long with 32 slots.
pub(super) const SLOTS: usize = 32;

/// Where the slots begin.
const SLOTS_AT: usize = PAGE;

const _: () = assert!(SLOTS >= CARDS);
const _: () = assert!(size_of::<Line>() <= SLOTS_AT);

/// Which part of a member's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// That of operations that a member waits in.
    Calls,
    /// That of operations that go on while a member does something else.
    Background,
}

/// How memories of a group are divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    members: usize,
    slot: usize,
}

impl Layout {
    /// That of a group of so many, with slots of `slot` bytes.
    pub(super) fn new(members: usize, slot: usize) -> Self {
        Self { members, slot }
    }

    /// Bytes of a member's memory.
    pub(super) fn length(self) -> usize {
        self.start(Lane::Background) + self.lane(Lane::Background)
    }

    fn start(self, lane: Lane) -> usize {
        match lane {
            Lane::Calls => 0,
            Lane::Background => self.lane(Lane::Calls),
        }
    }

    /// Bytes of a lane.
    fn lane(self, lane: Lane) -> usize {
        let rows = ROWS * self.members * size_of::<Card>();
        (self.notices(lane) + size_of::<Notices>() + rows).next_multiple_of(PAGE)
    }

    /// Where a lane has what is of all members, from its beginning on.
    fn notices(self, lane: Lane) -> usize {
        (SLOTS_AT + self.slots(lane) * self.slot).next_multiple_of(PAGE)
    }

    /// How many slots a lane has: many only where they help, since they are memory from the beginning on.
    fn slots(self, lane: Lane) -> usize {
        if self.members == 2 && lane == Lane::Calls { SLOTS } else { CARDS }
    }
}

/// A lane in the memories of all members.
#[derive(Debug)]
pub(super) struct Memories {
    memories: Vec<SharedMemory>,
    /// The first of them, in which the cards are: here, so that who looks at these finds it without a detour.
    first: SharedMemory,
    layout: Layout,
    /// How many slots the lane has.
    slots: usize,
    /// Where the lane begins.
    start: usize,
    /// Where in the first memory it has what is of all.
    notices: usize,
}

impl Memories {
    /// A lane of a group's: each memory begins with a page, and there is one of the layout's length for each member.
    pub(super) fn new(memories: Vec<SharedMemory>, layout: Layout, lane: Lane) -> Self {
        assert!(
            memories.len() == layout.members && memories.iter().all(|memory| memory.len() >= layout.length()),
            "each member has a memory, and it is whole"
        );
        let start = layout.start(lane);
        let first = memories[0].clone();
        let (slots, notices) = (layout.slots(lane), start + layout.notices(lane));
        Self { memories, first, layout, slots, start, notices }
    }

    /// Another lane of the same memories.
    pub(super) fn beside(&self, lane: Lane) -> Self {
        Self::new(self.memories.clone(), self.layout, lane)
    }

    fn offset(&self, number: u64, at: usize) -> u64 {
        (self.start + SLOTS_AT + (number as usize % self.slots) * self.layout.slot + at) as u64
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

    /// The same of a slot from its beginning on, for a part of `whole` bytes that come together.
    #[inline]
    pub(super) fn read_part(&self, member: usize, number: u64, into: &mut [u8], whole: usize) -> Result<()> {
        Ok(self.memories[member].read_part(self.offset(number, 0), into, whole)?)
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

impl Places for Memories {
    #[inline]
    fn count(&self) -> usize {
        self.layout.members
    }

    #[inline]
    fn line(&self, member: usize) -> &Line {
        let memory = &self.memories[member];
        // SAFETY: `new` checked the size; segments begin at pages and lanes are whole pages, which is more than the
        // alignment asks for. A line is all atomics, for which any bytes are valid and which others may change; it
        // stays mapped as long as the memory.
        unsafe { &*memory.as_ptr().add(self.start).cast::<Line>() }
    }

    #[inline]
    fn notices(&self) -> &Notices {
        // SAFETY: as in `line`; they begin at a page, too.
        unsafe { &*self.first.as_ptr().add(self.notices).cast::<Notices>() }
    }

    #[inline]
    fn cards(&self, row: CardRow) -> &[Card] {
        let members = self.layout.members;
        // SAFETY: as in `line`; there are `ROWS` rows of as many cards as members behind the notices, whose size is a
        // multiple of a card's alignment; a row's index is less than that, whatever others have told.
        unsafe {
            let cards = self.first.as_ptr().add(self.notices + size_of::<Notices>()).cast::<Card>();
            std::slice::from_raw_parts(cards.add(row.index() * members), members)
        }
    }
}
