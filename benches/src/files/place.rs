//! Where files lie while they are measured.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use svmio_tests::{Scratch, mounts};
use tempfile::TempDir;

use crate::left_out::is_root;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/dev/shm`, as it is mounted: svmio makes large pages there.
    Shm,
    /// The same, but svmio has to do with small pages, as stock drivers have.
    SmallPages,
    /// A tmpfs of 2 MiB pages. Only root can mount it.
    Huge,
    /// A directory on a disk.
    Disk,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Shm, Kind::SmallPages, Kind::Huge, Kind::Disk];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Shm => "shm",
            Kind::SmallPages => "small-pages",
            Kind::Huge => "huge",
            Kind::Disk => "disk",
        }
    }
}

/// A place of some kind, with a directory for what lies there.
#[derive(Debug)]
pub struct Place {
    kind: Kind,
    directory: PathBuf,
}

impl Place {
    /// Does something with a place of that kind, on a disk below `disk`.
    ///
    /// # Errors
    /// Where a file system cannot be mounted, which only root can: why.
    ///
    /// # Panics
    /// Where there is no such directory.
    pub fn with(kind: Kind, disk: &Path, act: impl FnOnce(&Place) + Send) -> Result<(), String> {
        let base = if kind == Kind::Disk { disk } else { Path::new("/dev/shm") };
        fs::create_dir_all(base).unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        remove_left(base);
        let directory = temporary(base);
        let place = Place { kind, directory: directory.path().to_owned() };
        match kind {
            Kind::Shm | Kind::SmallPages | Kind::Disk => act(&place),
            Kind::Huge if !is_root() => return Err("only root can mount a tmpfs of huge pages".to_owned()),
            Kind::Huge => {
                let mut mounted = Ok(());
                mounts::in_own_mounts(|| {
                    let (at, options) = (&place.directory, c"huge=always,size=90%,mode=0700");
                    mounted = mount("tmpfs", at, "tmpfs", MountFlags::empty(), options);
                    if mounted.is_ok() {
                        act(&place);
                    }
                });
                return mounted.map_err(|error| format!("a tmpfs of huge pages cannot be mounted: {error}"));
            }
        }
        Ok(())
    }

    /// What svmio is told of pages: nothing where it may make what it likes.
    pub fn large_pages(&self) -> Option<&'static str> {
        (self.kind == Kind::SmallPages).then_some("never")
    }

    /// What kind of place it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The file system that it is on, as the kernel tells it, and its options.
    pub fn file_system(&self) -> String {
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        let of_line = |line: &str| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, at, kind, options, ..] = fields[..] else { return None };
            self.directory.starts_with(at).then(|| (at.len(), format!("{kind} at {at}, {options}")))
        };
        // The last of the longest: what is mounted over the others.
        mounts
            .lines()
            .filter_map(of_line)
            .max_by_key(|(length, _)| *length)
            .map_or("?".into(), |(_, text)| text)
    }

    /// Uses so much of the file system's memory once: what a machine has not touched for a while is slow to come.
    ///
    /// # Panics
    /// Where it has not so much.
    pub fn warm_up(&self, bytes: usize) {
        let file = self.directory.join("warm-up");
        let done = written(&file, bytes).and_then(|()| fs::remove_file(&file));
        done.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// A new ground for one run.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn ground(&self) -> Ground {
        let directory = temporary(&self.directory);
        // An absolute path goes before what it is added to.
        let scratch = Scratch::new().with_store(directory.path().join("store"));
        Ground { scratch, directory }
    }
}

/// An empty directory for the files of one run: svmio's store, or the file itself. It goes with all that is in it.
#[derive(Debug)]
pub struct Ground {
    scratch: Scratch,
    directory: TempDir,
}

impl Ground {
    /// What jobs need.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The path of a file there.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn written(file: &Path, bytes: usize) -> std::io::Result<()> {
    const BLOCK: usize = 1 << 20;
    let mut open = fs::File::create(file)?;
    let block = vec![1u8; BLOCK];
    (0..bytes / BLOCK).try_for_each(|_| open.write_all(&block))
}

const PREFIX: &str = "svmio-benches-";

/// A directory that tells whose it is.
pub(crate) fn temporary(base: &Path) -> TempDir {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(base);
    directory.unwrap_or_else(|error| panic!("{}: {error}", base.display()))
}

/// Removes the directories of benchmarks that were killed: files in memory would stay there.
pub(crate) fn remove_left(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')).map(|(id, _)| id);
        if owner.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another benchmark may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, remove_left, temporary};

    #[test]
    fn what_a_killed_benchmark_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = base.path().join(format!("{PREFIX}{}-abc", ended.id()));
        let others = base.path().join("else");
        [&left, &others].into_iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
        let own = temporary(base.path());
        remove_left(base.path());
        assert!(!left.exists() && others.exists() && own.path().exists());
    }
}
