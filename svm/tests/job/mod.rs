//! The ranks of a job as threads of this process, each with a fabric of its own and the store of its node.
//!
//! What they do together with a file they do as a [`Team`].
//!
//! A rank that panics is lost to the others: none of them waits for it, and its panic is that of the whole job. A job
//! that does not end, ends the process.

use std::fmt::Debug;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use svmio_svm::team::Team;
use svmio_svm::{CacheSettings, Cluster, File, FileName, NodeName, OpenOptions, Result, Store};
use svmio_transport::faulty::Faulty;
use svmio_transport::message::MessageSettings;
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
    run_with(stores, cache, &MessageSettings::default(), body);
}

/// The same with messages that go as their settings say.
///
/// # Panics
/// Likewise.
#[allow(dead_code, reason = "not all who include this need it")]
pub(crate) fn run_with<'s>(
    stores: impl IntoIterator<Item = &'s Store>,
    cache: &CacheSettings,
    messages: &MessageSettings,
    body: impl Fn(&Process<'_>) + Sync,
) {
    run_over(|memberships| fabrics(Way::of_tests(), memberships), stores, cache, messages, body);
}

/// The same over `way`, with fabrics that pin what is exported, as adapters do, of which each process may lock
/// `lockable` bytes.
///
/// # Panics
/// Likewise.
#[allow(dead_code, reason = "not all who include this need it")]
pub(crate) fn run_pinning<'s>(
    way: Way,
    lockable: u64,
    stores: impl IntoIterator<Item = &'s Store>,
    cache: &CacheSettings,
    body: impl Fn(&Process<'_>) + Sync,
) {
    let pinning = |fabric: Fabric| Fabric::new(Faulty::pinning(Arc::clone(fabric.back_end()), lockable));
    let fabrics = |memberships: &[_]| fabrics(way, memberships).into_iter().map(pinning).collect();
    run_over(fabrics, stores, cache, &MessageSettings::default(), body);
}

/// How ranks reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    SharedMemory,
    /// By libfabric over the loopback interface.
    Network,
}

impl Way {
    /// By shared memory, or with `SVMIO_TEST_FABRIC=ofi` by the network.
    pub(crate) fn of_tests() -> Way {
        let is_network = std::env::var_os("SVMIO_TEST_FABRIC").is_some_and(|name| name == "ofi");
        if is_network { Way::Network } else { Way::SharedMemory }
    }
}

fn run_over<'s>(
    fabrics: impl FnOnce(&[Arc<Membership>]) -> Vec<Fabric>,
    stores: impl IntoIterator<Item = &'s Store>,
    cache: &CacheSettings,
    messages: &MessageSettings,
    body: impl Fn(&Process<'_>) + Sync,
) {
    let longest = Duration::from_secs(if is_full() { 3600 } else { 300 });
    // Tests run in threads of their names.
    let test = std::thread::current().name().unwrap_or("a job").to_owned();
    watched(longest, &test, || run_ranks(fabrics, stores, cache, messages, body));
}

/// Whether tests are to repeat themselves as often as is promised, for minutes: `SVMIO_FULL=1`.
pub(crate) fn is_full() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}

/// Runs something; where it does not end in time, says what and ends the process: the ranks cannot be ended.
pub(crate) fn watched<T>(longest: Duration, what: &(impl Debug + Sync), run: impl FnOnce() -> T) -> T {
    let (ended, watch) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(longest) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Past the harness, which would keep it for an end of the test that never comes.
                let _ = writeln!(std::io::stderr(), "it does not end: {what:?}");
                std::process::exit(101);
            }
        });
        let result = run();
        drop(ended);
        result
    })
}

fn run_ranks<'s>(
    fabrics: impl FnOnce(&[Arc<Membership>]) -> Vec<Fabric>,
    stores: impl IntoIterator<Item = &'s Store>,
    cache: &CacheSettings,
    messages: &MessageSettings,
    body: impl Fn(&Process<'_>) + Sync,
) {
    let stores: Vec<_> = stores.into_iter().collect();
    let memberships = memberships_of(&stores);
    let fabrics = fabrics(&memberships);
    let job = Job { memberships, gathering: Gathering::default() };
    let clusters = Mutex::new(Vec::new());
    // The first panic is the reason for the others.
    let first = OnceLock::new();
    let run = |fabric: &Fabric, store: &Store| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let cluster = Cluster::join(fabric.clone(), store.clone(), cache, messages);
            let cluster = cluster.unwrap_or_else(|error| panic!("all of the job join: {error}"));
            clusters.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&cluster));
            cluster.force_native_reads(are_reads_native());
            let team = Team::of_cluster(&cluster).expect("all of the job join");
            body(&Process { cluster, job: &job, team });
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

