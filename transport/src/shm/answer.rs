//! Answering peers who ask for memory of this process, on a thread of its own.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::secret::JobSecret;
use crate::units::Rank;

use super::ask::socket_name;
use super::storage::Storage;
use super::sys::{self, Credentials};
use super::wire::{Answer, GREETING_LENGTH, Greeting, Wanted};

/// How long one who has connected may take to greet. Peers greet at once.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// How many may have connected and not greeted yet; others wait in the kernel's queue.
const CALLERS: usize = 64;

/// The length of the kernel's queue; the kernel cuts it to its own limit.
const QUEUE: i32 = 4096;

/// How long to wait when no descriptor is to be had for a caller.
const SHORTAGE: Duration = Duration::from_millis(10);

/// Where peers ask, and how the one who answers is told to end.
#[derive(Debug)]
pub(super) struct Door {
    /// Taken, and closed in the end, by the one who answers: peers that call later are refused at once.
    listener: Mutex<Option<OwnedFd>>,
    end: OwnedFd,
}

/// What the memory's owner knows, for the one who answers.
pub(super) trait Owner {
    /// The secret that askers must know.
    fn secret(&self) -> &JobSecret;
    /// How many processes the job has.
    fn size(&self) -> u32;
    /// What `asker` wants, and the memory that comes along.
    fn answer(&self, asker: Rank, wanted: Wanted) -> (Answer, Option<Arc<Storage>>);
}

impl Door {
    /// One under a name that has `random` in it. From now on peers may ask; they are answered once somebody
    /// [serves](Self::serve).
    ///
    /// # Errors
    /// What the system says where it has no sockets or descriptors.
    pub(super) fn open(random: &[u8; 16]) -> rustix::io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&listener, &socket_name(random)?)?;
        rustix::net::listen(&listener, QUEUE)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { listener: Mutex::new(Some(listener)), end })
    }

    /// Has `serve` return.
    pub(super) fn close(&self) {
        // It could only fail for being closed already, by 2^64 - 1 calls.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
    }

    /// Answers all who ask, until the door is closed.
    pub(super) fn serve(&self, owner: &dyn Owner) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = listener else {
            return;
        };
        let mut callers: Vec<Caller> = Vec::new();
        let mut is_short = false;
        loop {
            let (is_ended, is_called, spoken) = match self.poll(&listener, &callers, is_short) {
                Ok(heard) => heard,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    // Memory is short, or the program has lowered its limit of descriptors below what there are.
                    // Without this one, who asks again, it may work.
                    tracing::warn!(%error, "waiting for peers that connect failed; trying again");
                    drop(callers.pop());
                    is_short = true;
                    if self.is_closed_within(SHORTAGE) {
                        return;
                    }
                    continue;
                }
            };
            if is_ended {
                return;
            }
            let now = Instant::now();
            let mut spoken = spoken.into_iter();
            callers.retain(|caller| {
                if spoken.next().unwrap_or(false) {
                    caller.answer(owner);
                    return false;
                }
                let is_patient = now < caller.until;
                if !is_patient {
                    tracing::warn!(process = caller.process, "a caller did not greet: dropped");
                }
                is_patient
            });
            is_short = false;
            if is_called {
                is_short = accept(&listener, &mut callers);
            }
        }
    }

    /// Whether the end comes within so long.
    fn is_closed_within(&self, limit: Duration) -> bool {
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&limit)) {
            Ok(count) => count > 0,
            // Not even that: the number of the end is read, and says so itself.
            Err(_) => {
                std::thread::sleep(SHORTAGE);
                rustix::io::read(&self.end, &mut [0; 8]).is_ok()
            }
        }
    }

    /// Waits for something to do: whether the end has come, whether somebody calls, and which callers have spoken.
    fn poll(
        &self,
        listener: &OwnedFd,
        callers: &[Caller],
        is_short: bool,
    ) -> rustix::io::Result<(bool, bool, Vec<bool>)> {
        let wants_callers = callers.len() < CALLERS && !is_short;
        let for_listener = if wants_callers { PollFlags::IN } else { PollFlags::empty() };
        let mut descriptors = Vec::with_capacity(2 + callers.len());
        descriptors.push(PollFd::new(&self.end, PollFlags::IN));
        descriptors.push(PollFd::new(listener, for_listener));
        descriptors.extend(callers.iter().map(|caller| PollFd::new(&caller.socket, PollFlags::IN)));
        let until_hurry = callers.iter().map(|caller| caller.until).min();
        let limit = until_hurry.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = if is_short { Some(limit.map_or(SHORTAGE, |limit| limit.min(SHORTAGE))) } else { limit };
        // A millisecond more, so that it is not looked for again and again at the very end.
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: (limit.subsec_nanos().min(998_999_999) + 1_000_000).into(),
        });
        poll(&mut descriptors, limit.as_ref())?;
        let happened: Vec<bool> =
            descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        Ok((happened[0], happened[1] && wants_callers, happened[2..].to_vec()))
    }
}

/// Lets one caller in. Returns whether there was no descriptor for it.
fn accept(listener: &OwnedFd, callers: &mut Vec<Caller>) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match rustix::net::accept_with(listener, flags) {
        Ok(socket) => socket,
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
            tracing::warn!(%error, "no descriptor for a peer that connects; trying again");
            return true;
        }
        // It gave up meanwhile, or another reason that concerns only this one.
        Err(_) => return false,
    };
    let Ok(Credentials { process, user }) = sys::credentials(&socket) else {
        return false;
    };
    if user != rustix::process::geteuid().as_raw() {
        tracing::warn!(user, process, "a process of another user tried to connect: dropped");
        return false;
    }
    callers.push(Caller { socket, process, until: Instant::now() + GREETING_LIMIT });
    false
}

/// One who has connected and will greet.
struct Caller {
    socket: OwnedFd,
    process: i32,
    until: Instant,
}

impl Caller {
    /// Reads the greeting and answers it, or drops the caller.
    fn answer(&self, owner: &dyn Owner) {
        let problem = match self.greeting(owner) {
            Ok(greeting) => match self.send(owner.answer(greeting.asker, greeting.wanted)) {
                Ok(()) => return,
                Err(error) => format!("it could not be answered: {error}"),
            },
            Err(problem) => problem,
        };
        tracing::warn!(process = self.process, problem, "a caller is dropped");
    }

    fn greeting(&self, owner: &dyn Owner) -> Result<Greeting, String> {
        let mut bytes = [0; GREETING_LENGTH + 1];
        let length = match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Err("it hung up without a greeting".into()),
            Ok((_, length)) => length,
            Err(error) => return Err(format!("its greeting cannot be read: {error}")),
        };
        let greeting = Greeting::decode(bytes.get(..length).unwrap_or_default())
            .map_err(|malformed| format!("its greeting is wrong: {malformed}"))?;
        if !owner.secret().admits(&greeting.secret) {
            return Err("it does not know the job's secret".into());
        }
        if greeting.asker.0 >= owner.size() {
            return Err(format!("it calls itself rank {} in a job of {}", greeting.asker, owner.size()));
        }
        Ok(greeting)
    }

    fn send(&self, (answer, storage): (Answer, Option<Arc<Storage>>)) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        let files = storage.as_ref().map(|storage| [storage.as_fd()]);
        if let Some(files) = &files {
            attached.push(SendAncillaryMessage::ScmRights(files));
        }
        let bytes = answer.encode();
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut attached, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}
