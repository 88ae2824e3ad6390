//! Stores on file systems of their own.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use svmio_svm::Store;

/// Runs `test` with a store on a file system in memory of `options`, whose mounts are nobody else's.
#[allow(dead_code, reason = "not all tests want one in memory")]
pub(crate) fn with_store_on(options: &str, test: impl FnOnce(&Store) + Send) {
    with_mounts(|| {
        let directory = tempfile::tempdir().unwrap();
        let options = CString::new(options).unwrap();
        mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
        test(&Store::open(directory.path()).unwrap());
        rustix::mount::unmount(directory.path(), UnmountFlags::DETACH).unwrap();
    });
}

/// Runs `test` with a store on an ext4 of so many bytes, in blocks of `block`, likewise.
#[allow(dead_code, reason = "nor on a disk")]
pub(crate) fn with_store_on_disk(bytes: u64, block: u64, test: impl FnOnce(&Store) + Send) {
    let block = block.to_string();
    let make = ["mkfs.ext4", "e2fsprogs", "-q", "-b", block.as_str()];
    with_disk(bytes, &make, |point| test(&Store::open(&point.join("store")).unwrap()));
}

/// Runs `test` with a store on an XFS of which about so many bytes are free, likewise.
#[allow(dead_code, reason = "nor on this one")]
pub(crate) fn with_store_on_xfs(free: u64, test: impl FnOnce(&Store) + Send) {
    /// There are no smaller ones than 300 MiB, and the file system takes its part.
    const BYTES: u64 = 512 << 20;
    with_disk(BYTES, &["mkfs.xfs", "xfsprogs", "-q"], |point| {
        let room = rustix::fs::statvfs(point).unwrap();
        let taken = (room.f_bavail * room.f_frsize).checked_sub(free).expect("there is more room");
        let taking = File::create(point.join("taken")).unwrap();
        rustix::fs::fallocate(&taking, FallocateFlags::empty(), 0, taken.max(1)).unwrap();
        test(&Store::open(&point.join("store")).unwrap());
    });
}

/// Runs `test` with the place where a disk of so many bytes is mounted; `make` is the program that makes its file system,
/// the package that has this, and its arguments but the last.
fn with_disk(bytes: u64, make: &[&str], test: impl FnOnce(&Path) + Send) {
    with_mounts(|| {
        let directory = tempfile::tempdir().unwrap();
        let (disk, point) = (directory.path().join("disk"), directory.path().join("mounted"));
        File::create(&disk).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(&point).unwrap();
        let [program, package, arguments @ ..] = make else { unreachable!("a program and its package") };
        let arguments = arguments.iter().map(Path::new).chain([disk.as_path()]);
        run(program, package, &arguments.collect::<Vec<_>>());
        // The device goes with the mount.
        run("mount", "mount", &["-o".as_ref(), "loop".as_ref(), &disk, &point]);
        test(&point);
        rustix::mount::unmount(&point, UnmountFlags::DETACH).unwrap();
    });
}

/// Runs `test` in a mount namespace of its own.
fn with_mounts(test: impl FnOnce() + Send) {
    let inside = || {
        // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own; descriptors
        // and memory stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("tests with mounts of their own must run as root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        test();
    };
    let outcome = std::thread::scope(|scope| scope.spawn(inside).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn run(program: &str, package: &str, arguments: &[&Path]) {
    let status = Command::new(program).args(arguments).status();
    let status = status.unwrap_or_else(|e| panic!("{program}: {e} (apt-get install {package})"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}
