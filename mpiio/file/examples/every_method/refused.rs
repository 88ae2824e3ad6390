//! What is refused, and how it is told.

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use svmio_file::{ErrorClass, File, Hints, Offset, OpenOptions, Whence};

use crate::Outcome;

/// Runs this part on the file `name`.
pub(crate) fn run(world: &SimpleCommunicator, name: &str) -> Outcome {
    let refused = |error: svmio_file::Error, classes: &[ErrorClass]| -> Outcome {
        let names_it = error.file().to_str() == Some(name) && error.to_string().contains(name);
        if classes.contains(&error.class()) && names_it && !error.text().is_empty() {
            return Ok(());
        }
        Err(format!("expected {classes:?}: {error} ({:?}, by {})", error.class(), error.call()).into())
    };
    let missing = File::open(world, name).err().ok_or("a file that does not exist was opened")?;
    refused(missing, &[ErrorClass::NoSuchFile])?;
    // A stock MPI may tell one rank before another has looked.
    world.barrier();

    File::create(world, name)?.close()?;
    let file = File::open(world, name)?;
    let error = file.write_at(0, &[1_u8, 2]).err().ok_or("a file that is open for reading was written")?;
    refused(error, &[ErrorClass::ReadOnly, ErrorClass::Access, ErrorClass::AccessMode])?;
    let error = file.seek(Offset::MIN, Whence::Start).err().ok_or("a pointer stands before the beginning")?;
    refused(error, &[ErrorClass::Argument])?;
    let error = file.read_at(0, &mut [true; 4]).err().ok_or("any bytes were taken for values of bool")?;
    refused(error, &[ErrorClass::Argument])?;
    file.close()?;

    // What fails in the background, and what no file has to do with, comes back, too. Stock MPICH tells of no failure in
    // the background.
    if name.starts_with("svm:") {
        let file = OpenOptions::new().write(true).open(world, name)?;
        let long = vec![0_u64; 1 << 18];
        let error = mpi::request::scope(|scope| -> Result<(), svmio_file::Error> {
            file.immediate_write_at(scope, 1 << 62, &long)?.wait().map(drop)
        });
        refused(error.err().ok_or("what no file has room for was written")?, &[ErrorClass::NoSpace])?;
        file.close()?;
    }
    let hints = Hints::new().with(&"k".repeat(300), "v");
    let error = OpenOptions::new().write(true).hints(hints).open(world, name);
    error.err().ok_or("a key that is too long was taken")?;

    let neither = OpenOptions::new().open(world, name).err().ok_or("a file is open for nothing")?;
    refused(neither, &[ErrorClass::AccessMode])?;
    let error = File::open(world, "a\0b").err().ok_or("a name with a zero byte was taken")?;
    if error.class() != ErrorClass::BadFileName {
        return Err(format!("a name with a zero byte: {error}").into());
    }
    Ok(())
}
