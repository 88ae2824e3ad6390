//! The ranks of a job as threads of this process, each with a fabric of its own and the store of its node.
//!
//! What they do together with a file they do as the layer above has it done: a step that each does his part of, then
//! all agree on whether it went well, and only where it did they go on to the next.
//!
//! A rank that panics is lost to the others: none of them waits for it, and its panic is that of the whole job.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use svmio_svm::{
    CacheSettings, Cluster, File, FileName, Introduction, NodeIndex, NodeName, OpenOptions, Result, Store,
};
use svmio_transport::{Fabric, JobSecret, Membership, Rank, ofi, settings::Settings, shm};
use tempfile::TempDir;

/// How something ended that all ranks did together: the same on all of them. What went wrong says on which.
pub(crate) type Agreed<T> = std::result::Result<T, String>;

/// Stores of nodes `n0`, `n1` …, in memory: syncing to a disk would take nearly all of the time.
pub(crate) fn stores(count: usize) -> (TempDir, Vec<Store>) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("directories can be made in /dev/shm");
    let store = |number| {
        let name = NodeName::new(format!("n{number}"));
        Store::open_for(&directory.path().join(name.as_str()), &name).expect("a new store opens")
    };
    let stores = (0..count).map(store).collect();
    (directory, stores)
}

/// Runs `body` as each rank of a job, one for each of `stores`, which is that of its node.
///
/// # Panics
/// With what the first of the ranks panics with.
pub(crate) fn run<'s>(
    stores: impl IntoIterator<Item = &'s Store>,
    cache: &CacheSettings,
    body: impl Fn(&Process<'_>) + Sync,
) {
    let stores: Vec<_> = stores.into_iter().collect();
    let names: Vec<_> = stores.iter().map(|store| store.node().to_string()).collect();
    let ranks = (0..).take(stores.len()).map(Rank);
    let memberships: Vec<_> = ranks.map(|rank| Arc::new(Membership::new(rank, names.clone()))).collect();
    let fabrics = fabrics(&memberships);
    let job = Job { memberships, gathering: Gathering::default(), told: Mutex::default() };
    let clusters = Mutex::new(Vec::new());
    // The first panic is the reason for the others.
    let first = OnceLock::new();
    let run = |fabric: &Fabric, store: &Store| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let cluster = Cluster::join(fabric.clone(), store.clone(), cache).expect("all of the job join");
            clusters.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&cluster));
            body(&Process { cluster, job: &job });
        }));
        if result.is_err() {
            let _ = first.set(fabric.rank());
            // The others need not wait for it.
            job.gathering.give_up();
            job.declare_lost(fabric.rank(), "it panicked");
        }
        result
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let pairs = fabrics.iter().zip(stores);
        let threads: Vec<_> = pairs.map(|(fabric, store)| scope.spawn(|| run(fabric, store))).collect();
        threads.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
    });
    // Nobody needs anybody any more.
    for cluster in clusters.into_inner().unwrap_or_else(PoisonError::into_inner) {
        cluster.leave();
    }
    for fabric in fabrics {
        fabric.close();
    }
    if let Some(first) = first.get()
        && let Err(panic) = results.swap_remove(first.index())
    {
        resume_unwind(panic);
    }
}

/// A rank.
pub(crate) struct Process<'j> {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) job: &'j Job,
}

