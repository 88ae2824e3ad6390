//! The group of a communicator, as an attribute of it: so it goes when the communicator is freed, however soon its
//! handle is given again.
//!
//! It is formed when the communicator has had [so many](crate::trial) collectives: each member counts its calls, before
//! it looks at their arguments, and all call the same ones in the same order.
//!
//! The ones of the last calls are remembered in a table of the process, which is enough for most calls: a thread's own
//! memory of them takes longer to find, above all where ranks take turns on a core. All others are found by the number
//! of their communicator. MPI is asked only of communicators of which nothing is kept: it takes several calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use svmio_adio::Failure;
use svmio_adio::abi::{Comm, SUCCESS};

use crate::family::Family;
use crate::forming::Formed;
use crate::group::Group;
use crate::room::Place;
use crate::setting::{Collective, Collectives};
use crate::stock::Stock;
use crate::{component, counting, forming, jobs, trial};

/// What is kept of a communicator. Its memory is never given back: that of a communicator that is gone is another one's
/// later, so that whoever remembers it may look whose it is.
pub(crate) struct Kept {
    /// The communicator's number, or [`NOBODY`].
    comm: AtomicU64,
    /// How many collectives MPI does before there may be a group, or [`DECIDED`].
    due: AtomicU32,
    /// Which collectives MPI does.
    left: AtomicU64,
    /// Of those that do not block also those of less data than that, in bytes.
    least: AtomicUsize,
    seat: Mutex<Seat>,
}

/// This process in a communicator's group.
pub(crate) enum Seat {
    /// It is a member, by this place of its process.
    Taken(Group, Place),
    /// It was, until this.
    Failed(Failure),
    /// There is none.
    Empty,
}

impl Kept {
    fn new() -> Self {
        Self {
            comm: AtomicU64::new(NOBODY),
            due: AtomicU32::new(DECIDED),
            left: AtomicU64::new(u64::MAX),
            least: AtomicUsize::new(0),
            seat: Mutex::new(Seat::Empty),
        }
    }

    /// Whether it is still to be decided whether there is a group.
    #[inline]
    fn is_young(&self) -> bool {
        // Relaxed: it changes in collectives of the communicator, of which a process has one at a time.
        self.due.load(Ordering::Relaxed) != DECIDED
    }

    /// Counts a collective that is about to be done while [this is young](Self::is_young); whether a group is to be
    /// formed before.
    fn is_due(&self, way: Way) -> bool {
        // Relaxed: as above.
        match (self.due.load(Ordering::Relaxed), way) {
            (0, Way::Waiting) => {
                self.due.store(DECIDED, Ordering::Relaxed);
                true
            }
            (0, Way::Begun) => false,
            (due, _) => {
                self.due.store(due - 1, Ordering::Relaxed);
                false
            }
        }
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

    fn fill(&self, Formed { group, place, left, begun }: Formed) {
        *self.seat() = Seat::Taken(group, place);
        // Relaxed: as above.
        self.least.store(begun.least(), Ordering::Relaxed);
        self.left.store(left.0, Ordering::Relaxed);
    }

    fn empty(&self) {
        // Relaxed: as above.
        self.due.store(DECIDED, Ordering::Relaxed);
        self.left.store(u64::MAX, Ordering::Relaxed);
        *self.seat() = Seat::Empty;
    }
}

/// How a collective is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It blocks: a group may be formed, with all members.
    Waiting,
    /// It does not, and forming a group would have to wait for the others.
    Begun,
}

/// The keys of attributes.
pub(crate) struct Keys {
    /// Of communicators with what is kept of them.
    kept: c_int,
    /// Of `MPI_COMM_SELF`, unless the adapter hears of the end of MPI by itself.
    end: Option<c_int>,
}

/// In place of a communicator's number. What is kept of nobody leaves everything to MPI, so that it does no harm should
/// a program have such a handle.
const NOBODY: u64 = u64::MAX;

/// In place of how many collectives MPI does before.
const DECIDED: u32 = u32::MAX;

/// Whether `MPI_Finalize` was called.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// All that is kept.
static ALL: Mutex<All> = Mutex::new(All { by_number: BTreeMap::new(), nobodys: Vec::new() });

