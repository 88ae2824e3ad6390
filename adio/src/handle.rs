//! What the device keeps of each open file: `fs_ptr` of ROMIO's structure.

use std::any::Any;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use svmio_svm::team::Team;
use svmio_svm::{File, FileOffset, LockMode, RangeLock, SegmentIndex, SegmentSize};

use crate::abi::Abi;
use crate::background::UnderWay;
use crate::failure::{ErrorClass, Failure};
use crate::layout::RomioFile;
use crate::outcome::{Heading, Outcome, Unheard};
use crate::own_atomic_mode::WithoutRomios;
use crate::placement::Rule;
use crate::placing::Asking;
use crate::representation::{OfView, Representation};
use crate::split::Split;
use crate::turn::Turn;
use crate::venue::{Company, Venue};
use crate::visibility::Visibility;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Data of the user's.
    Data,
    /// Eight bytes in which ROMIO keeps another file's shared file pointer.
    SharedPointer,
}

/// An open file of the device's.
pub(crate) struct Handle {
    pub(crate) file: File,
    pub(crate) role: Role,
    /// All ranks that have it open.
    pub(crate) team: Arc<Team>,
    /// Where the file lives.
    pub(crate) venue: Venue,
    /// Where new segments go.
    pub(crate) rule: Rule,
    /// What collective accesses return.
    pub(crate) outcome: Outcome,
    /// When other nodes see what is written.
    pub(crate) visibility: Visibility,
    /// What failed here since all ranks heard of failures.
    pub(crate) unheard: Unheard,
    pub(crate) heading: Heading,
    /// Whether collective writes ask for the places of new segments together.
    pub(crate) asking: Asking,
    /// Whether a hint told how large segments should be.
    pub(crate) has_given_segment_size: bool,
    /// Whether ROMIO's structure may be kept when the file is closed, see [`crate::reopening`].
    pub(crate) may_be_kept: bool,
    /// Whether the file is in atomic mode.
    is_atomic: AtomicBool,
    /// How the view's data are represented.
    pub(crate) representation: OfView,
    /// The calls for which ROMIO does not hear of atomic mode.
    pub(crate) without_romios: WithoutRomios,
    /// The same for sequential mode.
    pub(crate) without_sequential: WithoutRomios,
    /// Whether hints were given since the file was opened.
    has_new_hints: AtomicBool,
    locks: Mutex<Vec<Held>>,
    /// Opening its shared pointer, which ROMIO lets several threads do at once: they would lock it by one handle and
    /// unlock it by another.
    pub(crate) opening_pointer: Turn,
    /// Accesses that go on in the background.
    pub(crate) under_way: Arc<UnderWay>,
    pub(crate) split: Split,
    /// The individual file pointer as it was set last, and to which byte of the view's data.
    pointer: Mutex<Option<(i64, i64)>>,
    /// ROMIO's copies of the view's types for which the program's own ones stand in, see [`crate::viewing`].
    pub(crate) replaced: Mutex<Option<Box<dyn Any + Send>>>,
    /// What came of closing it before ROMIO does, see [`crate::closing`].
    pub(crate) closed_ahead: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A lock that a thread holds. `lock` is empty where another one of that thread covers it.
struct Held {
    thread: ThreadId,
    range: Range<u64>,
    mode: LockMode,
    lock: Option<RangeLock>,
}

impl Handle {
    pub(crate) fn new(file: File, role: Role, team: Arc<Team>, venue: Venue, rule: Rule) -> Handle {
        let (has_given_segment_size, may_be_kept, has_new_hints) = (false, false, AtomicBool::new(false));
        let locks = Mutex::new(Vec::new());
        let under_way = Arc::default();
        Handle {
            file,
            role,
            team,
            venue,
            rule,
            outcome: Outcome::default(),
            visibility: Visibility::default(),
            unheard: Unheard::default(),
            heading: Heading::default(),
            asking: Asking::default(),
            has_given_segment_size,
            may_be_kept,
            is_atomic: AtomicBool::new(false),
            representation: OfView::new(Representation::Native),
            without_romios: WithoutRomios::default(),
            without_sequential: WithoutRomios::default(),
            has_new_hints,
            locks,
            opening_pointer: Turn::default(),
            under_way,
            split: Split::default(),
            pointer: Mutex::default(),
            replaced: Mutex::default(),
            closed_ahead: Mutex::default(),
        }
    }

