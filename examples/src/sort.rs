//! A sort of more keys than memory may hold: an external merge sort, and between its halves a sample sort.
//!
//! ```text
//!   keys     run 0 │ run 1 │ … │ run 4 │ …      segments dealt out to the nodes one after the other
//!     each member sorts its runs where they are, takes samples of them, and from all samples come splitters:
//!     of each run every member gets the keys between two of these
//!   sorted   member 0's keys │ member 1's │ …   segments where they are written
//! ```
//!
//! The keys lie in two files, and there are three ways to get at them ([`Access`]): both files as memory on all nodes,
//! reads and writes of these files, and both as memory of one node's file system. With the first two a member has at
//! most [`Options::limit`] bytes of keys that are not of its own node in memory: pages, or buffers.

mod memory;
mod merge;
mod transfers;

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use memmap2::MmapMut;
use svmio_svm::mapping::MappingOptions;
use svmio_svm::team::Team;
use svmio_svm::{Error, File, FileOffset, Placement, SegmentSize};

use crate::process::Process;
use memory::InMemory;
use transfers::Transfers;

/// Bytes of a key.
const KEY: usize = size_of::<u64>();

/// What is sorted, and how.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How many keys
    #[arg(long, default_value_t = 1 << 24)]
    pub keys: usize,
    /// Bytes of memory that each process may take for keys from elsewhere
    #[arg(long, default_value_t = 8 << 20)]
    pub limit: usize,
    /// How keys are got at
    #[arg(long, value_enum, default_value_t = Access::Mapped)]
    pub access: Access,
    /// The directory of the files, for local access
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// A file of the local file system for the sorted keys
    #[arg(long)]
    pub result: Option<PathBuf>,
}

/// How keys are got at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// By loads and stores: files on all nodes are memory
    Mapped,
    /// By reads and writes of files on all nodes
    Explicit,
    /// By loads and stores, to files of one node's file system; all processes run there
    Local,
}

