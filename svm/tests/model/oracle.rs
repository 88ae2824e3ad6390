//! What MPI-IO's rules allow every read of a program to return, by a sequential model.
//!
//! Without locks, time is divided into *epochs*, by syncs and whatever else makes all ranks see everything. In an
//! epoch, a byte that one rank reads is what this rank wrote there last, or what any other rank has written
//! in this epoch so far, or, if the rank itself wrote nothing there, what it was at the beginning of the epoch. At the
//! end it is what one of the ranks wrote there last: which one is open until it is first read; from then on all must
//! read the same.
//!
//! Under locks, accesses are in the order of tickets that were drawn under the lock, and every byte is known.

use super::execution::{Log, Observed, Tickets};
use super::phases::{Phase, Tagged};
use super::program::{Access, Extent, LONGEST, Locked, LockedAccess, Program, pattern};

/// What went wrong, for a person.
pub(crate) type Verdict = Result<(), String>;

/// Checks what the ranks observed, which `logs` has by rank.
pub(crate) fn check(program: &Program, logs: &[Log]) -> Verdict {
    let mut oracle = Oracle::new(logs.len());
    let phases = program.phases(logs.len());
    for (number, phase) in phases.iter().enumerate() {
        // What others may be at already.
        let next = phases.get(number + 1).filter(|next| next.runs_into(phase));
        let observed: Vec<&[Observed]> = logs.iter().map(|log| &log[number][..]).collect();
        let failures = observed.iter().flat_map(|all| all.iter()).filter_map(Observed::failure);
        let failures: Vec<_> = failures.collect();
        if !failures.is_empty() {
            return Err(format!("phase {number}: {}", failures.join("; ")));
        }
        oracle.phase(phase, next, &observed).map_err(|e| format!("phase {number}: {e}"))?;
    }
    Ok(())
}

struct Oracle {
    /// What is known of each byte.
    known: Vec<u8>,
    /// Where a byte is open: one more than which of `open` has the tags of those writes whose it may be. Otherwise 0.
    open_as: Vec<u32>,
    open: Vec<Vec<u8>>,
    size: u64,
    /// Writes of this epoch, by rank and in order.
    epoch: Vec<Vec<Write>>,
    /// For use when nothing is allowed beside what is known.
    zeros: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    extent: Extent,
    tag: u8,
}

/// Accesses under a lock, as they were done.
struct Done<'a> {
    rank: usize,
    locked: &'a Tagged<Locked>,
    tickets: Tickets,
    inner: &'a [Observed],
}

impl Oracle {
    fn new(ranks: usize) -> Oracle {
        let length = LONGEST as usize + 16;
        Oracle {
            known: vec![0; length],
            open_as: vec![0; length],
            open: Vec::new(),
            size: 0,
            epoch: vec![Vec::new(); ranks],
            zeros: vec![0; length],
        }
    }

    /// Checks a phase; some may be in the `next` one already.
    fn phase(&mut self, phase: &Phase, next: Option<&Phase>, observed: &[&[Observed]]) -> Verdict {
        match phase {
            Phase::Place { .. } => return Ok(()),
            Phase::Accesses(by_rank) => return self.accesses(by_rank, observed),
            Phase::UnderLocks(by_rank) => return self.under_locks(by_rank, observed),
            Phase::Sync(_) | Phase::Reopen(_) => self.end_epoch(),
            Phase::SetSize(size) => {
                self.end_epoch();
                self.size = *size;
                let from = (*size as usize).min(self.known.len());
                self.known[from..].fill(0);
                self.open_as[from..].fill(0);
            }
            Phase::Preallocate(size) => {
                self.end_epoch();
                self.size = self.size.max(*size);
            }
        }
        let right = next.map_or(self.size..=self.size, |next| next.sizes(self.size));
        for (rank, observed) in observed.iter().enumerate() {
            if let Some(size) = observed.iter().filter_map(Observed::size).find(|size| !right.contains(size))
            {
                return Err(format!("after {phase:?}, the size is {size} to rank {rank}, not in {right:?}"));
            }
        }
        Ok(())
    }

