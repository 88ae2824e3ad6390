//! A peer's inbox, as the sender to it sees it.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::context::{Context, Role};
use super::credits::{Counts, FIRST, Returns};
use super::layout::{HEADER, Layout, Sizes};
use super::link::{Hearers, Link};
use super::ring::{Promises, Target, Writer};
use crate::error::{Error, Result};
use crate::segment::RemoteSegment;
use crate::units::{Interrupt, Rank};

/// How long a peer that answers may take to open its messenger.
const LIMIT: Duration = Duration::from_secs(30);

/// The most that counts of the time from one question to the next: longer ones mean that the peer, or this process,
/// stood still, and opened nothing meanwhile.
const LONGEST_ROUND: Duration = Duration::from_millis(100);

/// How long is waited before a peer that has no messenger yet is asked again: doubled each time up to the second.
const PATIENCE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// A connected inbox of a peer.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) segment: Arc<RemoteSegment>,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    pub(super) messages: Writer,
    pub(super) control: Writer,
    /// Slots that eager messages have taken since the beginning, wrapping.
    pub(super) eager: u32,
    /// The slot of the next one.
    pub(super) eager_slot: u32,
    pub(super) staging: Option<Staging>,
    pub(super) returns: Returns,
}

/// Connected staging buffers of a peer.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) segment: RemoteSegment,
    /// Bytes of a buffer.
    pub(super) buffer: u64,
    /// How many there are.
    pub(super) buffers: u32,
    /// How many were filled since the beginning, wrapping.
    filled: u32,
    /// The one that is filled next.
    next: u32,
}

impl Outbox {
    /// Connects to the inbox of a link's peer, of which so much was `consumed`.
    pub(super) fn connect(link: &Link, consumed: Counts) -> Result<Self> {
        let (context, peer) = (&link.context, link.peer);
        let (segment, sizes) = connect(link, Role::Inbox, link.was_heard(consumed))?;
        let layout = Layout::of(&sizes);
        if segment.len() < layout.length {
            let problem = format!("its inbox has {} bytes and should have {}", segment.len(), layout.length);
            return Err(context.wire(peer, problem));
        }
        let transaction = context.fabric.capabilities().transaction_size;
        if sizes.part as usize > transaction {
            let problem =
                format!("its packets have parts of {} bytes, ours at most {transaction}", sizes.part);
            return Err(context.wire(peer, problem));
        }
        let segment = Arc::new(segment);
        let promises = Promises { reliable: context.reliable, ordered: context.ordered };
        let ring = |base, parts| {
            let target = Target::new(&segment, promises, base, sizes.part, parts)?;
            Ok::<_, Error>(Writer::new(target, sizes.part, parts, promises).from(FIRST))
        };
        Ok(Self {
            messages: ring(layout.ring, sizes.ring_parts)?,
            control: ring(layout.control, sizes.control_parts)?,
            segment,
            sizes,
            layout,
            eager: FIRST,
            eager_slot: 0,
            staging: None,
            returns: Returns::default(),
        })
    }

    /// The interrupt that goes along with what is written for `hearers`. Where none can, whoever writes triggers one
    /// afterwards.
    pub(super) fn interrupt_for(&self, context: &Context, hearers: Hearers) -> Option<Interrupt> {
        let is_for_service = hearers == Hearers::Service && self.sizes.asynchronous;
        (is_for_service && self.control.takes_along()).then_some(context.interrupt)
    }

    /// Takes note of what came back.
    pub(super) fn credit(&mut self, counts: Counts) {
        self.messages.credit(counts.ring);
        self.control.credit(counts.control);
    }

    /// Whether an eager message of so many bytes can go, given how many slots came back.
    pub(super) fn has_room_for_eager(&self, length: u32, returned: u32) -> bool {
        self.layout.slots.has_room(length, self.eager, returned)
    }

    /// Takes note of an eager message of so many bytes that has gone into its slots.
    pub(super) fn took_eager(&mut self, length: u32) {
        let slots = self.layout.slots;
        self.eager = self.eager.wrapping_add(slots.taken_by(length));
        self.eager_slot = slots.behind(self.eager_slot, length);
    }

    /// The peer's staging buffers.
    pub(super) fn staging(&mut self, link: &Link) -> Result<&mut Staging> {
        match &mut self.staging {
            Some(staging) => Ok(staging),
            none => {
                let (segment, sizes) = connect(link, Role::Staging, true)?;
                let (buffer, buffers) = (u64::from(sizes.staging_buffer), sizes.staging_buffers);
                if segment.len() < staging_offset(buffer, buffers) {
                    let problem = format!("its staging buffers have only {} bytes", segment.len());
                    return Err(link.context.wire(link.peer, problem));
                }
                Ok(none.insert(Staging { segment, buffer, buffers, filled: FIRST, next: 0 }))
            }
        }
    }
}

impl Staging {
    /// The first byte of a buffer.
    pub(super) fn offset(&self, buffer: u32) -> u64 {
        staging_offset(self.buffer, buffer)
    }

