//! Where the blocks of a collective's schedule lie at a member.

use std::ops::Range;

use crate::collective::Blocks;

/// Memory that blocks lie in.
#[derive(Debug)]
pub(super) enum Region<'m> {
    /// What the caller gives, and keeps.
    Given(&'m [u8]),
    /// What the caller has for what comes, with what it gives in it where that is the same.
    Room(&'m mut [u8]),
    /// For as long as the collective takes.
    Scratch(Vec<u8>),
}

impl Region<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::Room(bytes) => bytes,
            Self::Scratch(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Given(_) => unreachable!("no schedule has anything come to what is only given"),
            Self::Room(bytes) => bytes,
            Self::Scratch(bytes) => bytes,
        }
    }
}

/// A part of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) region: usize,
    pub(super) range: Range<usize>,
}

impl Place {
    /// The block of that number of a region of blocks of one length, one behind the other.
    pub(super) fn nth(region: usize, number: usize, length: usize) -> Self {
        Self { region, range: number * length..(number + 1) * length }
    }
}

/// Regions, and where in them each block lies.
pub(super) struct Memory<'m> {
    regions: Vec<Region<'m>>,
    place: &'m dyn Fn(u64) -> Place,
}

impl<'m> Memory<'m> {
    pub(super) fn of(regions: Vec<Region<'m>>, place: &'m dyn Fn(u64) -> Place) -> Self {
        Self { regions, place }
    }

    /// Where all of some blocks lie, if they lie one behind the other.
    pub(super) fn place(&self, blocks: &Blocks) -> Option<Place> {
        let nowhere = Place { region: 0, range: 0..0 };
        blocks.iter().map(self.place).filter(|place| !place.range.is_empty()).try_fold(
            nowhere,
            |all, place| {
                if all.range.is_empty() {
                    return Some(place);
                }
                let follows = all.region == place.region && all.range.end == place.range.start;
                follows.then_some(Place { region: all.region, range: all.range.start..place.range.end })
            },
        )
    }

    /// How many bytes some blocks have.
    pub(super) fn length(&self, blocks: &Blocks) -> usize {
        blocks.iter().map(|block| (self.place)(block).range.len()).sum()
    }

    /// What is in a place.
    pub(super) fn at(&self, place: &Place) -> &[u8] {
        &self.regions[place.region].bytes()[place.range.clone()]
    }

    /// The same, to be changed.
    pub(super) fn at_mut(&mut self, place: &Place) -> &mut [u8] {
        // Nothing may be anywhere, also in what is only given.
        if place.range.is_empty() {
            return &mut [];
        }
        &mut self.regions[place.region].bytes_mut()[place.range.clone()]
    }

    /// What is in one place, and in another to be changed; none where they lie over each other.
    pub(super) fn both(&mut self, read: &Place, changed: &Place) -> Option<(&[u8], &mut [u8])> {
        if changed.range.is_empty() {
            return Some((self.at(read), &mut []));
        }
        if read.range.is_empty() {
            return Some((&[], self.at_mut(changed)));
        }
        if read.region == changed.region {
            let bytes = self.regions[read.region].bytes_mut();
            let ranges = [read.range.clone(), changed.range.clone()];
            let [read, changed] = bytes.get_disjoint_mut(ranges).ok()?;
            return Some((read, changed));
        }
        let regions = self.regions.get_disjoint_mut([read.region, changed.region]).ok()?;
        let [one, other] = regions;
        Some((&one.bytes()[read.range.clone()], &mut other.bytes_mut()[changed.range.clone()]))
    }

    /// Some blocks one behind the other: where they lie, or else in `packed`.
    pub(super) fn read<'b>(&'b self, blocks: &Blocks, packed: &'b mut Vec<u8>) -> &'b [u8] {
        if let Some(place) = self.place(blocks) {
            return self.at(&place);
        }
        packed.clear();
        packed.reserve_exact(self.length(blocks));
        blocks.iter().for_each(|block| packed.extend_from_slice(self.at(&(self.place)(block))));
        packed
    }

    /// Has `each` take what has come for each of some blocks, one behind the other, and what is there; all of them
    /// together where they lie so.
    pub(super) fn take(
        &mut self,
        blocks: &Blocks,
        coming: &mut [u8],
        mut each: impl FnMut(&mut [u8], &mut [u8]),
    ) {
        if let Some(place) = self.place(blocks) {
            return each(coming, self.at_mut(&place));
        }
        let mut rest = coming;
        for block in blocks.iter() {
            let place = (self.place)(block);
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(place.range.len());
            each(bytes, self.at_mut(&place));
            rest = behind;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Memory, Place, Region};
    use crate::collective::Blocks;

    /// Blocks of two bytes: the first three are given, the next two in scratch memory, and the others have nothing.
    fn place(block: u64) -> Place {
        let range = |first: u64| 2 * first as usize..2 * first as usize + 2;
        match block {
            0..3 => Place { region: 0, range: range(block) },
            3 | 4 => Place { region: 1, range: range(4 - block) },
            _ => Place { region: 1, range: 0..0 },
        }
    }

    #[test]
    fn blocks_that_lie_one_behind_the_other_are_one_piece() {
        let given: Vec<u8> = (0..6).collect();
        let regions = vec![Region::Given(&given), Region::Scratch(vec![10, 11, 12, 13])];
        let mut memory = Memory::of(regions, &place);
        let read = |memory: &Memory<'_>, blocks: Blocks| {
            let mut packed = Vec::new();
            (memory.read(&blocks, &mut packed).to_vec(), packed.len())
        };
        assert_eq!(read(&memory, (0..2).into()), (vec![0, 1, 2, 3], 0));
        assert_eq!(read(&memory, [4..5, 7..9, 3..4].into_iter().collect()), (vec![10, 11, 12, 13], 0));
        // They lie the other way round, or apart.
        assert_eq!(read(&memory, (3..5).into()), (vec![12, 13, 10, 11], 4));
        assert_eq!(read(&memory, (2..4).into()), (vec![4, 5, 12, 13], 4));
        assert_eq!(read(&memory, (6..9).into()), (vec![], 0));
        memory.take(&(3..5).into(), &mut [20, 21, 22, 23], |coming, there| there.copy_from_slice(coming));
        assert_eq!(read(&memory, (3..5).into()).0, [20, 21, 22, 23]);
    }

    #[test]
    fn two_places_that_lie_apart_are_had_together() {
        let mut room = [1, 2, 3, 4];
        let mut memory = Memory::of(vec![Region::Given(&[9]), Region::Room(&mut room)], &place);
        let at = |region, range| Place { region, range };
        let (read, changed) = memory.both(&at(0, 0..1), &at(1, 1..2)).unwrap();
        changed.copy_from_slice(read);
        let (read, changed) = memory.both(&at(1, 1..3), &at(1, 0..1)).unwrap();
        assert_eq!((read, changed), (&[9, 3][..], &mut [1][..]));
        assert!(memory.both(&at(1, 1..3), &at(1, 2..4)).is_none());
        // Nothing comes to what is only given, also where two members give each other nothing.
        assert!(memory.at_mut(&at(0, 0..0)).is_empty());
        assert_eq!(memory.both(&at(0, 0..1), &at(0, 0..0)), Some((&[9][..], &mut [][..])));
        assert_eq!(memory.both(&at(0, 0..0), &at(1, 0..1)), Some((&[][..], &mut [1][..])));
    }
}
