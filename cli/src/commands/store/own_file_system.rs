//! A store's own file system: in memory, with large pages, and nobody else's.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use svmio_svm::Mount;

use super::place::Content;
use crate::commands::error::CommandError;

/// What such file systems are mounted as; it tells them from all others.
const SOURCE: &str = "svmio";

/// How to mount one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wishes {
    /// Whose it is, by number.
    pub(super) user: u32,
    /// Bytes that it may take; half of the memory without.
    pub(super) size: Option<u64>,
}

impl Wishes {
    /// What root mounts one with, at `path`.
    fn command(self, path: &Path) -> String {
        let size = self.size.map(|bytes| format!(" --size {bytes}")).unwrap_or_default();
        format!("sudo svmio store init --mount always --uid {}{size} {}", self.user, path.display())
    }
}

/// Whether `mount` is one of these, at `path` itself.
pub(super) fn is_at(path: &Path, mount: &Mount) -> bool {
    let place = path.canonicalize();
    mount.source == SOURCE && mount.kind == "tmpfs" && place.is_ok_and(|place| place == mount.point)
}

/// Whether there is one of these at `path`.
///
/// # Errors
/// As [`beneath`].
pub(super) fn has_its_own(path: &Path) -> Result<bool, CommandError> {
    Ok(is_at(path, &beneath(path)?))
}

/// How many bytes the one at `path` may take; `None` where there is none.
///
/// # Errors
/// As [`beneath`].
pub(super) fn size_of_its_own(path: &Path) -> Result<Option<u64>, CommandError> {
    if !has_its_own(path)? {
        return Ok(None);
    }
    let room = rustix::fs::statvfs(path).map_err(|e| CommandError::Outside {
        action: "looking at",
        path: path.into(),
        source: e.into(),
    })?;
    Ok(Some(room.f_blocks * room.f_frsize))
}

/// The file system that `path` lies on, or is going to.
///
/// # Errors
/// What the operating system says of what there is of the path.
pub(super) fn beneath(path: &Path) -> Result<Mount, CommandError> {
    let existing = path.ancestors().find(|path| path.exists()).filter(|path| !path.as_os_str().is_empty());
    Ok(Mount::of(existing.unwrap_or(Path::new(".")))?)
}

/// Mounts one on the directory `path`, which is made where there is none, and says with which kind of pages.
///
/// # Errors
/// [`CommandError::NotMounted`] where there are files that it would hide, or where the directory is another user's;
/// [`CommandError::OnlyRoot`] where the caller may not; [`CommandError::Outside`].
pub(super) fn mount(path: &Path, wishes: Wishes) -> Result<&'static str, CommandError> {
    let outside =
        |source: io::Error| CommandError::Outside { action: "mounting on", path: path.into(), source };
    let refused = |reason: &'static str| CommandError::NotMounted { path: path.into(), reason };
    match make_directory(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(outside(e)),
        _ => {}
    }
    // Others may put links into /dev/shm: what is mounted on is the directory that was looked at, and no other.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| outside(e.into()))?;
    let directory = File::from(directory);
    let owner = directory.metadata().map_err(outside)?.uid();
    if owner != wishes.user && owner != 0 {
        return Err(refused("the directory belongs to another user"));
    }
    // Also once something is mounted on it, this leads to the directory itself.
    let beneath = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let hidden = "there are files, which it would hide: move them away first";
    if Content::of(&beneath)? != Content::Nothing {
        return Err(refused(hidden));
    }
    let kind = mount_on(&beneath, wishes).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
            CommandError::OnlyRoot { action: "mounting on", path: path.into(), command: wishes.command(path) }
        }
        _ => outside(e),
    })?;
    // Somebody may have put a file there just now.
    if Content::of(&beneath)? != Content::Nothing {
        rustix::mount::unmount(path, UnmountFlags::NOFOLLOW).map_err(|e| outside(e.into()))?;
        return Err(refused(hidden));
    }
    Ok(kind)
}

/// Makes a directory that is its owner's alone, and what is missing on the way there, which others have to get through:
/// the user that root makes it for.
fn make_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        // Whatever the caller hides of his own files. No other thread makes any.
        let usual = rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        rustix::process::umask(usual);
        made?;
    }
    DirBuilder::new().mode(0o700).create(path)
}

fn mount_on(path: &Path, wishes: Wishes) -> io::Result<&'static str> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let size = wishes.size.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    let with = |pages: &str| -> io::Result<()> {
        let options = CString::new(format!("mode=0700,uid={}{size}{pages}", wishes.user))?;
        Ok(rustix::mount::mount(SOURCE, path, "tmpfs", flags, options.as_c_str())?)
    };
    match with(",huge=within_size") {
        Ok(()) => Ok("with large pages"),
        // A kernel that has none.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            with("").map(|()| "with small pages, the kernel has no others")
        }
        Err(e) => Err(e),
    }
}

/// Takes the one at `path` away, and the directory, where it is empty then.
///
/// # Errors
/// [`CommandError::NotMounted`] where there is none, where files would go with it unless `with_files`, or where
/// somebody uses it; [`CommandError::OnlyRoot`] where the caller may not; [`CommandError::Outside`].
pub(super) fn unmount(path: &Path, with_files: bool) -> Result<(), CommandError> {
    let refused = |reason: &'static str| CommandError::NotMounted { path: path.into(), reason };
    if !is_at(path, &Mount::of(path)?) {
        return Err(refused("svmio store init has not mounted it; svmio rm removes files"));
    }
    if !with_files && Content::of(path)? != Content::Nothing {
        return Err(refused("there are files, which would be lost: copy them (svmio cp), or use -f"));
    }
    rustix::mount::unmount(path, UnmountFlags::NOFOLLOW).map_err(|e| match e {
        rustix::io::Errno::BUSY => refused("a program uses it still: end it first"),
        rustix::io::Errno::PERM if !rustix::process::geteuid().is_root() => {
            let force = if with_files { "-f " } else { "" };
            let command = format!("sudo svmio store unmount {force}{}", path.display());
            CommandError::OnlyRoot { action: "unmounting", path: path.into(), command }
        }
        e => CommandError::Outside { action: "unmounting", path: path.into(), source: e.into() },
    })?;
    // What is beneath may be a store's.
    let _ = fs::remove_dir(path);
    Ok(())
}
