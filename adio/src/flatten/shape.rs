//! Datatypes as nested loops: a vector of a million blocks is a few numbers.
//!
//! Data has an order, and so have bytes of a shape: byte `position` of its data is at some *address*, which is counted
//! from where the datatype is put. Which one that is takes a step per level, and a binary search where blocks are
//! irregular.

use std::ops::Range;
use std::sync::Arc;

/// Where the bytes of a datatype are, in the order of its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Addresses within `kind` are counted from here.
    pub(super) at: i64,
    /// Bytes of data.
    bytes: i64,
    /// The lowest address, and the one behind the highest.
    bounds: (i64, i64),
    is_ascending: bool,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// `count` runs of `length` bytes, one every `stride` bytes.
    Runs { length: i64, stride: i64, count: i64 },
    /// `count` copies of a shape, one every `stride` bytes.
    Repeat { of: Arc<Shape>, stride: i64, count: i64 },
    /// Blocks of copies of a shape; within a block there is one every `extent` bytes.
    Blocks { of: Arc<Shape>, extent: i64, starts: Arc<[Start]> },
    /// Different shapes, with how many bytes of data are before each.
    Row(Arc<[(i64, Shape)]>),
}

/// Where a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) at: i64,
    /// Bytes of data before it.
    pub(super) before: i64,
}

/// `count` copies of a shape, the first of them at `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) at: i64,
    pub(super) count: i64,
}

// Where a number would be out of range, these return `None`.
impl Shape {
    /// `length` bytes in a row.
    pub(crate) fn run(length: i64) -> Shape {
        let (length, count) = (length.max(0), i64::from(length > 0));
        Shape {
            at: 0,
            bytes: length,
            bounds: (0, length),
            is_ascending: true,
            kind: Kind::Runs { length, stride: length, count },
        }
    }

    /// Whether it is a single run of bytes from address 0 on.
    pub(crate) fn is_one_run(&self) -> bool {
        self.at == 0 && matches!(self.kind, Kind::Runs { length, count: 1, .. } if length == self.bytes)
    }

    /// The same, `by` bytes further on.
    pub(crate) fn moved(self, by: i64) -> Option<Shape> {
        let bounds = (self.bounds.0.checked_add(by)?, self.bounds.1.checked_add(by)?);
        Some(Shape { at: self.at.checked_add(by)?, bounds, ..self })
    }

    /// `count` copies, one every `stride` bytes.
    pub(crate) fn repeated(self, count: i64, stride: i64) -> Option<Shape> {
        if count <= 0 || self.bytes == 0 {
            return Some(Shape::run(0));
        }
        if count == 1 {
            return Some(self);
        }
        let bytes = self.bytes.checked_mul(count)?;
        let last = stride.checked_mul(count - 1)?;
        let bounds = (self.bounds.0.checked_add(last.min(0))?, self.bounds.1.checked_add(last.max(0))?);
        // One address further on is still a number.
        stride.checked_mul(count)?.checked_add(self.at)?;
        let is_ascending = self.is_ascending && stride >= self.span();
        let (at, kind) = match self.kind {
            Kind::Runs { length, count: 1, .. } if length == stride => {
                (self.at, Kind::Runs { length: bytes, stride: bytes, count: 1 })
            }
            Kind::Runs { length, count: 1, .. } => (self.at, Kind::Runs { length, stride, count }),
            Kind::Runs { length, stride: inner, count: runs } if Some(stride) == inner.checked_mul(runs) => {
                (self.at, Kind::Runs { length, stride: inner, count: runs * count })
            }
            Kind::Repeat { of, stride: inner, count: copies }
                if Some(stride) == inner.checked_mul(copies) =>
            {
                (self.at, Kind::Repeat { of, stride: inner, count: copies * count })
            }
            kind => (0, Kind::Repeat { of: Arc::new(Shape { kind, ..self }), stride, count }),
        };
        Some(Shape { at, bytes, bounds, is_ascending, kind })
    }

