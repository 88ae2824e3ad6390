//! Heat in a rod, computed by processes that share it as memory: each has a part of the cells, and reads its neighbours'
//! next to that.

use std::error::Error;
use std::sync::Arc;

use svmio_svm::mapping::{Mapping, Region};
use svmio_svm::session::Session;
use svmio_svm::{FileName, FileOffset, OpenOptions};

const CELLS: usize = 6000;
const STEPS: usize = 50;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::from_environment()?;
    let (member, size) = (session.team().member(), session.team().size());
    let first = member * (CELLS / size);
    let end = if member == size - 1 { CELLS } else { first + CELLS / size };

    let name = FileName::new("/rod")?;
    let file = Arc::new(session.open(&name, &OpenOptions::read_write().create(true))?);
    let bytes = FileOffset(0)..FileOffset((2 * CELLS + 1) as u64 * 8);
    let mapping = Arc::new(Mapping::new(&file, bytes)?);
    // SAFETY: all processes access the file by regions alone.
    let rod = unsafe { Region::<f64>::new(&mapping, FileOffset(0), 2 * CELLS + 1) }?;
    // All see what all have stored before it.
    let meet = || mapping.barrier(&mut || session.team().agree::<svmio_svm::Error>(Ok(())));

    // The state before and after a step lie in the two halves, in turns; the last value is the heat of all cells.
    let mut own = rod.write(first..end)?;
    own.iter_mut().zip(first..).for_each(|(heat, cell)| *heat = if cell < CELLS / 2 { 100.0 } else { 0.0 });
    own.release()?;
    if member == 0 {
        rod.write(2 * CELLS..2 * CELLS + 1)?[0] = 0.0;
    }
    for step in 0..STEPS {
        meet()?;
        let (before, after) = (step % 2 * CELLS, (step + 1) % 2 * CELLS);
        // With the neighbours of both ends.
        let (from, to) = (first.saturating_sub(1), CELLS.min(end + 1));
        let old = rod.read(before + from..before + to)?;
        let mut new = rod.write(after + first..after + end)?;
        for cell in first..end {
            let at = |cell: usize| old[cell - from];
            let (left, right) = (at(cell.max(1) - 1), at(cell.min(CELLS - 2) + 1));
            new[cell - first] = at(cell) + 0.25 * (left - 2.0 * at(cell) + right);
        }
        new.release()?;
    }

    let last = STEPS % 2 * CELLS;
    let own: f64 = rod.read(last + first..last + end)?.iter().sum();
    let mut heat = rod.write(2 * CELLS..2 * CELLS + 1)?;
    heat[0] += own;
    heat.release()?;
    meet()?;
    if member == 0 {
        let (heat, middle) =
            (rod.read(2 * CELLS..2 * CELLS + 1)?[0], rod.read(last + CELLS / 2..last + CELLS / 2 + 1)?[0]);
        println!("{size} processes, heat {heat:.3}, in the middle {middle:.3}");
    }
    mapping.sync(mapping.range())?;
    drop((rod, mapping));
    session.close(&file, false)?;
    drop(file);
    session.finish()?;
    Ok(())
}