struct All {
    /// Of the communicators of these numbers. Each has the attribute, and is here as long as that: it goes with the
    /// communicator, before the handle is given again.
    by_number: BTreeMap<u64, &'static Kept>,
    /// Of those that are gone.
    nobodys: Vec<&'static Kept>,
}

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many communicators are remembered.
const REMEMBERED: usize = 8;

/// Those of the last calls, by number: null, or of [`ALL`].
static LAST: [AtomicPtr<Kept>; REMEMBERED] = [const { AtomicPtr::new(std::ptr::null_mut()) }; REMEMBERED];

thread_local! {
    /// Whether this thread is forming a group, in the course of which MPI may ask for collectives.
    static IS_FORMING: Cell<bool> = const { Cell::new(false) };

    /// The innermost communicator that this thread has MPI free, or null.
    static FREED: Cell<*const Freed> = const { Cell::new(std::ptr::null()) };
}

/// A communicator that MPI is about to free, and the one in the course of whose freeing it does.
struct Freed {
    number: u64,
    outer: *const Freed,
}

impl Freed {
    /// Whether this thread has MPI free the communicator of that number.
    fn has(number: u64) -> bool {
        let mut next = FREED.get();
        // SAFETY: null, or one of a call of `freeing` that this thread is in.
        while let Some(freed) = unsafe { next.as_ref() } {
            if freed.number == number {
                return true;
            }
            next = freed.outer;
        }
        false
    }
}

/// Has MPI free `comm` by `body`. Attributes that the program has of it may do collectives when they go; when what is
/// kept of it is gone, these are MPI's: an attribute that it is given then may stay for ever, and what is kept by it
/// would be the next communicator's of this handle.
pub(crate) fn freeing<A: Family, R>(comm: Comm<A>, body: impl FnOnce() -> R) -> R {
    let freed = Freed { number: A::number(comm.0), outer: FREED.get() };
    FREED.set(&raw const freed);
    let outcome = body();
    FREED.set(freed.outer);
    outcome
}

/// Gives `body` what is kept of `comm`, of which a collective is called in that way; its group is formed now where it is
/// time, with all members. `None` where svmio has no business.
#[inline]
pub(crate) fn with<A: Family, R>(comm: Comm<A>, way: Way, body: impl FnOnce(&Kept) -> R) -> Option<R> {
    let number = A::number(comm.0);
    // Handles are numbers in a row, or addresses of objects that are longer than what is cut off.
    let last = &LAST[(number ^ number >> 8) as usize % REMEMBERED];
    // Acquire: pairs with the Release below; who finds it there finds it whole.
    // SAFETY: what is stored there is null, or a reference that lives for ever.
    let remembered = unsafe { last.load(Ordering::Acquire).as_ref() };
    let kept = match remembered {
        // Relaxed: a handle is given again only to who has heard that it was freed, and no program may free a
        // communicator during a call.
        Some(kept) if kept.comm.load(Ordering::Relaxed) == number => kept,
        _ => {
            let kept = find::<A>(comm)?;
            // Release: see above.
            last.store(std::ptr::from_ref(kept).cast_mut(), Ordering::Release);
            kept
        }
    };
    if kept.is_young() && !IS_FORMING.get() && kept.is_due(way) {
        form(kept, comm);
    }
    Some(body(kept))
}

/// One that is nobody's, for the communicator of that number, of which MPI does so many collectives before there may be
/// a group.
fn keep(number: u64, due: u32) -> &'static Kept {
    let mut all = all();
    let kept = all.nobodys.pop().unwrap_or_else(|| Box::leak(Box::new(Kept::new())));
    all.by_number.insert(number, kept);
    // Relaxed: under the lock, as is what `give_back` does.
    kept.due.store(due.min(DECIDED - 1), Ordering::Relaxed);
    kept.comm.store(number, Ordering::Relaxed);
    kept
}

/// Its communicator is gone.
fn give_back(kept: &'static Kept) {
    kept.empty();
    let mut all = all();
    let number = kept.comm.swap(NOBODY, Ordering::Relaxed);
    all.by_number.remove(&number);
    all.nobodys.push(kept);
}

