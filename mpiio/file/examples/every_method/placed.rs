//! Accesses at offsets, and by the pointer of each rank: blocking, nonblocking and split ones.

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use svmio_file::{File, Offset, Whence};

use crate::{NUMBERS, Outcome, demand, numbers};

/// Bytes of what a rank writes in a step.
const PART: Offset = (NUMBERS * size_of::<u64>()) as Offset;

/// Runs this part on the file `name`.
pub(crate) fn run(world: &SimpleCommunicator, name: &str) -> Outcome {
    let file = File::create(world, name)?;
    let ranks = world.size();
    let place = |rank: i32, step: u32| (Offset::from(step) * Offset::from(ranks) + Offset::from(rank)) * PART;
    let me = world.rank();
    let [first, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map(|step| numbers(me, step));

    file.write_at(place(me, 0), &first)?;
    file.write_at_all(place(me, 1), &second)?;
    mpi::request::scope(|scope| -> Outcome {
        let one = file.immediate_write_at(scope, place(me, 2), &third)?;
        let all = file.immediate_write_at_all(scope, place(me, 3), &fourth)?;
        one.wait()?.demand_all()?;
        all.wait()?.demand_all()?;
        Ok(())
    })?;
    let computed = file.split_write_at_all(place(me, 4), &fifth, || me + 1)?;
    if computed != me + 1 {
        return Err("what was computed between the halves is lost".into());
    }
    by_pointers(&file, me, place)?;
    file.sync()?;
    world.barrier();
    file.sync()?;

    // Each reads what its neighbour has written, by another method than the one it was written by.
    let other = (me + 1) % ranks;
    let mut found = vec![0; NUMBERS];
    file.read_at_all(place(other, 0), &mut found)?.demand_all()?;
    demand(&found, other, 0, "read_at_all")?;
    file.read_at(place(other, 1), &mut found)?.demand_all()?;
    demand(&found, other, 1, "read_at")?;
    file.split_read_at_all(place(other, 2), &mut found, || ())?.0.demand_all()?;
    demand(&found, other, 2, "split_read_at_all")?;
    let mut others = vec![0; NUMBERS];
    mpi::request::scope(|scope| -> Outcome {
        let mut one = file.immediate_read_at(scope, place(other, 3), &mut found)?;
        let all = file.immediate_read_at_all(scope, place(other, 4), &mut others)?;
        all.wait()?.demand_all()?;
        loop {
            match one.test() {
                Ok(over) => break over?.demand_all()?,
                Err(pending) => one = pending,
            }
        }
        Ok(())
    })?;
    demand(&found, other, 3, "immediate_read_at")?;
    demand(&others, other, 4, "immediate_read_at_all")?;
    read_by_pointers(&file, other, place)?;
    ends(&file, ranks)?;
    file.close()?;
    Ok(())
}

/// Writes steps 5 to 9.
fn by_pointers(file: &File, me: i32, place: impl Fn(i32, u32) -> Offset) -> Outcome {
    let parts = [5, 6, 7, 8, 9].map(|step| numbers(me, step));
    file.seek(place(me, 5), Whence::Start)?;
    file.write(&parts[0])?;
    if file.position()? != place(me, 5) + PART {
        return Err("the pointer did not move on".into());
    }
    file.seek(place(me, 6) - place(me, 5) - PART, Whence::Current)?;
    file.write_all(&parts[1])?;
    mpi::request::scope(|scope| -> Outcome {
        file.seek(place(me, 7), Whence::Start)?;
        file.immediate_write(scope, &parts[2])?.wait()?.demand_all()?;
        file.seek(place(me, 8), Whence::Start)?;
        // One that nobody waits for is waited for where it is dropped.
        drop(file.immediate_write_all(scope, &parts[3])?);
        Ok(())
    })?;
    file.seek(place(me, 9), Whence::Start)?;
    file.split_write_all(&parts[4], || ())?;
    Ok(())
}

/// Reads steps 5 to 9.
fn read_by_pointers(file: &File, other: i32, place: impl Fn(i32, u32) -> Offset) -> Outcome {
    let mut found = vec![0; NUMBERS];
    file.seek(place(other, 5), Whence::Start)?;
    file.read_all(&mut found)?.demand_all()?;
    demand(&found, other, 5, "read_all")?;
    file.seek(place(other, 6), Whence::Start)?;
    file.read(&mut found)?.demand_all()?;
    demand(&found, other, 6, "read")?;
    file.seek(place(other, 7), Whence::Start)?;
    file.split_read_all(&mut found, || ())?.0.demand_all()?;
    demand(&found, other, 7, "split_read_all")?;
    let mut others = vec![0; NUMBERS];
    mpi::request::scope(|scope| -> Outcome {
        file.seek(place(other, 8), Whence::Start)?;
        file.immediate_read(scope, &mut found)?.wait()?.demand_all()?;
        file.seek(place(other, 9), Whence::Start)?;
        file.immediate_read_all(scope, &mut others)?.wait()?.demand_all()?;
        Ok(())
    })?;
    demand(&found, other, 8, "immediate_read")?;
    demand(&others, other, 9, "immediate_read_all")
}

/// What a read tells that reaches the file's end.
fn ends(file: &File, ranks: i32) -> Outcome {
    let size = 10 * Offset::from(ranks) * PART;
    if file.size()? != size {
        return Err(format!("the file has {} bytes, and {size} were written", file.size()?).into());
    }
    let mut found = [0_u64; 8];
    let short = file.read_at(size - 20, &mut found)?;
    if (short.bytes(), short.elements(), short.is_all()) != (20, 2, false) {
        return Err(format!("20 bytes before the end: {short:?}").into());
    }
    let error = short.demand_all().err().ok_or("a short read was taken for a whole one")?;
    if error.class() != svmio_file::ErrorClass::Short || !error.to_string().contains("20 of 64 bytes") {
        return Err(format!("a short read is told as {error}").into());
    }
    Ok(())
}
