//! Copying straight from and to another process's memory, where the kernel allows it.
//!
//! The kernel's calls name a process by its number, and numbers are used again. A process that is dead must not be
//! mistaken for a stranger of its number, so:
//!
//! * When a peer's memory is first opened, a cookie that its address names is read from it. The peer lived when it
//!   made its address and it lives when the cookie is read, so the process descriptor that was opened in between
//!   is its own.
//! * Before each call the descriptor is asked whether the process still lives. As long as it does, and even as a
//!   zombie, the number is its own. Numbers are given out in turn, so for a mistake all numbers there are (32,768 or
//!   4 million) would have to be used up between that look and the call behind it, within a microsecond.
//! * After each call it is asked again: what is reported as done went to the peer, without any such argument.
//!
//! Where no descriptor is to be had (all that a process may have are in use, the kernel is older than they are, or a
//! filter forbids them), the cookie is read instead of asking it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::units::Rank;

use super::wire::Address;

/// Bytes for one call: large enough that calls cost nothing beside the copy (about 60 µs), small enough that
/// a lost peer is noticed soon.
const PART: usize = 1 << 20;

/// How many ranges one call takes.
const RANGES: usize = 64;

/// A range to be copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// In this process.
    pub(super) local: *mut u8,
    /// In the peer.
    pub(super) remote: u64,
    /// Bytes.
    pub(super) length: usize,
}

/// Which way to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the peer.
    Read,
    /// To the peer.
    Write,
}

/// The cookie of this process, and where it is.
pub(super) fn own_cookie() -> io::Result<&'static [u8; 16]> {
    static COOKIE: OnceLock<[u8; 16]> = OnceLock::new();
    if let Some(cookie) = COOKIE.get() {
        return Ok(cookie);
    }
    let cookie = super::random_bytes()?;
    Ok(COOKIE.get_or_init(|| cookie))
}

/// The inode numbers of this process's user and process name spaces; 0 where the kernel does not tell.
pub(super) fn own_name_spaces() -> [u64; 2] {
    ["/proc/self/ns/user", "/proc/self/ns/pid"]
        .map(|path| rustix::fs::stat(path).map_or(0, |status| status.st_ino))
}

/// Lets other processes of this user copy from and to this one's memory, as far as that can be arranged. Returns
/// why not, where it cannot.
pub(super) fn open_own() -> Result<(), String> {
    let mut word = [0_u8; 8];
    let probe = [7_u8; 8];
    let range = Range { local: word.as_mut_ptr(), remote: probe.as_ptr() as u64, length: 8 };
    let own = rustix::process::getpid();
    // SAFETY: `word` is ours to change and outlives the call.
    match unsafe { call(own, Way::Read, &[range]) } {
        Ok(8) if word == probe => {}
        Ok(_) => return Err("the kernel copies from a process, but not rightly".into()),
        Err(error) => return Err(format!("the kernel does not copy between processes: {error}")),
    }
    if !matches!(rustix::process::dumpable_behavior(), Ok(rustix::process::DumpableBehavior::Dumpable)) {
        return Err("this process is protected (it is not dumpable)".into());
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        // Without Yama there is no file; then the same user suffices.
        Err(_) | Ok("0") => Ok(()),
        Ok("1") => {
            // The peers are no descendants of this process, so it has to admit them, and Yama knows only one or all.
            rustix::process::set_ptracer(rustix::process::PTracer::Any)
                .map_err(|error| format!("Yama admits no peers: {error}"))
        }
        Ok(scope) => Err(format!("/proc/sys/kernel/yama/ptrace_scope is {scope}; 0 or 1 would do")),
    }
}

/// Whether all of `addresses` say that they can copy from and to each other's memory. All members see the same
/// addresses, so all come to the same answer.
pub(super) fn all_open(addresses: &[Address]) -> bool {
    addresses
        .windows(2)
        .all(|pair| pair[0].user == pair[1].user && pair[0].name_spaces == pair[1].name_spaces)
        && addresses.iter().all(|address| address.opens_memory)
}