    /// Takes a buffer that is free, given how many came back.
    pub(super) fn take(&mut self, returned: u32) -> Option<u32> {
        if self.filled.wrapping_sub(returned) >= self.buffers {
            return None;
        }
        self.filled = self.filled.wrapping_add(1);
        let next = behind(self.next, self.buffers);
        Some(std::mem::replace(&mut self.next, next))
    }
}

/// The buffer of so many that comes after one: counted for itself, as what counts all that were filled wraps at a number
/// that need not be a multiple of theirs.
pub(super) fn behind(buffer: u32, buffers: u32) -> u32 {
    if buffer + 1 < buffers { buffer + 1 } else { 0 }
}

/// Where a staging buffer begins in its segment: behind a header, and each in cache lines of its own.
pub(super) fn staging_offset(size: u64, buffer: u32) -> u64 {
    HEADER as u64 + u64::from(buffer) * size.next_multiple_of(64)
}

/// Connects to the segment that the peer has for this process. A peer that `was_heard` has a messenger, or has closed
/// it; others may start later than this process, or close the messenger before late, and are waited for.
fn connect(link: &Link, role: Role, was_heard: bool) -> Result<(RemoteSegment, Sizes)> {
    let (context, peer) = (&link.context, link.peer);
    let mut patience = PATIENCE[0];
    let (mut waited, mut asked) = (Duration::ZERO, context.fabric.now());
    loop {
        let found = connect_once(context, peer, role);
        let now = context.fabric.now();
        waited += now.since(asked).min(LONGEST_ROUND);
        asked = now;
        match found {
            Err(Error::UnknownSegment { .. }) if was_heard => {
                let error = match role {
                    Role::Inbox => context.has_closed(peer),
                    _ => context.no_messenger(peer, "it has closed it, or has no memory for staging buffers"),
                };
                // Who closes its messenger says so before, unless it is because the job ends.
                let has_said_so = || link.peer_has_left() || link.signs.control.has_arrived();
                return Err(context.unless_disturbed(peer, error, has_said_so));
            }
            Err(Error::UnknownSegment { .. }) if waited >= LIMIT => {
                let problem = format!(
                    "it has opened none within {LIMIT:?}, or has no memory for its buffers; is it started with the \
                     same program, and does it open this port?"
                );
                return Err(context.no_messenger(peer, problem));
            }
            Ok(Found::Earlier) if waited >= LIMIT => {
                let problem = format!(
                    "it has not closed an earlier one within {LIMIT:?}, or has opened fewer than this process; does it \
                     open this port as often?"
                );
                return Err(context.no_messenger(peer, problem));
            }
            Ok(Found::Earlier) | Err(Error::UnknownSegment { .. }) => {
                // It may have left because of somebody else's loss.
                context.check(peer)?;
                context.back_end().sleep(patience);
            }
            Ok(Found::Ours(segment, sizes)) => return Ok((segment, sizes)),
            Ok(Found::Later) => return Err(context.has_closed(peer)),
            Err(error) => return Err(error),
        }
        patience = (patience * 2).min(PATIENCE[1]);
    }
}

/// What a peer has for this process.
enum Found {
    /// What its messenger has that belongs to this one.
    Ours(RemoteSegment, Sizes),
    /// What an earlier one has: it is not closed yet.
    Earlier,
    /// What a later one has: the one that belongs to this one is closed.
    Later,
}

fn connect_once(context: &Context, peer: Rank, role: Role) -> Result<Found> {
    let fabric = &context.fabric;
    let limit = fabric.membership().answer_limit();
    let give_up = fabric.now().after(limit);
    let id = context.segment(role, fabric.rank());
    let segment = fabric.connect(peer, id)?;
    let mut header = [0; HEADER];
    loop {
        match segment.mapping() {
            Some(memory) => {
                memory.read(0, &mut header[..8])?;
                // The first word is written last: with this fence the rest is read after it.
                fence(Ordering::Acquire);
                memory.read(8, &mut header[8..])?;
            }
            None => segment.read(0, &mut header).map_err(|error| match error {
                // It was closed since.
                Error::OutOfBounds { .. } => Error::UnknownSegment { owner: peer, id },
                error => error,
            })?,
        }
        if let Some(sizes) = Sizes::decode(&header).map_err(|problem| context.wire(peer, problem))? {
            // Numbers wrap: what is less than half the range ahead is later.
            return Ok(match sizes.messenger.wrapping_sub(context.number() as u32) as i32 {
                0 => Found::Ours(segment, sizes),
                1.. => Found::Later,
                _ => Found::Earlier,
            });
        }
        if fabric.now() >= give_up {
            let doing = format!("reading the header of segment {id} of");
            return Err(Error::timed_out(fabric.membership(), doing, peer, limit));
        }
        context.check(peer)?;
        context.back_end().sleep(PATIENCE[0]);
    }
}
