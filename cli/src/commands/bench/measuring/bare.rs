//! A copy by the peer without any message: what computing can hide at best.
//!
//! The sender stores a number into a word that both map, and the receiver, who does nothing but look there, copies and
//! stores the number into another word. So the sender pays for one store, and for one load.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use svmio_transport::back_end::Backing;
use svmio_transport::{LocalSegment, Membership, Rank, RemoteSegment, Result, SegmentId, SharedMemory};

use super::{Place, Side};

/// Of a space that nobody else in these processes uses.
const SEGMENT: SegmentId = SegmentId::new(u32::MAX, 1);

/// Where the two words are, and what is copied: in pages of their own.
const BEGIN_AT: u64 = 0;
const END_AT: u64 = 4096;
const DATA_AT: u64 = 8192;

/// How often somebody who waits looks before the core is given away, should there be only one, and before it is asked
/// whether the peer is still there.
const LOOKS: u32 = 1000;

/// Memory of the receiver that the sender maps, too.
pub(super) struct BareCopy {
    memory: SharedMemory,
    membership: Arc<Membership>,
    peer: Rank,
    // They keep the memory for the other side.
    _own: LocalSegment,
    _peers: Option<RemoteSegment>,
}

impl BareCopy {
    /// Room for `length` bytes; none where the fabric maps no memory of others.
    pub(super) fn of(place: &Place<'_>, length: u64) -> Result<Option<Self>> {
        let own = place.fabric.create(SEGMENT, &Backing::Anonymous { length: DATA_AT + length })?;
        place.meet()?;
        let peers = match place.side {
            Side::First => Some(place.fabric.connect(place.peer, SEGMENT)?),
            Side::Second => None,
        };
        let mapped = match &peers {
            Some(segment) => segment.mapping().cloned(),
            None => Some(own.memory().clone()),
        };
        let is_mapped = place.agreed(u64::from(mapped.is_some()))? == 1;
        let memory = mapped.filter(|_| is_mapped);
        let membership = Arc::clone(place.fabric.membership());
        let peer = place.peer;
        Ok(memory.map(|memory| Self { memory, membership, peer, _own: own, _peers: peers }))
    }

    /// Has the peer copy, computes, and waits for the end: in the sender.
    pub(super) fn send(&self, compute: impl FnOnce()) -> Result<()> {
        let begin = self.memory.word64(BEGIN_AT)?;
        // Relaxed: only this process stores it. Release: what is to be copied is there.
        let number = begin.load(Ordering::Relaxed).wrapping_add(1);
        begin.store(number, Ordering::Release);
        compute();
        self.wait_for(END_AT, number)
    }

    /// Copies once it is told to: in the receiver.
    pub(super) fn receive(&self, into: &mut [u8]) -> Result<()> {
        let end = self.memory.word64(END_AT)?;
        // Relaxed: only this process stores it.
        let number = end.load(Ordering::Relaxed).wrapping_add(1);
        self.wait_for(BEGIN_AT, number)?;
        self.memory.read(DATA_AT, into)?;
        // Release: who sees it may change what was copied.
        end.store(number, Ordering::Release);
        Ok(())
    }

    /// Returns when the word at `offset` is `number`, or the peer is lost.
    fn wait_for(&self, offset: u64, number: u64) -> Result<()> {
        let word = self.memory.word64(offset)?;
        loop {
            for _ in 0..LOOKS {
                // Acquire: pairs with the Release of whoever stored it.
                if word.load(Ordering::Acquire) == number {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            self.membership.check(self.peer)?;
            std::thread::yield_now();
        }
    }
}
