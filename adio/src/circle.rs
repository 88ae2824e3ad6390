//! By what the ranks of a communicator that open files together tell each other things.
//!
//! ```text
//!   communicator ── attribute ──► Circle      MPI's own collectives at first; when they have been used often,
//!        │ open                      │        or in a cluster at once, svmio's engine          (forming), or over
//!        ▼                           ▼        a network MPI's again, as long as nobody is lost   (watched)
//!   file's Handle ── Team ── Ranks: the file's own communicator, and the circle
//! ```
//!
//! Forming the engine takes 1.5 ms with 2 ranks and 30 with 16 on two cores, more than opening the first file does, and
//! saves up to 100 µs each time, the more the more ranks there are for a core: a program that writes a file in some
//! dozens of collective calls, or opens some dozens of files, does not pay for it.
//!
//! Where several threads may call MPI at the same time, they may have different files in hand, in different orders on
//! different ranks. So each file has a circle of its own then.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use svmio_svm::team::{Engine, Means, Team};
use svmio_svm::{Error, Result};

use crate::abi::{Abi, Comm, SUCCESS};
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::forming;
use crate::noted::Noted;
use crate::venue::Company;
use crate::watched::Watch;

/// How often the ranks of a node agree by MPI's own collectives before they form an engine. As with skis that are
/// rented until they could have been bought: what the engine would have saved by then is about what it costs. On two
/// cores that was after 270 to 550 times with 16 ranks, 360 to 800 with 8, 400 to 1,000 with 4 and 1,000 with 2 (MPICH;
/// hardly ever with Open MPI).
const TRIAL: u32 = 512;

/// By what the ranks of a communicator tell each other things; the same on all of them.
pub(crate) struct Circle {
    /// Whether all files of the communicator have this one.
    is_shared: bool,
    state: Mutex<State>,
}

enum State {
    /// MPI's own collectives, so far; it was so many times.
    Young(u32),
    /// The engine.
    Engine(Arc<Engine>),
    /// MPI's own collectives.
    Stock,
    /// The same, as long as none of the ranks, which are in a cluster, is lost.
    Watched(Arc<Watch>),
}

/// All that there are.
static ALL: Mutex<Vec<Weak<Circle>>> = Mutex::new(Vec::new());

/// Whether MPI is being finalized.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The circle of the communicator by which this thread is opening a file.
    static CURRENT: Noted<Arc<Circle>> = const { Noted::nothing() };
}

impl Circle {
    fn new(is_shared: bool) -> Arc<Circle> {
        let circle = Arc::new(Circle { is_shared, state: Mutex::new(State::Young(0)) });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|circle| circle.strong_count() > 0);
        all.push(Arc::downgrade(&circle));
        circle
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `open`, which opens a file by `comm`, on every rank of it.
///
/// # Safety
/// `comm` is a communicator.
pub(crate) unsafe fn opening<A: Abi, T>(mpi: &Mpi<A>, comm: Comm<A>, open: impl FnOnce() -> T) -> T {
    // SAFETY: the caller's promise.
    let circle = (mpi.size(comm) > 1).then(|| unsafe { of(mpi, comm) });
    CURRENT.with(|current| current.replace(circle));
    let opened = open();
    CURRENT.with(Noted::take);
    opened
}

/// The ranks of `comm`, or of the file of which it is the own communicator, that this thread is opening.
pub(crate) fn team<A: Abi>(mpi: &'static Mpi<A>, comm: Comm<A>) -> Team {
    let size = mpi.size(comm).unsigned_abs() as usize;
    if size < 2 {
        return Team::alone();
    }
    let circle = CURRENT.with(Noted::get).unwrap_or_else(|| Circle::new(false));
    Team::new(mpi.rank(comm).unsigned_abs() as usize, size, Box::new(Ranks { mpi, comm, circle }))
}

/// Has the ranks of `comm`, which this thread is opening a file by, use the job of the cluster that they are in.
pub(crate) fn use_cluster<A: Abi>(mpi: &'static Mpi<A>, comm: Comm<A>, company: &Arc<Company>) {
    let Some(circle) = CURRENT.with(Noted::get) else { return };
    let mut state = circle.state();
    // What a node's ranks could not have, those of a cluster may: it is tried once.
    if matches!(&*state, State::Engine(_) | State::Watched(_)) {
        return;
    }
    *state = match forming::in_cluster(mpi, comm, company) {
        Some(engine) => State::Engine(Arc::new(engine)),
        None => State::Watched(Arc::new(Watch::new(Arc::clone(company)))),
    };
}

/// Before MPI is finalized: no engine is used any more.
pub(crate) fn finish() {
    // Relaxed: at its end, a program has but one thread that calls MPI.
    HAS_ENDED.store(true, Ordering::Relaxed);
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    all.iter().filter_map(Weak::upgrade).for_each(|circle| *circle.state() = State::Stock);
}

/// The circle of a communicator with several ranks. All of them call this.
///
/// # Safety
/// `comm` is a communicator.
unsafe fn of<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>) -> Arc<Circle> {
    // A process has one family of MPIs.
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    let key = *KEY.get_or_init(|| mpi.create_attribute(goes::<A>));
    // SAFETY: the caller vouches for the communicator.
    if let Some(known) = key.and_then(|key| unsafe { mpi.attribute(comm, key) }) {
        let known: *const Circle = known.cast_const().cast();
        // SAFETY: stored below, an Arc's pointer that is released when the attribute goes.
        let known = unsafe {
            Arc::increment_strong_count(known);
            Arc::from_raw(known)
        };
        return if known.is_shared { known } else { Circle::new(false) };
    }
    // Ranks may have asked for different levels.
    let has_threads = mpi.maximum(comm, c_int::from(mpi.has_many_threads()));
    let circle = Circle::new(has_threads == Ok(0));
    let value = Arc::into_raw(Arc::clone(&circle));
    // SAFETY: the caller vouches for the communicator.
    let code = key.map(|key| unsafe { mpi.set_attribute(comm, key, value.cast_mut().cast()) });
    if code != Some(SUCCESS) {
        // SAFETY: MPI did not take it; it came from an Arc just now.
        drop(unsafe { Arc::from_raw(value) });
    }
    circle
}