    fn accesses(&mut self, by_rank: &[Vec<Tagged<Access>>], observed: &[&[Observed]]) -> Verdict {
        let before: Vec<_> = self.epoch.iter().map(Vec::len).collect();
        for (rank, accesses) in by_rank.iter().enumerate() {
            for Tagged { tag, what } in accesses {
                match what {
                    Access::Write(extent) => self.epoch[rank].push(Write { extent: *extent, tag: *tag }),
                    Access::WritePieces(pieces) => {
                        self.epoch[rank].extend(pieces.each().map(|extent| Write { extent, tag: *tag }));
                    }
                    _ => {}
                }
            }
        }
        for (rank, accesses) in by_rank.iter().enumerate() {
            let mut own = before[rank];
            for (Tagged { what, .. }, observed) in accesses.iter().zip(observed[rank]) {
                let result = match (what, observed) {
                    (Access::Write(_), _) => {
                        own += 1;
                        Ok(())
                    }
                    (Access::Size, Observed::Size(size)) => {
                        let (least, most) = self.sizes(rank, own);
                        if (least..=most).contains(size) {
                            Ok(())
                        } else {
                            Err(format!("the size is {size}, not {least} to {most}"))
                        }
                    }
                    (Access::WritePieces(pieces), _) => {
                        own += pieces.count as usize;
                        Ok(())
                    }
                    (Access::Read(extent), Observed::Bytes(bytes)) => self.read(rank, own, extent, bytes),
                    (Access::ReadPieces(pieces), Observed::Bytes(bytes)) => {
                        let mut rest = &bytes[..];
                        let mut all = pieces.each().try_for_each(|extent| {
                            let bytes;
                            (bytes, rest) = rest.split_at(rest.len().min(extent.length as usize));
                            self.read(rank, own, &extent, bytes)
                        });
                        if !rest.is_empty() {
                            all = Err(format!("{} bytes too many", rest.len()));
                        }
                        all
                    }
                    _ => Err("nothing was observed".into()),
                };
                result.map_err(|e| format!("rank {rank}, {what:?}: {e}"))?;
            }
        }
        Ok(())
    }

    /// Between what a rank may see the size, after so many writes of its own.
    fn sizes(&self, rank: usize, own: usize) -> (u64, u64) {
        let end = |write: &Write| write.extent.end();
        let least = self.epoch[rank][..own].iter().map(end).fold(self.size, u64::max);
        let others = self.epoch.iter().enumerate().filter(|(other, _)| *other != rank);
        let most = others.flat_map(|(_, writes)| writes).map(end).fold(least, u64::max);
        (least, most)
    }

    fn read(&mut self, rank: usize, own: usize, extent: &Extent, bytes: &[u8]) -> Verdict {
        let (least, most) = self.sizes(rank, own);
        count(extent, bytes, least, most)?;
        let read = Extent { start: extent.start, length: bytes.len() as u64 };
        // What it is if no other rank has a part in it.
        let at = read.start as usize;
        let mut expected = self.known[at..at + bytes.len()].to_vec();
        let mut is_own = vec![false; bytes.len()];
        for write in self.epoch[rank][..own].iter().filter(|write| write.extent.overlaps(&read)) {
            let (from, to) = (write.extent.start.max(read.start), write.extent.end().min(read.end()));
            for at in from..to {
                expected[(at - read.start) as usize] = pattern(write.tag, at);
            }
            is_own[(from - read.start) as usize..(to - read.start) as usize].fill(true);
        }
        let others = self.epoch.iter().enumerate().filter(|(other, _)| *other != rank);
        let others = others.flat_map(|(_, writes)| writes).filter(|write| write.extent.overlaps(&read));
        let others: Vec<_> = others.copied().collect();
        for from in (0..bytes.len()).step_by(CHUNK) {
            let to = bytes.len().min(from + CHUNK);
            let is_open = self.open_as[at + from..at + to] != self.zeros[..to - from];
            if !is_open && bytes[from..to] == expected[from..to] {
                continue;
            }
            for index in from..to {
                let (place, byte) = (read.start + index as u64, bytes[index]);
                let covers = |write: &&Write| (write.extent.start..write.extent.end()).contains(&place);
                let mut concurrent = others.iter().filter(covers).peekable();
                let is_alone = concurrent.peek().is_none();
                if concurrent.any(|write| pattern(write.tag, place) == byte) {
                    continue;
                }
                let is_right = match self.tags(place) {
                    Some(tags) if !is_own[index] => {
                        let is_right = tags.iter().any(|tag| pattern(*tag, place) == byte);
                        if is_right && is_alone {
                            self.set(place, byte);
                        }
                        is_right
                    }
                    _ => byte == expected[index],
                };
                if !is_right {
                    return Err(self.wrong(place, byte, expected[index], is_own[index], &others));
                }
            }
        }
        Ok(())
    }

