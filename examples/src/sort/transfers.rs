//! Keys in files, of which the program reads parts into buffers of its own, and writes them back.

use std::ops::Range;

use anyhow::{Result, ensure};
use svmio_svm::team::Team;
use svmio_svm::{Error, File, FileOffset};

use super::merge::merge;
use super::{KEY, Keys};

/// The keys, and where they are merged to.
pub(super) struct Transfers<'f> {
    pub(super) keys: &'f File,
    pub(super) sorted: &'f File,
    /// Keys that are read of each part at a time.
    pub(super) read: usize,
    /// Keys that are written at a time.
    pub(super) written: usize,
}

/// A sorted part of the keys, a buffer at a time.
struct Part<'f> {
    keys: &'f File,
    rest: Range<usize>,
    buffer: Vec<u64>,
    next: usize,
}

impl Iterator for Part<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Result<u64>> {
        if self.next == self.buffer.len() {
            let count = self.buffer.len().min(self.rest.len());
            if count == 0 {
                return None;
            }
            self.buffer.truncate(count);
            if let Err(error) = read(self.keys, self.rest.start, &mut self.buffer) {
                return Some(Err(error));
            }
            (self.rest.start, self.next) = (self.rest.start + count, 0);
        }
        self.next += 1;
        Some(Ok(self.buffer[self.next - 1]))
    }
}

fn read(file: &File, first: usize, keys: &mut [u64]) -> Result<()> {
    let bytes = bytemuck::cast_slice_mut(keys);
    let count = file.read_at(FileOffset((first * KEY) as u64), bytes)?;
    ensure!(count == bytes.len(), "{} ends within the keys", file.name());
    Ok(())
}

fn write(file: &File, first: usize, keys: &[u64]) -> Result<()> {
    Ok(file.write_at(FileOffset((first * KEY) as u64), bytemuck::cast_slice(keys))?)
}

impl Keys for Transfers<'_> {
    fn sort(&mut self, run: Range<usize>, sampled: usize) -> Result<Vec<u64>> {
        let mut keys = vec![0; run.len()];
        read(self.keys, run.start, &mut keys)?;
        keys.sort_unstable();
        write(self.keys, run.start, &keys)?;
        Ok(keys.into_iter().step_by(sampled).collect())
    }

    fn end_of_smaller(&self, run: Range<usize>, key: u64) -> Result<usize> {
        let Range { mut start, mut end } = run;
        while start < end {
            let middle = start.midpoint(end);
            let mut found = [0];
            read(self.keys, middle, &mut found)?;
            if found[0] < key { start = middle + 1 } else { end = middle }
        }
        Ok(start)
    }

    fn merge(&mut self, parts: &[Range<usize>], to: usize) -> Result<()> {
        let part = |part: &Range<usize>| {
            let (rest, buffer, next) = (part.clone(), vec![0; self.read], self.read);
            Part { keys: self.keys, rest, buffer, next }
        };
        let (mut merged, mut to) = (Vec::with_capacity(self.written), to);
        merge(parts.iter().map(part).collect(), |key| {
            merged.push(key);
            if merged.len() == self.written {
                write(self.sorted, to, &merged)?;
                to += merged.len();
                merged.clear();
            }
            Ok(())
        })?;
        write(self.sorted, to, &merged)
    }

    fn meet(&mut self, team: &Team) -> Result<()> {
        self.keys.flush()?;
        self.sorted.flush()?;
        team.agree::<Error>(Ok(()))?;
        self.keys.refresh()?;
        Ok(self.sorted.refresh()?)
    }
}