unsafe extern "C" fn goes<A: Abi>(
    _comm: Comm<A>,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: `of` stored an Arc's pointer, and MPI calls this once for each.
    drop(unsafe { Arc::from_raw(value.cast::<Circle>().cast_const()) });
    SUCCESS
}

/// The ranks of a communicator. As long as they have no engine, they tell each other things by MPI.
struct Ranks<A: Abi> {
    mpi: &'static Mpi<A>,
    comm: Comm<A>,
    circle: Arc<Circle>,
}

/// By what ranks tell each other something.
enum By {
    Engine(Arc<Engine>),
    Watched(Arc<Watch>),
    Stock,
}

impl<A: Abi> Ranks<A> {
    /// Where it is time for an engine, the ranks form it now: all of them have been here as often.
    fn by(&self) -> By {
        let mut state = self.circle.state();
        match &mut *state {
            State::Engine(engine) => return By::Engine(Arc::clone(engine)),
            State::Watched(watch) => return By::Watched(Arc::clone(watch)),
            State::Stock => return By::Stock,
            State::Young(count) if *count < TRIAL => {
                *count += 1;
                return By::Stock;
            }
            State::Young(_) => {}
        }
        // Relaxed: see `finish`.
        let may_form = !HAS_ENDED.load(Ordering::Relaxed);
        let engine = may_form.then(|| forming::on_one_node(self.mpi, self.comm)).flatten().map(Arc::new);
        *state = engine.clone().map_or(State::Stock, State::Engine);
        engine.map_or(By::Stock, By::Engine)
    }
}

impl<A: Abi> Means for Ranks<A> {
    fn maxima(&self, numbers: &mut [i64]) -> Result<()> {
        match self.by() {
            By::Engine(engine) => engine.maxima(numbers),
            By::Watched(watch) => watch.maxima(self.mpi, self.comm, numbers),
            By::Stock => self.mpi.maxima(self.comm, numbers).map_err(disunited),
        }
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        match self.by() {
            By::Engine(engine) => engine.broadcast(root, bytes),
            By::Watched(watch) => watch.broadcast(self.mpi, self.comm, root, bytes),
            By::Stock => self.mpi.broadcast(self.comm, root as c_int, bytes).map_err(disunited),
        }
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        match self.by() {
            By::Engine(engine) => engine.all_gather(own, all),
            By::Watched(watch) => watch.all_gather(self.mpi, self.comm, own, all),
            By::Stock => self.mpi.all_gather_into(self.comm, own, all).map_err(disunited),
        }
    }

    fn gather(&self, root: usize, own: &[u8], all: &mut [u8]) -> Result<()> {
        let by = self.by();
        if let By::Engine(engine) = by {
            return engine.gather(root, own, all);
        }
        let mut unused = Vec::new();
        let all = if all.is_empty() {
            unused.resize(own.len() * self.mpi.size(self.comm).max(0) as usize, 0);
            &mut unused[..]
        } else {
            all
        };
        match by {
            By::Watched(watch) => watch.all_gather(self.mpi, self.comm, own, all),
            By::Engine(_) | By::Stock => self.mpi.all_gather_into(self.comm, own, all).map_err(disunited),
        }
    }
}

fn disunited(failure: Failure) -> Error {
    Error::Disunited { problem: failure.message }
}
