//! What concerns a file as a whole: sizes, modes, hints, its end.

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use svmio_file::{ErrorClass, File, Hints, OpenOptions, delete};

use crate::Outcome;

/// Runs this part on the file `name`.
pub(crate) fn run(world: &SimpleCommunicator, name: &str) -> Outcome {
    let hints = Hints::new().with("access_style", "write_once").with("cb_nodes", 1);
    let options = OpenOptions::new().read(true).write(true).create(true).hints(hints);
    let file = options.open(world, name)?;
    file.set_hints(&Hints::new().with("cb_nodes", 1))?;
    let told = file.hints()?;
    if told.get("no such key").is_some() || told.iter().any(|(key, _)| key.is_empty()) {
        return Err(format!("the hints are told as {told:?}").into());
    }
    demand_that(file.access_mode()? & mpi::ffi::MPI_MODE_RDWR as i32 != 0, "the modes are told")?;
    demand_that(file.name().to_str() == Some(name), "the name is told")?;

    file.set_size(1000)?;
    demand_that(file.size()? == 1000, "a size is set")?;
    file.preallocate(5000)?;
    demand_that(file.size()? >= 5000, "storage is seen to")?;
    file.set_atomic(true)?;
    demand_that(file.is_atomic()?, "atomic mode is on")?;
    file.set_atomic(false)?;
    demand_that(!file.is_atomic()?, "atomic mode is off")?;
    file.close()?;

    let appending = OpenOptions::new().write(true).append(true).open(world, name)?;
    demand_that(appending.position()? == 5000, "pointers stand at the end")?;
    appending.close()?;
    let created = File::create(world, name)?;
    demand_that(created.size()? == 0, "what was in a file that is created anew is gone")?;
    // Dropped, it is closed.
    drop(created);

    let emptied = OpenOptions::new().write(true).append(true).truncate(true).open(world, name)?;
    demand_that(emptied.position()? == 0, "pointers stand at the end of what was emptied")?;
    emptied.close()?;

    let exclusive = OpenOptions::new().write(true).create(true).exclusive(true).open(world, name);
    let error = exclusive.err().ok_or("a file was made twice")?;
    demand_that(error.class() == ErrorClass::FileExists, &format!("told that it exists: {error}"))?;
    world.barrier();
    if world.rank() == 0 {
        delete(name)?;
    }
    world.barrier();
    let passing = OpenOptions::new().write(true).create(true).delete_on_close(true).open(world, name)?;
    passing.write_at_all(0, &1_u64)?;
    passing.close()?;
    let error = File::open(world, name).err().ok_or("a file outlived its end")?;
    demand_that(error.class() == ErrorClass::NoSuchFile, &format!("told that it is gone: {error}"))
}

fn demand_that(is_so: bool, what: &str) -> Outcome {
    if is_so { Ok(()) } else { Err(format!("it does not hold that {what}").into()) }
}
