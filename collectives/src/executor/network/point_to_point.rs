//! What a host library gives for collectives to be done by it: a send and a receive.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::executor::error::Result;

/// Messages from member to member of a group, as a host library sends and receives them: MPI, or anything else that has
/// such functions.
///
/// Members are numbered from 0. The messages of one member to another come in the order in which they were sent, and a
/// receive takes the next one. Nothing else may be sent or received by the same means as long as the group is there.
///
/// [`send`](Self::send) and [`receive`](Self::receive) are enough, and a send need not return before the receiver has
/// come: no collective has members wait for each other in a circle then.
///
/// ```
/// use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
///
/// use svmio_collectives::executor::{Elementwise, Error, NetworkGroup, NetworkSettings, PointToPoint};
///
/// /// One of two members.
/// #[derive(Debug)]
/// struct Channels {
///     member: usize,
///     other: SyncSender<Vec<u8>>,
///     own: Receiver<Vec<u8>>,
/// }
///
/// fn host(reason: impl ToString) -> Error {
///     Error::Host { reason: reason.to_string() }
/// }
///
/// impl PointToPoint for Channels {
///     fn members(&self) -> usize {
///         2
///     }
///
///     fn member(&self) -> usize {
///         self.member
///     }
///
///     fn send(&self, _: usize, bytes: &[u8]) -> Result<(), Error> {
///         self.other.send(bytes.to_vec()).map_err(host)
///     }
///
///     fn receive(&self, _: usize, into: &mut [u8]) -> Result<usize, Error> {
///         let bytes = self.own.recv().map_err(host)?;
///         into.get_mut(..bytes.len()).ok_or_else(|| host("too long"))?.copy_from_slice(&bytes);
///         Ok(bytes.len())
///     }
///
///     // The other one hears of it when this member's ends of the channels are dropped.
///     fn leave(&self, _: &Error) {}
/// }
///
/// let ((to_second, second), (to_first, first)) = (sync_channel(0), sync_channel(0));
/// let sides = [(to_second, first), (to_first, second)];
/// let members = sides.into_iter().enumerate().map(|(member, (other, own))| {
///     std::thread::spawn(move || {
///         let channels = Channels { member, other, own };
///         let mut group = NetworkGroup::over(channels, NetworkSettings::default())?;
///         let mut sum = (member as u64 + 1).to_ne_bytes();
///         group.allreduce(&mut sum, &Elementwise::<u64, _>::commutative(u64::wrapping_add))?;
///         group.barrier()?;
///         Ok::<u64, Error>(u64::from_ne_bytes(sum))
///     })
/// });
/// for member in members.collect::<Vec<_>>() {
///     assert_eq!(member.join().unwrap()?, 3);
/// }
/// # Ok::<(), Error>(())
/// ```
pub trait PointToPoint: fmt::Debug + Send {
    /// How many members there are.
    fn members(&self) -> usize;

    /// This member's number.
    fn member(&self) -> usize;

    /// Sends to another member. Returns when `bytes` may be changed.
    ///
    /// # Errors
    /// The host library's: [`Error::HostCall`](crate::executor::Error::HostCall) where it has codes for them,
    /// [`Error::Host`](crate::executor::Error::Host) otherwise.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()>;

    /// Receives the next message of another member and returns its length in bytes. Waits until there is one.
    ///
    /// # Errors
    /// As for [`send`](Self::send); also where it is longer than `into`.
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<usize>;

    /// Sends to one member and receives from another one, or the same. Returns the length of what came, in bytes.
    ///
    /// A host library that can do both side by side should: as it is here, one waits for the other.
    ///
    /// # Errors
    /// As for [`send`](Self::send) and [`receive`](Self::receive).
    fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<usize> {
        // A send may wait for its receiver. Who sends to a higher member sends first, all others receive first. Of
        // members who wait for each other in a circle, each one's message going to the next, somebody sends to a higher
        // one, and comes to one who sends to a lower one, going up. That one receives first: the two meet.
        if to > self.member() {
            self.send(to, bytes)?;
            self.receive(from, into)
        } else {
            let length = self.receive(from, into)?;
            self.send(to, bytes)?;
            Ok(length)
        }
    }

    /// Sends something to each of several other members. Returns when all of it may be changed. A host library that can
    /// have several sends under way at once should.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    fn send_each(&self, messages: &[(usize, &[u8])]) -> Result<()> {
        messages.iter().try_for_each(|&(to, bytes)| self.send(to, bytes))
    }

    /// This member sends and receives nothing any more, because of `error`. Whoever waits for it then, or will, in a
    /// send or a receive, should be told by an error: who is not, waits for as long as the host library has it wait.
    fn leave(&self, error: &crate::executor::Error);

    /// Has `meanwhile` called now and then while a call waits for longer than a moment. Of no use where the host
    /// library goes on by itself with all that it has begun, as it is taken to do here.
    fn do_meanwhile(&self, _meanwhile: fn()) {}

    /// The time since some moment, on the clock by which costs are [measured](super::NetworkGroup::learn_costs).
    fn now(&self) -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}