/// A key, of any number: as good as drawn by chance (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number
/// Generators*, 2014, the finalizer of SplitMix64).
pub fn key(number: usize) -> u64 {
    let mut bits = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The keys, and a second place for as many.
trait Keys {
    /// Sorts a run where it is; returns every so many-th of its keys.
    fn sort(&mut self, run: Range<usize>, sampled: usize) -> Result<Vec<u64>>;

    /// Where in a sorted run the keys end that are smaller than `key`.
    fn end_of_smaller(&self, run: Range<usize>, key: u64) -> Result<usize>;

    /// Merges sorted parts, to the second place from key `to` on.
    fn merge(&mut self, parts: &[Range<usize>], to: usize) -> Result<()>;

    /// Meets all others: what any of them has stored, all find.
    fn meet(&mut self, team: &Team) -> Result<()>;
}

/// One process's part of the program.
///
/// # Errors
/// Where memory cannot be had, a process is lost, or something else than the keys, in order, comes out.
pub fn run(options: &Options, process: &Process) -> Result<()> {
    let (team, bytes) = (process.team(), (options.keys * KEY) as u64);
    let plan = Plan::new(options.keys, options.limit, team);
    let (keys, sorted) = match options.access {
        Access::Mapped | Access::Explicit => {
            let segment = plan.segment_size();
            let keys = process.make(segment, Placement::RoundRobin)?;
            (Place::Nodes(keys), Place::Nodes(process.make(segment, Placement::FirstTouch)?))
        }
        Access::Local => {
            let make = |name| Place::local(&options.directory.join(name), bytes, process);
            (make("keys")?, make("sorted")?)
        }
    };
    for piece in pieces(plan.share(team.member())) {
        let values: Vec<u64> = piece.clone().map(key).collect();
        keys.write(piece.start, &values)?;
    }
    keys.meet(team)?;

    let mut statistics = Default::default();
    let seconds = match (&keys, &sorted, options.access) {
        (Place::Nodes(keys), Place::Nodes(sorted), Access::Mapped) => {
            let all = FileOffset(0)..FileOffset(bytes);
            // Of what is merged, nearly all stays here.
            let [most, rest] = [3, 1].map(|quarters| options.limit as u64 / 4 * quarters);
            let of_keys = MappingOptions::new().limit(most).ahead((plan.ahead() * KEY) as u64);
            let keys = of_keys.map(keys, all.clone())?;
            let sorted = MappingOptions::new().limit(rest).map(sorted, all)?;
            let mut memory = InMemory::new([keys, sorted], plan.ahead());
            let seconds = process.timed(|| plan.sort(&mut memory, team))?;
            let [keys, sorted] = memory.done();
            statistics = keys.statistics();
            keys.unmap()?;
            sorted.unmap()?;
            seconds
        }
        (Place::Nodes(keys), Place::Nodes(sorted), _) => {
            let mut transfers = Transfers { keys, sorted, read: plan.ahead(), written: plan.run };
            process.timed(|| plan.sort(&mut transfers, team))?
        }
        (Place::Local(keys), Place::Local(sorted), _) => {
            // SAFETY: these files were made for this job, and nobody makes them shorter.
            let map = |file| unsafe { MmapMut::map_mut(file) };
            // All members' pages, and changed ones that the device has not taken yet, share what memory there is.
            let mut memory = InMemory::new([map(keys)?, map(sorted)?], (plan.ahead() / 4).max(1));
            process.timed(|| plan.sort(&mut memory, team))?
        }
        _ => unreachable!("both places are of one kind"),
    };
    let faults = [statistics.faults, statistics.fetched, statistics.fetched_ahead, statistics.evicted];
    let [faults, fetched, ahead, evicted] = team.maxima(faults.map(|count| count as i64))?;
    if team.member() == 0 {
        println!(
            "seconds {seconds:.6}\nfaults {faults}\nfetched {fetched}\nahead {ahead}\nevicted {evicted}"
        );
    }
    check(&plan, &sorted, team)?;
    if let (0, Some(path)) = (team.member(), &options.result) {
        let result = std::fs::File::create(path)?;
        for piece in pieces(0..options.keys) {
            result.write_all_at(
                bytemuck::cast_slice(&sorted.read(piece.clone())?),
                (piece.start * KEY) as u64,
            )?;
        }
    }
    for place in [keys, sorted] {
        if let Place::Nodes(file) = place {
            process.close(file)?;
        }
    }
    Ok(())
}

/// Who sorts what.
struct Plan {
    keys: usize,
    members: usize,
    /// Keys of a run.
    run: usize,
}

impl Plan {
    /// How many samples are taken of each run.
    const SAMPLES: usize = 64;

    fn new(keys: usize, limit: usize, team: &Team) -> Plan {
        // A run's pages, what they were before, and the next run's pages: three quarters of the limit.
        Plan { keys, members: team.size(), run: (limit / 4 / KEY).max(1) }
    }

    /// The keys whose runs a member sorts.
    fn share(&self, member: usize) -> Range<usize> {
        let first = |member| self.keys * member / self.members;
        first(member)..first(member + 1)
    }

    /// A member's runs.
    fn runs(&self, member: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        let Range { start, end } = self.share(member);
        (start..end).step_by(self.run).map(move |first| first..(first + self.run).min(end))
    }

    /// All runs.
    fn all_runs(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.members).flat_map(|member| self.runs(member))
    }

    /// Keys that are read ahead of each run, where all are merged: together half of the limit.
    fn ahead(&self) -> usize {
        (2 * self.run / self.all_runs().count().max(1)).max(1)
    }

    /// Small enough that every member's part of each run is dealt out to all nodes.
    fn segment_size(&self) -> SegmentSize {
        let most = (self.run * KEY / self.members.pow(2)).max(1);
        let below = (most as u64 + 1).next_power_of_two() / 2;
        SegmentSize::new(below.min(SegmentSize::DEFAULT.bytes())).unwrap_or(SegmentSize::MIN)
    }

    fn sort(&self, keys: &mut dyn Keys, team: &Team) -> Result<()> {
        let own = self.runs(team.member());
        let mut samples = Vec::new();
        for run in own.clone() {
            samples.extend(keys.sort(run, (self.run / Self::SAMPLES).max(1))?);
        }
        keys.meet(team)?;
        let mut samples = gather(team, &samples)?.concat();
        samples.sort_unstable();
        let splitters =
            (1..self.members).filter_map(|member| samples.get(samples.len() * member / self.members));
        let mut bounds = Vec::new();
        for run in own {
            bounds.push(run.start as u64);
            for splitter in splitters.clone() {
                bounds.push(keys.end_of_smaller(run.clone(), *splitter)? as u64);
            }
            bounds.push(run.end as u64);
        }
        // Of each run, where every member's part begins and the last one's ends.
        let bounds = gather(team, &bounds)?.concat();
        let of_runs = || bounds.chunks_exact(self.members + 1);
        let part = |run: &[u64], member: usize| run[member] as usize..run[member + 1] as usize;
        let parts: Vec<_> = of_runs().map(|run| part(run, team.member())).collect();
        let before = of_runs().map(|run| run[team.member()] - run[0]).sum::<u64>();
        keys.merge(&parts, before as usize)?;
        keys.meet(team)
    }
}

