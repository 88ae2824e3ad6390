//! Mounts that only one test sees.

use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::thread::UnshareFlags;

/// Runs `test` where its mounts, and those of what it starts, are nobody else's and go with it.
///
/// # Panics
/// Where this process may not have mounts of its own: such tests run as root.
pub fn in_own_mounts(test: impl FnOnce() + Send) {
    // A thread of its own: mounts belong to threads, and this one must not keep them.
    let outcome = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own;
            // descriptors and memory stay shared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
                .expect("tests with mounts of their own must run as root");
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).expect("a new mount namespace can be made private");
            test();
        });
        inside.join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Mounts an empty file system of `bytes` bytes, in memory, on the directory `at`.
///
/// # Panics
/// Where that fails; use it within [`in_own_mounts`].
pub fn tmpfs(at: &Path, bytes: u64) {
    let data = std::ffi::CString::new(format!("size={bytes},mode=0700")).expect("a text without zeros");
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), data.as_c_str())
        .unwrap_or_else(|error| panic!("mounting a tmpfs on {}: {error}", at.display()));
}

/// Makes the directory `at` and what is below it a file system that can only be read.
///
/// # Panics
/// Where that fails; use it within [`in_own_mounts`].
pub fn read_only(at: &Path) {
    let failed = |error| panic!("making {} read-only: {error}", at.display());
    mount_bind(at, at).unwrap_or_else(failed);
    mount_remount(at, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap_or_else(failed);
}
