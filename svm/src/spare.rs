//! Spare segments: storage of removed files, cleared, and kept for new ones.
//!
//! Memory that was in use a moment ago is worth keeping. The kernel takes a page at a time to find new memory, and a
//! virtual machine's host may have to be asked for it first; to clear what is there takes a fraction of that, and less
//! than to free it. So a program that removes one checkpoint before it writes the next one gets the same pages again.
//!
//! Spares lie in `spare/` of a store in memory, each named by its size and by what it was. All of their bytes are zero,
//! and nearly all have storage, so that a spare becomes a new segment by being renamed (`take`). They belong to nobody
//! in particular: any process that takes part (`take_part`) puts some there and takes some.
//!
//! Nobody is to miss the memory:
//!
//! * There are never more of them than `SVMIO_SPARE` says, and than an eighth of what would be free without them: on the
//!   file system, of the machine's memory, and within the limits of control groups.
//! * Before a file system counts as full, all are given back (`give_back`).
//! * Who takes part holds a shared lock on the directory. The last one to [`leave`] removes them; where it was
//!   killed, whoever opens the store next does (`sweep`).

mod room;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::mapping_cache;
use crate::segment::{self, Inode, Segment};
use crate::units::{SegmentIndex, bytes_of};

/// Where they lie in a store.
pub(crate) const DIRECTORY: &str = "spare";
/// How the names of those begin that somebody is removing.
const GOING: &str = "going-";
/// Of a segment's bytes, all but this part (one in so many) have to have storage.
const HOLES: u64 = 8;
/// They take at most this part (one in so many) of what would be free without them.
const SHARE: u64 = 8;

/// The spares of a store.
struct Spares {
    store: PathBuf,
    directory: OwnedFd,
    /// Of the file system.
    device: u64,
    /// Whether this process puts some there and takes some.
    takes_part: AtomicBool,
}

