//! Parts of arrays: blocks of them, and what is dealt out to a process.

use super::shape::Shape;

/// How `MPI_Type_create_darray` deals out a dimension. A chunk is as many elements as its argument says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    /// One chunk each; by default as many elements as the dimension needs to be dealt out.
    Block(Option<i64>),
    /// Chunks in turn; by default of one element.
    Cyclic(Option<i64>),
    /// All of it for everyone.
    None,
}

/// A dimension of an array, and which of its elements are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dimension {
    length: i64,
    chunks: Chunks,
    /// What is left for a chunk of less than the others' length: first element, and how many.
    last: Option<(i64, i64)>,
}

/// `count` chunks of `length` elements, one every `step` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunks {
    first: i64,
    length: i64,
    step: i64,
    count: i64,
}

impl Dimension {
    /// `count` elements from `first` on.
    pub(super) fn part(length: i64, first: i64, count: i64) -> Dimension {
        Dimension { length, chunks: Chunks { first, length: count, step: 0, count: 1 }, last: None }
    }

    /// What the process at `position` of `processes` gets; `None` where that makes no sense.
    pub(super) fn dealt(
        length: i64,
        distribution: Distribution,
        processes: i64,
        position: i64,
    ) -> Option<Dimension> {
        if processes < 1 {
            return None;
        }
        match distribution {
            Distribution::None => Some(Dimension::part(length, 0, length)),
            Distribution::Block(chunk) => {
                let chunk = chunk.unwrap_or((length + processes - 1) / processes);
                let first = position.checked_mul(chunk)?;
                Some(Dimension::part(length, first, chunk.min(length - first).max(0)))
            }
            Distribution::Cyclic(chunk) => {
                let chunk = chunk.unwrap_or(1);
                let step = chunk.checked_mul(processes).filter(|step| *step > 0)?;
                let first = position.checked_mul(chunk)?;
                // Chunks that end within the array.
                let count = (length - first - chunk).div_euclid(step) + 1;
                let next = first + count.max(0) * step;
                let last = (next < length).then_some((next, length - next));
                let chunks = Chunks { first, length: chunk, step, count: count.max(0) };
                Some(Dimension { length, chunks, last })
            }
        }
    }

    /// The elements of this dimension, each of which is `of`, an `extent` from the one before.
    fn of(&self, of: Shape, extent: i64) -> Option<Shape> {
        let Chunks { first, length, step, count } = self.chunks;
        let elements =
            |first: i64, count: i64| of.clone().repeated(count, extent)?.moved(extent.checked_mul(first)?);
        let chunks = elements(first, length)?.repeated(count, extent.checked_mul(step)?)?;
        match self.last {
            Some((first, count)) => Shape::row([chunks, elements(first, count)?]),
            None => Some(chunks),
        }
    }
}

/// The part of an array of `of` whose dimensions are given, that with the smallest stride first.
pub(super) fn array(dimensions: impl Iterator<Item = Dimension>, of: Shape, extent: i64) -> Option<Shape> {
    let (mut shape, mut extent) = (of, extent);
    for dimension in dimensions {
        shape = dimension.of(shape, extent)?;
        extent = extent.checked_mul(dimension.length)?;
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Who has element `index`, by the rules for a single element.
    fn owner(length: i64, distribution: Distribution, processes: i64, index: i64) -> i64 {
        match distribution {
            Distribution::None => 0,
            Distribution::Block(chunk) => {
                index / chunk.unwrap_or(length.div_euclid(processes) + i64::from(length % processes != 0))
            }
            Distribution::Cyclic(chunk) => index / chunk.unwrap_or(1) % processes,
        }
    }

    fn dealt() -> impl Strategy<Value = (i64, Distribution, i64)> {
        (1i64..20, 1i64..5, 0i64..4, 0..5).prop_map(|(length, processes, more, kind)| match kind {
            0 => (length, Distribution::None, 1),
            1 => (length, Distribution::Block(None), processes),
            2 => (length, Distribution::Block(Some((length + processes - 1) / processes + more)), processes),
            3 => (length, Distribution::Cyclic(None), processes),
            _ => (length, Distribution::Cyclic(Some(more + 1)), processes),
        })
    }

    proptest! {
        #[test]
        fn every_element_is_dealt_to_its_owner(slow in dealt(), fast in dealt(), bytes in 1i64..4) {
            for (at, position) in (0..slow.2).flat_map(|a| (0..fast.2).map(move |b| (a, b))) {
                let dimension = |of: (i64, Distribution, i64), at| Dimension::dealt(of.0, of.1, of.2, at);
                let dimensions = [dimension(fast, position), dimension(slow, at)].map(|d| d.expect("it makes sense"));
                let shape = array(dimensions.into_iter(), Shape::run(bytes), bytes).expect("it is small");
                let told: Vec<i64> = (0..shape.bytes()).map(|position| shape.address(position)).collect();
                let expected: Vec<i64> = (0..slow.0)
                    .filter(|index| owner(slow.0, slow.1, slow.2, *index) == at)
                    .flat_map(|row| (0..fast.0).map(move |column| (row, column)))
                    .filter(|(_, column)| owner(fast.0, fast.1, fast.2, *column) == position)
                    .flat_map(|(row, column)| (0..bytes).map(move |byte| (row * fast.0 + column) * bytes + byte))
                    .collect();
                prop_assert_eq!(told, expected);
            }
        }
    }
}
