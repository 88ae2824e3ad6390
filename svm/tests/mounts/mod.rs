//! Stores on file systems of their own.

use std::ffi::CString;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use svmio_svm::Store;

/// Runs `test` with a store on a file system in memory of `options`, whose mounts are nobody else's.
pub(crate) fn with_store_on(options: &str, test: impl FnOnce(&Store) + Send) {
    let inside = || {
        // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own; descriptors
        // and memory stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("tests with mounts of their own must run as root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let options = CString::new(options).unwrap();
        mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
        test(&Store::open(directory.path()).unwrap());
        rustix::mount::unmount(directory.path(), UnmountFlags::DETACH).unwrap();
    };
    let outcome = std::thread::scope(|scope| scope.spawn(inside).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
