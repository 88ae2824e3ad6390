//! What all links of a messenger share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::credits::words_in_turn;
use super::layout::NEEDS_AT;
use super::lease::Lease;
use super::needs::Needs;
use super::port::Port;
use super::room::Room;
use super::settings::MessageSettings;
use super::waiters::Waiters;
use super::wire::{Way, Ways};
use crate::back_end::{BackEnd, Backing, Piece, Remote, Sequence, Wait};
use crate::capabilities::{Atomics, Dma, WriteOrder};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::memory::SharedMemory;
use crate::segment::{LocalSegment, RemoteSegment};
use crate::units::{Interrupt, Rank, SegmentId};

/// Which segment of a messenger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// What a peer writes messages into.
    Inbox,
    /// The staging buffers into which a peer's rendezvous messages come.
    Staging,
    /// The staging buffers from which rendezvous messages go to a peer.
    Departing,
}

const ROLES: [Role; 3] = [Role::Inbox, Role::Staging, Role::Departing];

pub(super) struct Context {
    pub(super) fabric: Fabric,
    pub(super) settings: MessageSettings,
    pub(super) room: Room,
    pub(super) space: u32,
    /// Which of this process's messengers on the port.
    pub(super) number: OnceLock<u64>,
    pub(super) interrupt: Interrupt,
    /// Whether every write arrives.
    pub(super) reliable: bool,
    /// Whether what is written first is visible first.
    pub(super) ordered: bool,
    /// How many credit words are written in turn.
    pub(super) credit_words: u64,
    /// How this process can receive a rendezvous message.
    pub(super) receives: Ways,
    /// Which ways the fabric knows.
    pub(super) sends: Ways,
    /// Who waits in calls of the messenger.
    pub(super) waiters: Waiters,
    /// How often the membership changed.
    pub(super) disturbances: AtomicU64,
    /// Whose loss ends all that waits, whoever it has to do with.
    pub(super) watched: OnceLock<Vec<Rank>>,
    /// Of how many peers somebody waits for a first word.
    pub(super) inquiries: AtomicU32,
    /// Whether the service thread looks from time to time whether what was sent has arrived.
    pub(super) armed: AtomicBool,
}

impl Context {
    pub(super) fn new(fabric: Fabric, settings: MessageSettings, space: u32, interrupt: Interrupt) -> Self {
        let capabilities = fabric.capabilities();
        let has_dma = capabilities.dma != Dma::None;
        let registers = capabilities.registers_user_memory;
        let shares = registers && capabilities.remote_read && capabilities.atomics == Atomics::Processor;
        let ways = |ways: &[(Way, bool)]| {
            ways.iter().filter(|(_, open)| *open).fold(Ways::default(), |ways, (way, _)| ways.with(*way))
        };
        let receives = ways(&[
            (Way::Stores, true),
            (Way::Staged, true),
            (Way::FromUser, true),
            (Way::ToUser, registers),
            (Way::Direct, registers),
            (Way::Shared, shares),
        ]);
        let sends = ways(&[
            (Way::Stores, true),
            (Way::Staged, has_dma),
            (Way::FromUser, has_dma && registers),
            // Where memory is mapped, who cannot reach the peers' own need not be unreachable for them.
            (Way::ToUser, has_dma && (registers || !capabilities.direct_mapping)),
            (Way::Direct, has_dma && registers),
            (Way::Shared, shares),
        ]);
        let room = Room::new(&settings, fabric.back_end().memory_share(), fabric.size());
        Self {
            room,
            reliable: capabilities.is_reliable,
            ordered: capabilities.ordering == WriteOrder::Issued,
            credit_words: words_in_turn(capabilities),
            receives,
            sends,
            fabric,
            settings,
            space,
            number: OnceLock::new(),
            interrupt,
            waiters: Waiters::default(),
            disturbances: AtomicU64::new(0),
            watched: OnceLock::new(),
            inquiries: AtomicU32::new(0),
            armed: AtomicBool::new(false),
        }
    }

    /// Whether the job goes on, and `peer` and all that are watched are there.
    ///
    /// # Errors
    /// `PeerLost`, `Ending`.
    #[inline]
    pub(super) fn check(&self, peer: Rank) -> Result<()> {
        self.fabric.membership().check(peer)?;
        // Relaxed: who was woken by a declaration sees that it was counted; anybody else looks again.
        if self.disturbances.load(Ordering::Relaxed) > 0 { self.check_watched() } else { Ok(()) }
    }

    /// Whether all that are watched are there.
    ///
    /// # Errors
    /// `PeerLost`, `Ending`.
    #[cold]
    pub(super) fn check_watched(&self) -> Result<()> {
        let membership = self.fabric.membership();
        self.watched.get().into_iter().flatten().try_for_each(|&rank| membership.check(rank))
    }

    pub(super) fn back_end(&self) -> &(dyn BackEnd + 'static) {
        self.fabric.back_end().as_ref()
    }

    /// Which of this process's messengers on its port this is: the first, the second and so on.
    pub(super) fn number(&self) -> u64 {
        self.number.get().copied().unwrap_or(1)
    }

    /// The segment for `peer`, of one process.
    pub(super) fn segment(&self, role: Role, peer: Rank) -> SegmentId {
        SegmentId::new(self.space, peer.0 * ROLES.len() as u32 + role as u32)
    }

    /// For which peer a segment is, and what for.
    pub(super) fn role(number: u32) -> (Role, Rank) {
        (ROLES[number as usize % ROLES.len()], Rank(number / ROLES.len() as u32))
    }

