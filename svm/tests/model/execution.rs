//! Running programs: ranks as threads, each with a fabric of its own, on nodes with a store each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use svmio_svm::{
    CacheSettings, Cluster, File, FileName, FileOffset, Introduction, LockMode, NodeIndex, NodeName, Result,
    SegmentIndex, Store,
};
use svmio_transport::{Fabric, JobSecret, Membership, Rank, settings::Settings, shm};

use super::program::{Access, Extent, Locked, LockedAccess, Phase, Program, Tagged, pattern};

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
    barrier: Barrier,
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
    introduction: Vec<u8>,
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
    // Memory: syncing to a disk would take nearly all of the time.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = |node: usize| {
        let name = NodeName::new(format!("n{node}"));
        Store::open_for(&directory.path().join(name.as_str()), &name).unwrap()
    };
    let stores: Vec<_> = (0..world.nodes).map(store).collect();
    let node = |rank: usize| {
        if world.is_blockwise { rank * world.nodes / world.ranks } else { rank % world.nodes }
    };
    let names: Vec<_> = (0..world.ranks).map(|rank| stores[node(rank)].node().to_string()).collect();
    let secret = JobSecret::random().unwrap();
    let prepared: Vec<_> =
        names.iter().map(|_| shm::prepare(&Settings::default().shm, &secret).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let fabrics = prepared.into_iter().zip(0..).map(|(prepared, rank)| {
        let membership = Arc::new(Membership::new(Rank(rank), names.clone()));
        Fabric::new(prepared.join(membership, addresses.clone()).unwrap())
    });
    let fabrics: Vec<_> = fabrics.collect();
    let common = Common {
        barrier: Barrier::new(world.ranks),
        told: Mutex::default(),
        logs: Mutex::new((0..world.ranks).map(|_| None).collect()),
        clock: AtomicU64::new(1),
        held: Mutex::default(),
    };
    let (common, cache) = (&common, &world.cache);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut body = Some(body);
        for (rank, fabric) in fabrics.into_iter().enumerate() {
            let store = stores[node(rank)].clone();
            let body = body.take_if(|_| rank == 0);
            threads.push(scope.spawn(move || {
                let cluster = Cluster::join(fabric, store, cache).unwrap();
                let process = Process { cluster, common };
                let result = match body {
                    Some(body) => Some(process.lead(body)),
                    None => {
                        while process.follow() {}
                        None
                    }
                };
                process.meet();
                process.cluster.leave();
                result
            }));
        }
        let results = threads.into_iter().filter_map(|thread| thread.join().unwrap());
        results.last().unwrap()
    })
}

/// A rank.
struct Process<'c> {
    cluster: Arc<Cluster>,
    common: &'c Common,
}

