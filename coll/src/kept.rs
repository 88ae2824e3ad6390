//! The group of a communicator, as an attribute of it: so it goes when the communicator is freed, however soon its
//! handle is given again.
//!
//! A thread remembers the one of its last call, which is enough for most calls.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use svmio_adio::Failure;
use svmio_adio::abi::{Comm, SUCCESS};

use crate::family::Family;
use crate::forming::Formed;
use crate::group::Group;
use crate::setting::{Collective, Collectives};
use crate::stock::Stock;
use crate::{counting, forming, jobs, logging};

/// What is kept of a communicator.
pub(crate) struct Kept {
    /// Which collectives MPI does.
    left: AtomicU64,
    /// Of those that do not block also those of less data than that, in bytes.
    least: AtomicUsize,
    seat: Mutex<Seat>,
}

/// This process in a communicator's group.
pub(crate) enum Seat {
    /// It is a member.
    Taken(Group),
    /// It was, until this.
    Failed(Failure),
    /// There is none.
    Empty,
}

impl Kept {
    fn new() -> Self {
        Self { left: AtomicU64::new(u64::MAX), least: AtomicUsize::new(0), seat: Mutex::new(Seat::Empty) }
    }

    /// Whether MPI does the collective.
    #[inline]
    pub(crate) fn leaves(&self, collective: Collective) -> bool {
        // Relaxed: set by the thread that formed the group, whose program hands its communicators on with care.
        Collectives(self.left.load(Ordering::Relaxed)).contains(collective)
    }

    /// The least amount of data that a collective has that does not block, in bytes.
    pub(crate) fn least(&self) -> usize {
        // Relaxed: as above.
        self.least.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn seat(&self) -> MutexGuard<'_, Seat> {
        // A panic in the middle leaves a group of which the others hear nothing more; there is no unwinding into MPI.
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, Formed { group, left, begun }: Formed) {
        *self.seat() = Seat::Taken(group);
        // Relaxed: as above.
        self.least.store(begun.least(), Ordering::Relaxed);
        self.left.store(left.0, Ordering::Relaxed);
    }

    fn empty(&self) {
        self.left.store(u64::MAX, Ordering::Relaxed);
        *self.seat() = Seat::Empty;
    }
}

/// The keys of attributes.
pub(crate) struct Keys {
    /// Of communicators with what is kept of them.
    kept: c_int,
    /// Of `MPI_COMM_SELF`.
    end: c_int,
}

/// Grows whenever an attribute goes: what threads remember is of the past then.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Whether `MPI_Finalize` was called.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// All that is kept.
static ALL: Mutex<Vec<Weak<Kept>>> = Mutex::new(Vec::new());

/// What a thread remembers.
#[derive(Clone, Copy)]
struct Last {
    generation: u64,
    comm: u64,
    kept: *const Kept,
}

thread_local! {
    static LAST: Cell<Last> = const { Cell::new(Last { generation: 0, comm: 0, kept: std::ptr::null() }) };
    /// Whether this thread is forming a group, in the course of which MPI may ask for collectives.
    static IS_FORMING: Cell<bool> = const { Cell::new(false) };
}

/// Gives `body` what is kept of `comm`; a group is formed now where nothing was decided yet, with all members. `None`
/// where svmio has no business.
#[inline]
pub(crate) fn with<A: Family, R>(comm: Comm<A>, body: impl FnOnce(&Kept) -> R) -> Option<R> {
    with_found(comm, find::<A>, body)
}

/// The same, but no group is formed, which would have to wait for the other members: `None` where nothing was decided
/// yet.
#[inline]
pub(crate) fn with_known<A: Family, R>(comm: Comm<A>, body: impl FnOnce(&Kept) -> R) -> Option<R> {
    with_found(comm, known::<A>, body)
}

#[inline]
fn with_found<A: Family, R>(
    comm: Comm<A>,
    find: impl FnOnce(Comm<A>) -> Option<*const Kept>,
    body: impl FnOnce(&Kept) -> R,
) -> Option<R> {
    let number = A::number(comm.0);
    // Relaxed: a handle is given again only to who has heard that it was freed.
    let generation = GENERATION.load(Ordering::Relaxed);
    let last = LAST.get();
    let kept = if last.comm == number && last.generation == generation {
        last.kept
    } else {
        let kept = find(comm)?;
        LAST.set(Last { generation, comm: number, kept });
        kept
    };
    // SAFETY: an attribute of the communicator owns it; the generation says that it was not deleted, and no program
    // may free a communicator during a call.
    Some(body(unsafe { &*kept }))
}

