//! Heat in a plate whose edges are held: Jacobi's iteration of Laplace's equation, five points, in two plates by turns.
//!
//! ```text
//!   the file    plate 0                             plate 1
//!               ├ band of member 0 ┼ 1 ┼ 2 ┼ 3 ┤    ├ 0 ┼ 1 ┼ 2 ┼ 3 ┤
//!
//!   mapped      a step reads one plate and stores into the other. A band lies on the node of its member, who finds
//!               it in place. The rows beside a band are the neighbours': they are asked for, and a load of what has
//!               not come is a page fault that waits for it. The barrier that ends a step sees to it that the next one
//!               sees what they have stored.
//!   explicit    bands are private memory. In each step the edges are written to the file, and the neighbours'
//!               read; at the end, all of the band is written.
//! ```

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use svmio_svm::mapping::{Advice, Mapping};
use svmio_svm::team::Team;
use svmio_svm::{Error, File, FileOffset, Placement, SegmentSize};

use crate::process::Process;

/// What is computed, and how.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rows of the plate
    #[arg(long, default_value_t = 1024)]
    pub rows: usize,
    /// Columns of the plate
    #[arg(long, default_value_t = 1024)]
    pub columns: usize,
    /// Steps of the iteration
    #[arg(long, default_value_t = 100)]
    pub steps: usize,
    /// How a process gets at its neighbours' rows
    #[arg(long, value_enum, default_value_t = Access::Mapped)]
    pub access: Access,
    /// A file of the local file system for the plate after the last step
    #[arg(long)]
    pub result: Option<PathBuf>,
}

/// How a process gets at its neighbours' rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// By loads: the file is memory
    Mapped,
    /// By reads and writes
    Explicit,
}

/// How warm it is at the beginning, at any place; the edges stay so.
pub fn initial(row: usize, column: usize) -> f64 {
    ((row * 31 + column * 17) % 101) as f64
}

/// One process's part of the program.
///
/// # Errors
/// Where memory cannot be had, or a process is lost.
pub fn run(options: &Options, process: &Process) -> Result<()> {
    let team = process.team();
    let plate = Plate { rows: options.rows, columns: options.columns };
    ensure!(plate.rows >= team.size() && plate.columns > 0, "there is a row for each process, and a column");
    let band = Band { plate, rows: share(plate.rows, team) };
    let file = process.make(plate.segment_size(team.size()), Placement::FirstTouch)?;
    let seconds = match options.access {
        Access::Mapped => mapped(process, &band, &file, options.steps)?,
        Access::Explicit => explicit(process, &band, &file, options.steps)?,
    };
    if team.member() == 0 {
        println!("seconds {seconds:.6}");
        if let Some(path) = &options.result {
            let mut bytes = vec![0; plate.bytes() as usize];
            file.read_at(plate.at(options.steps % 2, 0), &mut bytes)?;
            fs::write(path, bytes)?;
        }
    }
    process.close(file)
}

/// The rows of this member of the team.
fn share(rows: usize, team: &Team) -> Range<usize> {
    let first = |member| rows * member / team.size();
    first(team.member())..first(team.member() + 1)
}

#[derive(Debug, Clone, Copy)]
struct Plate {
    rows: usize,
    columns: usize,
}

impl Plate {
    fn bytes(self) -> u64 {
        (self.rows * self.columns * size_of::<f64>()) as u64
    }

    /// Where a row of one of the two plates is in the file.
    fn at(self, plate: usize, row: usize) -> FileOffset {
        FileOffset(((plate * self.rows + row) * self.columns * size_of::<f64>()) as u64)
    }

    /// The largest segments of which each band has whole ones, as far as there are such.
    fn segment_size(self, bands: usize) -> SegmentSize {
        let whole = 1 << (self.bytes() / bands as u64).trailing_zeros().min(62);
        SegmentSize::new(whole.min(SegmentSize::DEFAULT.bytes())).unwrap_or(SegmentSize::MIN)
    }
}

/// A member's rows of the plate.
struct Band {
    plate: Plate,
    rows: Range<usize>,
}

impl Band {
    /// Those of its rows that are not the plate's edge, and change. Last come those beside neighbours' rows.
    fn inner(&self) -> impl Iterator<Item = usize> {
        let (first, end) = (self.rows.start.max(1), self.rows.end.min(self.plate.rows - 1));
        (first + 1..end).chain(first..end.min(first + 1))
    }

