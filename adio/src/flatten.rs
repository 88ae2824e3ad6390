//! File types, flattened: where the bytes are that a datatype names.
//!
//! `reading` asks MPI how a datatype was made, which gives a [`Tree`]; this module turns a tree into [`Piece`]s, and
//! knows nothing of MPI. `dimensions` are the parts of arrays.
//!
//! The pieces only decide on which nodes data should lie, so a type that cannot be flattened (too many pieces, or made
//! in a way that is not known here) is no error: its bounds do instead.

mod dimensions;
mod reading;

use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;

/// More pieces than these in a file type are not looked at one by one: 16 MiB of them.
const MOST_PIECES: usize = 1 << 20;

/// Bytes in a row, in a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes from where the datatype is put.
    pub(crate) at: i64,
    /// Bytes, at least one.
    pub(crate) length: i64,
}

/// How a datatype is made of others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tree {
    /// So many bytes in a row.
    Bytes(i64),
    /// Blocks of `of`, in this order.
    Blocks { blocks: Vec<Block>, of: Box<Tree>, extent: i64 },
    /// All of these, in this order.
    Row(Vec<Tree>),
}

/// `count` copies of a type, the first of them `at` bytes from where the whole is put, each an extent further on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    at: i64,
    count: i64,
}

/// The pieces of one `datatype` in the order in which its data comes, none of which goes on where the one before it
/// ends; `None` where it cannot be told.
pub(crate) fn pieces<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Option<Vec<Piece>> {
    let pieces = reading::tree(mpi, datatype).and_then(|tree| flattened(&tree, MOST_PIECES));
    let pieces = pieces.filter(|pieces| {
        // What MPI says of the whole tells whether its parts were understood.
        let (start, length) = mpi.true_extent(datatype);
        let bytes: i64 = pieces.iter().map(|piece| piece.length).sum();
        let first = pieces.iter().map(|piece| piece.at).min();
        let last = pieces.iter().map(|piece| piece.at + piece.length).max();
        u64::try_from(bytes) == Ok(mpi.type_size(datatype))
            && first.is_none_or(|at| at == start)
            && last.is_none_or(|end| end == start + length)
    });
    if pieces.is_none() {
        tracing::debug!("a file type of {} bytes is known by its bounds only", mpi.type_size(datatype));
    }
    pieces
}

/// The pieces of `tree`; `None` where there are more than `most`, or where they lie out of an offset's range.
fn flattened(tree: &Tree, most: usize) -> Option<Vec<Piece>> {
    let mut pieces = Pieces { pieces: Vec::new(), most };
    match tree {
        Tree::Bytes(length) => pieces.push(0, *length)?,
        Tree::Row(parts) => {
            for part in parts {
                flattened(part, most)?.iter().try_for_each(|piece| pieces.push(piece.at, piece.length))?;
            }
        }
        Tree::Blocks { blocks, of, extent } => match flattened(of, most)?[..] {
            [] => {}
            [only] if only.length == *extent => {
                for block in blocks {
                    pieces.push(block.at.checked_add(only.at)?, extent.checked_mul(block.count)?)?;
                }
            }
            ref inner => {
                for block in blocks {
                    for number in 0..block.count {
                        let at = block.at.checked_add(extent.checked_mul(number)?)?;
                        inner
                            .iter()
                            .try_for_each(|piece| pieces.push(at.checked_add(piece.at)?, piece.length))?;
                    }
                }
            }
        },
    }
    Some(pieces.pieces)
}

/// Pieces, joined where one goes on where the other ends; at most `most`.
struct Pieces {
    pieces: Vec<Piece>,
    most: usize,
}

impl Pieces {
    fn push(&mut self, at: i64, length: i64) -> Option<()> {
        at.checked_add(length)?;
        match self.pieces.last_mut() {
            _ if length <= 0 => Some(()),
            Some(last) if last.at + last.length == at => {
                last.length += length;
                Some(())
            }
            _ => (self.pieces.len() < self.most).then(|| self.pieces.push(Piece { at, length })),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trees() -> impl Strategy<Value = Tree> {
        (0i64..9).prop_map(Tree::Bytes).prop_recursive(4, 24, 5, |inner| {
            let block = (-20i64..60, 0i64..5).prop_map(|(at, count)| Block { at, count });
            let blocks = proptest::collection::vec(block, 0..5);
            let of_one = (blocks, inner.clone(), -10i64..30).prop_map(|(blocks, of, extent)| Tree::Blocks {
                blocks,
                of: Box::new(of),
                extent,
            });
            // As large as what they repeat, where types mostly are.
            let dense = (1i64..9, 0i64..40, 0i64..5).prop_map(|(bytes, at, count)| Tree::Blocks {
                blocks: vec![Block { at, count }, Block { at: at + count * bytes, count: 1 }],
                of: Box::new(Tree::Bytes(bytes)),
                extent: bytes,
            });
            prop_oneof![of_one, dense, proptest::collection::vec(inner, 0..4).prop_map(Tree::Row)]
        })
    }

    /// Where each byte of `tree` is, one by one.
    fn bytes(tree: &Tree, base: i64, all: &mut Vec<i64>) {
        match tree {
            Tree::Bytes(length) => all.extend(base..base + length),
            Tree::Row(parts) => parts.iter().for_each(|part| bytes(part, base, all)),
            Tree::Blocks { blocks, of, extent } => {
                for block in blocks {
                    (0..block.count).for_each(|number| bytes(of, base + block.at + number * extent, all));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_are_the_bytes_in_order(tree in trees()) {
            let mut expected = Vec::new();
            bytes(&tree, 0, &mut expected);
            let pieces = flattened(&tree, MOST_PIECES).expect("few pieces");
            let told: Vec<i64> = pieces.iter().flat_map(|piece| piece.at..piece.at + piece.length).collect();
            prop_assert_eq!(&told, &expected);
            prop_assert!(pieces.windows(2).all(|two| two[0].at + two[0].length != two[1].at));
            prop_assert!(pieces.is_empty() || flattened(&tree, 0).is_none());
        }
    }

    #[test]
    fn the_number_of_pieces_is_bounded() {
        let every_other = Tree::Blocks {
            blocks: vec![Block { at: 0, count: 1 << 40 }],
            of: Box::new(Tree::Bytes(1)),
            extent: 2,
        };
        assert_eq!(flattened(&every_other, 1000), None);
        let nothing = Tree::Blocks {
            blocks: vec![Block { at: 0, count: 1 << 40 }],
            of: Box::new(Tree::Bytes(0)),
            extent: 2,
        };
        assert_eq!(flattened(&nothing, 1000), Some(Vec::new()));
    }
}
