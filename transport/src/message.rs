//! Messages between processes: in order, of any length, with as few copies as the fabric allows.
//!
//! ```text
//!   Messenger ── scope ── Request                what a program holds                      (scope)
//!       │
//!    Engine        all links; waiting; the service thread; inboxes on demand     (engine, registry, inquiry)
//!       │
//!     Link         a pair: one thread's turn at a time                                     (link, state, turn)
//!       ├── outgoing, incoming     short: within packets │ eager: into a buffer kept ready
//!       └── rendezvous             request, ready, data in parts, done
//!             ├── pump             parts through staging buffers, by stores or DMA
//!             └── sharing          user memory to user memory, copied by both ends
//!       │
//!   ring, credits, lease, ends, wire, layout    what stands in the receiver's memory
//! ```
//!
//! Each process has an inbox per peer that talks to it, made when that peer first does, and written by that peer only:
//! packets go to a ring in it, eager messages to slots in it, and credits for the other direction come back through
//! it. A receive meets messages in the order in which they were sent, and the other way round; there are no tags.
//!
//! A peer that closes its messenger tells all with whom it talked. Who waits for a first word of one, for longer than a
//! moment, asks it once whether it has closed, and hears of its end, too.
//!
//! Short and eager messages are over for the sender once they are written. A rendezvous goes on while a program
//! computes: peers trigger an interrupt when something is to be done, which wakes a service thread, unless somebody is
//! in a call of the messenger, who then does it.

mod anybody;
mod atomic;
mod closing;
mod context;
mod credits;
mod eager;
mod ends;
mod engine;
mod fast;
mod footprint;
mod incoming;
mod inquiry;
mod layout;
mod lease;
mod link;
mod needs;
mod outbox;
mod outcome;
mod outgoing;
mod port;
mod posting;
mod pump;
mod registry;
mod rendezvous;
mod ring;
mod room;
mod scope;
mod service;
mod settings;
mod shares;
mod sharing;
mod state;
mod turn;
mod user;
mod waiters;
#[doc(hidden)]
pub mod wire;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use self::context::Context;
use self::engine::Engine;
pub use self::footprint::Footprint;
use self::incoming::Arrival;
#[doc(hidden)]
pub use self::layout::{HEADER, Sizes};
use self::link::Link;
use self::outcome::Outcome;
use self::outgoing::{Send, Sender, Sent};
pub use self::port::Port;
pub use self::scope::{Posted, Request, Scope};
pub use self::settings::{MessageSettings, Mode};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::units::Rank;

/// How the buffers for a peer came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// The peer that writes into them.
    pub peer: Rank,
    /// The longest short message, in bytes.
    pub short_message: usize,
    /// Bytes of the ring of short packets.
    pub ring: u64,
    /// Bytes of the longest eager message.
    pub eager_buffer: u32,
    /// How many of them there is room for.
    pub eager_buffers: u32,
    /// Bytes of a staging buffer; 0 as long as none was needed.
    pub staging_buffer: u32,
    /// How many there are.
    pub staging_buffers: u32,
}

/// Sends and receives messages. All methods may be called by several threads at once.
///
/// Dropping it ends the service thread, and tells the peers that have to do with it, or have waited for a message of it
/// for long: what they send or receive by this port from then on fails. Where a peer has no room for something that it
/// still has to be told, or does not take note, it is waited for up to 10 s.
pub struct Messenger {
    engine: Arc<Engine>,
    /// After whom the next receive from anybody looks first.
    last_from: AtomicU32,
    /// Whose losses receives from anybody have reported.
    reported: Mutex<Vec<Rank>>,
}

impl Messenger {
    /// Opens a port of this process, which nobody else of the process has open. Connects to nobody yet.
    ///
    /// # Errors
    /// Those of the fabric, where it has to make something for that; the present ones do not. [`Error::Unsupported`]
    /// for a [silent](Port::silent) port with settings that are `asynchronous`.
    pub fn open(fabric: &Fabric, port: Port, settings: &MessageSettings) -> Result<Self> {
        if settings.asynchronous && port.is_silent() {
            let what = "messages that go on by themselves, on a port without an interrupt";
            return Err(Error::Unsupported { back_end: fabric.capabilities().back_end.clone(), what });
        }
        let context = Context::new(fabric.clone(), settings.clone(), port.space(), port.interrupt());
        Ok(Self::over(Engine::new(context)))
    }

    fn over(engine: Arc<Engine>) -> Self {
        Self { engine, last_from: AtomicU32::new(0), reported: Mutex::default() }
    }

    /// Has `meanwhile` called now and then while a call of this messenger waits for longer than a moment: by a host
    /// library that has to go on with what it has begun. It should be short, and must not wait for anything. Only the
    /// first one counts.
    pub fn do_meanwhile(&self, meanwhile: fn()) {
        // The first one counts.
        let _ = self.engine.meanwhile.set(meanwhile);
    }

