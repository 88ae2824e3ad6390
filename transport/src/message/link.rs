//! A pair of processes, as one of them sees it.
//!
//! ```text
//!   Link ── signs: what a waiter looks at, without a lock
//!    └── Turn<State>: one thread at a time
//!          ├── readers of the own inbox        incoming:    posted receives, messages
//!          ├── outbox: the peer's inbox        outgoing:    queued sends, credits
//!          └── sending, receiving              rendezvous:  messages on their way
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Buffers;
use super::context::{Context, Role};
use super::credits::{Counts, FIRST};
use super::incoming::PostedReceive;
use super::inquiry::Inquiry;
use super::layout::{HEADER, Layout, NEEDS_AT, Sizes};
use super::needs::Needs;
use super::outbox::{Outbox, staging_offset};
use super::outgoing::QueuedSend;
use super::pump::Flight;
use super::rendezvous::{Receiving, Sending};
use super::ring::{Reader, Watch};
use super::turn::{Guard, Turn};
use super::wire::Packet;
use crate::back_end::BackEnd;
use crate::error::{Error, Result};
use crate::memory::SharedMemory;
use crate::segment::LocalSegment;
use crate::units::{Interrupt, Rank, Time};

pub(super) struct Link {
    pub(super) context: Arc<Context>,
    pub(super) peer: Rank,
    pub(super) inbox: Area,
    pub(super) layout: Layout,
    /// Made when the peer first sends by it.
    pub(super) staging: OnceLock<Area>,
    /// Made when this process first sends by way of it.
    departing: OnceLock<Area>,
    pub(super) signs: Signs,
    pub(super) inquiry: Inquiry,
    state: Turn<State>,
}

/// A segment of this process, and how its sizes came out.
pub(super) struct Area {
    segment: LocalSegment,
    pub(super) sizes: Sizes,
}

impl Area {
    pub(super) fn memory(&self) -> &SharedMemory {
        self.segment.memory()
    }
}

/// What a waiter looks at to learn whether there is something to do. All but `attention` is published by whoever has
/// the turn, before the turn is given back.
pub(super) struct Signs {
    /// The ring of messages.
    pub(super) messages: Watch,
    /// The ring of control packets.
    pub(super) control: Watch,
    /// What the peer had given back when all that waits for it was last tried.
    pub(super) credited: [AtomicU64; 2],
    /// Whether a receive is posted, so that a message is work.
    pub(super) has_posted: AtomicBool,
    /// Whether something cannot go out without credit.
    pub(super) lacks_credit: AtomicBool,
    /// Whether a shared transfer waits for somebody to copy.
    pub(super) has_open: AtomicBool,
    /// Whether packets were written that are not known to have arrived.
    pub(super) unchecked: AtomicBool,
    /// Whether nothing goes any more.
    pub(super) failed: AtomicBool,
    /// The peer's inbox, once it is connected, if it is mapped.
    pub(super) outbox: OnceLock<SharedMemory>,
    /// Whether the peer has closed its messenger, or given the pair up.
    pub(super) closed: AtomicBool,
    /// Whether the peer, of whom nothing was heard, has closed its messenger; set by anybody.
    pub(super) left: AtomicBool,
    /// Whether a receive that failed waits for the peer to leave its memory alone.
    pub(super) lent: AtomicBool,
    /// Whether a receive from anybody has told of it.
    pub(super) reported: AtomicBool,
    /// Something else; set by anybody.
    pub(super) attention: Arc<AtomicBool>,
}

/// What one thread at a time works on.
pub(super) struct State {
    /// Why nothing goes any more.
    pub(super) error: Option<Error>,
    /// Whether the peer has closed its messenger: what it sent before can be received, and no more. Also whether it has
    /// given the pair up, which then has failed here, too. It needs not be told of anything any more.
    pub(super) is_closed: bool,
    /// What the peer may still write to, after that.
    pub(super) lent: Option<Lent>,
    pub(super) outbox: Option<Outbox>,
    /// What the peer gave back.
    pub(super) credited: Counts,
    /// What of it was known when all that waits for credit was last tried.
    pub(super) heeded: Counts,
    /// What this process consumed.
    pub(super) consumed: Counts,
    /// What of it the peer was told.
    pub(super) told: Counts,
    /// The slot in which the next eager message begins.
    pub(super) eager_slot: u32,
    /// The staging buffer that is filled next.
    pub(super) staging_buffer: u32,
    pub(super) messages: Reader,
    pub(super) control: Reader,
    pub(super) posted: VecDeque<PostedReceive>,
    pub(super) queued: VecDeque<QueuedSend>,
    /// Control packets that are to go out.
    pub(super) departing: VecDeque<Departing>,
    /// Whether the peer was asked to make room for them, and none went since.
    pub(super) has_asked_for_room: bool,
    pub(super) next_transfer: u32,
    pub(super) sending: Vec<Sending>,
    pub(super) receiving: Vec<Receiving>,
    /// How many requests of the peer receives have met; the number of the next one.
    pub(super) met: u32,
    /// Requests of the peer that are still in the ring, but not to be met any more.
    pub(super) withdrawn: Vec<u32>,
    /// DMA under way, in the order in which it was posted.
    pub(super) flights: VecDeque<Flight>,
    /// How many local staging buffers were used and came back.
    pub(super) departures: (u64, u64),
    /// Pairs of claim words that are in use, and for which of the peer's transfers.
    pub(super) slots: Vec<(u8, u32)>,
    /// What the peer was told that an interrupt is needed for.
    pub(super) needs: Needs,
    /// Whether an operation has ended since the turn was taken.
    pub(super) has_news: bool,
}

