//! Going through the bytes of a shape, as many regular runs at a time as there are in a row.

use super::shape::{Kind, Shape, Start, copies};

/// Runs of bytes at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Where the first one begins.
    pub(crate) at: i64,
    /// Bytes of each.
    pub(crate) length: i64,
    /// From one to the next.
    pub(crate) stride: i64,
    /// How many there are, at least one.
    pub(crate) count: i64,
}

impl Runs {
    /// A single one.
    pub(crate) fn one(at: i64, length: i64) -> Runs {
        Runs { at, length, stride: length, count: 1 }
    }
}

/// A place in the data of a shape.
pub(crate) struct Cursor<'s> {
    levels: Vec<Level<'s>>,
    /// What is ahead in the innermost level.
    ahead: Runs,
    /// How many bytes of the first run are behind.
    behind: i64,
}

/// A shape with parts, and which of its parts the cursor is in.
struct Level<'s> {
    /// Where the shape is put, its own beginning included.
    base: i64,
    part: Part<'s>,
}

enum Part<'s> {
    Repeat { of: &'s Shape, stride: i64, number: i64, count: i64 },
    Blocks { of: &'s Shape, extent: i64, starts: &'s [Start], all: i64, block: usize, copy: i64 },
    Row { parts: &'s [(i64, Shape)], number: usize },
}

impl<'s> Cursor<'s> {
    /// Before byte `position` of the data, which there has to be.
    pub(crate) fn at(shape: &'s Shape, position: i64) -> Cursor<'s> {
        let nothing = Runs { at: 0, length: 0, stride: 0, count: 0 };
        let mut cursor = Cursor { levels: Vec::with_capacity(4), ahead: nothing, behind: 0 };
        cursor.descend(shape, 0, position);
        cursor
    }

    /// What comes next: at least one run, of which nothing is behind the cursor.
    pub(crate) fn ahead(&self) -> Runs {
        match self.behind {
            0 => self.ahead,
            behind => Runs::one(self.ahead.at + behind, self.ahead.length - behind),
        }
    }

    /// Goes on by `bytes` bytes, which are not more than [`Cursor::ahead`] has. False at the end of the data.
    pub(crate) fn advance(&mut self, bytes: i64) -> bool {
        let behind = self.behind + bytes;
        let (runs, rest) = if behind < self.ahead.length {
            (0, behind)
        } else if behind == self.ahead.length {
            (1, 0)
        } else {
            (behind / self.ahead.length, behind % self.ahead.length)
        };
        self.behind = rest;
        self.ahead.at += self.ahead.stride * runs;
        self.ahead.count -= runs;
        self.ahead.count > 0 || self.next_part()
    }

    fn next_part(&mut self) -> bool {
        while let Some(level) = self.levels.last_mut() {
            let base = level.base;
            match &mut level.part {
                Part::Repeat { of, stride, number, count } => {
                    *number += 1;
                    if number < count {
                        let (of, base) = (*of, base + *number * *stride);
                        self.descend(of, base, 0);
                        return true;
                    }
                }
                Part::Blocks { of, extent, starts, all, block, copy } => {
                    *copy += 1;
                    if *copy == copies(starts, *block, of, *all) {
                        (*block, *copy) = (*block + 1, 0);
                    }
                    if let Some(start) = starts.get(*block) {
                        let (of, base) = (*of, base + start.at + *copy * *extent);
                        self.descend_in_block(of, base, 0);
                        return true;
                    }
                }
                Part::Row { parts, number } => {
                    *number += 1;
                    if let Some((_, part)) = parts.get(*number) {
                        self.descend(part, base, 0);
                        return true;
                    }
                }
            }
            self.levels.pop();
        }
        false
    }

    /// To the copy in which the innermost level, of blocks, is now. Runs that are copied are dealt with together.
    fn descend_in_block(&mut self, of: &'s Shape, base: i64, position: i64) {
        let Kind::Runs { length, count: 1, .. } = of.kind else {
            return self.descend(of, base, position);
        };
        let Some(Level { part: Part::Blocks { extent, starts, all, block, copy, .. }, .. }) =
            self.levels.last_mut()
        else {
            return self.descend(of, base, position);
        };
        let count = copies(starts, *block, of, *all);
        let (left, at) = (count - *copy, base + of.at);
        // The next part is the next block.
        *copy = count - 1;
        self.behind = position;
        self.ahead = match *extent == length {
            true => Runs::one(at, length * left),
            false => Runs { at, length, stride: *extent, count: left },
        };
    }

    fn descend(&mut self, shape: &'s Shape, base: i64, position: i64) {
        let (mut shape, mut base, mut position) = (shape, base, position);
        loop {
            base += shape.at;
            match &shape.kind {
                Kind::Runs { length, stride, count } => {
                    let (behind, rest) = (position / length, position % length);
                    let at = base + behind * stride;
                    self.ahead = Runs { at, length: *length, stride: *stride, count: count - behind };
                    self.behind = rest;
                    return;
                }
                Kind::Repeat { of, stride, count } => {
                    let number = position / of.bytes();
                    let part = Part::Repeat { of, stride: *stride, number, count: *count };
                    self.levels.push(Level { base, part });
                    base += number * stride;
                    (shape, position) = (of, position % of.bytes());
                }
                Kind::Blocks { of, extent, starts } => {
                    let block = starts.partition_point(|start| start.before <= position) - 1;
                    let start = &starts[block];
                    let copy = (position - start.before) / of.bytes();
                    let (extent, all) = (*extent, shape.bytes());
                    self.levels
                        .push(Level { base, part: Part::Blocks { of, extent, starts, all, block, copy } });
                    let (base, position) =
                        (base + start.at + copy * extent, (position - start.before) % of.bytes());
                    return self.descend_in_block(of, base, position);
                }
                Kind::Row(parts) => {
                    let number = parts.partition_point(|(before, _)| *before <= position) - 1;
                    self.levels.push(Level { base, part: Part::Row { parts, number } });
                    let (before, part) = &parts[number];
                    (shape, position) = (part, position - before);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::shape::tests::shapes;
    use super::*;

    proptest! {
        #[test]
        fn a_cursor_goes_through_all_bytes((shape, addresses) in shapes(), from in any::<usize>(), steps in prop::collection::vec(1i64..50, 1..9)) {
            if addresses.is_empty() {
                return Ok(());
            }
            let from = from % addresses.len();
            let mut cursor = Cursor::at(&shape, from as i64);
            let mut found: Vec<i64> = Vec::new();
            for step in steps.iter().cycle() {
                let Runs { at, length, stride, count } = cursor.ahead();
                prop_assert!(length > 0 && count > 0);
                let bytes = (0..count).flat_map(|i| at + i * stride..at + i * stride + length);
                let taken: Vec<i64> = bytes.take(*step as usize).collect();
                found.extend(&taken);
                if !cursor.advance(taken.len() as i64) {
                    break;
                }
            }
            prop_assert_eq!(&found, &addresses[from..]);
        }
    }
}