    fn end_epoch(&mut self) {
        let epoch = std::mem::take(&mut self.epoch);
        self.epoch = vec![Vec::new(); epoch.len()];
        let all = || epoch.iter().flatten();
        let mut borders: Vec<_> = all().flat_map(|w| [w.extent.start, w.extent.end()]).collect();
        borders.sort_unstable();
        borders.dedup();
        for pair in borders.windows(2) {
            let covers = |write: &&Write| write.extent.start <= pair[0] && pair[1] <= write.extent.end();
            let last = epoch.iter().filter_map(|writes| writes.iter().rev().find(covers));
            let tags: Vec<_> = last.map(|write| write.tag).collect();
            let range = pair[0] as usize..pair[1] as usize;
            match tags[..] {
                [] => {}
                [tag] => {
                    range.clone().for_each(|at| self.known[at] = pattern(tag, at as u64));
                    self.open_as[range].fill(0);
                }
                _ => {
                    self.open.push(tags);
                    self.open_as[range].fill(self.open.len() as u32);
                }
            }
        }
        self.size = all().map(|write| write.extent.end()).fold(self.size, u64::max);
    }

    fn under_locks(&mut self, by_rank: &[Vec<Tagged<Locked>>], observed: &[&[Observed]]) -> Verdict {
        let mut all = Vec::new();
        for (rank, tasks) in by_rank.iter().enumerate() {
            for (locked, observed) in tasks.iter().zip(observed[rank]) {
                let Observed::Locked { tickets, inner } = observed else {
                    return Err(format!("rank {rank}, {locked:?}: nothing was observed"));
                };
                all.push(Done { rank, locked, tickets: *tickets, inner });
            }
        }
        all.sort_by_key(|done| done.tickets.held);
        for done in &all {
            self.do_locked(done, &all).map_err(|e| done.tell(&e))?;
        }
        let ends = all.iter().filter_map(|done| done.locked.what.written_to());
        self.size = ends.fold(self.size, u64::max);
        Ok(())
    }