/// What all members tell.
fn gather(team: &Team, own: &[u64]) -> Result<Vec<Vec<u64>>> {
    let all = team.all_gather(bytemuck::cast_slice(own))?;
    Ok(all.iter().map(|bytes| bytemuck::allocation::pod_collect_to_vec(bytes)).collect())
}

/// Whether the keys came out, in order.
fn check(plan: &Plan, sorted: &Place, team: &Team) -> Result<()> {
    let (mut last, mut sum) = (0, 0u64);
    let share = plan.share(team.member());
    let first = sorted.read(share.start..(share.start + 1).min(share.end))?;
    for piece in pieces(share.clone()) {
        let expected = piece.clone().map(key).map(mixed).fold(0, u64::wrapping_add);
        let found = sorted.read(piece)?;
        ensure!(last <= found[0] && found.is_sorted(), "the keys {share:?} are not in order");
        last = found[found.len() - 1];
        sum = found.into_iter().map(mixed).fold(sum, u64::wrapping_add).wrapping_sub(expected);
    }
    let all = gather(team, &[first.first().copied().unwrap_or(0), last, sum])?;
    let in_order = all.windows(2).all(|two| two[0][1] <= two[1][0] || two[1][1] == 0);
    ensure!(in_order, "the members' keys are not in order");
    ensure!(
        all.iter().map(|all| all[2]).fold(0, u64::wrapping_add) == 0,
        "these are not the keys that were given"
    );
    Ok(())
}

/// So that a sum tells which keys there were.
fn mixed(key: u64) -> u64 {
    (key ^ (key >> 29)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// What is read or written at once, outside of what is measured.
fn pieces(keys: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    const PIECE: usize = 1 << 17;
    keys.clone().step_by(PIECE).map(move |first| first..(first + PIECE).min(keys.end))
}

/// Where keys are kept.
enum Place {
    Nodes(Arc<File>),
    Local(std::fs::File),
}

impl Place {
    /// A file of this node without a name, for all members.
    fn local(path: &Path, bytes: u64, process: &Process) -> Result<Place> {
        let (team, met) = (process.team(), || process.team().agree::<Error>(Ok(())));
        let made = if team.member() == 0 { Some(std::fs::File::create_new(path)?) } else { None };
        met()?;
        let open = || std::fs::OpenOptions::new().read(true).write(true).open(path);
        let file = made.map_or_else(open, Ok)?;
        file.set_len(bytes)?;
        met()?;
        if team.member() == 0 {
            std::fs::remove_file(path)?;
        }
        Ok(Place::Local(file))
    }

    fn write(&self, first: usize, keys: &[u64]) -> Result<()> {
        let (at, bytes) = ((first * KEY) as u64, bytemuck::cast_slice(keys));
        match self {
            Place::Nodes(file) => file.write_at(FileOffset(at), bytes)?,
            Place::Local(file) => file.write_all_at(bytes, at)?,
        }
        Ok(())
    }

    fn read(&self, keys: Range<usize>) -> Result<Vec<u64>> {
        let (at, mut values) = ((keys.start * KEY) as u64, vec![0; keys.len()]);
        let bytes = bytemuck::cast_slice_mut(&mut values);
        match self {
            Place::Nodes(file) => {
                let count = file.read_at(FileOffset(at), bytes)?;
                ensure!(count == bytes.len(), "{} ends within the keys", file.name());
            }
            Place::Local(file) => file.read_exact_at(bytes, at)?,
        }
        Ok(values)
    }

    /// Meets all others: what any of them has written, all find.
    fn meet(&self, team: &Team) -> Result<()> {
        match self {
            Place::Nodes(file) => {
                file.flush()?;
                team.agree::<Error>(Ok(()))?;
                file.refresh()?;
            }
            Place::Local(_) => team.agree::<Error>(Ok(()))?,
        }
        Ok(())
    }
}
