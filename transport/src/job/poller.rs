//! One place to wait for all sockets of a process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::error::{Error, Result};

/// A socket as the poller knows it; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Token(u64);

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadAndWrite,
    /// Nothing.
    Nothing,
}

/// An epoll instance: as long as nothing happens, whoever waits there uses no processor.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    next: AtomicU64,
}

impl Poller {
    pub(super) fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|problem| Error::system("creating an epoll instance", problem))?;
        Ok(Self { epoll, next: AtomicU64::new(0) })
    }

    pub(super) fn add(&self, socket: impl AsFd) -> Result<Token> {
        // Relaxed: only that no number comes twice matters.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        epoll::add(&self.epoll, socket, EventData::new_u64(token), EventFlags::IN)
            .map_err(|problem| Error::system("watching a socket", problem))?;
        Ok(Token(token))
    }

    pub(super) fn set_interest(&self, socket: impl AsFd, token: Token, interest: Interest) {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
            Interest::Nothing => EventFlags::empty(),
        };
        // It fails only for a socket that is not watched.
        let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(token.0), flags);
    }

    pub(super) fn remove(&self, socket: impl AsFd) {
        // As above.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits until something happens, or `until`; returns whose sockets are ready.
    pub(super) fn wait(&self, until: Option<Instant>) -> Result<Vec<Token>> {
        let mut events = Vec::with_capacity(64);
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs().min(86_400) as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            // A stopped process that goes on is interrupted: it has to look at the time.
            Ok(_) | Err(Errno::INTR) => {}
            Err(problem) => return Err(Error::system("waiting for control connections", problem)),
        }
        Ok(events.iter().map(|event| Token(event.data.u64())).collect())
    }
}