    /// Blocks of copies; within a block there is one every `extent` bytes.
    pub(super) fn in_blocks(self, blocks: impl IntoIterator<Item = Block>, extent: i64) -> Option<Shape> {
        let mut joined: Vec<Block> = Vec::new();
        for block in blocks {
            match joined.last_mut() {
                _ if block.count <= 0 || self.bytes == 0 => {}
                Some(last)
                    if extent.checked_mul(last.count).and_then(|all| all.checked_add(last.at))
                        == Some(block.at) =>
                {
                    last.count = last.count.checked_add(block.count)?;
                }
                _ => joined.push(block),
            }
        }
        let Some((first, rest)) = joined.split_first() else { return Some(Shape::run(0)) };
        let step = rest.first().map_or(Some(0), |second| second.at.checked_sub(first.at))?;
        let is_regular = joined
            .windows(2)
            .all(|two| two[0].count == two[1].count && two[0].at.checked_add(step) == Some(two[1].at));
        if is_regular {
            let (count, at) = (joined.len() as i64, first.at);
            return self.repeated(first.count, extent)?.repeated(count, step)?.moved(at);
        }
        let mut before: i64 = 0;
        let mut bounds = (i64::MAX, i64::MIN);
        let mut starts = Vec::with_capacity(joined.len());
        let mut is_ascending = self.is_ascending;
        let mut end_of_last = i64::MIN;
        for Block { at, count } in joined {
            starts.push(Start { at, before });
            let last = extent.checked_mul(count - 1)?;
            bounds.0 = bounds.0.min(self.bounds.0.checked_add(at)?.checked_add(last.min(0))?);
            bounds.1 = bounds.1.max(self.bounds.1.checked_add(at)?.checked_add(last.max(0))?);
            extent.checked_mul(count)?.checked_add(at)?.checked_add(self.at)?;
            is_ascending &=
                end_of_last <= self.bounds.0.checked_add(at)? && (count < 2 || extent >= self.span());
            end_of_last = self.bounds.1.checked_add(at)?.checked_add(last)?;
            before = before.checked_add(self.bytes.checked_mul(count)?)?;
        }
        let kind = Kind::Blocks { of: Arc::new(self), extent, starts: starts.into() };
        Some(Shape { at: 0, bytes: before, bounds, is_ascending, kind })
    }

    /// All of these, in this order.
    pub(super) fn row(parts: impl IntoIterator<Item = Shape>) -> Option<Shape> {
        let mut joined: Vec<Shape> = Vec::new();
        for part in parts.into_iter().filter(|part| part.bytes > 0) {
            match joined.last_mut() {
                Some(last) if last.is_run() && part.is_run() && last.bounds.1 == part.bounds.0 => {
                    let at = last.at;
                    *last = Shape::run(last.bytes.checked_add(part.bytes)?).moved(at)?;
                }
                _ => joined.push(part),
            }
        }
        if joined.len() < 2 {
            return Some(joined.pop().unwrap_or(Shape::run(0)));
        }
        let mut bytes: i64 = 0;
        let mut bounds = (i64::MAX, i64::MIN);
        let mut parts = Vec::with_capacity(joined.len());
        let is_ascending = joined.iter().all(|part| part.is_ascending)
            && joined.windows(2).all(|two| two[0].bounds.1 <= two[1].bounds.0);
        for part in joined {
            bounds = (bounds.0.min(part.bounds.0), bounds.1.max(part.bounds.1));
            let before = bytes;
            bytes = bytes.checked_add(part.bytes)?;
            parts.push((before, part));
        }
        Some(Shape { at: 0, bytes, bounds, is_ascending, kind: Kind::Row(parts.into()) })
    }

    #[cfg(test)]
    pub(crate) fn followed_by(self, other: Shape) -> Shape {
        Shape::row([self, other]).expect("it is small")
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes
    }

    /// The lowest address, and the one behind the highest. Meaningless without data.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// Whether it is bytes in a row, in order.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self.kind, Kind::Runs { count: 0 | 1, .. })
    }

    /// Whether all bytes are at different addresses, in ascending order.
    pub(crate) fn is_ascending(&self) -> bool {
        self.is_ascending
    }

    fn span(&self) -> i64 {
        self.bounds.1 - self.bounds.0
    }

    /// Where byte `position` of the data is; there has to be one.
    pub(crate) fn address(&self, position: i64) -> i64 {
        let (mut shape, mut base, mut position) = (self, 0, position);
        loop {
            base += shape.at;
            match &shape.kind {
                Kind::Runs { length, stride, .. } => {
                    return base + position / length * stride + position % length;
                }
                Kind::Repeat { of, stride, .. } => {
                    base += position / of.bytes * stride;
                    (shape, position) = (of, position % of.bytes);
                }
                Kind::Blocks { of, extent, starts } => {
                    let start = &starts[starts.partition_point(|start| start.before <= position) - 1];
                    position -= start.before;
                    base += start.at + position / of.bytes * extent;
                    (shape, position) = (of, position % of.bytes);
                }
                Kind::Row(parts) => {
                    let (before, part) = &parts[parts.partition_point(|(before, _)| *before <= position) - 1];
                    (shape, position) = (part, position - before);
                }
            }
        }
    }

    /// How many bytes of data have an address less than `address`, where addresses never fall from one byte to the
    /// next.
    pub(crate) fn position(&self, address: i64) -> i64 {
        self.position_within(0..self.bytes, address)
    }

    /// The first position in `positions` whose address is not less than `address`, where addresses never fall; the end
    /// where there is none.
    pub(crate) fn position_within(&self, positions: Range<i64>, address: i64) -> i64 {
        let Range { start: mut low, end: mut high } = positions;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle) < address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// How many copies the block `number` has.
