//! Spare segments: storage of removed files, cleared, and kept for new ones.
//!
//! Memory that was in use a moment ago is worth keeping. The kernel takes a page at a time to find new memory, and a
//! virtual machine's host may have to be asked for it first; to clear what is there takes a fraction of that, and
//! about as long as to free it. So a program that removes one checkpoint before it writes the next one gets the same
//! pages again.
//!
//! Spares lie in `spare/` of a store in memory, each named by its size and by what it was. All of their bytes are zero,
//! and nearly all have storage, so that a spare becomes a new segment by being renamed (`take`). They belong to nobody
//! in particular: any process that takes part (`take_part`) puts some there and takes some.
//!
//! Nobody is to miss the memory:
//!
//! * They take no more than `SVMIO_SPARE` says, and than an eighth of what would be free without them: on the file
//!   system, of the machine's memory, and within the limits of control groups.
//! * Before a file system counts as full, all are given back (`give_back`), but what is just being cleared.
//! * Who takes part holds a shared lock on the directory. The last one to [`leave`] removes them; where it was
//!   killed, whoever opens the store next does (`sweep`).

mod keeping;
mod room;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use svmio_transport::settings::byte_size;

use crate::segment;

pub(crate) use keeping::Keeping;

/// Where they lie in a store.
pub(crate) const DIRECTORY: &str = "spare";
/// How the names of those begin that somebody is removing.
const GOING: &str = "going-";
/// How the names of those begin that somebody is clearing, and holds a lock on meanwhile. Nobody takes them, or takes
/// their storage away.
const COMING: &str = "coming-";

/// A store that this process has opened.
struct Known {
    store: PathBuf,
    /// Of its file system.
    device: u64,
    part: Part,
}

/// Whether this process puts spares into a store and takes some.
#[derive(Clone)]
enum Part {
    /// Not so far.
    None,
    /// It cannot: there can be none.
    Refused,
    Taken(Arc<Spares>),
}

/// The spares of a store.
struct Spares {
    directory: OwnedFd,
    listed: Mutex<Listed>,
}

/// What was found in the directory.
struct Listed {
    /// Those that nobody is known to have taken since.
    names: Vec<String>,
    at: Option<Instant>,
}

/// Has this process keep storage of files that it removes from a store, and take what is kept. Where that cannot be, as
/// on a disk, nothing comes of it.
pub(crate) fn take_part(store: &Path) {
    if limit() == 0 || !matches!(part_in(store), Part::None) {
        return;
    }
    let joined = || -> io::Result<Part> {
        if !segment::is_in_memory(&File::open(store)?)? {
            return Ok(Part::Refused);
        }
        match std::fs::DirBuilder::new().mode(0o700).create(store.join(DIRECTORY)) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let spares = Spares::open(store)?;
        // Whoever holds another one is removing what is there.
        Ok(if spares.lock(FlockOperation::NonBlockingLockShared) {
            Part::Taken(Arc::new(spares))
        } else {
            Part::None
        })
    };
    let part = joined().unwrap_or_else(|e| {
        tracing::debug!("no storage of removed files is kept in {}: {e}", store.display());
        Part::Refused
    });
    note(store, part);
}

/// Removes the spares of those who were killed, where a store is opened.
pub(crate) fn sweep(store: &Path) {
    // Most often there is no such directory, or nothing in it.
    if let Ok(spares) = Spares::open(store)
        && spares.names().is_ok_and(|names| !names.is_empty())
    {
        spares.remove_if_alone(store);
    }
    if matches!(part_in(store), Part::None) {
        note(store, Part::None);
    }
}

/// Takes part no more, in any store: the last one to do so removes all spares. Processes that end otherwise leave that
/// to others.
pub fn leave() {
    let all = std::mem::take(&mut *known());
    for Known { store, part, .. } in all {
        if let Part::Taken(spares) = part {
            spares.remove_if_alone(&store);
        }
    }
}

