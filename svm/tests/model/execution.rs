//! Running programs in a job, and noting what its ranks observe.

mod accesses;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_svm::{CacheSettings, File, FileName, LockMode, NodeIndex, Result, SegmentIndex, Store};

use super::job::{self, Agreed, Process, agreed};
use super::phases::{Phase, Tagged};
use super::program::{Access, Extent, Locked, LockedAccess, Program};
use accesses::{increment, range, read, read_pieces, write, write_pieces};

/// What a rank observed, by phase and in order.
pub(crate) type Log = Vec<Vec<Observed>>;

#[derive(Debug)]
pub(crate) enum Observed {
    Done,
    Size(u64),
    /// As many as came.
    Bytes(Vec<u8>),
    /// Accesses under a lock.
    Locked {
        tickets: Tickets,
        inner: Vec<Observed>,
    },
    Failed(String),
}

/// Numbers of moments in the life of a lock, later ones greater.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tickets {
    /// Before the lock was asked for.
    pub(crate) asked: u64,
    /// While it was held.
    pub(crate) held: u64,
    /// After it was given back.
    pub(crate) released: u64,
}

impl Observed {
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Observed::Failed(what) => Some(what),
            Observed::Locked { inner, .. } => inner.iter().find_map(Observed::failure),
            _ => None,
        }
    }

    pub(crate) fn size(&self) -> Option<u64> {
        if let Observed::Size(size) = self { Some(*size) } else { None }
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if let Observed::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// A job's shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) nodes: usize,
    pub(crate) ranks: usize,
    /// Whether neighbouring ranks are on one node, not on different ones.
    pub(crate) is_blockwise: bool,
    pub(crate) cache: CacheSettings,
}

/// What the ranks of a job have in common, beside what is tested.
struct Common {
    /// What one rank tells the others.
    told: Mutex<Told>,
    logs: Mutex<Vec<Option<Log>>>,
    clock: AtomicU64,
    /// Locks that are held now.
    held: Mutex<Vec<Holding>>,
}

#[derive(Default)]
struct Told {
    program: Option<Arc<Program>>,
    name: String,
    homes: Vec<(SegmentIndex, NodeIndex)>,
}

#[derive(Debug, Clone, Copy)]
struct Holding {
    rank: u32,
    range: Extent,
    is_exclusive: bool,
}

/// Runs programs in a job that is there as long as this function runs `body`, which is given what runs one.
pub(crate) fn with_job<T>(
    world: &World,
    body: impl FnOnce(&mut dyn FnMut(&Program) -> Vec<Log>) -> T + Send,
) -> T
where
    T: Send,
{
    let (_directory, stores) = job::stores(world.nodes);
    // One program's file has the storage of those before it.
    stores.iter().for_each(Store::keep_spares);
    let node = |rank: usize| {
        if world.is_blockwise { rank * world.nodes / world.ranks } else { rank % world.nodes }
    };
    let common = Common {
        told: Mutex::default(),
        logs: Mutex::new((0..world.ranks).map(|_| None).collect()),
        clock: AtomicU64::new(1),
        held: Mutex::default(),
    };
    let (body, result) = (Mutex::new(Some(body)), Mutex::new(None));
    job::run((0..world.ranks).map(|rank| &stores[node(rank)]), &world.cache, |process| {
        // By the cache, straight, and as measured: whoever does what, all see the same.
        let ways = [Some(u64::MAX), Some(1), None, Some(64 << 10)];
        process.cluster.set_long_write(ways[process.rank() as usize % ways.len()]);
        let rank = Participant { process, common: &common };
        if process.rank() == 0 {
            let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
            let ended = rank.lead(body.expect("only this rank takes it"));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        } else {
            while rank.follow() {}
        }
    });
    let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    result.expect("rank 0 ended without a panic")
}

/// A rank of the job, which takes part in one program after the other.
#[derive(Clone, Copy)]
struct Participant<'j> {
    process: &'j Process<'j>,
    common: &'j Common,
}