    /// Notes where the individual file pointer is; `None` where that is not known any more.
    pub(crate) fn note_pointer(&self, pointer: Option<(i64, i64)>) {
        *self.pointer.lock().unwrap_or_else(PoisonError::into_inner) = pointer;
    }

    /// Where the individual file pointer was noted to be, which is not known any more then.
    pub(crate) fn take_pointer(&self) -> Option<(i64, i64)> {
        self.pointer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// To which byte of the view's data the individual file pointer `place` was set.
    pub(crate) fn position_of(&self, place: i64) -> Option<i64> {
        let pointer = *self.pointer.lock().unwrap_or_else(PoisonError::into_inner);
        pointer.filter(|(known, _)| *known == place).map(|(_, position)| position)
    }

    /// Sets the mode of accesses.
    pub(crate) fn set_atomic(&self, is_atomic: bool) {
        // Relaxed: all ranks set the mode together, when no access is under way.
        self.is_atomic.store(is_atomic, Ordering::Relaxed);
    }

    /// Whether the file is in atomic mode. ROMIO's structure does not always tell, see [`crate::own_atomic_mode`].
    #[inline]
    pub(crate) fn is_atomic(&self) -> bool {
        // Relaxed: as above.
        self.is_atomic.load(Ordering::Relaxed)
    }

    /// Whether the view's data are in `external32`.
    #[inline]
    pub(crate) fn is_external32(&self) -> bool {
        self.representation.get() == Representation::External32
    }

    /// Notes that hints were given for the open file.
    pub(crate) fn note_hints(&self) {
        // Relaxed: ROMIO lets one thread at a time into a file.
        self.has_new_hints.store(true, Ordering::Relaxed);
    }

    /// Whether it may be kept, and nothing was asked of it since that speaks against it.
    pub(crate) fn is_as_opened(&self) -> bool {
        let is_plain = self.may_be_kept && !self.has_new_hints.load(Ordering::Relaxed);
        let is_native = self.representation.get() == Representation::Native;
        is_plain && is_native && self.locks().is_empty() && !self.unheard.is_any()
    }

    /// The ranks of the file, where it is shared by several nodes.
    #[inline]
    pub(crate) fn company(&self) -> Option<&Arc<Company>> {
        self.venue.company().filter(|_| self.file.is_shared_by_nodes())
    }

    /// `failure` with the rank, and the node where there are several.
    pub(crate) fn located(&self, failure: Failure) -> Failure {
        match self.company() {
            Some(company) => failure.on_node(self.rank(), company.own_node()),
            None => failure.on_rank(self.rank()),
        }
    }

    /// This rank, among those that have the file open.
    pub(crate) fn rank(&self) -> c_int {
        self.team.member() as c_int
    }

    /// Locks `range` for this thread, until [`Handle::unlock`] with the same range. What the thread holds
    /// already it need not wait for.
    pub(crate) fn lock(&self, range: Range<u64>, mode: LockMode) -> Result<(), Failure> {
        let acquire = |range| Ok(self.file.lock(range, mode)?);
        self.hold(range, mode, acquire)
    }

    fn hold(
        &self,
        range: Range<u64>,
        mode: LockMode,
        acquire: impl FnOnce(Range<FileOffset>) -> Result<RangeLock, Failure>,
    ) -> Result<(), Failure> {
        let thread = thread::current().id();
        let covered = self.locks().iter().any(|held| held.covers(thread, &range, mode));
        let lock = match covered {
            true => None,
            // Not under the mutex: another thread of this process may have to unlock meanwhile.
            false => Some(acquire(FileOffset(range.start)..FileOffset(range.end))?),
        };
        self.locks().push(Held { thread, range, mode, lock });
        Ok(())
    }

    /// Runs `access` while this thread has `range` locked.
    pub(crate) fn locked<T>(
        &self,
        range: Range<u64>,
        mode: LockMode,
        access: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.lock(range.clone(), mode)?;
        self.unlocked_after(&range, access)
    }

    /// Runs `access`, which writes to the segments that `written` tells if they are of such a size, while this thread
    /// has `range` locked for that.
    pub(crate) fn locked_to_write<T>(
        &self,
        range: Range<u64>,
        written: &dyn Fn(SegmentSize) -> Vec<SegmentIndex>,
        access: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let acquire = |range| Ok(self.file.lock_to_write(range, written)?);
        self.hold(range.clone(), LockMode::Exclusive, acquire)?;
        self.unlocked_after(&range, access)
    }

    fn unlocked_after<T>(
        &self,
        range: &Range<u64>,
        access: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome = access();
        let unlocked = self.unlock(range);
        outcome.and_then(|value| unlocked.map(|()| value))
    }

    /// Undoes this thread's last [`Handle::lock`] of `range`. An error is that what was written under it is not where
    /// other nodes look for it.
    pub(crate) fn unlock(&self, range: &Range<u64>) -> Result<(), Failure> {
        let thread = thread::current().id();
        let mut locks = self.locks();
        let position = locks.iter().rposition(|held| held.thread == thread && held.range == *range);
        let held = position.map(|position| locks.remove(position));
        drop(locks);
        held.map_or(Ok(()), |held| self.release(held))
    }

    fn release(&self, held: Held) -> Result<(), Failure> {
        let Some(lock) = held.lock else { return Ok(()) };
        lock.release().map_err(|error| self.located(error.into()))
    }

    fn locks(&self) -> MutexGuard<'_, Vec<Held>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn covers(&self, thread: ThreadId, range: &Range<u64>, mode: LockMode) -> bool {
        self.thread == thread
            && self.lock.is_some()
            && self.range.start <= range.start
            && range.end <= self.range.end
            && (self.mode == LockMode::Exclusive || mode == LockMode::Shared)
    }
}

/// The handle of an open file.
pub(crate) fn of<A: Abi>(fd: &RomioFile<A>) -> Result<&Handle, Failure> {
    if fd.fs_ptr.is_null() {
        let message = format!("the file svm:{} is not open", fd.name().to_string_lossy());
        return Err(Failure::new(ErrorClass::BadFile, message));
    }
    // SAFETY: only `attach` stores here, an Arc's pointer that `detach` releases; ROMIO calls nothing after Close.
    Ok(unsafe { &*fd.fs_ptr.cast::<Handle>() })
}

/// The same for somebody who may still need it when the file is closed.
pub(crate) fn shared<A: Abi>(fd: &RomioFile<A>) -> Result<Arc<Handle>, Failure> {
    let handle: *const Handle = of(fd)?;
    // SAFETY: as in `of`; the file has one of the Arc's counts.
    Ok(unsafe {
        Arc::increment_strong_count(handle);
        Arc::from_raw(handle)
    })
}

/// Gives a file its handle.
pub(crate) fn attach<A: Abi>(fd: &mut RomioFile<A>, handle: Handle) {
    fd.fs_ptr = Arc::into_raw(Arc::new(handle)).cast_mut().cast();
}

/// Takes a file's handle away, if it has one.
pub(crate) fn detach<A: Abi>(fd: &mut RomioFile<A>) -> Option<Arc<Handle>> {
    let handle = std::mem::replace(&mut fd.fs_ptr, std::ptr::null_mut()).cast::<Handle>();
    // SAFETY: see `of`.
    (!handle.is_null()).then(|| unsafe { Arc::from_raw(handle) })
}
