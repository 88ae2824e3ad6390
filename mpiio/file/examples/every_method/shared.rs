//! Accesses by the pointer that all ranks share.

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use svmio_file::{File, Offset, Whence};

use crate::{NUMBERS, Outcome, demand, numbers};

/// Bytes of what a rank writes in a step.
const PART: Offset = (NUMBERS * size_of::<u64>()) as Offset;

/// Runs this part on the file `name`.
pub(crate) fn run(world: &SimpleCommunicator, name: &str) -> Outcome {
    let file = File::create(world, name)?;
    let (me, ranks) = (world.rank(), world.size());
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|step| numbers(me, step));
    file.write_ordered(&first)?;
    file.split_write_ordered(&second, || ())?;
    world.barrier();
    file.write_shared(&third)?;
    mpi::request::scope(|scope| -> Outcome {
        file.immediate_write_shared(scope, &fourth)?.wait()?.demand_all()?;
        Ok(())
    })?;
    world.barrier();
    let position = file.position_shared()?;
    if position != 4 * Offset::from(ranks) * PART {
        return Err(format!("the shared pointer stands at {position}").into());
    }
    file.sync()?;
    world.barrier();

    file.seek_shared(0, Whence::Start)?;
    let mut found = vec![0; NUMBERS];
    file.read_ordered(&mut found)?.demand_all()?;
    demand(&found, me, 0, "read_ordered")?;
    file.split_read_ordered(&mut found, || ())?.0.demand_all()?;
    demand(&found, me, 1, "split_read_ordered")?;
    // In which order these come nobody knows; together they are what was written.
    let mut others = vec![0; NUMBERS];
    world.barrier();
    file.read_shared(&mut found)?.demand_all()?;
    mpi::request::scope(|scope| -> Outcome {
        file.immediate_read_shared(scope, &mut others)?.wait()?.demand_all()?;
        Ok(())
    })?;
    let mine = [whose(&found)?, whose(&others)?];
    let mut all = vec![(0_u64, 0_u64); 2 * ranks as usize];
    let flat: Vec<u64> = mine.iter().flat_map(|(step, rank)| [*step, *rank]).collect();
    let mut gathered = vec![0_u64; 4 * ranks as usize];
    world.all_gather_into(&flat, &mut gathered);
    for (place, pair) in all.iter_mut().zip(gathered.chunks_exact(2)) {
        *place = (pair[0], pair[1]);
    }
    all.sort_unstable();
    let expected: Vec<(u64, u64)> =
        [2, 3].into_iter().flat_map(|step| (0..ranks as u64).map(move |rank| (step, rank))).collect();
    if all != expected {
        return Err(format!("by the shared pointer came {all:?}").into());
    }
    file.close()?;
    Ok(())
}

/// Which step and rank these numbers are of.
fn whose(found: &[u64]) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let (step, rank) = (found[0] >> 40, (found[0] >> 20) & 0xf_ffff);
    demand(found, rank as i32, step as u32, "by the shared pointer")?;
    Ok((step, rank))
}