impl Participant<'_> {
    /// What rank 0 does: what `body` wants.
    fn lead<T>(&self, body: impl FnOnce(&mut dyn FnMut(&Program) -> Vec<Log>) -> T) -> T {
        let mut number = 0;
        let result = body(&mut |program| {
            number += 1;
            {
                let mut told = self.common.told();
                told.program = Some(Arc::new(program.clone()));
                told.name = format!("/model/{number}");
            }
            self.follow();
            let mut logs = self.common.logs();
            logs.iter_mut().map(|log| log.take().expect("all ranks have been through it")).collect()
        });
        self.common.told().program = None;
        self.follow();
        result
    }

    /// Takes part in one program; `false` where there is none any more.
    fn follow(&self) -> bool {
        self.process.meet();
        let Some(program) = self.common.told().program.clone() else { return false };
        let log = Run::new(*self, &program).run();
        self.common.logs()[self.process.rank() as usize] = Some(log);
        self.process.meet();
        true
    }
}

/// A rank in a program. Whatever fails, it goes to all meetings, so that the others come to their ends.
struct Run<'p> {
    process: &'p Process<'p>,
    common: &'p Common,
    program: &'p Program,
    file: Option<File>,
    observed: Vec<Observed>,
}

impl<'p> Run<'p> {
    fn new(rank: Participant<'p>, program: &'p Program) -> Run<'p> {
        let Participant { process, common } = rank;
        Run { process, common, program, file: None, observed: Vec::new() }
    }

    fn run(mut self) -> Log {
        self.open();
        let own = self.process.rank() as usize;
        let mut log = Vec::new();
        let phases = self.program.phases(self.process.cluster.size() as usize);
        for (number, phase) in phases.iter().enumerate() {
            match phase {
                Phase::Place { first, extents } => self.place(*first, extents),
                Phase::Accesses(by_rank) => self.accesses(&by_rank[own]),
                Phase::UnderLocks(by_rank) => by_rank[own].iter().for_each(|locked| self.under_lock(locked)),
                Phase::Sync(_) => {
                    self.together(|process, file| process.sync(file));
                    self.observe_size();
                }
                Phase::SetSize(size) => self.resize(|file| file.set_size(*size)),
                Phase::Preallocate(size) => self.resize(|file| file.preallocate(*size)),
                Phase::Reopen(_) => {
                    self.close();
                    self.open();
                    self.observe_size();
                }
            }
            if !phases.get(number + 1).is_some_and(|next| next.runs_into(phase)) {
                self.process.meet();
            }
            log.push(std::mem::take(&mut self.observed));
        }
        self.close();
        let team = &self.process.team;
        let removed = if team.member() == 0 { self.process.cluster.remove(&self.name()) } else { Ok(()) };
        if let Err(failure) = agreed(team.outcome_of(0, removed)) {
            self.fail(format!("removing: {failure}"));
        }
        if let Some(last) = log.last_mut() {
            last.append(&mut self.observed);
        }
        log
    }

    fn name(&self) -> FileName {
        FileName::new(&self.common.told().name).expect("the leading rank gives good names")
    }

    fn open(&mut self) {
        let options = self.program.options(self.process.cluster.nodes());
        match self.process.open(&self.name(), &options) {
            Ok(file) => self.file = Some(file),
            Err(failure) => self.fail(format!("opening: {failure}")),
        }
    }

    fn close(&mut self) {
        let closed = self.file.take().map(|file| self.process.close(file));
        if let Some(Err(failure)) = closed {
            self.fail(format!("closing: {failure}"));
        }
    }

    fn resize(&mut self, change: impl FnOnce(&File) -> Result<()>) {
        self.together(|process, file| agreed(process.team.change(file, || change(file))));
        self.observe_size();
    }

    fn observe_size(&mut self) {
        self.observe(|file| Ok(Observed::Size(file.size())));
    }

    /// Does something with the file that all do together: all have it, or none.
    fn together(&mut self, what: impl FnOnce(&Process<'_>, &File) -> Agreed<()>) {
        let Some(file) = &self.file else { return self.fail("the file is not open".into()) };
        if let Err(failure) = what(self.process, file) {
            self.fail(failure);
        }
    }

    fn place(&mut self, first: u8, extents: &[Extent]) {
        let process = self.process;
        if process.rank() == 0 {
            let nodes = process.cluster.nodes().len() as u32;
            let mut homes = Vec::new();
            self.attempt(|file| {
                let unplaced = extents.iter().flat_map(|extent| file.unplaced(range(extent)));
                let mut unplaced: Vec<_> = unplaced.collect();
                unplaced.sort_unstable();
                unplaced.dedup();
                let home = |index: SegmentIndex| (index, NodeIndex((index.0 + u32::from(first)) % nodes));
                homes = file.place(&unplaced.into_iter().map(home).collect::<Vec<_>>(), u64::MAX)?;
                Ok(())
            });
            self.common.told().homes = homes;
        }
        process.meet();
        let homes = self.common.told().homes.clone();
        self.attempt(|file| file.note_homes(&homes, u64::MAX).map(|_| ()));
    }

    fn accesses(&mut self, accesses: &[Tagged<Access>]) {
        for Tagged { tag, what } in accesses {
            self.observe(|file| match what {
                Access::Write(extent) => write(file, extent, *tag),
                Access::Read(extent) => read(file, extent),
                Access::WritePieces(pieces) => write_pieces(file, pieces, *tag),
                Access::ReadPieces(pieces) => read_pieces(file, pieces),
                Access::Size => Ok(Observed::Size(file.size())),
            });
        }
    }

    fn under_lock(&mut self, task: &Tagged<Locked>) {
        let (process, common) = (self.process, self.common);
        let locked = &task.what;
        self.observe(|file| {
            let asked = common.ticket();
            let (mode, extent) =
                (if locked.is_exclusive() { LockMode::Exclusive } else { LockMode::Shared }, locked.range());
            let lock = file.lock(range(&extent), mode)?;
            let holding =
                Holding { rank: process.rank(), range: extent, is_exclusive: locked.is_exclusive() };
            let conflict = common.hold(holding);
            let held = common.ticket();
            let inner: Result<Vec<_>> = (locked.inner.iter().zip(0..))
                .map(|(access, more)| match access {
                    LockedAccess::Write(extent) => write(file, extent, task.tag.wrapping_add(more)),
                    LockedAccess::Read(extent) => read(file, extent),
                    LockedAccess::Increment(at) => increment(file, *at),
                })
                .collect();
            common.let_go(process.rank());
            drop(lock);
            if let Some(conflict) = conflict {
                return Ok(Observed::Failed(format!("{holding:?} beside {conflict:?}")));
            }
            let tickets = Tickets { asked, held, released: common.ticket() };
            Ok(Observed::Locked { tickets, inner: inner? })
        });
    }

    /// Does something with the file, and notes what it observes.
    fn observe(&mut self, what: impl FnOnce(&File) -> Result<Observed>) {
        let Some(file) = &self.file else { return self.fail("the file is not open".into()) };
        match guarded(|| what(file)) {
            Ok(observed) => self.observed.push(observed),
            Err(e) => self.fail(e),
        }
    }

    /// The same where there is nothing to be observed unless it fails.
    fn attempt(&mut self, what: impl FnOnce(&File) -> Result<()>) {
        let Some(file) = &self.file else { return self.fail("the file is not open".into()) };
        if let Err(e) = guarded(|| what(file)) {
            self.fail(e);
        }
    }

    fn fail(&mut self, what: String) {
        self.observed.push(Observed::Failed(format!("rank {}: {what}", self.process.rank())));
    }
}

impl Common {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, Vec<Option<Log>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ticket(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes that a lock is held; returns one that should have kept it away.
    fn hold(&self, new: Holding) -> Option<Holding> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let conflicts =
            |old: &&Holding| old.range.overlaps(&new.range) && (old.is_exclusive || new.is_exclusive);
        let conflict = held.iter().find(conflicts).copied();
        held.push(new);
        conflict
    }

    fn let_go(&self, rank: u32) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|holding| holding.rank != rank);
    }
}

/// Errors and panics as text.
fn guarded<T>(what: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}