#[cold]
fn known<A: Family>(comm: Comm<A>) -> Option<*const Kept> {
    let (stock, keys) = ready(comm)?;
    stock.attribute(comm, keys.kept).map(|kept| kept.cast_const().cast())
}

/// What attributes are looked for by, where `comm` can have one at this time.
fn ready<A: Family>(comm: Comm<A>) -> Option<(&'static Stock<A>, &'static Keys)> {
    // Relaxed: at its end, a program has but one thread that calls MPI.
    if IS_FORMING.get() || HAS_ENDED.load(Ordering::Relaxed) {
        return None;
    }
    let stock = stock::<A>()?;
    if comm.0 == stock.communicators.null.0 || !stock.mpi.is_active() {
        return None;
    }
    Some((stock, keys(stock)?))
}

#[cold]
fn find<A: Family>(comm: Comm<A>) -> Option<*const Kept> {
    let (stock, keys) = ready(comm)?;
    if let Some(kept) = stock.attribute(comm, keys.kept) {
        return Some(kept.cast_const().cast());
    }
    let kept = Arc::new(Kept::new());
    let value = Arc::into_raw(Arc::clone(&kept));
    if !stock.set_attribute(comm, keys.kept, value.cast_mut().cast()) {
        // SAFETY: MPI did not take it; it came from an Arc just now. It is no communicator, which MPI will say.
        drop(unsafe { Arc::from_raw(value) });
        return None;
    }
    IS_FORMING.set(true);
    let formed = forming::form(stock, comm);
    IS_FORMING.set(false);
    if let Some(mut formed) = formed {
        stock.testing.start(stock);
        formed.group.do_meanwhile(crate::progress::advance::<A>);
        kept.fill(formed);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.strong_count() > 0);
        all.push(Arc::downgrade(&kept));
    }
    Some(value)
}

/// MPI's own functions. Where they cannot be used, that is said once.
pub(crate) fn stock<A: Family>() -> Option<&'static Stock<A>> {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    Stock::get().map_err(|failure| tell_once(&IS_TOLD, &failure)).ok()
}

fn keys<A: Family>(stock: &'static Stock<A>) -> Option<&'static Keys> {
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(keys) = stock.keys.get() {
        return Some(keys);
    }
    let _turn = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keys) = stock.keys.get() {
        return Some(keys);
    }
    let made = stock.attribute_key(goes::<A>).and_then(|kept| {
        let end = stock.attribute_key(end::<A>)?;
        stock.set_attribute(stock.communicators.own, end, std::ptr::null_mut());
        Ok(Keys { kept, end })
    });
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let keys = made.map_err(|failure| tell_once(&IS_TOLD, &failure)).ok()?;
    stock.begin_packing();
    Some(stock.keys.get_or_init(|| keys))
}

fn tell_once(is_told: &AtomicBool, failure: &Failure) {
    logging::start();
    // Relaxed: it decides who tells, and orders nothing.
    if !is_told.swap(true, Ordering::Relaxed) {
        tracing::warn!("MPI's own collectives are used: {failure}");
    }
}

/// The communicator goes.
unsafe extern "C" fn goes<A: Family>(_: Comm<A>, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    // Relaxed: see `with`.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `find` stored an Arc's pointer, and MPI calls this once for each.
    drop(unsafe { Arc::from_raw(value.cast::<Kept>().cast_const()) });
    SUCCESS
}

/// MPI is being finalized.
unsafe extern "C" fn end<A: Family>(_: Comm<A>, key: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    let Some(stock) = stock::<A>() else { return SUCCESS };
    if stock.keys.get().is_none_or(|keys| keys.end != key) || HAS_ENDED.swap(true, Ordering::Relaxed) {
        return SUCCESS;
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    all.iter().filter_map(Weak::upgrade).for_each(|kept| kept.empty());
    let rank = stock.mpi.rank(stock.communicators.world);
    if rank == 0 {
        counting::tell(rank);
    }
    // Others may still wait for this process's part in what MPI does.
    jobs::finish(|| stock.testing.test(stock));
    stock.testing.end(stock);
    stock.end_packing();
    SUCCESS
}
