//! Transfers that the caller waits for: writes that are too long for messages, and reads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Target, Token};
use super::countdown::Countdown;
use super::domain::{Descriptor, Use};
use super::endpoint::{Endpoint, Part, Posted};
use super::peers::Peer;
use super::receiving::refused;
use super::slots::Buffer;
use crate::back_end::Piece;
use crate::dma::Direction;
use crate::error::{Error, Result};
use crate::memory::UserMemory;
use crate::units::Rank;

/// How long a write to a lost peer waits for the provider to let go of the caller's bytes. After that the provider
/// may still read them, for a peer that is not there; it never writes to them. TCP providers do not let go while a hung
/// peer keeps its connection: should it go on, it gets what the bytes are by then, but it is lost to this process.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of a buffer into which is read. Reads go through buffers of ours: providers do not let go of what is under way
/// to a hung peer, and a read that was given up must not write into the caller's memory when that peer wakes up.
pub(super) const SCRATCH: usize = 256 << 10;

/// How many of them are kept for the next read.
const SCRATCH_KEPT: usize = 8;

/// How many parts of one transfer are under way at once.
const WINDOW: usize = 4;

/// A buffer through which is read, or written from memory that cannot be registered.
pub(super) struct Scratch(Buffer);

impl Scratch {
    /// Its first bytes, for a transfer.
    pub(super) fn memory(&self, length: usize) -> UserMemory {
        self.0.bytes.memory(length)
    }

    /// What a transfer gives along.
    pub(super) fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// What was read.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Has it begin with what is to be written, which must not be longer.
    pub(super) fn fill(&mut self, with: &[u8]) {
        if let Some(to) = self.0.bytes.get_mut(..with.len()) {
            to.copy_from_slice(with);
        }
    }
}

/// Whether a part of a transfer that ended with this code was cut off, though its peer lives: its connection was closed,
/// perhaps over what the peer refuses. Providers do not say, so that whoever waits for it repeats it once.
pub(super) fn was_cut_off(code: i32) -> bool {
    code == libc::ECANCELED
}

/// Parts of a transfer that somebody waits for.
pub(super) struct Group {
    /// With whom.
    pub(super) peer: Rank,
    parts: Countdown,
    code: AtomicI32,
    // Stays until the provider has let go of it, whoever else has forgotten it by then.
    scratch: Option<Scratch>,
}

/// A part that is being read.
struct Reading<'a> {
    group: Arc<Group>,
    /// Where in the remote memory.
    at: u64,
    into: &'a mut [u8],
}

impl Group {
    /// One with no part yet.
    pub(super) fn new(peer: Rank, scratch: Option<Scratch>) -> Arc<Self> {
        Arc::new(Self { peer, parts: Countdown::new(), code: AtomicI32::new(0), scratch })
    }

    /// A part is about to be posted.
    pub(super) fn begin_part(&self) {
        self.parts.begin();
    }

    /// A part has ended, with the provider's code or 0.
    pub(super) fn finish_part(&self, code: i32) {
        if code != 0 {
            self.code.store(code, Ordering::Relaxed);
        }
        // Last: whoever sees that none is left sees the code, and the bytes.
        self.parts.end();
    }

    /// Whether no part is under way.
    pub(super) fn has_ended(&self) -> bool {
        self.parts.is_over()
    }

    /// Whether one has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.code.load(Ordering::Relaxed) != 0
    }

    fn was_cut_off(&self) -> bool {
        was_cut_off(self.code.load(Ordering::Relaxed))
    }
}

impl Adapter {
    /// Writes straight from `bytes`, and returns when they have arrived or failed; by messages where they cannot be
    /// registered.
    ///
    /// # Errors
    /// `PeerLost`, also where the peer takes nothing for the answer limit; `Ending`; `OutOfBounds` where it does not
    /// export the memory any more.
    pub(super) fn write_directly(
        &self,
        peer: &Peer,
        target: &Target,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        // What was written by messages before comes first.
        self.settle(peer)?;
        let source = self.source(UserMemory::of(bytes))?;
        let by_messages = || self.write_by_messages(peer, target, &[Piece { offset, bytes }], None);
        let Some(descriptor) = source.descriptor() else { return by_messages() };
        let Some(mut group) = self.write_group(peer, target, offset, bytes, descriptor)? else {
            return by_messages();
        };
        if group.was_cut_off() && self.membership.check(peer.rank).is_ok() {
            // Perhaps not over this: each part has its place, so that it may come twice.
            let Some(again) = self.write_group(peer, target, offset, bytes, descriptor)? else {
                return by_messages();
            };
            group = again;
        }
        if group.has_failed() {
            self.membership.check(peer.rank)?;
            peer.note_failure();
            return Err(refused(peer.rank, offset, bytes.len() as u64));
        }
        Ok(())
    }