    /// Makes the segment for `peer`, as long as `length` says, if there is memory.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn create(&self, role: Role, peer: Rank, length: u64) -> Result<LocalSegment> {
        self.fabric.create(self.segment(role, peer), &Backing::Anonymous { length })
    }

    /// To be held while something is copied from or to user memory of the peer that owns `inbox`; `None` where the
    /// fabric needs none.
    ///
    /// # Errors
    /// `NoMessenger` where the peer has given the pair up.
    pub(super) fn lease(&self, inbox: &RemoteSegment) -> Result<Option<Lease>> {
        let Some(memory) = inbox.mapping() else { return Ok(None) };
        Lease::take(memory)?.ok_or_else(|| self.reason_of_giving_up(inbox.owner(), memory)).map(Some)
    }

    /// Why `peer`, which has this `inbox`, has given the pair up.
    fn reason_of_giving_up(&self, peer: Rank, inbox: &SharedMemory) -> Error {
        // Acquire: it was told before the copies were refused.
        let is_told = |word: &AtomicU64| Needs::seen(word.load(Ordering::Acquire)).contains(Needs::GIVEN_UP);
        let is_certain = || inbox.word64(NEEDS_AT).is_ok_and(is_told);
        self.unless_disturbed(peer, self.has_given_up(peer), is_certain)
    }

    /// Why `peer` has nothing more for this process: most often because the job ends, or because of a loss, its own or
    /// that of another one that is watched, and that is about to be declared here, too. What else it can be is told by
    /// `error`, at once where `is_certain`.
    pub(super) fn unless_disturbed(&self, peer: Rank, error: Error, is_certain: impl Fn() -> bool) -> Error {
        const LIMIT: Duration = Duration::from_secs(1);
        let mut ready = || self.check(peer).is_err() || is_certain();
        let deadline = Some(self.fabric.now().after(LIMIT));
        let _ = self.fabric.wait_until(Wait { deadline, attends: None, ready: &mut ready });
        self.check(peer).err().unwrap_or(error)
    }

    /// The error of a peer that has none.
    pub(super) fn no_messenger(&self, rank: Rank, problem: impl Into<String>) -> Error {
        let node = self.fabric.membership().node(rank).into();
        Error::NoMessenger { rank, node, port: Port::of_space(self.space), problem: problem.into() }
    }

    /// The error of what `from` sent, where that makes no sense.
    pub(super) fn wire(&self, from: Rank, problem: impl std::fmt::Display) -> Error {
        Error::wire(self.fabric.membership(), from, problem)
    }

    /// The error of a peer that has closed its own. Where the job ends, or a loss is known, the peer's or that of one that
    /// is watched, that is why it has closed, or matters more.
    pub(super) fn has_closed(&self, rank: Rank) -> Error {
        let error = || self.no_messenger(rank, "it has closed it, and takes nothing more");
        self.check(rank).err().unwrap_or_else(error)
    }

    /// The error of a peer whose messages with this process have failed on its side; or what matters more, as above.
    pub(super) fn has_given_up(&self, rank: Rank) -> Error {
        const PROBLEM: &str = "it has given up its messages with this process; its own error tells why";
        self.check(rank).err().unwrap_or_else(|| self.no_messenger(rank, PROBLEM))
    }

    /// Writes so that nothing that is written afterwards is seen before it.
    ///
    /// # Errors
    /// `PeerLost`, `Unreachable`.
    pub(super) fn settle(&self, remote: &Remote, offset: u64, bytes: &[u8]) -> Result<()> {
        let (fabric, peer) = (&self.fabric, remote.owner);
        if !self.reliable {
            return self.settle_by_halves(remote, offset, bytes);
        }
        fabric.write(remote, &[Piece { offset, bytes }])?;
        if self.ordered { Ok(()) } else { fabric.store_barrier(peer) }
    }

    /// What is long is hardly ever intact where much goes wrong, so what was broken is repeated in halves.
    fn settle_by_halves(&self, remote: &Remote, offset: u64, bytes: &[u8]) -> Result<()> {
        const SMALLEST: usize = 256;
        let (fabric, peer) = (&self.fabric, remote.owner);
        let write = || fabric.write(remote, &[Piece { offset, bytes }]);
        if bytes.len() <= SMALLEST {
            return fabric.write_checked(peer, write);
        }
        let mark = fabric.mark(peer);
        write()?;
        if fabric.check_sequence(peer, mark)? == Sequence::Intact {
            return Ok(());
        }
        fabric.counters().repeated_writes.add(1);
        let (first, second) = bytes.split_at(bytes.len() / 2);
        self.settle_by_halves(remote, offset, first)?;
        self.settle_by_halves(remote, offset + first.len() as u64, second)
    }

    /// Has the service thread look soon whether what was sent has arrived, should the program not do it itself.
    pub(super) fn arm(&self) {
        // SeqCst: either this sees that the thread has stopped looking, or the thread sees the sign that was set
        // before.
        if self.settings.asynchronous && !self.armed.swap(true, Ordering::SeqCst) {
            let _ = self.fabric.trigger(self.fabric.rank(), self.interrupt);
        }
    }

    /// Has the service thread learn that it was [armed](Self::arm), if the interrupt for it was taken by somebody who
    /// waited: nobody does any more.
    pub(super) fn hand_arms_on(&self) {
        // Relaxed: the last one to leave finds nobody; whoever comes after that leaves as well.
        if self.armed.load(Ordering::SeqCst) && !self.waiters.are_there() {
            let _ = self.fabric.trigger(self.fabric.rank(), self.interrupt);
        }
    }

    /// Wakes this process's service thread, or one who waits and does its work.
    pub(super) fn stir(&self) {
        if self.settings.asynchronous {
            // It fails only when the fabric is closed, and then nobody sleeps any more.
            let _ = self.fabric.trigger(self.fabric.rank(), self.interrupt);
        }
        self.back_end().wake();
    }
}