    /// Has the loss of any of `ranks` end all that waits, and fail all further messages, whoever they are to or from:
    /// for peers who depend on each other, so that one who has noticed leaves others waiting for it. To be called
    /// before the first message; only the first call counts.
    pub fn watch(&self, ranks: &[Rank]) {
        // The first one counts.
        let _ = self.engine.context.watched.set(ranks.to_vec());
    }

    /// What it was opened with.
    #[must_use]
    pub fn settings(&self) -> &MessageSettings {
        &self.engine.context.settings
    }

    /// How the buffers for each peer that has talked to this process came out.
    #[must_use]
    pub fn buffers(&self) -> Vec<Buffers> {
        self.engine.links().iter().map(|link| link.buffers()).collect()
    }

    /// Sends a message, by the settings' mode. Returns when `bytes` may be changed.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Ending`]; [`Error::Unsupported`] for a mode that the fabric does not have;
    /// [`Error::NoMessenger`] where the peer opens no messenger on this port within 30 s, for which the first send
    /// waits however it is begun, or has closed it, or something went wrong there by which it exchanges nothing more
    /// with this process; [`Error::Memory`].
    #[inline]
    pub fn send(&self, to: Rank, bytes: &[u8]) -> Result<()> {
        self.send_by(self.engine.context.settings.mode, to, bytes)
    }

    /// Sends a message, by `mode`.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[inline]
    pub fn send_by(&self, mode: Mode, to: Rank, bytes: &[u8]) -> Result<()> {
        let link = self.engine.ready_link(to)?;
        self.engine.check(to)?;
        if self.sends_short(link, mode, true, bytes) {
            return self.engine.context.fabric.ring(to);
        }
        self.send_by_slowly(link, mode, bytes)
    }

    /// Whether a message went as a short one, at once; the peer is to be rung then.
    #[inline]
    fn sends_short(&self, link: &Link, mode: Mode, waits: bool, bytes: &[u8]) -> bool {
        let context = &self.engine.context;
        let may_be_short = match mode {
            Mode::Automatic => waits || bytes.len() < context.settings.rendezvous_threshold as usize,
            Mode::Short => true,
            _ => bytes.is_empty(),
        };
        let is_sent = may_be_short && link.send_short(bytes);
        if is_sent {
            let counters = context.fabric.counters();
            counters.short_messages.add(1);
            counters.stored_bytes.add(bytes.len() as u64);
        }
        is_sent
    }

    fn send_by_slowly(&self, link: &Link, mode: Mode, bytes: &[u8]) -> Result<()> {
        let send = Send { memory: UserMemory::of(bytes), mode, sender: Sender::Waits };
        match self.begin_send(link, send, None)? {
            Sent::Complete => {
                // What had come was looked at first, and may be to be copied.
                self.engine.leave_open_shares();
                Ok(())
            }
            Sent::Queued(outcome) | Sent::Asked { outcome, .. } => self.engine.wait_for(&outcome).map(|_| ()),
        }
    }

    fn begin_send(&self, link: &Link, send: Send, outcome: Option<Arc<Outcome>>) -> Result<Sent> {
        self.engine.check(link.peer)?;
        let mut state = link.take_turn();
        // SAFETY: the callers see to it that the memory stays until the send is complete or its outcome set: `send_by`
        // by waiting, `send_kept` by an outcome that has it, `post_send` by its own contract.
        let sent = unsafe { state.send(link, send, outcome) };
        // Who asks only needs nothing that the peer has to be told, and leaves nothing to do here.
        if !matches!(sent, Ok(Sent::Complete | Sent::Asked { .. })) {
            state.settle_needs(link);
        }
        sent
    }

    /// Receives the next message of `from` and returns its length. Waits until there is one.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it is longer than `into`; it is lost then. [`Error::PeerLost`], [`Error::Ending`];
    /// [`Error::NoMessenger`] where the peer has closed its own, and all that it sent before is received, or has given
    /// up its messages with this process, as its own error tells. One that has not opened its own yet is waited for, as
    /// long as it takes. Of one that closes it before both have talked, that is known soon, half a second after the wait
    /// began at the earliest; where its fabric is gone, too, it may be by [`Error::PeerLost`], and take as long as
    /// that takes anywhere. A peer that was taken for lost may be at a write into `into`: then the error comes when that write is over, or the peer's
    /// process has ended. One on this machine that was stopped in the midst of it is continued (SIGCONT). For one
    /// elsewhere that does not even acknowledge, this waits `ofi.silence` at most: should it go on later, what it had
    /// begun to write may still come into `into`, and the log tells of it. [`Error::Wire`] where what came makes no
    /// sense: nothing more is exchanged with that peer.
    #[inline]
    pub fn receive(&self, from: Rank, into: &mut [u8]) -> Result<usize> {
        let link = self.engine.ready_link(from)?;
        self.engine.check(from)?;
        let length = link.receive_short(into).or_else(|| {
            let has_arrived = self.engine.spin_for(|| link.signs.messages.has_arrived());
            if has_arrived { link.receive_short(into) } else { None }
        });
        match length {
            Some(length) => Ok(length),
            None => self.receive_slowly(link, into),
        }
    }

