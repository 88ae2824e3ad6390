//! The directory that is mounted on: what has to be true of it, and how it is left again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use svmio_svm::{Mount, StoreSet};

use super::error::MountError;

/// What mounts for somebody who is not root.
pub(super) const HELPER: &str = "fusermount3";

/// The kind of file system that the system's list of mounts tells.
const KIND: &str = "fuse.svmio";

/// The number of a mounted file system, which no other one has at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    major: u32,
    minor: u32,
}

/// A directory that can be mounted on.
#[derive(Debug)]
pub(super) struct MountPoint {
    typed: PathBuf,
    resolved: PathBuf,
}

impl MountPoint {
    /// That `directory` can be mounted on, with files of `stores`; with `nonempty` also one that holds something.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn check(
        directory: &Path,
        nonempty: bool,
        stores: &StoreSet,
    ) -> Result<MountPoint, MountError> {
        let point = || directory.to_path_buf();
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::NotFound => MountError::NoDirectory { point: point() },
            ErrorKind::NotADirectory => MountError::NotADirectory { point: point() },
            _ if Errno::from_io_error(&source) == Some(Errno::NOTCONN) => {
                MountError::Abandoned { point: point() }
            }
            _ => MountError::Refused { point: point(), source },
        };
        // As programs name it: links on the way to it are nothing to go by.
        let typed = std::path::absolute(directory).map_err(failed)?;
        if !fs::metadata(directory).map_err(failed)?.is_dir() {
            return Err(MountError::NotADirectory { point: point() });
        }
        let resolved = directory.canonicalize().map_err(failed)?;
        if Mount::of(&resolved).is_ok_and(|mount| mount.kind == KIND && mount.point == resolved) {
            return Err(MountError::Already { point: resolved });
        }
        // It would wait for itself.
        if let Some(store) = stores.stores().iter().find(|store| store.path().starts_with(&resolved)) {
            return Err(MountError::StoreWithin { point: resolved, store: store.path().to_path_buf() });
        }
        if !nonempty && fs::read_dir(directory).map_err(failed)?.next().is_some() {
            return Err(MountError::NotEmpty { point: resolved });
        }
        Ok(MountPoint { typed, resolved })
    }

    /// The absolute path as it was typed.
    pub(super) fn as_typed(&self) -> &Path {
        &self.typed
    }

    /// The path without links.
    pub(super) fn path(&self) -> &Path {
        &self.resolved
    }

    /// What is mounted there, without asking whoever serves it.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn device(&self) -> io::Result<Device> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        let found = statx(CWD, &self.resolved, flags, StatxFlags::empty())?;
        Ok(Device { major: found.stx_dev_major, minor: found.stx_dev_minor })
    }

    /// Whether what is mounted there is served by nobody any more.
    pub(super) fn is_cut_off(&self) -> bool {
        let found = fs::metadata(&self.resolved);
        found.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NOTCONN))
    }

    /// Takes the mount away, from the name space at least: whoever has something open below it finds it closed when
    /// this process ends.
    ///
    /// # Errors
    /// What the operating system says, or the helper.
    pub(super) fn leave(&self) -> Result<(), MountError> {
        match unmount(&self.resolved, UnmountFlags::DETACH) {
            // Somebody else was faster.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(_) => {}
        }
        let helper = Command::new(HELPER).args(["-u", "-z", "-q", "--"]).arg(&self.resolved).status();
        match helper {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.refused(io::Error::other(format!("{HELPER} -u ended with {status}")))),
            Err(source) => Err(self.refused(source)),
        }
    }

    /// Why it could not be mounted, of which `source` is all that is told.
    pub(super) fn refused(&self, source: io::Error) -> MountError {
        let point = self.resolved.clone();
        let is_not_found = matches!(source.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
        let lacks_helper = is_not_found && which::which(HELPER).is_err();
        if lacks_helper { MountError::NoHelper { point } } else { MountError::Refused { point, source } }
    }
}