/// User memory of this process that a peer may still write to.
#[derive(Debug)]
pub(super) struct Lent {
    /// How many writes it had begun.
    pub(super) begun: u64,
    /// When the pair failed.
    pub(super) since: Time,
    /// What was done about it.
    pub(super) remedy: Remedy,
}

/// What was done about a peer that does not end its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing: it needs as long as a copy takes.
    None,
    /// It was made to go on, should it have been stopped.
    Roused,
    /// The log names it.
    Told,
}

/// A control packet that is to go out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departing {
    pub(super) packet: Packet,
    pub(super) hearers: Hearers,
}

/// Who at the peer has to learn at once that something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hearers {
    /// Nobody: it is soon enough when somebody there looks.
    Nobody,
    /// Who waits in a call.
    Waiters,
    /// The service thread, too: the program need not be in a call for it.
    Service,
}

impl Hearers {
    /// Who is still to be told when that interrupt went along with what came.
    pub(super) fn after(self, interrupt: Option<Interrupt>) -> Self {
        if interrupt.is_some() { self.min(Self::Waiters) } else { self }
    }
}

impl Link {
    /// Makes the inbox for `peer`, as large as there is memory.
    ///
    /// # Errors
    /// `Memory`, when not even the smallest buffers fit.
    pub(super) fn new(context: &Arc<Context>, peer: Rank) -> Result<Self> {
        let capabilities = context.fabric.capabilities();
        let wanted = Sizes {
            receives: context.receives,
            messenger: context.number() as u32,
            ..Sizes::wanted(&context.settings, capabilities)
        };
        let inbox =
            area(context, Role::Inbox, peer, wanted, |sizes| Layout::of(sizes).length, Sizes::halved)?;
        let (sizes, layout) = (inbox.sizes, Layout::of(&inbox.sizes));
        let ring =
            |base, parts| Reader::new(inbox.memory(), base, sizes.part, parts, sizes.packet_parts.min(parts));
        let (messages, watched_messages) = ring(layout.ring, sizes.ring_parts)?;
        let (control, watched_control) = ring(layout.control, sizes.control_parts)?;
        let signs = Signs {
            messages: watched_messages,
            control: watched_control,
            credited: Counts::FIRST.words().map(AtomicU64::new),
            has_posted: AtomicBool::new(false),
            lacks_credit: AtomicBool::new(false),
            has_open: AtomicBool::new(false),
            unchecked: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            outbox: OnceLock::new(),
            closed: AtomicBool::new(false),
            left: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            attention: Arc::default(),
        };
        let state = State {
            error: None,
            is_closed: false,
            lent: None,
            outbox: None,
            credited: Counts::FIRST,
            heeded: Counts::FIRST,
            consumed: Counts::FIRST,
            eager_slot: 0,
            staging_buffer: 0,
            told: Counts::FIRST,
            messages,
            control,
            posted: VecDeque::new(),
            queued: VecDeque::new(),
            departing: VecDeque::new(),
            has_asked_for_room: false,
            next_transfer: FIRST,
            sending: Vec::new(),
            receiving: Vec::new(),
            met: FIRST,
            withdrawn: Vec::new(),
            flights: VecDeque::new(),
            departures: (0, 0),
            slots: Vec::new(),
            needs: Needs::default(),
            has_news: false,
        };
        Ok(Self {
            context: Arc::clone(context),
            peer,
            inbox,
            layout,
            staging: OnceLock::new(),
            departing: OnceLock::new(),
            signs,
            inquiry: Inquiry::default(),
            state: Turn::new(state),
        })
    }

    /// Makes staging buffers, if there are none yet.
    ///
    /// # Errors
    /// `Memory`, when not even the smallest buffers fit.
    pub(super) fn stage(&self, role: Role) -> Result<&Area> {
        let place = if role == Role::Departing { &self.departing } else { &self.staging };
        if let Some(area) = place.get() {
            return Ok(area);
        }
        let length = |sizes: &Sizes| staging_offset(u64::from(sizes.staging_buffer), sizes.staging_buffers);
        let made = area(&self.context, role, self.peer, self.inbox.sizes, length, Sizes::staging_halved)?;
        Ok(place.get_or_init(|| made))
    }

    #[inline]
    pub(super) fn take_turn(&self) -> Guard<'_, State, dyn BackEnd + 'static> {
        self.state.take(self.context.back_end())
    }

