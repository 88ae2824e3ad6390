//! What the device keeps of each open file: `fs_ptr` of ROMIO's structure.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use svmio_svm::{File, FileOffset, LockMode, RangeLock};

use crate::abi::Abi;
use crate::failure::{ErrorClass, Failure};
use crate::layout::RomioFile;
use crate::placement::Rule;
use crate::venue::{Company, Venue};

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
    pub(crate) rank: c_int,
    /// Where the file lives.
    pub(crate) venue: Venue,
    /// Where new segments go.
    pub(crate) rule: Rule,
    /// Whether a hint told how large segments should be.
    pub(crate) has_given_segment_size: bool,
    /// Bytes that were read or written, ever.
    moved: AtomicU64,
    locks: Mutex<Vec<Held>>,
}

/// A lock that a thread holds. `lock` is empty where another one of that thread covers it.
struct Held {
    thread: ThreadId,
    range: Range<u64>,
    mode: LockMode,
    lock: Option<RangeLock>,
}

impl Handle {
    pub(crate) fn new(file: File, role: Role, rank: c_int, venue: Venue, rule: Rule) -> Handle {
        let (moved, locks) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        Handle { file, role, rank, venue, rule, has_given_segment_size: false, moved, locks }
    }

    /// The ranks of the file, where it is shared by several nodes.
    pub(crate) fn company(&self) -> Option<&Company> {
        self.venue.company().filter(|_| self.file.is_shared_by_nodes())
    }

    /// `failure` with the rank, and the node where there are several.
    pub(crate) fn located(&self, failure: Failure) -> Failure {
        match self.company() {
            Some(company) => failure.on_node(self.rank, company.own_node()),
            None => failure.on_rank(self.rank),
        }
    }

    /// Counts bytes that were read or written.
    pub(crate) fn add_moved(&self, bytes: u64) {
        // Relaxed: ROMIO lets one thread at a time into a file.
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes were read or written, ever.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Locks `range` for this thread, until [`Handle::unlock`] with the same range. What the thread holds
    /// already it need not wait for.
    pub(crate) fn lock(&self, range: Range<u64>, mode: LockMode) -> Result<(), Failure> {
        let thread = thread::current().id();
        let covered = self.locks().iter().any(|held| held.covers(thread, &range, mode));
        let lock = match covered {
            true => None,
            // Not under the mutex: another thread of this process may have to unlock meanwhile.
            false => Some(self.file.lock(FileOffset(range.start)..FileOffset(range.end), mode)?),
        };
        self.locks().push(Held { thread, range, mode, lock });
        Ok(())
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

    /// Unlocks everything that this thread still holds beyond its first `depth` locks: ROMIO's functions
    /// keep theirs when they return with an error.
    pub(crate) fn unlock_beyond(&self, depth: usize) -> Result<(), Failure> {
        let thread = thread::current().id();
        let mut seen = 0;
        let mut gone = Vec::new();
        let mut locks = self.locks();
        let mut position = 0;
        while position < locks.len() {
            if locks[position].thread == thread {
                seen += 1;
                if seen > depth {
                    gone.push(locks.remove(position));
                    continue;
                }
            }
            position += 1;
        }
        drop(locks);
        // All of them, whatever becomes of the first.
        let mut outcome = Ok(());
        for held in gone {
            let released = self.release(held);
            outcome = outcome.and(released);
        }
        outcome
    }

    /// How many locks this thread holds.
    pub(crate) fn lock_depth(&self) -> usize {
        let thread = thread::current().id();
        self.locks().iter().filter(|held| held.thread == thread).count()
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
    // SAFETY: only `attach` stores here, a box that `detach` releases; ROMIO calls nothing after Close.
    Ok(unsafe { &*fd.fs_ptr.cast::<Handle>() })
}

/// Gives a file its handle.
pub(crate) fn attach<A: Abi>(fd: &mut RomioFile<A>, handle: Handle) {
    fd.fs_ptr = Box::into_raw(Box::new(handle)).cast();
}

/// Takes a file's handle away, if it has one.
pub(crate) fn detach<A: Abi>(fd: &mut RomioFile<A>) -> Option<Box<Handle>> {
    let handle = std::mem::replace(&mut fd.fs_ptr, std::ptr::null_mut()).cast::<Handle>();
    // SAFETY: see `of`.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