/// Whether the kernel allows this process to read the memory of the one at `address`. One that is gone already
/// refuses nothing.
///
/// # Errors
/// What the kernel says where it refuses.
pub(super) fn probe(address: &Address) -> io::Result<()> {
    match read_cookie(address) {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::ESRCH | libc::EFAULT) => Ok(()),
            _ => Err(error),
        },
    }
}

fn process_number(address: &Address) -> io::Result<Pid> {
    i32::try_from(address.process).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput.into())
}

fn read_cookie(address: &Address) -> io::Result<[u8; 16]> {
    let mut cookie = [0; 16];
    let range = Range { local: cookie.as_mut_ptr(), remote: address.cookie_at, length: cookie.len() };
    // SAFETY: `cookie` is ours to change and outlives the call.
    let copied = unsafe { call(process_number(address)?, Way::Read, &[range]) }?;
    if copied == cookie.len() { Ok(cookie) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

/// Whether the process at `address` has ended for certain, with all its threads. It takes no descriptor to tell, except
/// of one whose parent has not taken note of its end yet: without, that one has not.
pub(super) fn is_gone(address: &Address) -> bool {
    let Ok(process) = process_number(address) else { return false };
    match read_cookie(address) {
        Ok(cookie) => return cookie != address.cookie,
        // Somebody else has its number, who has other memory.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return true,
        // It has no memory any more, which may be said of its first thread alone; or the kernel does not let us see.
        Err(_) => {}
    }
    match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
        Ok(descriptor) => has_ended(&descriptor),
        Err(Errno::SRCH) => true,
        Err(_) => rustix::process::test_kill_process(process) == Err(Errno::SRCH),
    }
}

/// Has the process at `address` go on if it was stopped.
pub(super) fn rouse(address: &Address) {
    if let Ok(process) = process_number(address)
        && read_cookie(address).is_ok_and(|cookie| cookie == address.cookie)
    {
        // Where it has ended just now, nobody has to go on.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::CONT);
    }
}

/// Whether a process has ended for certain, with all its threads: its descriptor becomes readable then.
fn has_ended(descriptor: &OwnedFd) -> bool {
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::io::retry_on_intr(|| poll(&mut descriptors, Some(&now))), Ok(1..))
}

/// The memory of a peer.
#[derive(Debug)]
pub(super) struct ProcessMemory {
    process: Pid,
    address: Address,
    /// Of the process, where one could be had.
    descriptor: Option<OwnedFd>,
}