    /// The rows before and behind it, where the plate goes on.
    fn neighbours(&self) -> impl Iterator<Item = usize> {
        let before = self.rows.start.checked_sub(1);
        before.into_iter().chain(Some(self.rows.end).filter(|row| *row < self.plate.rows))
    }
}

/// A row after a step, from those around it.
fn relax([above, here, below]: [&[f64]; 3], next: &mut [f64]) {
    let last = next.len() - 1;
    (next[0], next[last]) = (here[0], here[last]);
    for column in 1..last {
        next[column] = 0.25 * (above[column] + below[column] + here[column - 1] + here[column + 1]);
    }
}

fn mapped(process: &Process, band: &Band, file: &Arc<File>, steps: usize) -> Result<f64> {
    let Plate { rows, columns } = band.plate;
    let mapping = Mapping::new(file, FileOffset(0)..band.plate.at(2, 0))?;
    let mut all_meet = || process.team().agree::<Error>(Ok(()));
    let start = mapping.as_mut_ptr().cast::<f64>();
    let place = |plate: usize, row: usize| start.wrapping_add((plate * rows + row) * columns);
    // SAFETY: the row lies in the mapping, and nobody stores into it as long as this is used: a step reads one plate
    // and stores into the other, each member into its own rows, and all meet before it is the other way round.
    let row = |plate, row| unsafe { std::slice::from_raw_parts(place(plate, row), columns) };
    // SAFETY: likewise, and of its own rows a member uses one at a time.
    let row_mut = |plate, row| unsafe { std::slice::from_raw_parts_mut(place(plate, row), columns) };

    for number in band.rows.clone() {
        for plate in [0, 1] {
            let values = row_mut(plate, number).iter_mut().enumerate();
            values.for_each(|(column, value)| *value = initial(number, column));
        }
    }
    mapping.barrier(&mut all_meet)?;
    let seconds = process.timed(|| {
        for step in 0..steps {
            let (from, to) = (step % 2, (step + 1) % 2);
            for number in band.neighbours() {
                // They come while the band's other rows are computed.
                let range = band.plate.at(from, number)..band.plate.at(from, number + 1);
                mapping.advise(range, Advice::WillNeed)?;
            }
            for number in band.inner() {
                relax([number - 1, number, number + 1].map(|number| row(from, number)), row_mut(to, number));
            }
            mapping.barrier(&mut all_meet)?;
        }
        Ok(())
    })?;
    let [faults] = process.team().maxima([mapping.statistics().faults as i64])?;
    if process.team().member() == 0 {
        println!("faults {faults}");
    }
    mapping.unmap()?;
    Ok(seconds)
}

fn explicit(process: &Process, band: &Band, file: &File, steps: usize) -> Result<f64> {
    let Band { plate, rows } = band;
    let columns = plate.columns;
    // The band, and a row before and behind it.
    let first = rows.start.saturating_sub(1);
    let known = first..(rows.end + 1).min(plate.rows);
    let values: Vec<f64> =
        known.clone().flat_map(|row| (0..columns).map(move |column| initial(row, column))).collect();
    let mut plates = [values.clone(), values];
    let part = |rows: Range<usize>| (rows.start - first) * columns..(rows.end - first) * columns;
    let all_see = || -> Result<()> {
        file.flush()?;
        process.team().agree::<Error>(Ok(()))?;
        Ok(file.refresh()?)
    };

    process.timed(|| {
        for step in 0..steps {
            let to = (step + 1) % 2;
            let [even, odd] = &mut plates;
            let (from, next) = if to == 1 { (&*even, odd) } else { (&*odd, even) };
            for row in band.inner() {
                let around = [row - 1, row, row + 1].map(|row| &from[part(row..row + 1)]);
                relax(around, &mut next[part(row..row + 1)]);
            }
            for row in [rows.start, rows.end - 1] {
                file.write_at(plate.at(to, row), bytemuck::cast_slice(&next[part(row..row + 1)]))?;
            }
            all_see()?;
            for row in band.neighbours() {
                let halo = &mut next[part(row..row + 1)];
                file.read_at(plate.at(to, row), bytemuck::cast_slice_mut(halo))?;
            }
        }
        let last = &plates[steps % 2][part(rows.clone())];
        file.write_at(plate.at(steps % 2, rows.start), bytemuck::cast_slice(last))?;
        all_see()
    })
}