pub(super) fn copies(starts: &[Start], number: usize, of: &Shape, all: i64) -> i64 {
    let end = starts.get(number + 1).map_or(all, |next| next.before);
    (end - starts[number].before) / of.bytes
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How a shape is made, and the addresses of its bytes, one by one.
    pub(in crate::flatten) fn shapes() -> impl Strategy<Value = (Shape, Vec<i64>)> {
        let runs = (0i64..9).prop_map(|length| (Shape::run(length), (0..length).collect::<Vec<i64>>()));
        runs.prop_recursive(4, 24, 5, |inner| {
            let repeated = (inner.clone(), 0i64..5, -40i64..40, -20i64..20).prop_map(
                |((shape, all), count, stride, by)| {
                    let addresses = (0..count).flat_map(|i| all.iter().map(move |at| at + i * stride + by));
                    let addresses: Vec<i64> = addresses.collect();
                    let shape = shape.repeated(count, stride).and_then(|shape| shape.moved(by));
                    (shape.expect("it is small"), addresses)
                },
            );
            let blocks = proptest::collection::vec((-20i64..60, 0i64..5), 0..5);
            let extents = prop_oneof![-10i64..30, Just(-1000)];
            let in_blocks = (inner.clone(), blocks, extents).prop_map(|((shape, all), blocks, extent)| {
                // As large as what they repeat, where types mostly are.
                let extent = if extent == -1000 { shape.bytes } else { extent };
                let blocks: Vec<Block> = blocks.into_iter().map(|(at, count)| Block { at, count }).collect();
                let each =
                    |block: &Block| (0..block.count).map(|i| block.at + i * extent).collect::<Vec<_>>();
                let origins = blocks.iter().flat_map(each);
                let addresses = origins.flat_map(|by| all.iter().map(move |at| at + by)).collect();
                (shape.in_blocks(blocks, extent).expect("it is small"), addresses)
            });
            let row = proptest::collection::vec((inner, -30i64..30), 0..4).prop_map(|parts| {
                let all = parts.iter().flat_map(|((_, all), by)| all.iter().map(move |at| at + by)).collect();
                let parts = parts.into_iter().map(|((shape, _), by)| shape.moved(by).expect("it is small"));
                (Shape::row(parts).expect("it is small"), all)
            });
            prop_oneof![repeated, in_blocks, row]
        })
    }

    proptest! {
        #[test]
        fn addresses_are_those_of_the_bytes((shape, addresses) in shapes()) {
            prop_assert_eq!(shape.bytes() as usize, addresses.len());
            let found: Vec<i64> = (0..shape.bytes()).map(|position| shape.address(position)).collect();
            prop_assert_eq!(&found, &addresses);
            let bounds = (addresses.iter().min(), addresses.iter().max().map(|last| last + 1));
            if let (Some(first), Some(end)) = bounds {
                prop_assert_eq!(shape.bounds(), (*first, end));
            }
            if shape.is_run() {
                prop_assert!(addresses.windows(2).all(|two| two[0] + 1 == two[1]));
            }
            prop_assert_eq!(shape.is_ascending(), addresses.windows(2).all(|two| two[0] < two[1]));
            if addresses.is_sorted() {
                for address in -80..80 {
                    let before = addresses.iter().filter(|at| **at < address).count();
                    prop_assert_eq!(shape.position(address), before as i64);
                }
            }
        }
    }

    #[test]
    fn regular_types_stay_a_few_numbers() {
        let million = Shape::run(8).repeated(1 << 20, 16).unwrap();
        assert_eq!(million.kind, Kind::Runs { length: 8, stride: 16, count: 1 << 20 });
        let blocks = (0..1000).map(|i| Block { at: 64 * i, count: 4 });
        let listed = Shape::run(8).in_blocks(blocks, 8).unwrap();
        assert_eq!(listed.kind, Kind::Runs { length: 32, stride: 64, count: 1000 });
        assert!(Shape::run(8).repeated(5, 8).unwrap().repeated(3, 40).unwrap().is_run());
    }

    #[test]
    fn numbers_out_of_range_are_told() {
        assert_eq!(Shape::run(8).repeated(i64::MAX, 8), None);
        assert_eq!(Shape::run(8).repeated(3, i64::MAX / 2), None);
        assert_eq!(Shape::run(8).moved(i64::MAX), None);
        assert_eq!(Shape::run(0).repeated(i64::MAX, i64::MAX), Some(Shape::run(0)));
    }
}
