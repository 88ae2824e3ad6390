//! A host library for a test: channels between threads, which hold so many messages, or none.

use std::cell::RefCell;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use svmio_collectives::executor::{Error, PointToPoint};

/// Nobody waits so long for anybody who comes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// One member's ends of the channels from each to each.
pub(crate) struct Channels {
    member: usize,
    members: usize,
    ends: RefCell<Ends>,
}

/// By member; none for oneself, nor after leaving.
#[derive(Default)]
struct Ends {
    to: Vec<Option<SyncSender<Vec<u8>>>>,
    from: Vec<Option<Receiver<Vec<u8>>>>,
}

impl fmt::Debug for Channels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Channels").field("member", &self.member).finish_non_exhaustive()
    }
}

impl Channels {
    /// Those of each of so many members. A channel that holds no message has its sender wait for its receiver.
    pub(crate) fn between(members: usize, held: usize) -> Vec<Self> {
        let mut ends: Vec<Ends> = (0..members).map(|_| Ends::default()).collect();
        for from in 0..members {
            for to in 0..members {
                let (sender, receiver) = if from == to {
                    (None, None)
                } else {
                    let (sender, receiver) = sync_channel(held);
                    (Some(sender), Some(receiver))
                };
                ends[from].to.push(sender);
                ends[to].from.push(receiver);
            }
        }
        let channels = |(member, ends)| Self { member, members, ends: RefCell::new(ends) };
        ends.into_iter().enumerate().map(channels).collect()
    }
}

fn gone(member: usize) -> Error {
    Error::Host { reason: format!("member {member} has left") }
}

impl PointToPoint for Channels {
    fn members(&self) -> usize {
        self.members
    }

    fn member(&self) -> usize {
        self.member
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Error> {
        let ends = self.ends.borrow();
        let sender = ends.to[to].as_ref().ok_or_else(|| gone(to))?;
        // Who waits in a circle is not to do so for ever.
        let (begun, mut bytes) = (Instant::now(), bytes.to_vec());
        loop {
            match sender.try_send(bytes) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) if begun.elapsed() < LIMIT => bytes = back,
                Err(_) => return Err(gone(to)),
            }
            thread::yield_now();
        }
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<usize, Error> {
        let received = self.ends.borrow().from[from].as_ref().map(|receiver| receiver.recv_timeout(LIMIT));
        let bytes = received.and_then(Result::ok).ok_or_else(|| gone(from))?;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn leave(&self, _: &Error) {
        self.ends.take();
    }
}

/// Has each of the members' threads do `body`, and returns what each comes to.
pub(crate) fn each<T: Send>(channels: Vec<Channels>, body: impl Fn(Channels) -> T + Sync) -> Vec<T> {
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> =
            channels.into_iter().map(|channels| scope.spawn(move || body(channels))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
