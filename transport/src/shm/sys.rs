//! Two things that the safe libraries lack.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who is at the other end of a local socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credentials {
    /// The process; 0 where it has no number in this process's name space.
    pub(super) process: i32,
    /// Its user.
    pub(super) user: u32,
}

/// Who is at the other end of `socket`, as of when it connected or listened.
///
/// (`rustix::net::sockopt::socket_peercred` has no way to say that the process has no number here.)
pub(super) fn credentials(socket: &impl AsFd) -> io::Result<Credentials> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which are there and may hold any bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { process: credentials.pid, user: credentials.uid })
}