/// Makes a new segment of `bytes` bytes of a spare one, under `name` in `directory`, which is in `store`. False where
/// there is none to be had, or where somebody else has made the segment, or is about to.
pub(crate) fn take(store: &Path, bytes: u64, directory: BorrowedFd<'_>, name: &str) -> bool {
    /// Where there was none of this size, there will be none for a while.
    const AWHILE: Duration = Duration::from_millis(1);
    let Part::Taken(spares) = part_in(store) else { return false };
    let beginning = format!("{bytes}-");
    let mut listed = spares.listed();
    loop {
        let Some(at) = listed.names.iter().position(|spare| spare.starts_with(&beginning)) else {
            if listed.at.is_some_and(|at| at.elapsed() < AWHILE) {
                return false;
            }
            let Ok(names) = spares.names() else { return false };
            *listed = Listed { names, at: Some(Instant::now()) };
            continue;
        };
        let (from, flags) = (spares.directory.as_fd(), RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(from, listed.names[at].as_str(), directory, name, flags) {
            Err(Errno::EXIST) => return false,
            renamed => {
                listed.names.swap_remove(at);
                match renamed {
                    Ok(()) => return true,
                    // Another process was faster.
                    Err(Errno::NOENT) => {}
                    Err(_) => return false,
                }
            }
        }
    }
}

/// Does what takes storage of the file system of `file`: again where that was full, and spares were given back then.
pub(crate) fn with_room<T>(file: &File, mut take: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match take() {
            Err(e) if is_full(&e) && give_back(file) => {}
            taken => return taken,
        }
    }
}

/// Whether an error says that there is no storage to be had.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Gives `range` of `file` storage; bytes that had none are zero.
pub(crate) fn reserve(file: &File, range: Range<u64>) -> io::Result<()> {
    with_room(file, || segment::give_storage(file, range.clone()))
}

/// Gives all spares back of the stores that this process knows on the file system of `file`, which is full. False where
/// there were none.
pub(crate) fn give_back(file: &File) -> bool {
    let Ok(device) = file.metadata().map(|metadata| metadata.dev()) else { return false };
    let on_it = |known: &&Known| known.device == device;
    let stores: Vec<PathBuf> = known().iter().filter(on_it).map(|known| known.store.clone()).collect();
    stores.iter().fold(false, |any, store| {
        // Where there is no such directory, there are none.
        let given = Spares::open(store).and_then(|spares| spares.remove_all());
        any | given.is_ok_and(|given| given > 0)
    })
}

impl Spares {
    fn open(store: &Path) -> io::Result<Spares> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(store.join(DIRECTORY), flags, Mode::empty())?;
        Ok(Spares { directory, listed: Mutex::new(Listed { names: Vec::new(), at: None }) })
    }

    /// Tries for a second to get a lock that others do not hold for long, unless they stand still.
    fn lock(&self, operation: FlockOperation) -> bool {
        const TRIES: u32 = 1000;
        (0..TRIES).any(|_| {
            let is_had = rustix::fs::flock(&self.directory, operation).is_ok();
            if !is_had {
                thread::sleep(Duration::from_millis(1));
            }
            is_had
        })
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        // A panic elsewhere leaves it whole.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn remove_if_alone(&self, store: &Path) {
        let is_alone = rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_alone && let Err(e) = self.remove_all() {
            tracing::warn!("spare segments stay in {}: {e}", store.display());
        }
        let _ = rustix::fs::flock(&self.directory, FlockOperation::Unlock);
    }

    /// Removes all that can be removed, also what others are about to remove: their storage is free on return. Says how
    /// many there were.
    fn remove_all(&self) -> io::Result<u64> {
        let (mut removed, mut failed) = (0, None);
        for name in self.names()?.into_iter().filter(|name| !self.is_being_cleared(name)) {
            match self.remove(&name) {
                Ok(was_there) => removed += u64::from(was_there),
                Err(e) => failed = Some(e),
            }
        }
        match failed {
            Some(e) if removed == 0 => Err(e),
            _ => Ok(removed),
        }
    }

    /// Whether somebody is clearing it, who may be another thread of this process. Who died did not come to the end of it.
    fn is_being_cleared(&self, name: &str) -> bool {
        let is_locked = || {
            // No segment is a link, or is waited for.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty());
            file.is_ok_and(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_err())
        };
        name.starts_with(COMING) && is_locked()
    }

    /// Removes one; false where it was gone.
    fn remove(&self, name: &str) -> io::Result<bool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut going = name.to_owned();
        if !name.starts_with(GOING) {
            // Nobody takes it from here on. Relaxed: numbers are to be different.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            going = format!("{GOING}{}-{number}", std::process::id());
            match rustix::fs::renameat(&self.directory, name, &self.directory, going.as_str()) {
                Err(Errno::NOENT) => return Ok(false),
                renamed => renamed?,
            }
        }
        // Free at once, also where a process has what it was before still mapped in its cache.
        match segment::empty(self.directory.as_fd(), Path::new(&going)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            emptied => emptied?,
        }
        match rustix::fs::unlinkat(&self.directory, going.as_str(), AtFlags::empty()) {
            Err(Errno::NOENT) => {}
            unlinked => unlinked?,
        }
        Ok(true)
    }
}

