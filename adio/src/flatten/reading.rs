//! From MPI's datatypes to shapes, by `MPI_Type_get_envelope` and `MPI_Type_get_contents`. What the integers and
//! addresses of each combiner are: MPI 3.1, section 4.1.13.

use std::cell::RefCell;
use std::ffi::c_int;

use super::dimensions::{Dimension, Distribution, array};
use super::shape::{Block, Shape};
use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;
use crate::calls::datatypes::{Combiner, Contents};

/// Parts of a type that are remembered while it is read.
const REMEMBERED: usize = 16;

/// Types within types, at most: more would be a strain on the stack.
const DEEPEST: u32 = 100;

/// Where the bytes of `datatype` are; `None` where that cannot be told.
pub(super) fn shape<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Option<Shape> {
    shape_within(mpi, datatype, DEEPEST)
}

/// Why `datatype` has no shape here, in words.
pub(super) fn obstacle<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> String {
    let whole = || "its parts lie out of range, or are not as MPI tells its size".to_owned();
    obstacle_within(mpi, datatype, DEEPEST).unwrap_or_else(whole)
}

fn obstacle_within<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, deepest: u32) -> Option<String> {
    let Some(deepest) = deepest.checked_sub(1) else {
        return Some(format!("it has datatypes within each other in more than {DEEPEST} levels"));
    };
    if let Some(contents) = mpi.contents(datatype) {
        return contents.datatypes.iter().find_map(|inner| obstacle_within(mpi, *inner, deepest));
    }
    Some(match mpi.unknown_combiner(datatype) {
        Some(distance) => format!(
            "svmio does not know the constructor that made it, or a part of it (MPI_COMBINER_NAMED + {distance} in \
             mpi.h)"
        ),
        None => "MPI does not tell how it was made".to_owned(),
    })
}

fn shape_within<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, deepest: u32) -> Option<Shape> {
    let deepest = deepest.checked_sub(1)?;
    let contents = mpi.contents(datatype)?;
    if contents.combiner == Combiner::Predefined {
        return predefined(i64::try_from(mpi.type_size(datatype)).ok()?, mpi.true_extent(datatype));
    }
    // Each handle is read once: a struct may have a million blocks of one type.
    let read = RefCell::new(Vec::<(Datatype<A>, Shape, i64)>::new());
    let of = |number: usize| -> Option<(Shape, i64)> {
        let inner = *contents.datatypes.get(number)?;
        let mut read = read.borrow_mut();
        if let Some((_, shape, extent)) = read.iter().rev().find(|(known, ..)| known.0 == inner.0) {
            return Some((shape.clone(), *extent));
        }
        let (shape, extent) = (shape_within(mpi, inner, deepest)?, mpi.extent(inner));
        if read.len() < REMEMBERED {
            read.push((inner, shape.clone(), extent));
        }
        Some((shape, extent))
    };
    match contents.combiner {
        Combiner::Struct => structure(&contents, of),
        _ => of(0).and_then(|(inner, extent)| made_of_one::<A>(&contents, inner, extent)),
    }
}

/// A type of the language's, or one of the pairs of such a type and an int. Of the latter only that of a short has a
/// gap.
fn predefined(bytes: i64, true_extent: (i64, i64)) -> Option<Shape> {
    const SHORT_AND_INT: (i64, (i64, i64)) = (6, (0, 8));
    if (bytes, true_extent) == SHORT_AND_INT {
        return Shape::row([Shape::run(2), Shape::run(4).moved(4)?]);
    }
    (bytes == 0 || true_extent == (0, bytes)).then(|| Shape::run(bytes))
}

/// `MPI_Type_create_struct`: the number of blocks and their lengths; where they are.
fn structure<A: Abi>(
    contents: &Contents<'_, A>,
    of: impl Fn(usize) -> Option<(Shape, i64)>,
) -> Option<Shape> {
    let blocks = lengths_and_places(contents, 1)?;
    // Blocks of one type that follow each other are as those of MPI_Type_create_hindexed.
    let alike = contents.datatypes.chunk_by(|one, next| one.0 == next.0);
    let mut first = 0;
    let parts = alike.map(|alike| {
        let (inner, extent) = of(first)?;
        let own = blocks.get(first..first + alike.len())?;
        first += alike.len();
        inner.in_blocks(own.iter().copied(), extent)
    });
    Shape::row(parts.collect::<Option<Vec<Shape>>>()?)
}