    /// Writes all parts, and waits for their end. None where the provider finds one unfit, as memory that can only be
    /// read is to some; others may have arrived.
    fn write_group(
        &self,
        peer: &Peer,
        target: &Target,
        offset: u64,
        bytes: &[u8],
        descriptor: Descriptor,
    ) -> Result<Option<Arc<Group>>> {
        let group = Group::new(peer.rank, None);
        let written = self.write_parts(peer, target, offset, bytes, descriptor, &group);
        // Refused in the middle, a peer that lives still takes what was posted before.
        let outcome = match written {
            Err(error) if self.membership.check(peer.rank).is_ok() => {
                self.wait_for_group(&group).and(Err(error))
            }
            written => written.and_then(|posted| self.wait_for_group(&group).map(|()| posted)),
        };
        if outcome.is_err() {
            self.wait_for_release(&group);
        }
        peer.has_landed.store(true, Ordering::Release);
        outcome.map(|posted| (posted == Posted::Yes).then_some(group))
    }

    /// Waits for all parts, as long as one after the other ends within the limit. A peer for which none does is lost,
    /// even if it lives: the rest may leave when it goes on, from memory that is the caller's again, so that nobody
    /// is to rely on what is there.
    fn wait_for_group(&self, group: &Group) -> Result<()> {
        let limit = self.settings.answer_limit();
        group.parts.wait(|has_one_ended| {
            let waited = self.wait_for(group.peer, "writing to", limit, || has_one_ended().then_some(()));
            if matches!(waited, Err(Error::TimedOut { .. })) {
                self.membership.declare_lost(group.peer, format!("it took nothing of a write for {limit:?}"));
                self.membership.check(group.peer)?;
            }
            waited
        })
    }

    fn write_parts(
        &self,
        peer: &Peer,
        target: &Target,
        offset: u64,
        bytes: &[u8],
        descriptor: Descriptor,
        group: &Arc<Group>,
    ) -> Result<Posted> {
        let mut at = offset;
        for local in bytes.chunks(self.settings.transfer_bytes) {
            let part = Part {
                direction: Direction::Write,
                local: UserMemory::of(local),
                descriptor,
                key: target.memory.key,
                address: target.memory.base.wrapping_add(at),
            };
            at += local.len() as u64;
            // SAFETY: the caller's bytes are borrowed until the group has ended or was given up, and only read.
            let posted = self.insist_if_fit(peer.rank, || unsafe { self.post_part(peer, &part, group) })?;
            if posted != Posted::Yes {
                return Ok(posted);
            }
        }
        Ok(Posted::Yes)
    }

    /// Reads into `into`.
    ///
    /// # Errors
    /// `PeerLost`; `Ending`; `OutOfBounds` where the peer does not export it any more.
    pub(super) fn read_directly(
        &self,
        peer: &Peer,
        target: &Target,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        // A process reads what it has written.
        self.settle(peer)?;
        let mut under_way: VecDeque<Reading<'_>> = VecDeque::new();
        let mut at = offset;
        for into in into.chunks_mut(SCRATCH.min(self.settings.transfer_bytes)) {
            if under_way.len() == WINDOW
                && let Some(first) = under_way.pop_front()
            {
                self.finish_read(peer, target, first)?;
            }
            let length = into.len();
            let group = self.begin_read(peer, target, at, length)?;
            under_way.push_back(Reading { group, at, into });
            at += length as u64;
        }
        under_way.into_iter().try_for_each(|reading| self.finish_read(peer, target, reading))
    }

