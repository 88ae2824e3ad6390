//! One control connection: frames in, frames out, never waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::poller::{Interest, Poller, Token};
use super::wire::{self, Frame, WireProblem};
use crate::error::{Error, Result};

/// How much is read before others get their turn, in bytes.
const TURN: usize = 64 << 10;

/// A connection, made or being made.
#[derive(Debug)]
pub(super) struct Link {
    poller: Arc<Poller>,
    token: Token,
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    limit: usize,
    heard: Instant,
    /// What writing said last. The kernel tells each problem only once, so reading may find a mere end.
    failure: Option<io::Error>,
}

/// Why nothing more will come.
#[derive(Debug)]
pub(super) enum Closing {
    /// The other side closed it.
    End,
    /// It broke, or never came about.
    Broken(io::Error),
    /// What came cannot be understood.
    Nonsense(WireProblem),
}

impl Closing {
    /// What to say of a process to which `is_refusal` applies.
    pub(super) const NOBODY_LISTENS: &str = "nobody listens for control connections where it did";

    /// Whether nobody listens at the other end: its process is gone.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Broken(problem) if problem.kind() == ErrorKind::ConnectionRefused)
    }
}

impl std::fmt::Display for Closing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::End => formatter.write_str("its control connection closed"),
            Self::Broken(problem) => write!(formatter, "its control connection broke: {problem}"),
            Self::Nonsense(problem @ WireProblem::Version(_)) => problem.fmt(formatter),
            Self::Nonsense(problem) => write!(formatter, "its control connection carried {problem}"),
        }
    }
}

impl Link {
    /// Takes a connection over.
    pub(super) fn new(poller: &Arc<Poller>, stream: TcpStream) -> Result<Self> {
        let prepare = || {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)
        };
        prepare().map_err(|problem| Error::system("preparing a control connection", problem))?;
        let token = poller.add(&stream)?;
        Ok(Self {
            poller: Arc::clone(poller),
            token,
            stream,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            limit: wire::LARGEST,
            heard: Instant::now(),
            failure: None,
        })
    }

    /// Begins to connect. What comes of it, `receive` tells.
    ///
    /// # Errors
    /// Where that can be told at once.
    pub(super) fn connect(poller: &Arc<Poller>, to: SocketAddr) -> Result<Self, Closing> {
        let broken = |problem: rustix::io::Errno| Closing::Broken(problem.into());
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(broken)?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(problem) => return Err(broken(problem)),
        }
        Self::new(poller, TcpStream::from(socket))
            .map_err(|problem| Closing::Broken(io::Error::other(problem)))
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// When something last came, or when the connection was made.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Begins to count anew how long nothing came.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Does not count `time` of how long nothing came.
    pub(super) fn excuse(&mut self, time: Duration, now: Instant) {
        self.heard = now.min(self.heard + time);
    }

    /// How long a frame may be that comes from now on, in bytes.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes all that has come, and goes on writing what had no room. The frames come before what closed the
    /// connection.
    pub(super) fn receive(&mut self) -> (Vec<Frame>, Option<Closing>) {
        self.flush();
        let mut closing = self.fill().err();
        let mut frames = Vec::new();
        let mut taken = 0;
        loop {
            match wire::decode(&self.incoming[taken..], self.limit) {
                Ok(Some((frame, length))) => {
                    frames.push(frame);
                    taken += length;
                }
                Ok(None) => break,
                Err(problem) => {
                    closing = Some(Closing::Nonsense(problem));
                    break;
                }
            }
        }
        self.incoming.drain(..taken);
        (frames, closing)
    }

    fn fill(&mut self) -> Result<(), Closing> {
        let mut chunk = [0; 16 << 10];
        let mut turn = 0;
        while turn < TURN {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(self.failure.take().map_or(Closing::End, Closing::Broken)),
                Ok(length) => {
                    self.incoming.extend_from_slice(&chunk[..length]);
                    self.heard = Instant::now();
                    turn += length;
                }
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
                Err(problem) => return Err(Closing::Broken(problem)),
            }
        }
        Ok(())
    }

    /// Sends a frame, as soon as there is room for it.
    pub(super) fn send(&mut self, frame: &Frame) {
        frame.encode(&mut self.outgoing);
        self.flush();
    }

    /// Sends a heartbeat, unless other frames wait to be sent and will do as well.
    pub(super) fn beat(&mut self) {
        if self.outgoing.is_empty() {
            self.send(&Frame::Heartbeat);
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn shut(&mut self) {
        self.flush();
        // Where it is closed already, there is nothing to shut.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn flush(&mut self) {
        let had_more = !self.outgoing.is_empty();
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => break,
                // `receive` tells of it, after what has come.
                Err(problem) => {
                    self.failure = Some(problem);
                    self.outgoing.clear();
                }
            }
        }
        if had_more {
            let interest = if self.outgoing.is_empty() { Interest::Read } else { Interest::ReadAndWrite };
            self.poller.set_interest(&self.stream, self.token, interest);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.poller.remove(&self.stream);
    }
}