impl Process<'_> {
    pub(crate) fn rank(&self) -> u32 {
        self.cluster.rank().0
    }

    /// Waits until all ranks have come to this point.
    ///
    /// # Panics
    /// Where one of them has panicked.
    pub(crate) fn meet(&self) {
        let _: Agreed<()> = self.agree(Ok(()));
    }

    /// Every rank does its part.
    pub(crate) fn by_all<T>(&self, part: impl FnOnce() -> Result<T>) -> Agreed<T> {
        self.agree(guarded(part).map_err(|e| format!("rank {}: {e}", self.rank())))
    }

    /// Rank 0 does it for all.
    pub(crate) fn by_one(&self, work: impl FnOnce() -> Result<()>) -> Agreed<()> {
        self.by_all(|| if self.rank() == 0 { work() } else { Ok(()) })
    }

    /// Opens a file for all nodes.
    pub(crate) fn open(&self, name: &FileName, options: &OpenOptions) -> Agreed<File> {
        self.by_one(|| {
            let nodes: Vec<_> = (0..).take(self.cluster.nodes().len()).map(NodeIndex).collect();
            *self.told() = self.cluster.open(name, options, &nodes)?.to_bytes();
            Ok(())
        })?;
        self.by_all(|| {
            let introduction = Introduction::from_bytes(&self.told().clone())?;
            self.cluster.attach(&introduction, options)
        })
    }

    /// Makes what all have written readable for all, and durable.
    pub(crate) fn sync(&self, file: &File) -> Agreed<()> {
        self.by_all(|| file.flush())?;
        self.by_all(|| {
            file.sync_data()?;
            if self.is_first_of_node() { file.sync_node() } else { Ok(()) }
        })?;
        self.change(file, |file| file.commit(true))
    }

    /// Rank 0 changes the file, to which all have flushed, and every node sees it.
    pub(crate) fn change(&self, file: &File, change: impl FnOnce(&File) -> Result<()>) -> Agreed<()> {
        self.by_one(|| change(file))?;
        self.by_all(|| if self.is_first_of_node() { file.refresh() } else { Ok(()) })
    }

    pub(crate) fn close(&self, file: File) -> Agreed<()> {
        self.by_all(|| file.flush())?;
        self.by_one(|| file.commit(true))?;
        self.by_all(|| {
            // Nobody uses it any more, though some may still hold it.
            let told = if self.rank() == 0 { file.closed_by_all() } else { Ok(()) };
            drop(file);
            told
        })
    }

    fn is_first_of_node(&self) -> bool {
        let node = self.cluster.own_node();
        (0..self.rank()).all(|rank| self.cluster.node_of(Rank(rank)) != node)
    }

    fn agree<T>(&self, own: Agreed<T>) -> Agreed<T> {
        let verdict = self.job.gathering.come(self.cluster.size(), own.as_ref().err());
        match verdict.expect("another rank has panicked") {
            Some(failure) => Err(failure),
            None => own,
        }
    }

    fn told(&self) -> MutexGuard<'_, Vec<u8>> {
        self.job.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Errors and panics as text.
pub(crate) fn guarded<T>(what: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// By shared memory, or with `SVMIO_TEST_FABRIC=ofi` by libfabric over the loopback interface.
fn fabrics(memberships: &[Arc<Membership>]) -> Vec<Fabric> {
    let secret = JobSecret::random().expect("the system has random numbers");
    let Settings { shm, mut ofi, .. } = Settings::default();
    ofi.address = "127.0.0.1".into();
    let is_network = std::env::var_os("SVMIO_TEST_FABRIC").is_some_and(|name| name == "ofi");
    let prepare = |_| match is_network {
        true => ofi::prepare(&ofi, &secret).expect("libfabric can be had: install libfabric1"),
        false => shm::prepare(&shm, &secret).expect("shared memory can be had"),
    };
    let prepared: Vec<_> = memberships.iter().map(prepare).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let pairs = prepared.into_iter().zip(memberships);
    let back_ends = pairs.map(|(prepared, of)| prepared.join(Arc::clone(of), addresses.clone()));
    back_ends.map(|back_end| Fabric::new(back_end.expect("the ranks reach each other"))).collect()
}

/// What the ranks have in common beside what is tested.
pub(crate) struct Job {
    /// What each rank knows of the others.
    pub(crate) memberships: Vec<Arc<Membership>>,
    gathering: Gathering,
    /// What rank 0 tells the others.
    told: Mutex<Vec<u8>>,
}

impl Job {
    /// Has all other ranks take `lost` for lost.
    pub(crate) fn declare_lost(&self, lost: Rank, reason: &str) {
        for membership in self.memberships.iter().filter(|membership| membership.rank() != lost) {
            membership.declare_lost(lost, reason);
        }
    }
}

/// A barrier that lets go when somebody will never come, and tells all what went wrong for one.
#[derive(Default)]
struct Gathering {
    state: Mutex<Gathered>,
    changed: Condvar,
}

#[derive(Default)]
struct Gathered {
    present: u32,
    rounds: u64,
    /// The first failure that one of those present has brought.
    failure: Option<String>,
    /// The failure of the round before, which all of it have yet to hear of.
    verdict: Option<String>,
    is_given_up: bool,
}

/// Somebody will never come.
#[derive(Debug)]
struct GivenUp;

impl Gathering {
    /// Waits for `size` to come; gives what went wrong for one of them.
    fn come(&self, size: u32, failure: Option<&String>) -> std::result::Result<Option<String>, GivenUp> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.present += 1;
        if state.failure.is_none() {
            state.failure = failure.cloned();
        }
        if state.present == size {
            state.present = 0;
            state.rounds += 1;
            state.verdict = state.failure.take();
            self.changed.notify_all();
        } else {
            let round = state.rounds;
            let is_waiting = |state: &mut Gathered| state.rounds == round && !state.is_given_up;
            let woken = self.changed.wait_while(state, is_waiting);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_given_up { Err(GivenUp) } else { Ok(state.verdict.clone()) }
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_given_up = true;
        self.changed.notify_all();
    }
}
