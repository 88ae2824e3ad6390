//! What the kernel offers for serving page faults and the crate `userfaultfd` lacks: copying with write protection,
//! poison, and the system call for who may make it and not open the device.
//!
//! Numbers and structures are those of `linux/userfaultfd.h` as of Linux 6.6.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use userfaultfd::{FeatureFlags, RegisterMode, Uffd, UffdBuilder};

/// `UFFDIO` of the header: the type of its requests.
const TYPE: u32 = 0xaa;

/// `struct uffdio_copy`.
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffdio_poison`.
#[repr(C)]
struct Poison {
    start: u64,
    length: u64,
    mode: u64,
    updated: i64,
}

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `UFFD_API`.
const API: u64 = 0xaa;
/// `UFFDIO_API`.
const AGREE: libc::Ioctl = libc::_IOWR::<Api>(TYPE, 0x3f);
/// `UFFDIO_COPY`.
const COPY: libc::Ioctl = libc::_IOWR::<Copy>(TYPE, 0x03);
/// `UFFDIO_POISON`, from Linux 6.6 on.
const POISON: libc::Ioctl = libc::_IOWR::<Poison>(TYPE, 0x08);
/// `UFFDIO_COPY_MODE_DONTWAKE`.
const WITHOUT_WAKING: u64 = 1;
/// `UFFDIO_COPY_MODE_WP`.
const PROTECTED: u64 = 2;

/// How pages are put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    /// A store is a fault.
    pub(super) is_protected: bool,
    /// Who waits for them goes on at once.
    pub(super) wakes: bool,
}

/// A descriptor for faults of this process, also of those that the kernel meets while it works for it: a program may
/// have `read` or `write` go to a mapping, and one for its own faults alone would make them fail there.
pub(super) fn open() -> io::Result<Uffd> {
    let features = FeatureFlags::PAGEFAULT_FLAG_WP;
    let mut builder = UffdBuilder::new();
    builder.close_on_exec(true).non_blocking(true).user_mode_only(false).require_features(features);
    match builder.create() {
        // The crate asks no further where there is the device.
        Err(userfaultfd::Error::OpenDevUserfaultfd(refused)) => call(features)
            .map_err(|error| if error.kind() == io::ErrorKind::PermissionDenied { refused } else { error }),
        opened => opened.map_err(os_error),
    }
}

/// Likewise, by the system call: for those with the capability `SYS_PTRACE`, and for all where the sysctl
/// `vm.unprivileged_userfaultfd` is 1.
fn call(features: FeatureFlags) -> io::Result<Uffd> {
    // SAFETY: it takes a number.
    let made = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
    let descriptor =
        i32::try_from(made).ok().filter(|made| *made >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: it has just been made, and nobody else has it.
    let uffd = unsafe { Uffd::from_raw_fd(descriptor) };
    let mut api = Api { api: API, features: features.bits(), ioctls: 0 };
    // SAFETY: the structure is the kernel's.
    match unsafe { libc::ioctl(uffd.as_raw_fd(), AGREE, &raw mut api) } {
        0 => Ok(uffd),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has faults on missing pages of some memory, and stores to write-protected ones, be served.
pub(super) fn register(uffd: &Uffd, start: *mut u8, length: usize) -> userfaultfd::Result<()> {
    let mode = RegisterMode::MISSING | RegisterMode::WRITE_PROTECT;
    uffd.register_with_mode(start.cast(), length, mode).map(|_| ())
}

/// Puts pages in place that are missing.
///
/// # Safety
/// `to` is memory that is registered, of as many missing pages as `bytes` has.
pub(super) unsafe fn copy(uffd: &Uffd, to: *mut u8, bytes: &[u8], how: How) -> io::Result<()> {
    let protected = if how.is_protected { PROTECTED } else { 0 };
    let mode = protected | if how.wakes { 0 } else { WITHOUT_WAKING };
    let mut done = 0;
    while done < bytes.len() {
        let mut copy = Copy {
            to: to as u64 + done as u64,
            from: bytes.as_ptr() as u64 + done as u64,
            length: (bytes.len() - done) as u64,
            mode,
            copied: 0,
        };
        // SAFETY: the structure is the kernel's; the caller vouches for the place.
        if unsafe { libc::ioctl(uffd.as_raw_fd(), COPY, &raw mut copy) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if copy.copied <= 0 && error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(error);
        }
        done += usize::try_from(copy.copied).unwrap_or(0);
    }
    Ok(())
}

/// Has whoever touches a missing page get SIGBUS, and wakes who waits for it.
///
/// # Safety
/// It is memory that is registered.
pub(super) unsafe fn poison(uffd: &Uffd, start: *mut u8, length: usize) -> io::Result<()> {
    let mut poison = Poison { start: start as u64, length: length as u64, mode: 0, updated: 0 };
    // SAFETY: the structure is the kernel's; the caller vouches for the place.
    match unsafe { libc::ioctl(uffd.as_raw_fd(), POISON, &raw mut poison) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The operating system's error in one of the crate.
pub(super) fn os_error(error: userfaultfd::Error) -> io::Error {
    match error {
        userfaultfd::Error::OpenDevUserfaultfd(error) => error,
        userfaultfd::Error::SystemError(errno)
        | userfaultfd::Error::CopyFailed(errno)
        | userfaultfd::Error::ZeropageFailed(errno) => io::Error::from_raw_os_error(errno as i32),
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, CapabilitySets, Uid};

    use super::*;

    /// What `open` gives to a user who may not open the device, and has such capabilities.
    fn opened_with(capabilities: CapabilitySet) -> io::Result<()> {
        let nobody = std::thread::spawn(move || {
            let nobody = Uid::from_raw(65534);
            // Of this thread alone.
            rustix::thread::set_keep_capabilities(true).expect("a thread may say so");
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("the test runs as root");
            let inheritable = CapabilitySet::empty();
            let sets = CapabilitySets { effective: capabilities, permitted: capabilities, inheritable };
            rustix::thread::set_capabilities(None, sets).expect("a thread may have less than it had");
            open().map(drop)
        });
        nobody.join().expect("the thread ends")
    }

    #[test]
    fn who_may_trace_needs_no_device() {
        opened_with(CapabilitySet::SYS_PTRACE).unwrap();
        let everybody = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap();
        let opened = opened_with(CapabilitySet::empty()).map_err(|error| error.kind());
        match everybody.trim() {
            "0" => assert_eq!(opened, Err(io::ErrorKind::PermissionDenied)),
            _ => opened.unwrap(),
        }
    }
}
