//! Storage that is kept for manifests, so that what was written can be committed when the store is full by then.
//!
//! A commit puts a new manifest in place of the old one, and for a moment takes room for both. Where there is none, it
//! takes one of the files in `reserve/`, which have storage already, writes into that, and exchanges it with the old
//! manifest, which becomes the reserve ([`put`]). Nothing is freed in between: whoever fills the store does not get it,
//! however often files are committed. What is lost to a process that was killed with it, whoever opens the store next
//! makes anew ([`keep`]).
//!
//! So what was a manifest when it was opened may be written to later, as another file's: see
//! [`Manifest::read`](crate::Manifest).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::manifest::TEMPORARY_PREFIX;
use crate::segment;

/// Where it lies in a store.
const DIRECTORY: &str = "reserve";

/// How many may be taken at once.
const FILES: u32 = 2;

/// Bytes of each: a manifest with hundreds of runs of segments.
const BYTES: u64 = 64 << 10;

/// How long whoever finds that others have taken all of them waits for one: dozens that commit at once to a disk take
/// turns.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// Sees to it that the reserve of `store` is whole, where that has room and is this process's to write to.
pub(super) fn keep(store: &Path) {
    let kept = || {
        match fs::DirBuilder::new().mode(0o700).create(store.join(DIRECTORY)) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        (0..FILES).try_for_each(|number| fill(&place(store, number)))
    };
    if let Err(e) = kept() {
        tracing::debug!("{} keeps nothing for commits when it is full: {e}", store.display());
    }
}

/// Puts `bytes` in place of the file `name` in an object's `directory`, as far as somebody who looks for it sees; with
/// `is_synced`, what a power cut leaves is whole.
///
/// # Errors
/// [`ErrorKind::NotFound`] where there is no reserve; what the operating system says, also where it is too small. The
/// old file is then still in place, but where it is not certain that a power cut leaves the new one.
pub(crate) fn put(directory: &Path, name: &str, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    // `objects/IDENTITY`, or `deleted/IDENTITY`.
    let store = directory.ancestors().nth(2).ok_or(ErrorKind::NotFound)?;
    let (reserve, taken) = take(store, directory)?;
    let path = directory.join(name);
    let written = || {
        let file = File::options().write(true).open(&taken)?;
        file.write_all_at(bytes, 0)?;
        file.set_len(bytes.len() as u64)?;
        if is_synced { file.sync_all() } else { Ok(()) }
    };
    let exchanged = written().and_then(|()| exchange(&taken, &path));
    // Before a power cut might leave the old manifest in its place, it must not become another file's.
    let synced = match &exchanged {
        Ok(()) if is_synced => File::open(directory).and_then(|directory| directory.sync_all()),
        _ => Ok(()),
    };
    let given_back = match &synced {
        Ok(()) => fs::rename(&taken, &reserve),
        Err(_) => fs::remove_file(&taken),
    };
    let given_back = match given_back {
        // Where nothing is exchanged, it has become the file.
        Err(e) if e.kind() == ErrorKind::NotFound => fill(&reserve),
        given_back => given_back,
    };
    if let Err(e) = given_back {
        tracing::debug!("{} keeps less for commits when it is full: {e}", store.display());
        // It may be gone.
        let _ = fs::remove_file(&taken);
    }
    exchanged.and(synced)
}

/// Exchanges two files; where the file system cannot, the first takes the other's place.
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(new, old),
        exchanged => Ok(exchanged?),
    }
}

/// Takes one of the files, which from then on lies in `directory`: where it came from, and where it is.
fn take(store: &Path, directory: &Path) -> io::Result<(PathBuf, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: numbers are to be different.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let taken = directory.join(format!("{TEMPORARY_PREFIX}reserve-{}-{number}", std::process::id()));
    let since = Instant::now();
    loop {
        for reserve in (0..FILES).map(|number| place(store, number)) {
            match fs::rename(&reserve, &taken) {
                Ok(()) => return Ok((reserve, taken)),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        if since.elapsed() >= PATIENCE || !store.join(DIRECTORY).is_dir() {
            return Err(ErrorKind::NotFound.into());
        }
        thread::sleep(PAUSE);
    }
}

/// Has a file there, with storage for all of it. What is there is not changed: it may just be becoming a manifest.
fn fill(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == BYTES) {
        return Ok(());
    }
    let directory = path.parent().ok_or(ErrorKind::NotFound)?;
    let file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
    segment::give_storage(file.as_file(), 0..BYTES)?;
    file.persist(path)?;
    Ok(())
}

fn place(store: &Path, number: u32) -> PathBuf {
    store.join(DIRECTORY).join(number.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn object(store: &Path) -> PathBuf {
        let directory = store.join("objects/1");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("manifest"), "old").unwrap();
        directory
    }

    #[test]
    fn what_is_put_takes_the_place_of_the_old_file_which_becomes_the_reserve() {
        let store = tempfile::tempdir().unwrap();
        let directory = object(store.path());
        keep(store.path());
        let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
        let before = inode(directory.join("manifest"));
        put(&directory, "manifest", b"newer", true).unwrap();
        assert_eq!(fs::read(directory.join("manifest")).unwrap(), b"newer");
        assert_eq!(inode(place(store.path(), 0)), before);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        put(&directory, "manifest", b"new", false).unwrap();
        assert_eq!(fs::read(directory.join("manifest")).unwrap(), b"new");
        keep(store.path());
        assert!((0..FILES).all(|number| fs::metadata(place(store.path(), number)).unwrap().len() == BYTES));
    }

    #[test]
    fn without_a_reserve_everything_stays_as_it_is() {
        let store = tempfile::tempdir().unwrap();
        let directory = object(store.path());
        let error = put(&directory, "manifest", b"new", true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(fs::read(directory.join("manifest")).unwrap(), b"old");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn more_than_there_is_wait_for_one_another() {
        let store = tempfile::tempdir().unwrap();
        keep(store.path());
        let directory = object(store.path());
        thread::scope(|scope| {
            for thread in 0..4 {
                let directory = &directory;
                scope.spawn(move || {
                    let name = format!("file{thread}");
                    fs::write(directory.join(&name), "0").unwrap();
                    for round in 0..50 {
                        let bytes = format!("{thread} {round}");
                        put(directory, &name, bytes.as_bytes(), false).unwrap();
                        assert_eq!(fs::read_to_string(directory.join(&name)).unwrap(), bytes);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(store.path().join(DIRECTORY)).unwrap().count(), FILES as usize);
    }
}