impl ProcessMemory {
    /// That of the process at `address`.
    ///
    /// # Errors
    /// `ESRCH` where it is gone; what the kernel says where it refuses.
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        let process = process_number(address)?;
        let descriptor = match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::SRCH) => return Err(Errno::SRCH.into()),
            Err(problem) => {
                tracing::debug!(process = address.process, %problem, "a peer has no descriptor here");
                None
            }
        };
        if read_cookie(address)? != address.cookie {
            return Err(Errno::SRCH.into());
        }
        Ok(Self { process, address: address.clone(), descriptor })
    }

    /// Copies all of `ranges`.
    ///
    /// # Safety
    /// The local parts must be valid, for writes when reading; the remote parts must be left to this process by the
    /// peer: registered.
    ///
    /// # Errors
    /// `PeerLost`, `System`.
    pub(super) unsafe fn copy(
        &self,
        membership: &Membership,
        peer: Rank,
        way: Way,
        ranges: impl Iterator<Item = Range>,
    ) -> Result<()> {
        let mut parts = ranges.flat_map(in_parts).peekable();
        let mut batch = Vec::with_capacity(1);
        while let Some(part) = parts.next() {
            let mut length = part.length;
            batch.clear();
            batch.push(part);
            while let Some(part) = parts.next_if(|next| batch.len() < RANGES && length + next.length <= PART)
            {
                length += part.length;
                batch.push(part);
            }
            // SAFETY: the caller's promise holds for each part.
            unsafe { self.copy_batch(membership, peer, way, &batch, length) }?;
        }
        Ok(())
    }

    /// # Safety
    /// As for `copy`.
    unsafe fn copy_batch(
        &self,
        membership: &Membership,
        peer: Rank,
        way: Way,
        batch: &[Range],
        length: usize,
    ) -> Result<()> {
        membership.check(peer)?;
        let gone = || Error::PeerLost {
            rank: peer,
            node: membership.node(peer).into(),
            reason: "its process has ended".into(),
        };
        let refused = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => gone(),
            _ => Error::system(
                format!(
                    "copying {length} bytes from or to the memory of rank {peer} on node {} (process {})",
                    membership.node(peer),
                    self.address.process
                ),
                error,
            ),
        };
        if !self.is_alive() {
            return Err(gone());
        }
        // SAFETY: the caller's promise.
        let copied = unsafe { call(self.process, way, batch) };
        if !self.is_alive() {
            return Err(gone());
        }
        let copied = copied.map_err(refused)?;
        if copied == length {
            return Ok(());
        }
        // Some of it could not be reached, and the kernel said no more than how much. A second attempt at the rest
        // tells why.
        let rest = after(batch, copied);
        // SAFETY: the caller's promise; only parts of the same ranges.
        match unsafe { call(self.process, way, &rest) } {
            Ok(more) if copied + more == length => Ok(()),
            Ok(_) => Err(refused(io::Error::from_raw_os_error(libc::EFAULT))),
            Err(error) => Err(refused(error)),
        }
    }

    /// Whether the process still runs. A descriptor of a process becomes readable when it ends.
    fn is_alive(&self) -> bool {
        let Some(descriptor) = &self.descriptor else {
            return read_cookie(&self.address).is_ok_and(|cookie| cookie == self.address.cookie);
        };
        let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::io::retry_on_intr(|| poll(&mut descriptors, Some(&now))), Ok(0))
    }

    /// Has the process go on if it was stopped. One that runs does not notice.
    pub(super) fn rouse(&self) {
        let Some(descriptor) = &self.descriptor else { return rouse(&self.address) };
        // Where it has ended, nobody has to go on.
        let _ = rustix::process::pidfd_send_signal(descriptor, rustix::process::Signal::CONT);
    }

    /// Whether the process has ended for certain, with all its threads.
    pub(super) fn has_ended(&self) -> bool {
        self.descriptor.as_ref().map_or_else(|| is_gone(&self.address), has_ended)
    }
}

/// `range` in parts of at most [`PART`] bytes.
fn in_parts(range: Range) -> impl Iterator<Item = Range> {
    (0..range.length).step_by(PART).map(move |done| Range {
        local: range.local.wrapping_add(done),
        remote: range.remote.wrapping_add(done as u64),
        length: (range.length - done).min(PART),
    })
}

/// What is left of `batch` when the first `copied` bytes are done.
fn after(batch: &[Range], mut copied: usize) -> Vec<Range> {
    let mut rest = Vec::new();
    for range in batch {
        let done = copied.min(range.length);
        copied -= done;
        if done < range.length {
            rest.push(Range {
                local: range.local.wrapping_add(done),
                remote: range.remote.wrapping_add(done as u64),
                length: range.length - done,
            });
        }
    }
    rest
}

/// One call of the kernel; returns how many bytes were copied.
///
/// # Safety
/// As for [`ProcessMemory::copy`]. At most [`RANGES`] ranges.
unsafe fn call(process: Pid, way: Way, ranges: &[Range]) -> io::Result<usize> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut local, mut remote) = ([nothing; RANGES], [nothing; RANGES]);
    let count = ranges.len().min(RANGES);
    for ((range, local), remote) in ranges.iter().zip(&mut local).zip(&mut remote) {
        *local = libc::iovec { iov_base: range.local.cast(), iov_len: range.length };
        *remote = libc::iovec { iov_base: range.remote as *mut libc::c_void, iov_len: range.length };
    }
    let (process, count) = (process.as_raw_nonzero().get(), count as libc::c_ulong);
    // SAFETY: both vectors have `count` entries; the local ranges are valid as the caller promises, and the kernel
    // checks the remote ones.
    let copied = unsafe {
        match way {
            Way::Read => libc::process_vm_readv(process, local.as_ptr(), count, remote.as_ptr(), count, 0),
            Way::Write => libc::process_vm_writev(process, local.as_ptr(), count, remote.as_ptr(), count, 0),
        }
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}