/// All combiners that take one datatype.
fn made_of_one<A: Abi>(contents: &Contents<'_, A>, of: Shape, extent: i64) -> Option<Shape> {
    let number = |i: usize| contents.integers.get(i).copied();
    let elements = |count: i64| count.checked_mul(extent);
    match contents.combiner {
        Combiner::Dup | Combiner::Resized => Some(of),
        Combiner::Contiguous => of.repeated(number(0)?, extent),
        Combiner::Vector => of.repeated(number(1)?, extent)?.repeated(number(0)?, elements(number(2)?)?),
        Combiner::Hvector => {
            // Fortran's old form has the stride among the integers.
            let stride = contents.addresses.first().copied().or_else(|| number(2))?;
            of.repeated(number(1)?, extent)?.repeated(number(0)?, stride)
        }
        Combiner::Indexed => {
            let blocks = lengths_and_places(contents, extent)?;
            of.in_blocks(blocks, extent)
        }
        Combiner::Hindexed => {
            let blocks = lengths_and_places(contents, 1)?;
            of.in_blocks(blocks, extent)
        }
        Combiner::IndexedBlock => {
            let (count, places) = (number(1)?, contents.integers.get(2..)?);
            let block = |place: &i64| Some(Block { at: elements(*place)?, count });
            of.in_blocks(places.iter().map(block).collect::<Option<Vec<_>>>()?, extent)
        }
        Combiner::HindexedBlock => {
            let count = number(1)?;
            // Large counts come with the integers.
            let places =
                if contents.addresses.is_empty() { contents.integers.get(2..)? } else { &contents.addresses };
            of.in_blocks(places.iter().map(|at| Block { at: *at, count }), extent)
        }
        Combiner::Subarray => subarray::<A>(&contents.integers, of, extent),
        Combiner::Darray => darray::<A>(&contents.integers, of, extent),
        Combiner::Predefined | Combiner::Struct => None,
    }
}

/// The number of blocks, and their lengths; and where they are, in `unit`s of bytes: among the addresses, or behind the
/// lengths.
fn lengths_and_places<A: Abi>(contents: &Contents<'_, A>, unit: i64) -> Option<Vec<Block>> {
    let (count, rest) = contents.integers.split_first()?;
    let (lengths, behind) = rest.split_at_checked(usize::try_from(*count).ok()?)?;
    let places = if contents.addresses.is_empty() { behind } else { &contents.addresses };
    if places.len() < lengths.len() {
        return None;
    }
    let block = |(count, place): (&i64, &i64)| Some(Block { at: place.checked_mul(unit)?, count: *count });
    lengths.iter().zip(places).map(block).collect()
}

/// The number of dimensions; then of each the whole, the part, where it begins; the order.
fn subarray<A: Abi>(integers: &[i64], of: Shape, extent: i64) -> Option<Shape> {
    let (count, rest) = integers.split_first()?;
    let [wholes, parts, firsts] = columns(rest, *count)?;
    let dimension = |i: usize| Dimension::part(wholes[i], firsts[i], parts[i]);
    let dimensions = (0..wholes.len()).map(dimension).collect();
    in_order::<A>(dimensions, *integers.last()?, of, extent)
}

/// The number of processes, the rank, the number of dimensions; then of each the whole, the distribution, its argument,
/// the processes; the order.
fn darray<A: Abi>(integers: &[i64], of: Shape, extent: i64) -> Option<Shape> {
    let (&[_, rank, count], rest) = integers.split_first_chunk()?;
    let [wholes, distributions, arguments, grid] = columns(rest, count)?;
    // Processes are counted in C's order, whatever the array's.
    let mut rank = rank;
    let mut dimensions = Vec::with_capacity(wholes.len());
    for i in (0..wholes.len()).rev() {
        let processes = grid[i];
        let chunk = (arguments[i] != i64::from(A::DEFAULT_CHUNK)).then_some(arguments[i]);
        let known = |known: &c_int| i64::from(*known) == distributions[i];
        let distribution = match A::DISTRIBUTIONS.iter().position(known)? {
            0 => Distribution::Block(chunk),
            1 => Distribution::Cyclic(chunk),
            _ => Distribution::None,
        };
        let position = rank.checked_rem(processes)?;
        dimensions.push(Dimension::dealt(wholes[i], distribution, processes, position)?);
        rank /= processes;
    }
    dimensions.reverse();
    in_order::<A>(dimensions, *integers.last()?, of, extent)
}

fn in_order<A: Abi>(dimensions: Vec<Dimension>, order: i64, of: Shape, extent: i64) -> Option<Shape> {
    let [c, fortran] = A::ORDERS.map(i64::from);
    if order == c {
        array(dimensions.into_iter().rev(), of, extent)
    } else if order == fortran {
        array(dimensions.into_iter(), of, extent)
    } else {
        None
    }
}

/// `N` lists of `count` numbers that follow each other.
fn columns<const N: usize>(numbers: &[i64], count: i64) -> Option<[&[i64]; N]> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    let lists: Vec<&[i64]> = numbers.chunks_exact(count).take(N).collect();
    lists.try_into().ok()
}
