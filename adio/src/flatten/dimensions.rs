//! Parts of arrays: blocks of them, and what is dealt out to a process.

use super::{Block, MOST_PIECES, Tree};

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
    /// First elements, and how many from each on.
    parts: Vec<(i64, i64)>,
}

impl Dimension {
    /// `count` elements from `first` on.
    pub(super) fn part(length: i64, first: i64, count: i64) -> Dimension {
        Dimension { length, parts: vec![(first, count)] }
    }

    /// What the process at `position` of `processes` gets; `None` where that makes no sense, or is too much to list.
    pub(super) fn dealt(
        length: i64,
        distribution: Distribution,
        processes: i64,
        position: i64,
    ) -> Option<Dimension> {
        if processes < 1 {
            return None;
        }
        let within = |first: i64, chunk: i64| (first, chunk.min(length - first));
        let parts = match distribution {
            Distribution::None => vec![(0, length)],
            Distribution::Block(chunk) => {
                let chunk = chunk.unwrap_or((length + processes - 1) / processes);
                vec![within(position.checked_mul(chunk)?, chunk)]
            }
            Distribution::Cyclic(chunk) => {
                let chunk = chunk.unwrap_or(1);
                let round = usize::try_from(chunk.checked_mul(processes)?).ok().filter(|round| *round > 0)?;
                if usize::try_from(length).ok()? / round > MOST_PIECES {
                    return None;
                }
                (position * chunk..length).step_by(round).map(|first| within(first, chunk)).collect()
            }
        };
        Some(Dimension { length, parts: parts.into_iter().filter(|(_, count)| *count > 0).collect() })
    }
}

/// The part of an array of `of` whose dimensions are given, that with the smallest stride first.
pub(super) fn array(dimensions: impl Iterator<Item = Dimension>, of: Tree, extent: i64) -> Option<Tree> {
    let (mut tree, mut extent) = (of, extent);
    for dimension in dimensions {
        let block = |&(first, count): &(i64, i64)| Some(Block { at: extent.checked_mul(first)?, count });
        let blocks = dimension.parts.iter().map(block).collect::<Option<Vec<Block>>>()?;
        tree = Tree::Blocks { blocks, of: Box::new(tree), extent };
        extent = extent.checked_mul(dimension.length)?;
    }
    Some(tree)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::flattened;
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
                let tree = array(dimensions.into_iter(), Tree::Bytes(bytes), bytes).expect("it is small");
                let pieces = flattened(&tree, MOST_PIECES).expect("it is small");
                let told: Vec<i64> = pieces.iter().flat_map(|piece| piece.at..piece.at + piece.length).collect();
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
