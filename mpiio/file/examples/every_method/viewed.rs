//! Views, representations, and datatypes in memory.

use mpi::datatype::{self, UserDatatype};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use svmio_file::{File, Offset, Representation, View};

use crate::{NUMBERS, Outcome, demand, numbers};

/// Runs this part on the file `name`.
pub(crate) fn run(world: &SimpleCommunicator, name: &str) -> Outcome {
    let file = File::create(world, name)?;
    let (me, ranks) = (world.rank(), world.size());
    let number = u64::equivalent_datatype();

    // The ranks' numbers, one of each after the other, behind 64 bytes of something else.
    let turns = UserDatatype::vector(NUMBERS as i32, 1, ranks, &number);
    let own = |rank: i32| View::of(&number).from_byte(64 + 8 * Offset::from(rank)).through(&turns);
    file.set_view(&own(me))?;
    file.write_at_all(0, &numbers(me, 0))?;
    if file.byte_offset(2)? != 64 + 8 * Offset::from(me + 2 * ranks) {
        return Err(format!("element 2 lies at byte {}", file.byte_offset(2)?).into());
    }
    file.sync()?;
    world.barrier();
    file.sync()?;

    let other = (me + 1) % ranks;
    let mut found = vec![0; NUMBERS];
    file.set_view(&own(other))?;
    file.read_at_all(0, &mut found)?.demand_all()?;
    demand(&found, other, 0, "through a view")?;

    let current = file.view()?;
    if current.displacement != 64 + 8 * Offset::from(other)
        || current.representation != Representation::Native
    {
        return Err(format!("the view is told as {current:?}").into());
    }
    // What MPI tells of a view can be set again.
    file.set_view(&View::of(&current.etype).from_byte(current.displacement).through(&current.filetype))?;
    file.read_at_all(0, &mut found)?.demand_all()?;
    demand(&found, other, 0, "through a view that was set again")?;

    in_memory(world, &file)?;
    external(world, &file)?;
    file.close()?;
    Ok(())
}

/// A buffer of which only each third number counts.
fn in_memory(world: &SimpleCommunicator, file: &File) -> Outcome {
    let me = world.rank();
    let number = u64::equivalent_datatype();
    file.set_view(&View::of(&number).from_byte(1 << 20))?;
    let thirds = UserDatatype::vector(NUMBERS as i32, 1, 3, &number);
    let spread: Vec<u64> = numbers(me, 1).into_iter().flat_map(|number| [number, 1, 2]).collect();
    let place = Offset::from(me) * NUMBERS as Offset;
    // SAFETY: the datatype's data is within the vector.
    let view = unsafe { datatype::View::with_count_and_datatype(&spread[..], 1, &thirds) };
    file.write_at(place, &view)?;
    let mut again = vec![7_u64; 3 * NUMBERS];
    // SAFETY: as above.
    let mut view = unsafe { datatype::MutView::with_count_and_datatype(&mut again[..], 1, &thirds) };
    let came = file.read_at(place, &mut view)?;
    if came.bytes() != 8 * NUMBERS as u64 || came.elements() != 1 {
        return Err(format!("into a vector came {came:?}").into());
    }
    let (mine, gaps): (Vec<_>, Vec<_>) = again.chunks_exact(3).map(|third| (third[0], &third[1..])).unzip();
    if gaps.iter().any(|gap| *gap != [7, 7]) {
        return Err("a read wrote between what it was to write".into());
    }
    demand(&mine, me, 1, "into a vector")
}

/// The same on all machines: the bytes lie in the file in the other order.
fn external(world: &SimpleCommunicator, file: &File) -> Outcome {
    let me = world.rank();
    let number = u64::equivalent_datatype();
    let start = 2 << 20;
    let view = View::of(&number).from_byte(start).as_of(Representation::External32);
    file.set_view(&view)?;
    if file.view()?.representation != Representation::External32 || file.type_extent(&number)? != 8 {
        return Err(format!("the view is told as {:?}", file.view()?).into());
    }
    let place = Offset::from(me) * NUMBERS as Offset;
    file.write_at_all(place, &numbers(me, 2))?;
    file.set_view(&View::of(&number).from_byte(start))?;
    let mut swapped = vec![0; NUMBERS];
    file.read_at_all(place, &mut swapped)?.demand_all()?;
    let found: Vec<u64> = swapped.into_iter().map(u64::from_be).collect();
    demand(&found, me, 2, "external32")
}