/// Bytes of the spare of that name; `None` where it is coming or going.
fn bytes_of_spare(name: &str) -> Option<u64> {
    name.split('-').next()?.parse().ok()
}

fn part_in(store: &Path) -> Part {
    known().iter().find(|known| known.store == store).map_or(Part::None, |known| known.part.clone())
}

fn note(store: &Path, part: Part) {
    let Ok(device) = std::fs::metadata(store).map(|metadata| metadata.dev()) else { return };
    let mut known = known();
    known.retain(|other| other.store != store);
    known.push(Known { store: store.into(), device, part });
}

/// The stores that this process has opened.
fn known() -> MutexGuard<'static, Vec<Known>> {
    static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
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
        text.to_str().and_then(byte_size).unwrap_or_else(|| {
            let text = text.display();
            tracing::warn!("{VARIABLE}={text} is no size like 256M, 1G, or 0: it is {DEFAULT} bytes");
            DEFAULT
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_cleared_is_only_removed_where_it_is_abandoned() {
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir(store.path().join(DIRECTORY)).unwrap();
        let names = ["4096-1-0", "coming-4096-1-1", "going-1-0"];
        for name in names {
            std::fs::write(store.path().join(DIRECTORY).join(name), [0; 4096]).unwrap();
        }
        let spares = Spares::open(store.path()).unwrap();
        assert_eq!(names.map(bytes_of_spare), [Some(4096), None, None]);
        let clearing = File::open(store.path().join(DIRECTORY).join(names[1])).unwrap();
        rustix::fs::flock(&clearing, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(spares.remove_all().unwrap(), 2);
        assert_eq!(spares.names().unwrap(), names[1..2]);
        // A process that another test starts has a copy of it from its fork to its exec, which would keep the lock.
        rustix::fs::flock(&clearing, FlockOperation::Unlock).unwrap();
        drop(clearing);
        assert_eq!(spares.remove_all().unwrap(), 1);
    }

    #[test]
    fn what_is_no_segment_goes_and_nothing_that_it_leads_to() {
        let store = tempfile::tempdir_in("/dev/shm").unwrap();
        let (spare, kept) = (store.path().join(DIRECTORY), store.path().join("kept"));
        std::fs::create_dir(&spare).unwrap();
        std::fs::write(&kept, "content").unwrap();
        for name in ["4096-1-0", "going-1-0", "coming-4096-1-1"] {
            std::os::unix::fs::symlink(&kept, spare.join(name)).unwrap();
        }
        std::fs::hard_link(&kept, spare.join("going-1-1")).unwrap();
        // Nobody ever opens the other ends of these.
        for name in ["going-1-2", "coming-4096-1-2"] {
            let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
            rustix::fs::mknodat(rustix::fs::CWD, spare.join(name), kind, mode, 0).unwrap();
        }
        sweep(store.path());
        assert_eq!(std::fs::read_dir(&spare).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "content");
    }
}