    fn do_locked(&mut self, done: &Done<'_>, all: &[Done<'_>]) -> Verdict {
        self.counts(done, all)?;
        for ((access, observed), more) in done.locked.what.inner.iter().zip(done.inner).zip(0..) {
            let extent = access.extent();
            if let Some(bytes) = observed.bytes() {
                self.is_known_as(extent.start, bytes)?;
                bytes.iter().zip(extent.start..).for_each(|(byte, at)| self.set(at, *byte));
            }
            match access {
                LockedAccess::Read(_) => {}
                LockedAccess::Write(extent) => {
                    let tag = done.locked.tag.wrapping_add(more);
                    (extent.start..extent.end()).for_each(|at| self.set(at, pattern(tag, at)));
                }
                LockedAccess::Increment(at) => {
                    let mut word = [0; 8];
                    let bytes = observed.bytes().unwrap_or_default();
                    word[..bytes.len()].copy_from_slice(bytes);
                    let more = u64::from_le_bytes(word).wrapping_add(1).to_le_bytes();
                    (*at..).zip(more).for_each(|(at, byte)| self.set(at, byte));
                }
            }
        }
        Ok(())
    }

    /// Checks how many bytes were read: whatever ended before has made the file longer, and whatever was under way may
    /// have.
    fn counts(&self, done: &Done<'_>, all: &[Done<'_>]) -> Verdict {
        let (mut least, mut most) = (self.size, self.size);
        for other in all.iter().filter(|other| !std::ptr::eq(*other, done)) {
            let Some(end) = other.locked.what.written_to() else { continue };
            let is_before = other.tickets.released < done.tickets.asked
                || other.locked.what.range().overlaps(&done.locked.what.range())
                    && other.tickets.held < done.tickets.held;
            if is_before {
                least = least.max(end);
            }
            if other.tickets.asked < done.tickets.released {
                most = most.max(end);
            }
        }
        for (access, observed) in done.locked.what.inner.iter().zip(done.inner) {
            most = most.max(least);
            if let Some(bytes) = observed.bytes() {
                count(&access.extent(), bytes, least, most)?;
            }
            if access.writes() {
                least = least.max(access.extent().end());
            }
        }
        Ok(())
    }

    fn is_known_as(&self, start: u64, bytes: &[u8]) -> Verdict {
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            let from = start as usize + number * CHUNK;
            let range = from..from + chunk.len();
            let is_open = self.open_as[range.clone()] != self.zeros[..chunk.len()];
            if !is_open && self.known[range] == *chunk {
                continue;
            }
            for (byte, place) in chunk.iter().zip(from as u64..) {
                let is_right = match self.tags(place) {
                    Some(tags) => tags.iter().any(|tag| pattern(*tag, place) == *byte),
                    None => self.known[place as usize] == *byte,
                };
                if !is_right {
                    return Err(self.wrong(place, *byte, self.known[place as usize], false, &[]));
                }
            }
        }
        Ok(())
    }

    fn tags(&self, place: u64) -> Option<&[u8]> {
        let open = self.open_as[place as usize].checked_sub(1)?;
        Some(&self.open[open as usize])
    }

    fn set(&mut self, place: u64, byte: u8) {
        self.known[place as usize] = byte;
        self.open_as[place as usize] = 0;
    }

    fn wrong(&self, place: u64, byte: u8, expected: u8, is_own: bool, others: &[Write]) -> String {
        let expected = match self.tags(place) {
            Some(tags) if !is_own => {
                format!("one of {:?}", tags.iter().map(|tag| pattern(*tag, place)).collect::<Vec<_>>())
            }
            _ => expected.to_string(),
        };
        let whose = if is_own { ", which it wrote itself" } else { "" };
        let covers = |write: &&Write| (write.extent.start..write.extent.end()).contains(&place);
        let others = others.iter().filter(covers).map(|write| pattern(write.tag, place)).collect::<Vec<_>>();
        let others =
            if others.is_empty() { String::new() } else { format!(" or, of others, one of {others:?}") };
        format!("byte {place} is {byte}, not {expected}{whose}{others}")
    }
}

/// How many bytes are compared at once.
const CHUNK: usize = 256;

impl Done<'_> {
    fn tell(&self, what: &str) -> String {
        let (rank, tickets) = (self.rank, self.tickets);
        format!("rank {rank}, {:?}, {tickets:?}: {what}", self.locked)
    }
}

/// Whether as many bytes were read as a file with a size from `least` to `most` has.
fn count(extent: &Extent, bytes: &[u8], least: u64, most: u64) -> Verdict {
    let of = |size: u64| size.saturating_sub(extent.start).min(extent.length);
    let came = bytes.len() as u64;
    if (of(least)..=of(most)).contains(&came) {
        return Ok(());
    }
    Err(format!("{came} bytes came of {extent:?} of a file of {least} to {most} bytes"))
}