/// How pages come from other nodes, if `SVMIO_TEST_READS` says so: this process reads them, or their homes are asked.
pub(crate) fn are_reads_native() -> Option<bool> {
    let text = std::env::var("SVMIO_TEST_READS").ok()?;
    Some(match text.as_str() {
        "native" => true,
        "asked" => false,
        _ => panic!("SVMIO_TEST_READS={text}: neither native nor asked"),
    })
}

/// A rank.
pub(crate) struct Process<'j> {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) job: &'j Job,
    /// All ranks.
    pub(crate) team: Team,
}

impl Process<'_> {
    pub(crate) fn rank(&self) -> u32 {
        self.cluster.rank().0
    }

    /// Waits until all ranks have come to this point, lost or not.
    ///
    /// # Panics
    /// Where one of them has panicked.
    pub(crate) fn meet(&self) {
        self.job.gathering.come(self.cluster.size()).expect("another rank has panicked");
    }

    /// Opens a file for all nodes.
    pub(crate) fn open(&self, name: &FileName, options: &OpenOptions) -> Agreed<File> {
        agreed(self.team.open_in(&self.cluster, name, options))
    }

    /// Makes what all have written readable for all, and durable.
    pub(crate) fn sync(&self, file: &File) -> Agreed<()> {
        agreed(self.team.sync(file))
    }

    /// Closes the file; on return all have.
    pub(crate) fn close(&self, file: File) -> Agreed<()> {
        let closed = agreed(self.team.close(&file, false));
        file.keep();
        self.meet();
        closed
    }
}

/// With an error as text.
pub(crate) fn agreed<T>(outcome: Result<T>) -> Agreed<T> {
    outcome.map_err(|error| error.to_string())
}

/// The fabrics of a job, one for each of `stores`, which is that of its node, and what each rank knows of the others.
#[allow(dead_code, reason = "not all who include this need it")]
pub(crate) fn fabrics_of(stores: &[&Store]) -> (Vec<Fabric>, Vec<Arc<Membership>>) {
    let memberships = memberships_of(stores);
    (fabrics(Way::of_tests(), &memberships), memberships)
}

fn memberships_of(stores: &[&Store]) -> Vec<Arc<Membership>> {
    let names: Vec<_> = stores.iter().map(|store| store.node().to_string()).collect();
    let ranks = (0..).take(stores.len()).map(Rank);
    ranks.map(|rank| Arc::new(Membership::new(rank, names.clone()))).collect()
}

fn fabrics(way: Way, memberships: &[Arc<Membership>]) -> Vec<Fabric> {
    let secret = JobSecret::random().expect("the system has random numbers");
    let Settings { shm, mut ofi, .. } = Settings::default();
    ofi.address = "127.0.0.1".into();
    let prepare = |_| match way {
        Way::Network => ofi::prepare(&ofi, &secret).expect("libfabric can be had: install libfabric1"),
        Way::SharedMemory => shm::prepare(&shm, &secret).expect("shared memory can be had"),
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
}

impl Job {
    /// Has all other ranks take `lost` for lost.
    pub(crate) fn declare_lost(&self, lost: Rank, reason: &str) {
        for membership in self.memberships.iter().filter(|membership| membership.rank() != lost) {
            membership.declare_lost(lost, reason);
        }
    }
}

/// A barrier that lets go when somebody will never come, and knows nothing of who is declared lost.
#[derive(Default)]
struct Gathering {
    state: Mutex<Gathered>,
    changed: Condvar,
}

#[derive(Default)]
struct Gathered {
    present: u32,
    rounds: u64,
    is_given_up: bool,
}

/// Somebody will never come.
#[derive(Debug)]
struct GivenUp;

impl Gathering {
    /// Waits for `size` to come.
    fn come(&self, size: u32) -> std::result::Result<(), GivenUp> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.present += 1;
        if state.present == size {
            state.present = 0;
            state.rounds += 1;
            self.changed.notify_all();
        } else {
            let round = state.rounds;
            let is_waiting = |state: &mut Gathered| state.rounds == round && !state.is_given_up;
            let woken = self.changed.wait_while(state, is_waiting);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_given_up { Err(GivenUp) } else { Ok(()) }
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_given_up = true;
        self.changed.notify_all();
    }
}
