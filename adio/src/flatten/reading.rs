//! From MPI's datatypes to trees, by `MPI_Type_get_envelope` and `MPI_Type_get_contents`. What the integers and
//! addresses of each combiner are: MPI 3.1, section 4.1.13.

use std::ffi::c_int;

use super::dimensions::{Dimension, Distribution, array};
use super::{Block, Tree};
use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;
use crate::calls::datatypes::{Combiner, Contents};

/// Types within types, at most: more would be a strain on the stack.
const DEEPEST: u32 = 100;

/// How `datatype` is made; `None` where that is not known here.
pub(super) fn tree<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Option<Tree> {
    tree_within(mpi, datatype, DEEPEST)
}

fn tree_within<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, deepest: u32) -> Option<Tree> {
    let deepest = deepest.checked_sub(1)?;
    let contents = mpi.contents(datatype)?;
    let bytes = i64::try_from(mpi.type_size(datatype)).ok()?;
    if contents.combiner == Combiner::Predefined {
        // Pairs have gaps, whose place is the compiler's.
        return (mpi.true_extent(datatype) == (0, bytes) || bytes == 0).then_some(Tree::Bytes(bytes));
    }
    let of = |number: usize| -> Option<(Tree, i64)> {
        let inner = *contents.datatypes.get(number)?;
        Some((tree_within(mpi, inner, deepest)?, mpi.extent(inner)))
    };
    match contents.combiner {
        Combiner::Struct => structure(&contents, of),
        _ => of(0).and_then(|(inner, extent)| made_of_one::<A>(&contents, inner, extent)),
    }
}

/// `MPI_Type_create_struct`: the number of blocks and their lengths; where they are.
fn structure<A: Abi>(contents: &Contents<'_, A>, of: impl Fn(usize) -> Option<(Tree, i64)>) -> Option<Tree> {
    let lengths = contents.integers.get(1..)?;
    let parts = lengths.iter().zip(&contents.addresses).enumerate().map(|(number, (length, at))| {
        let (inner, extent) = of(number)?;
        let block = Block { at: *at as i64, count: i64::from(*length) };
        Some(Tree::Blocks { blocks: vec![block], of: Box::new(inner), extent })
    });
    parts.collect::<Option<Vec<Tree>>>().map(Tree::Row)
}

/// All combiners that take one datatype.
fn made_of_one<A: Abi>(contents: &Contents<'_, A>, of: Tree, extent: i64) -> Option<Tree> {
    let number = |i: usize| contents.integers.get(i).copied().map(i64::from);
    let addresses = || contents.addresses.iter().map(|at| Some(*at as i64));
    let count = usize::try_from(number(0).unwrap_or(0)).ok()?;
    let numbers =
        |from: usize| (0..count).map(move |i| contents.integers.get(from + i).copied().map(i64::from));
    let elements = |at: Option<i64>| at?.checked_mul(extent);
    let blocks: Vec<Block> = match contents.combiner {
        Combiner::Dup | Combiner::Resized => return Some(of),
        Combiner::Contiguous => vec![Block { at: 0, count: number(0)? }],
        Combiner::Vector => regular(count, number(1)?, number(2)?.checked_mul(extent)?)?,
        Combiner::Hvector => regular(count, number(1)?, addresses().next()??)?,
        Combiner::Indexed => listed(numbers(count + 1).map(elements), numbers(1))?,
        Combiner::Hindexed => listed(addresses(), numbers(1))?,
        Combiner::IndexedBlock => listed(numbers(2).map(elements), std::iter::repeat(number(1)))?,
        Combiner::HindexedBlock => listed(addresses(), std::iter::repeat(number(1)))?,
        Combiner::Subarray => return subarray::<A>(&contents.integers, of, extent),
        Combiner::Darray => return darray::<A>(&contents.integers, of, extent),
        Combiner::Predefined | Combiner::Struct => return None,
    };
    Some(Tree::Blocks { blocks, of: Box::new(of), extent })
}

/// `count` blocks of `length` elements, one every `stride` bytes.
fn regular(count: usize, length: i64, stride: i64) -> Option<Vec<Block>> {
    if count > super::MOST_PIECES {
        return None;
    }
    (0..).take(count).map(|i| Some(Block { at: stride.checked_mul(i)?, count: length })).collect()
}

fn listed(
    places: impl Iterator<Item = Option<i64>>,
    lengths: impl Iterator<Item = Option<i64>>,
) -> Option<Vec<Block>> {
    places.zip(lengths).map(|(at, count)| Some(Block { at: at?, count: count? })).collect()
}

/// The number of dimensions; then of each the whole, the part, where it begins; the order.
fn subarray<A: Abi>(integers: &[c_int], of: Tree, extent: i64) -> Option<Tree> {
    let (count, rest) = integers.split_first()?;
    let [wholes, parts, firsts] = columns(rest, *count)?;
    let dimension = |i: usize| Dimension::part(wholes[i].into(), firsts[i].into(), parts[i].into());
    let dimensions = (0..wholes.len()).map(dimension).collect();
    in_order::<A>(dimensions, *integers.last()?, of, extent)
}

/// The number of processes, the rank, the number of dimensions; then of each the whole, the distribution, its argument,
/// the processes; the order.
fn darray<A: Abi>(integers: &[c_int], of: Tree, extent: i64) -> Option<Tree> {
    let (&[_, rank, count], rest) = integers.split_first_chunk()?;
    let [wholes, distributions, arguments, grid] = columns(rest, count)?;
    // Processes are counted in C's order, whatever the array's.
    let mut rank = i64::from(rank);
    let mut dimensions = Vec::with_capacity(wholes.len());
    for i in (0..wholes.len()).rev() {
        let processes = i64::from(grid[i]);
        let chunk = (arguments[i] != A::DEFAULT_CHUNK).then_some(i64::from(arguments[i]));
        let distribution = match A::DISTRIBUTIONS.iter().position(|known| *known == distributions[i])? {
            0 => Distribution::Block(chunk),
            1 => Distribution::Cyclic(chunk),
            _ => Distribution::None,
        };
        let position = rank.checked_rem(processes)?;
        dimensions.push(Dimension::dealt(wholes[i].into(), distribution, processes, position)?);
        rank /= processes;
    }
    dimensions.reverse();
    in_order::<A>(dimensions, *integers.last()?, of, extent)
}

fn in_order<A: Abi>(dimensions: Vec<Dimension>, order: c_int, of: Tree, extent: i64) -> Option<Tree> {
    let [c, fortran] = A::ORDERS;
    if order == c {
        array(dimensions.into_iter().rev(), of, extent)
    } else if order == fortran {
        array(dimensions.into_iter(), of, extent)
    } else {
        None
    }
}

/// `N` lists of `count` numbers that follow each other.
fn columns<const N: usize>(numbers: &[c_int], count: c_int) -> Option<[&[c_int]; N]> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    let lists: Vec<&[c_int]> = numbers.chunks_exact(count).take(N).collect();
    lists.try_into().ok()
}
