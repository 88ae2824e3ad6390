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
        // Files in memory would stay there.
        svmio_leftovers::remove_directories_in(base);
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
        let directory = tempfile::tempdir_in(&self.directory);
        let directory = directory.unwrap_or_else(|error| panic!("{}: {error}", self.directory.display()));
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

/// A directory that tells whose it is: what a benchmark that is killed leaves of it, the next one removes.
pub(crate) fn temporary(base: &Path) -> TempDir {
    let directory = svmio_leftovers::directory(base, &svmio_leftovers::own_mark(), "benches-");
    directory.unwrap_or_else(|error| panic!("{}: {error}", base.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_killed_benchmark_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let mark = svmio_leftovers::own_mark();
        let [_, started, space] = *mark.split('.').collect::<Vec<_>>() else { panic!("{mark}") };
        // Its id is that of a process that started at another time; in another space of ids its owner may live.
        let left = format!("1.{started}.{space}");
        let elsewhere = format!("1.{started}.1");
        let [left, elsewhere] = [left, elsewhere].map(|mark| svmio_leftovers::name(&mark, "benches-abc"));
        let [left, elsewhere, others] = [&left, &elsewhere, "else"].map(|name| base.path().join(name));
        [&left, &elsewhere, &others].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let mut own = None;
        Place::with(Kind::Disk, base.path(), |place| {
            assert!(!left.exists() && elsewhere.exists() && others.exists());
            // As another benchmark does that begins meanwhile.
            svmio_leftovers::remove_directories_in(base.path());
            own = Some((place.directory.clone(), place.directory.exists()));
        })
        .unwrap();
        let (own, was_there) = own.unwrap();
        assert!(was_there && !own.exists());
    }
}