    fn begin_read(&self, peer: &Peer, target: &Target, at: u64, length: usize) -> Result<Arc<Group>> {
        let scratch = self.with_endpoint(|endpoint| self.take_scratch(endpoint))?;
        let local = scratch.memory(length);
        let descriptor = scratch.descriptor();
        let group = Group::new(peer.rank, Some(scratch));
        let part = Part {
            direction: Direction::Read,
            local,
            descriptor,
            key: target.memory.key,
            address: target.memory.base.wrapping_add(at),
        };
        // SAFETY: the scratch buffer belongs to the group, which the provider's slot holds until the completion.
        self.insist(peer.rank, || unsafe { self.post_part(peer, &part, &group) })?;
        Ok(group)
    }

    fn finish_read(&self, peer: &Peer, target: &Target, reading: Reading<'_>) -> Result<()> {
        let Reading { mut group, at, into } = reading;
        self.wait_for_read(&group)?;
        if group.was_cut_off() && self.membership.check(peer.rank).is_ok() {
            // As for writes.
            group = self.begin_read(peer, target, at, into.len())?;
            self.wait_for_read(&group)?;
        }
        if group.has_failed() {
            self.membership.check(peer.rank)?;
            peer.note_failure();
            return Err(refused(peer.rank, at, into.len() as u64));
        }
        // The slot may hold the group a moment longer; then the buffer is not kept, only copied from.
        if let Some(scratch) = &group.scratch {
            into.copy_from_slice(&scratch.bytes()[..into.len()]);
        }
        if let Some(scratch) = Arc::into_inner(group).and_then(|group| group.scratch) {
            self.keep_scratch(scratch);
        }
        Ok(())
    }

    fn wait_for_read(&self, group: &Group) -> Result<()> {
        let limit = self.settings.answer_limit();
        self.wait_for(group.peer, "reading from", limit, || group.has_ended().then_some(()))
    }

    /// A buffer through which something goes.
    ///
    /// # Errors
    /// `Memory`; `Provider`.
    pub(super) fn take_scratch(&self, endpoint: &Endpoint<Token>) -> Result<Scratch> {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| endpoint.buffer(SCRATCH, Use::Passage).map(Scratch), Ok)
    }

    /// Keeps one for what comes next.
    pub(super) fn keep_scratch(&self, scratch: Scratch) {
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SCRATCH_KEPT {
            kept.push(scratch);
        }
    }

    /// Posts one part, if there is room.
    ///
    /// # Safety
    /// The local memory stays valid until the group has ended.
    unsafe fn post_part(&self, peer: &Peer, part: &Part, group: &Arc<Group>) -> Result<Posted> {
        self.with_endpoint(|endpoint| {
            group.begin_part();
            // SAFETY: the caller's promise.
            let posted = unsafe { self.transfer(endpoint, peer, part, Token::Part(Arc::clone(group))) };
            if !matches!(posted, Ok(Posted::Yes)) {
                group.parts.end();
            }
            posted
        })
    }

    /// Begins a transfer.
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`].
    ///
    /// # Errors
    /// `PeerLost`, also where the provider says so now; `OutOfBounds` where the peer has taken the memory back.
    pub(super) unsafe fn transfer(
        &self,
        endpoint: &Endpoint<Token>,
        peer: &Peer,
        part: &Part,
        token: Token,
    ) -> Result<Posted> {
        let mut outgoing = peer.outgoing();
        if outgoing.withdrawn.contains(part.key) {
            peer.note_failure();
            return Err(refused(peer.rank, part.address, part.local.length as u64));
        }
        let address = self.address(endpoint, peer, &mut outgoing)?;
        // Under the lock: a peer that is given up has its address taken away under it.
        // SAFETY: the caller's promise.
        let posted = unsafe { endpoint.transfer(address, part, token) };
        drop(outgoing);
        if matches!(posted, Ok(Posted::Unfit(_))) {
            // Whoever posts it copies it first, or is told. Should it be over the peer, that is asked.
            self.doubt(endpoint, peer.rank, None);
        }
        posted.or_else(|error| {
            self.lose(peer, &error);
            self.membership.check(peer.rank)?;
            Err(error)
        })
    }

    /// Waits a little for the provider to let go of the bytes of transfers that were given up.
    fn wait_for_release(&self, group: &Group) {
        let began = Instant::now();
        while !group.has_ended() && began.elapsed() < GRACE {
            if self.process().is_err() {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
