//! The end of a connection by which questions go: writing to it when nobody reads any more is an error and no signal,
//! which would end a program that is not prepared for it.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{SendFlags, send};

/// An end that is written to.
pub(super) struct QuietEnd(UnixStream);

impl QuietEnd {
    pub(super) fn new(stream: UnixStream) -> QuietEnd {
        QuietEnd(stream)
    }
}

impl AsFd for QuietEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Write for QuietEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