    fn receive_slowly(&self, link: &Link, into: &mut [u8]) -> Result<usize> {
        let (from, memory) = (link.peer, UserMemory::of_mut(into));
        link.expect();
        let arrival = self.engine.wait(
            || link.may_receive(),
            || {
                self.engine.check(from)?;
                if link.may_receive() { self.begin_receive(link, memory) } else { Ok(None) }
            },
        )?;
        self.finish_receive(arrival)
    }

    fn begin_receive(&self, link: &Link, memory: UserMemory) -> Result<Option<Arrival>> {
        let mut state = link.take_turn();
        // SAFETY: the callers have the memory exclusively, and wait for the outcome.
        let arrival = unsafe { state.receive(link, memory) };
        // Others that waited before it may have been served, or have met what is to be copied.
        let has_opened = state.has_open() != link.signs.has_open.load(Ordering::Relaxed);
        if !matches!(arrival, Ok(Some(Arrival::Whole(_)))) || state.has_news || has_opened {
            state.publish(link);
        }
        arrival
    }

    fn finish_receive(&self, arrival: Arrival) -> Result<usize> {
        match arrival {
            Arrival::Whole(result) => result,
            Arrival::Begun(outcome) => self.engine.wait_for(&outcome),
        }
    }

    /// The length of the next message of `from`, if there is one.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Ending`], [`Error::NoMessenger`], [`Error::Wire`].
    pub fn probe(&self, from: Rank) -> Result<Option<usize>> {
        let link = self.engine.ready_link(from)?;
        self.engine.check(from)?;
        link.expect();
        self.engine.nudge();
        link.take_turn().probe(link)
    }

    /// Runs `body`, which may begin sends and receives without waiting for their ends; all have ended when this
    /// returns, so their buffers can be used again. Where `body` fails, receives that have met no message yet and sends
    /// that have not begun are given up.
    ///
    /// ```no_run
    /// # use svmio_transport::{Fabric, Rank, Result, message::{MessageSettings, Messenger, Port}};
    /// # fn exchange(fabric: &Fabric) -> Result<()> {
    /// let messenger = Messenger::open(fabric, Port::FIRST, &MessageSettings::default())?;
    /// let (ours, mut theirs) = (vec![1; 1 << 20], vec![0; 1 << 20]);
    /// messenger.scope(|scope| {
    ///     let receive = scope.receive(Rank(1), &mut theirs)?;
    ///     scope.send(Rank(1), &ours)?;
    ///     // Compute here.
    ///     receive.wait()
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `body` returns, or else the first error of an operation that `body` did not wait for.
    pub fn scope<'env, T>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<T>,
    ) -> Result<T> {
        scope::run(self, body)
    }

    /// Does what there is to do, without waiting: of use to programs that compute with `asynchronous` off. Then it also
    /// asks a peer of whom a message is waited for, and that has said nothing for long, which takes a moment.
    pub fn progress(&self) {
        self.engine.nudge();
    }

    /// Returns when all that was sent to `to` so far needs nothing more of this process: it is written, and checked
    /// where the fabric may lose writes. Messages by rendezvous are over only when their sends have ended.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Ending`], [`Error::Unreachable`].
    pub fn flush(&self, to: Rank) -> Result<()> {
        let link = self.engine.link(to)?;
        self.engine.wait(
            || link.signs.failed.load(Ordering::Relaxed),
            || {
                self.engine.check(to)?;
                let mut state = link.take_turn();
                if !state.is_idle() {
                    state.process(link);
                }
                if let Some(error) = &state.error {
                    return Err(error.clone());
                }
                if !state.is_idle() {
                    return Ok(None);
                }
                let checked = state.check(link);
                state.publish(link);
                checked.map(Some)
            },
        )
    }

    /// Ends it, as dropping does.
    pub fn close(self) {}

    /// Ends it for all who have it: it is not to be used any more. Peers hear of that also where one is lost that this
    /// process [watches](Self::watch), and they may not.
    pub fn end(&self) {
        self.engine.close_to_all();
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl std::fmt::Debug for Messenger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Messenger").field("buffers", &self.buffers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