impl Process<'_> {
    /// What rank 0 does: what `body` wants.
    fn lead<T>(&self, body: impl FnOnce(&mut dyn FnMut(&Program) -> Vec<Log>) -> T) -> T {
        let mut number = 0;
        let result = body(&mut |program| {
            number += 1;
            {
                let mut told = self.told();
                told.program = Some(Arc::new(program.clone()));
                told.name = format!("/model/{number}");
            }
            self.follow();
            let mut logs = self.common.logs.lock().unwrap_or_else(PoisonError::into_inner);
            logs.iter_mut().map(|log| log.take().unwrap()).collect()
        });
        self.told().program = None;
        self.follow();
        result
    }

    /// Takes part in one program; `false` where there is none any more.
    fn follow(&self) -> bool {
        self.meet();
        let Some(program) = self.told().program.clone() else { return false };
        let log = Run::new(self, &program).run();
        self.common.logs.lock().unwrap_or_else(PoisonError::into_inner)[self.rank() as usize] = Some(log);
        self.meet();
        true
    }

    fn meet(&self) {
        self.common.barrier.wait();
    }

    fn rank(&self) -> u32 {
        self.cluster.rank().0
    }

    fn is_first_of_node(&self) -> bool {
        let node = self.cluster.own_node();
        (0..self.rank()).all(|rank| self.cluster.node_of(Rank(rank)) != node)
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.common.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ticket(&self) -> u64 {
        self.common.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// A rank in a program. Whatever fails, it goes to all meetings, so that the others come to their ends.
struct Run<'p> {
    process: &'p Process<'p>,
    program: &'p Program,
    file: Option<File>,
    observed: Vec<Observed>,
}

impl<'p> Run<'p> {
    fn new(process: &'p Process<'p>, program: &'p Program) -> Run<'p> {
        Run { process, program, file: None, observed: Vec::new() }
    }

    fn run(mut self) -> Log {
        self.open();
        let own = self.process.rank() as usize;
        let mut log = Vec::new();
        for phase in self.program.phases(self.process.cluster.size() as usize) {
            match &phase {
                Phase::Place { first, extents } => self.place(*first, extents),
                Phase::Accesses(by_rank) => self.accesses(&by_rank[own]),
                Phase::UnderLocks(by_rank) => by_rank[own].iter().for_each(|locked| self.under_lock(locked)),
                Phase::Sync => self.sync(),
                Phase::SetSize(size) => self.one_for_all(|file| file.set_size(*size)),
                Phase::Preallocate(size) => self.one_for_all(|file| file.preallocate(*size)),
                Phase::Reopen => {
                    self.close();
                    self.open();
                    self.observe(|file| Ok(Observed::Size(file.size())));
                }
            }
            self.process.meet();
            log.push(std::mem::take(&mut self.observed));
        }
        self.close();
        self.process.meet();
        if own == 0 {
            let name = FileName::new(&self.process.told().name).unwrap();
            if let Err(e) = guarded(|| self.process.cluster.remove(&name)) {
                self.fail(format!("removing: {e}"));
            }
        }
        self.process.meet();
        if let Some(last) = log.last_mut() {
            last.append(&mut self.observed);
        }
        log
    }

    fn open(&mut self) {
        let process = self.process;
        let options = self.program.options(process.cluster.nodes());
        if process.rank() == 0 {
            let name = FileName::new(&process.told().name).unwrap();
            let nodes: Vec<_> = (0..process.cluster.nodes().len() as u32).map(NodeIndex).collect();
            let introduction = guarded(|| process.cluster.open(&name, &options, &nodes));
            process.told().introduction = match introduction {
                Ok(introduction) => introduction.to_bytes(),
                Err(e) => {
                    self.fail(format!("opening: {e}"));
                    Vec::new()
                }
            };
        }
        process.meet();
        let introduction = process.told().introduction.clone();
        let attached = guarded(|| {
            Introduction::from_bytes(&introduction).and_then(|whose| process.cluster.attach(&whose, &options))
        });
        match attached {
            Ok(file) => self.file = Some(file),
            Err(e) => self.fail(format!("attaching: {e}")),
        }
        process.meet();
    }

    fn close(&mut self) {
        self.attempt(File::flush);
        self.process.meet();
        if self.process.rank() == 0 {
            self.attempt(|file| file.commit(true));
        }
        self.process.meet();
        self.file = None;
    }

    fn sync(&mut self) {
        self.attempt(File::flush);
        self.process.meet();
        self.attempt(File::sync_data);
        if self.process.is_first_of_node() {
            self.attempt(File::sync_node);
        }
        self.process.meet();
        if self.process.rank() == 0 {
            self.attempt(|file| file.commit(true));
        }
        self.process.meet();
        self.refresh();
    }

    fn one_for_all(&mut self, change: impl FnOnce(&File) -> Result<()>) {
        self.attempt(File::flush);
        self.process.meet();
        if self.process.rank() == 0 {
            self.attempt(change);
        }
        self.process.meet();
        self.refresh();
    }

    fn refresh(&mut self) {
        if self.process.is_first_of_node() {
            self.attempt(File::refresh);
        }
        self.process.meet();
        self.observe(|file| Ok(Observed::Size(file.size())));
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
                homes = file.place(&unplaced.into_iter().map(home).collect::<Vec<_>>())?;
                Ok(())
            });
            process.told().homes = homes;
        }
        process.meet();
        let homes = process.told().homes.clone();
        self.attempt(|file| file.note_homes(&homes).map(|_| ()));
    }

    fn accesses(&mut self, accesses: &[Tagged<Access>]) {
        for Tagged { tag, what } in accesses {
            self.observe(|file| match what {
                Access::Write(extent) => write(file, extent, *tag),
                Access::Read(extent) => read(file, extent),
                Access::Size => Ok(Observed::Size(file.size())),
            });
        }
    }

    fn under_lock(&mut self, task: &Tagged<Locked>) {
        let process = self.process;
        let locked = &task.what;
        self.observe(|file| {
            let asked = process.ticket();
            let (mode, extent) =
                (if locked.is_exclusive() { LockMode::Exclusive } else { LockMode::Shared }, locked.range());
            let lock = file.lock(range(&extent), mode)?;
            let holding =
                Holding { rank: process.rank(), range: extent, is_exclusive: locked.is_exclusive() };
            let conflict = process.common.hold(holding);
            let held = process.ticket();
            let inner: Result<Vec<_>> = (locked.inner.iter().zip(0..))
                .map(|(access, more)| match access {
                    LockedAccess::Write(extent) => write(file, extent, task.tag.wrapping_add(more)),
                    LockedAccess::Read(extent) => read(file, extent),
                    LockedAccess::Increment(at) => increment(file, *at),
                })
                .collect();
            process.common.let_go(process.rank());
            drop(lock);
            if let Some(conflict) = conflict {
                return Ok(Observed::Failed(format!("{holding:?} beside {conflict:?}")));
            }
            let tickets = Tickets { asked, held, released: process.ticket() };
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

fn write(file: &File, extent: &Extent, tag: u8) -> Result<Observed> {
    let data: Vec<u8> = (extent.start..extent.end()).map(|at| pattern(tag, at)).collect();
    file.write_at(FileOffset(extent.start), &data).map(|()| Observed::Done)
}

fn read(file: &File, extent: &Extent) -> Result<Observed> {
    // What must not stay.
    let mut bytes = vec![0xee; extent.length as usize];
    let count = file.read_at(FileOffset(extent.start), &mut bytes)?;
    bytes.truncate(count);
    Ok(Observed::Bytes(bytes))
}

fn increment(file: &File, at: u64) -> Result<Observed> {
    let mut word = [0; 8];
    let count = file.read_at(FileOffset(at), &mut word)?;
    let observed = Observed::Bytes(word[..count].to_vec());
    word[count..].fill(0);
    let more = u64::from_le_bytes(word).wrapping_add(1);
    file.write_at(FileOffset(at), &more.to_le_bytes()).map(|()| observed)
}

fn range(extent: &Extent) -> std::ops::Range<FileOffset> {
    FileOffset(extent.start)..FileOffset(extent.end())
}