    /// Whether there is something to do on this link: what the signs say is enough.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        let signs = &self.signs;
        // Relaxed: whoever acts on a sign takes the turn first, and sees all there.
        if signs.failed.load(Ordering::Relaxed) {
            // What it needs then is room to tell the peer.
            return signs.attention.load(Ordering::Relaxed)
                || (signs.lacks_credit.load(Ordering::Relaxed) && self.has_credit());
        }
        signs.control.has_arrived()
            || signs.attention.load(Ordering::Relaxed)
            || self.has_what_it_needs()
            || signs.has_open.load(Ordering::Relaxed)
            || (self.peer_has_left() && !signs.closed.load(Ordering::Relaxed))
    }

    /// Whether that has come for which the peer interrupts.
    #[inline]
    pub(super) fn has_what_it_needs(&self) -> bool {
        let signs = &self.signs;
        (signs.has_posted.load(Ordering::Relaxed) && signs.messages.has_arrived())
            || (signs.lacks_credit.load(Ordering::Relaxed) && self.has_credit())
    }

    /// Whether it stands in the peer's inbox that nothing comes any more.
    #[inline]
    pub(super) fn peer_has_left(&self) -> bool {
        self.needs_of_peer().contains(Needs::LEFT)
    }

    /// What stands in the peer's inbox, where that is mapped: when and why nothing comes any more.
    #[inline]
    pub(super) fn needs_of_peer(&self) -> Needs {
        // Acquire: what it wrote before is seen.
        let seen = |word: &AtomicU64| Needs::seen(word.load(Ordering::Acquire));
        let word = self.signs.outbox.get().and_then(|inbox| inbox.word64(NEEDS_AT).ok());
        word.map_or(Needs::default(), seen)
    }

    /// Whether anything came from the peer, that was read or not.
    pub(super) fn was_heard(&self, consumed: Counts) -> bool {
        consumed != Counts::FIRST || self.signs.messages.has_arrived() || self.signs.control.has_arrived()
    }

    /// The same as it can be told without the turn.
    pub(super) fn has_heard(&self) -> bool {
        self.signs.messages.has_moved() || self.signs.control.has_moved()
    }

    /// Whether a receive would find something: a message, receives that are before it, or an error.
    #[inline]
    pub(super) fn may_receive(&self) -> bool {
        self.signs.messages.has_arrived()
            || self.signs.has_posted.load(Ordering::Relaxed)
            || self.signs.failed.load(Ordering::Relaxed)
            || self.signs.closed.load(Ordering::Relaxed)
    }

    /// Whether it failed by itself, not by the peer's loss, and no receive from anybody has told of it.
    pub(super) fn has_news_of_failure(&self) -> bool {
        self.signs.failed.load(Ordering::Relaxed) && !self.signs.reported.load(Ordering::Relaxed)
    }

    /// Tells of that, once.
    pub(super) fn report_failure(&self) -> Result<()> {
        if !self.has_news_of_failure() || self.signs.reported.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        match &self.take_turn().error {
            None | Some(Error::PeerLost { .. } | Error::Ending { .. }) => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// How the buffers came out.
    pub(super) fn buffers(&self) -> Buffers {
        let sizes = &self.inbox.sizes;
        let staging = self.staging.get().map(|area| &area.sizes);
        Buffers {
            peer: self.peer,
            short_message: sizes.longest_short(),
            ring: u64::from(sizes.ring_parts) * u64::from(sizes.part),
            eager_buffer: sizes.eager_buffer,
            eager_buffers: sizes.eager_buffers,
            staging_buffer: staging.map_or(0, |sizes| sizes.staging_buffer),
            staging_buffers: staging.map_or(0, |sizes| sizes.staging_buffers),
        }
    }

    fn has_credit(&self) -> bool {
        let [rings, buffers] = &self.signs.credited;
        let seen = Counts::of([rings.load(Ordering::Relaxed), buffers.load(Ordering::Relaxed)]);
        Counts::newest(self.inbox.memory(), self.context.credit_words, seen) != seen
    }
}

/// Makes a segment, as large as there is room and the system has memory, with its header.
fn area(
    context: &Context,
    role: Role,
    peer: Rank,
    wanted: Sizes,
    length: impl Fn(&Sizes) -> u64,
    halved: fn(Sizes) -> Option<Sizes>,
) -> Result<Area> {
    let mut fitting = context.room.fitting(role, wanted, &length, halved)?.peekable();
    let (segment, sizes) = loop {
        let sizes = fitting.next().unwrap_or(wanted);
        match context.create(role, peer, length(&sizes)) {
            Err(Error::Memory { .. }) if fitting.peek().is_some() => {}
            segment => break (segment?, sizes),
        }
    };
    let memory = segment.memory();
    memory.write(8, &sizes.encode()[8..HEADER])?;
    if role == Role::Inbox {
        Counts::begin(memory)?;
    }
    // Release: whoever sees the first word sees the rest.
    memory.word64(0)?.store(Sizes::magic(), Ordering::Release);
    Ok(Area { segment, sizes })
}
