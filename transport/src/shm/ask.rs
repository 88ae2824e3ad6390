//! Asking a peer for the file descriptor of its memory, or for what its respondent answers.
//!
//! A connection for each question, and none kept: a pair of processes asks a handful of times in its life, a
//! question takes some 50 µs, and a job of many processes would otherwise keep two descriptors for each pair.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};

use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::stopwatch::Stopwatch;
use crate::units::Rank;

use super::storage::Storage;
use super::sys;
use super::wire::{ANSWER_LENGTH, Address, Answer, Greeting, Wanted};

/// How often the membership is looked at while a peer is silent.
const SLICE: Duration = Duration::from_millis(10);

/// How long after an attempt that came to nothing the next one follows.
const RETRY: Duration = Duration::from_millis(1);

/// How long a process that was killed may hang up on those who ask it before it is gone.
const DYING: Duration = Duration::from_millis(500);

/// How long this process waits for a descriptor where it has none left, or the system has no memory for one.
const SHORTAGE: Duration = Duration::from_secs(2);

/// What the system says then.
const SHORT: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];

/// The name of a process's socket.
pub(super) fn socket_name(random: &[u8; 16]) -> rustix::io::Result<SocketAddrUnix> {
    let mut name = b"svmio-".to_vec();
    for byte in random {
        name.extend(format!("{byte:02x}").bytes());
    }
    SocketAddrUnix::new_abstract_name(&name)
}

/// One who wants something of a peer.
pub(super) struct Question<'a> {
    pub(super) membership: &'a Membership,
    pub(super) owner: Rank,
    pub(super) address: &'a Address,
    pub(super) greeting: Greeting,
    /// How long the peer may take. What this process stands still meanwhile does not count.
    pub(super) limit: Duration,
}

impl Question<'_> {
    /// Asks.
    ///
    /// # Errors
    /// `PeerLost`, `TimedOut`, `Wire`, `System`.
    pub(super) fn ask(&self) -> Result<Reply> {
        let mut stopwatch = Stopwatch::new(Instant::now());
        let (mut first_dropped, mut first_short) = (None, None);
        loop {
            self.membership.check(self.owner)?;
            match self.attempt(&mut stopwatch)? {
                Attempt::Answered(reply) => return Ok(reply),
                Attempt::Refused => return Err(self.lost("nothing listens at its address any more")),
                // A process that is being taken down accepts and hangs up for a while; then nobody listens any more,
                // or the membership knows.
                Attempt::Dropped => {
                    if first_dropped.get_or_insert_with(Instant::now).elapsed() >= DYING {
                        return Err(self.misunderstood("it hangs up: has it another secret of the job?"));
                    }
                    std::thread::sleep(RETRY);
                }
                Attempt::Busy => std::thread::sleep(RETRY),
                Attempt::Short(problem) => {
                    if first_short.get_or_insert_with(Instant::now).elapsed() >= SHORTAGE {
                        return Err(Error::system(self.with_whom(), problem));
                    }
                    std::thread::sleep(RETRY);
                }
                Attempt::Silent => {}
            }
            if self.left(&mut stopwatch).is_zero() {
                return Err(self.timed_out());
            }
        }
    }

    fn left(&self, stopwatch: &mut Stopwatch) -> Duration {
        self.limit.saturating_sub(stopwatch.look(Instant::now()))
    }

    fn attempt(&self, stopwatch: &mut Stopwatch) -> Result<Attempt> {
        let failed = |error: Errno| Error::system(self.with_whom(), error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) {
            Ok(socket) => socket,
            Err(error) if SHORT.contains(&error) => return Ok(Attempt::Short(error)),
            Err(error) => return Err(failed(error)),
        };
        let name = socket_name(&self.address.name).map_err(failed)?;
        match rustix::net::connect(&socket, &name) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::CONNRESET) => return Ok(Attempt::Refused),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Attempt::Busy),
            Err(error) => return Err(failed(error)),
        }
        // Once the peer is dead, anybody may listen under its name; the secret is for the peer alone.
        let listener = sys::credentials(&socket).map_err(|error| Error::system(self.with_whom(), error))?;
        if listener.user != self.address.user {
            return Err(self.lost("another user listens at its address"));
        }
        match rustix::net::send(&socket, &self.greeting.encode(), SendFlags::NOSIGNAL) {
            Ok(_) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(Attempt::Dropped),
            Err(error) => return Err(failed(error)),
        }
        loop {
            let left = self.left(stopwatch);
            if left.is_zero() {
                return Ok(Attempt::Silent);
            }
            let slice = left.min(SLICE);
            let timeout = Timespec { tv_sec: 0, tv_nsec: slice.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => self.membership.check(self.owner)?,
                Ok(_) => return self.receive(&socket),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn receive(&self, socket: &OwnedFd) -> Result<Attempt> {
        let mut bytes = [0; ANSWER_LENGTH + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut attached, flags);
        let length = match received {
            Ok(received) if received.bytes == 0 => return Ok(Attempt::Dropped),
            // The kernel could not give this process the descriptor that came along: it has no room for one more.
            Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => {
                return Ok(Attempt::Short(Errno::MFILE));
            }
            Ok(received) => received.bytes,
            Err(Errno::CONNRESET) => return Ok(Attempt::Dropped),
            Err(error) => return Err(Error::system(self.with_whom(), error)),
        };
        let file = attached.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let answer = bytes.get(..length).map(Answer::decode);
        let is_inquiry = matches!(self.greeting.wanted, Wanted::Answer(_));
        match (answer, file) {
            (Some(Ok(Answer::Unknown)), None) => Ok(Attempt::Answered(Reply::Nothing)),
            (Some(Ok(Answer::Said(word))), None) if is_inquiry => Ok(Attempt::Answered(Reply::Said(word))),
            (Some(Ok(Answer::Here { offset, length })), Some(file)) if !is_inquiry => {
                Ok(Attempt::Answered(Reply::Here(Storage::received(file, offset, length)?)))
            }
            (Some(Err(malformed)), _) => Err(self.misunderstood(&malformed.to_string())),
            _ => Err(self.misunderstood("an answer to what it was not asked, or not the whole of it")),
        }
    }

    fn doing(&self) -> String {
        match self.greeting.wanted {
            Wanted::Control => "connecting to the control segment of".into(),
            Wanted::Segment(id) => format!("connecting to segment {id} of"),
            Wanted::Answer(_) => "inquiring of".into(),
        }
    }

    fn with_whom(&self) -> String {
        format!("{} rank {}", self.doing(), self.owner)
    }

    fn lost(&self, reason: &str) -> Error {
        let node = self.membership.node(self.owner).into();
        Error::PeerLost { rank: self.owner, node, reason: reason.into() }
    }

    fn misunderstood(&self, problem: &str) -> Error {
        Error::wire(self.membership, self.owner, problem)
    }

    fn timed_out(&self) -> Error {
        Error::timed_out(self.membership, self.doing(), self.owner, self.limit)
    }
}

/// What a peer answered.
pub(super) enum Reply {
    /// The memory is there.
    Here(Storage),
    /// So its respondent says.
    Said(u64),
    /// There is no such segment, or no respondent.
    Nothing,
}

/// What came of one connection.
enum Attempt {
    Answered(Reply),
    /// Nobody listens.
    Refused,
    /// The peer hung up before it answered.
    Dropped,
    /// Too many ask at the same time.
    Busy,
    /// This process, or the system, has no descriptor left for it, or no memory.
    Short(Errno),
    /// The time was over.
    Silent,
}