/// The communicator of that handle is gone, whatever has become of its attributes.
pub(crate) fn is_gone<A: Family>(comm: Comm<A>) {
    let kept = all().by_number.get(&A::number(comm.0)).copied();
    if let Some(kept) = kept {
        give_back(kept);
    }
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
fn find<A: Family>(comm: Comm<A>) -> Option<&'static Kept> {
    let number = A::number(comm.0);
    let known = all().by_number.get(&number).copied();
    if known.is_some() || Freed::has(number) {
        return known;
    }
    let (stock, keys) = ready(comm)?;
    let asked = || stock.attribute(comm, keys.kept);
    // Where it is no communicator, MPI will say so; a component is called only where it is one.
    let attribute = if component::is_there() { asked() } else { stock.quietly(asked) };
    if let Some(kept) = attribute.ok()? {
        // SAFETY: attributes of this key are references that live for ever: this function alone stores them.
        return Some(unsafe { &*kept.cast_const().cast::<Kept>() });
    }
    // All programs use that of all processes, and what it costs is over before they begin.
    let due = if comm.0 == stock.communicators.world.0 { 0 } else { trial::length() };
    let kept = keep(number, due);
    if !stock.set_attribute(comm, keys.kept, std::ptr::from_ref(kept).cast_mut().cast()) {
        give_back(kept);
        return None;
    }
    Some(kept)
}

/// Forms the group of `comm`, with all members.
#[cold]
fn form<A: Family>(kept: &Kept, comm: Comm<A>) {
    let Some(stock) = A::stock().get() else { return };
    IS_FORMING.set(true);
    let formed = forming::form(stock, comm);
    IS_FORMING.set(false);
    if let Some(mut formed) = formed {
        stock.testing.start(stock);
        formed.group.do_meanwhile(crate::progress::advance::<A>);
        kept.fill(formed);
    }
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
        if component::hears_of_end() {
            return Ok(Keys { kept, end: None });
        }
        let end = stock.attribute_key(is_finalized::<A>)?;
        stock.set_attribute(stock.communicators.own, end, std::ptr::null_mut());
        Ok(Keys { kept, end: Some(end) })
    });
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let keys = made.map_err(|failure| tell_once(&IS_TOLD, &failure)).ok()?;
    stock.begin_packing();
    stock.learn_kinds();
    Some(stock.keys.get_or_init(|| keys))
}

fn tell_once(is_told: &AtomicBool, failure: &Failure) {
    svmio_logging::start();
    // Relaxed: it decides who tells, and orders nothing.
    if !is_told.swap(true, Ordering::Relaxed) {
        tracing::warn!("MPI's own collectives are used: {failure}");
    }
}

/// The communicator goes.
unsafe extern "C" fn goes<A: Family>(_: Comm<A>, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: `find` alone stores such attributes.
    give_back(unsafe { &*value.cast_const().cast::<Kept>() });
    SUCCESS
}

/// MPI is being finalized.
unsafe extern "C" fn is_finalized<A: Family>(
    _: Comm<A>,
    key: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if A::stock().get().and_then(|stock| stock.keys.get()).is_some_and(|keys| keys.end == Some(key)) {
        end::<A>();
    }
    SUCCESS
}

/// Ends all groups. To be called when MPI is being finalized, and attributes that the program has of `MPI_COMM_SELF`,
/// which may do collectives when they go, are gone: this waits for the other processes.
pub(crate) fn end<A: Family>() {
    let Some(stock) = A::stock().get().filter(|stock| stock.keys.get().is_some()) else { return };
    if HAS_ENDED.swap(true, Ordering::Relaxed) {
        return;
    }
    let kept: Vec<&Kept> = all().by_number.values().copied().collect();
    kept.iter().for_each(|kept| kept.empty());
    let rank = stock.mpi.rank(stock.communicators.world);
    if rank == 0 {
        counting::tell(rank);
    }
    // Others may still wait for this process's part in what MPI does.
    jobs::finish(|| stock.testing.test(stock));
    stock.testing.end(stock);
    stock.end_packing();
}