/// Has this process keep storage of files that it removes from a store, and take what is kept. Where that cannot be, as
/// on a disk, nothing comes of it.
pub(crate) fn take_part(store: &Path) {
    if limit() == 0 || of(store).is_some_and(|spares| spares.takes_part.load(Ordering::Relaxed)) {
        return;
    }
    let joined = || -> io::Result<()> {
        if !segment::is_in_memory(&File::open(store)?)? {
            return Ok(());
        }
        match std::fs::DirBuilder::new().mode(0o700).create(store.join(DIRECTORY)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let spares = Spares::open(store)?;
        // Whoever holds another one only removes what is there.
        rustix::fs::flock(&spares.directory, FlockOperation::LockShared)?;
        spares.takes_part.store(true, Ordering::Relaxed);
        let mut known = known();
        known.retain(|other| other.store != store);
        known.push(Arc::new(spares));
        Ok(())
    };
    if let Err(e) = joined() {
        tracing::debug!("no storage of removed files is kept in {}: {e}", store.display());
    }
}

/// Removes the spares of those who were killed, where a store is opened.
pub(crate) fn sweep(store: &Path) {
    // Most often there is no such directory.
    let Ok(spares) = Spares::open(store) else { return };
    spares.remove_if_alone();
    let mut known = known();
    if known.iter().all(|other| other.store != store) {
        known.push(Arc::new(spares));
    }
}

/// Takes part no more, in any store: the last one to do so removes all spares. Processes that end otherwise leave that
/// to others.
pub fn leave() {
    for spares in std::mem::take(&mut *known()) {
        if spares.takes_part.load(Ordering::Relaxed) {
            spares.remove_if_alone();
        }
    }
}

/// Keeps the storage of the segment at `path`, `index` of the file that `of_file` names, which was removed from `store`
/// and which nobody has open. False where it is not kept, and is there still.
pub(crate) fn keep(store: &Path, path: &Path, of_file: &str, index: SegmentIndex) -> io::Result<bool> {
    let Some(spares) = taking_part(store) else { return Ok(false) };
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let metadata = file.metadata()?;
    let bytes = metadata.len();
    if metadata.blocks() * 512 < bytes - bytes / HOLES || !spares.has_room_for(bytes)? {
        return Ok(false);
    }
    match mapping_cache::of(Inode::of(&metadata)) {
        Some(segment) => segment.clear()?,
        None => Segment::map(index, file, bytes, true)?.clear()?,
    }
    let name = format!("{bytes}-{of_file}-{}", index.0);
    rustix::fs::renameat(rustix::fs::CWD, path, &spares.directory, name)?;
    Ok(true)
}

/// Makes a new segment of `bytes` bytes of a spare one, under `name` in `directory`, which is in `store`. False where
/// there is none; true also where somebody else has made the segment.
pub(crate) fn take(store: &Path, bytes: u64, directory: BorrowedFd<'_>, name: &str) -> bool {
    let Some(spares) = taking_part(store) else { return false };
    let beginning = format!("{bytes}-");
    let Ok(names) = spares.names() else { return false };
    for spare in names.iter().filter(|spare| spare.starts_with(&beginning)) {
        let (from, flags) = (spares.directory.as_fd(), RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(from, spare.as_str(), directory, name, flags) {
            Ok(()) | Err(Errno::EXIST) => return true,
            // Another process was faster.
            Err(Errno::NOENT) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Does what takes storage of the file system of `file`: twice where that was full, and spares were given back then.
pub(crate) fn with_room<T>(file: &File, mut take: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match take() {
        Err(e) if e.kind() == io::ErrorKind::StorageFull && give_back(file) => take(),
        taken => taken,
    }
}

/// Gives `range` of `file` storage; bytes that had none are zero.
pub(crate) fn reserve(file: &File, range: Range<u64>) -> io::Result<()> {
    let length = range.end - range.start;
    with_room(file, || Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, length)?))
}

/// Gives all spares back that lie on the file system of `file`, which is full. False where there were none.
pub(crate) fn give_back(file: &File) -> bool {
    let Ok(device) = file.metadata().map(|metadata| metadata.dev()) else { return false };
    let known: Vec<_> = known().iter().filter(|spares| spares.device == device).cloned().collect();
    let given = known.iter().map(|spares| spares.remove_all(false));
    given.fold(false, |any, given| any | given.is_ok_and(|given| given))
}

impl Spares {
    fn open(store: &Path) -> io::Result<Spares> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(store.join(DIRECTORY), flags, Mode::empty())?;
        let device = rustix::fs::fstat(&directory)?.st_dev;
        Ok(Spares { store: store.into(), directory, device, takes_part: AtomicBool::new(false) })
    }

    /// Whether a spare of so many bytes would be one too many.
    fn has_room_for(&self, bytes: u64) -> io::Result<bool> {
        let size = |name: &String| name.split('-').next()?.parse::<u64>().ok();
        let kept: u64 = self.names()?.iter().filter_map(size).sum();
        let fs = rustix::fs::fstatvfs(&self.directory)?;
        // What it has is not free yet.
        let free = (fs.f_bavail * fs.f_frsize).min(room::available()) + kept + bytes;
        Ok(kept + bytes <= limit().min(free / SHARE))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// Removes all if nobody else takes part; this process does not any more then.
    fn remove_if_alone(&self) {
        let is_alone = rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_alone && let Err(e) = self.remove_all(true) {
            tracing::warn!("spare segments stay in {}: {e}", self.store.display());
        }
        let _ = rustix::fs::flock(&self.directory, FlockOperation::Unlock);
    }

    /// Removes all, also what others were about to remove when they were killed if this process `is_alone`. Says
    /// whether there were any.
    fn remove_all(&self, is_alone: bool) -> io::Result<bool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut any = false;
        for name in self.names()? {
            if name.starts_with(GOING) {
                if is_alone {
                    rustix::fs::unlinkat(&self.directory, name.as_str(), AtFlags::empty())?;
                }
                continue;
            }
            // Nobody takes it from here on. Relaxed: numbers are to be different.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let going = format!("{GOING}{}-{number}", std::process::id());
            match rustix::fs::renameat(&self.directory, name.as_str(), &self.directory, going.as_str()) {
                Err(Errno::NOENT) => continue,
                renamed => renamed?,
            }
            any = true;
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&self.directory, going.as_str(), flags, Mode::empty())?);
            rustix::fs::unlinkat(&self.directory, going.as_str(), AtFlags::empty())?;
            // Free at once, also where a process has what it was before still mapped in its cache.
            segment::punch(&file, 0..file.metadata()?.len())?;
        }
        Ok(any)
    }
}

fn of(store: &Path) -> Option<Arc<Spares>> {
    known().iter().find(|spares| spares.store == store).cloned()
}

fn taking_part(store: &Path) -> Option<Arc<Spares>> {
    // Relaxed: it says nothing of other memory.
    of(store).filter(|spares| spares.takes_part.load(Ordering::Relaxed))
}

/// Those of the stores that this process has opened.
fn known() -> MutexGuard<'static, Vec<Arc<Spares>>> {
    static KNOWN: Mutex<Vec<Arc<Spares>>> = Mutex::new(Vec::new());
    // Changed by single operations that do not panic half-way.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `SVMIO_SPARE` says, bytes.
fn limit() -> u64 {
    const VARIABLE: &str = "SVMIO_SPARE";
    const DEFAULT: u64 = 1 << 30;
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return DEFAULT };
        text.to_str().and_then(bytes_of).unwrap_or_else(|| {
            let text = text.display();
            tracing::warn!("{VARIABLE}={text} is no size like 256M, 1G, or 0: it is {DEFAULT} bytes");
            DEFAULT
        })
    })
}
