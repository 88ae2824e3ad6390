//! The members' memory, and how signals go through it.

use svmio_transport::back_end::Wait;
use svmio_transport::{
    Atomics, Fabric, LocalSegment, Rank, RemoteSegment, SegmentId, SharedMemory, Subscription,
};

use super::bed::Bed;
use super::error::{Error, Result};
use super::joining::{self, Joined};
use super::patience::{Patience, Polled};
use svmio_transport::futex::{Ordering, fence};

/// A word in a member's segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: usize,
    pub(super) offset: u64,
}

/// The members' memory, and how signals go through it.
#[derive(Debug)]
pub(super) struct Ground {
    fabric: Fabric,
    members: Vec<Rank>,
    own: usize,
    /// Whether signals are stores into mapped memory.
    is_mapped: bool,
    remote: Vec<Option<RemoteSegment>>,
    local: LocalSegment,
    // Wakes this member when a peer is lost, where it sleeps in its own memory.
    _subscription: Option<Subscription>,
}

impl Ground {
    /// Joins the ground of `members`: a segment of `length` bytes of each, which begins with its [`Bed`]. Reaches those at
    /// the places that `reached` says.
    ///
    /// # Errors
    /// Those of [`joining::join`].
    pub(super) fn join(
        fabric: &Fabric,
        members: &[Rank],
        id: SegmentId,
        length: u64,
        reached: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let Joined { own, local, remote } =
            joining::join(fabric, members, id, length.max(size_of::<Bed>() as u64), |_, place| {
                reached(place)
            })?;
        let capabilities = fabric.capabilities();
        let is_mapped = capabilities.direct_mapping && capabilities.atomics == Atomics::Processor;
        let subscription = is_mapped.then(|| {
            let memory = local.memory().clone();
            fabric.membership().on_disturbance(move || bed_of(&memory).rouse())
        });
        let (members, fabric) = (members.to_vec(), fabric.clone());
        Ok(Self { fabric, members, own, is_mapped, remote, local, _subscription: subscription })
    }

    /// This member's place.
    pub(super) fn own(&self) -> usize {
        self.own
    }

    /// How many members there are.
    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// Under which id its segments are.
    pub(super) fn id(&self) -> SegmentId {
        self.local.id()
    }

    /// Whether signals are stores into mapped memory.
    pub(super) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// Adds one to a word; returns what it was.
    pub(super) fn count(&self, place: Place) -> Result<u64> {
        if place.member == self.own && self.is_mapped {
            // AcqRel: who counts last has seen what all did before they counted.
            return Ok(self.local.memory().word64(place.offset)?.fetch_add(1, Ordering::AcqRel));
        }
        Ok(self.reach(place.member)?.fetch_add(place.offset, 1)?)
    }

    /// Writes the generation into flags.
    pub(super) fn signal(&self, places: &[Place], generation: u64) -> Result<()> {
        if self.is_mapped { self.store(places, generation) } else { self.write(places, generation) }
    }

    /// Writes `payload` in front of a flag, and the generation into the flag: as one write, where the fabric has writes.
    pub(super) fn send(&self, payload: &[u8], flag: Place, generation: u64) -> Result<()> {
        let offset = flag.offset - payload.len() as u64;
        if self.is_mapped {
            self.mapped(flag.member)?.write(offset, payload)?;
            return self.store(&[flag], generation);
        }
        let remote = self.reach(flag.member)?;
        let parts = [payload, &generation.to_ne_bytes()];
        self.transfer(flag.member, || remote.write_gathered(offset, &parts))
    }

    /// Signals by stores into mapped memory.
    fn store(&self, places: &[Place], generation: u64) -> Result<()> {
        for place in places {
            // Release: who sees the flag sees what came before the barrier.
            self.mapped(place.member)?.word64(place.offset)?.store(generation, Ordering::Release);
        }
        if !places.is_empty() {
            // Dekker: after the flags, before the look for sleepers; see `Bed`.
            fence(Ordering::SeqCst);
        }
        for place in places {
            let bed = bed_of(self.mapped(place.member)?);
            if bed.awaits() != 0 {
                bed.rouse();
            }
        }
        Ok(())
    }

    /// Signals by remote writes, checked where the fabric may lose some.
    fn write(&self, places: &[Place], generation: u64) -> Result<()> {
        let flag = generation.to_ne_bytes();
        places.iter().try_for_each(|place| {
            let remote = self.reach(place.member)?;
            self.transfer(place.member, || remote.write(place.offset, &flag))
        })
    }

    fn transfer(&self, member: usize, mut write: impl FnMut() -> svmio_transport::Result<()>) -> Result<()> {
        let peer = self.members[member];
        if self.fabric.capabilities().is_reliable {
            write()?;
        } else {
            self.fabric.write_checked(peer, write)?;
        }
        Ok(self.fabric.ring(peer)?)
    }

    /// Returns when this member's flags at these offsets have come to the generation.
    pub(super) fn await_flags(&self, flags: &[u64], generation: u64, patience: &mut Patience) -> Result<()> {
        let (memory, mut at) = (self.local.memory(), 0);
        // Acquire: pairs with the Release of who signals. The layout has all flags within the segment.
        let has_come =
            |flag: &u64| memory.word64(*flag).is_ok_and(|word| word.load(Ordering::Acquire) >= generation);
        let mut all_came = || {
            while flags.get(at).is_some_and(has_come) {
                at += 1;
            }
            at == flags.len()
        };
        if !self.is_mapped {
            return self.wait_on_fabric(all_came);
        }
        if patience.glance(&mut all_came) || patience.poll(&mut all_came) == Polled::Ready {
            return Ok(());
        }
        bed_of(memory)
            .sleep(1, || if all_came() { Some(Ok(())) } else { self.check_members().err().map(Err) })
    }

    /// Waits as the fabric does: in its time, by its own means.
    fn wait_on_fabric(&self, mut all_came: impl FnMut() -> bool) -> Result<()> {
        let mut done = None;
        let mut ready = || {
            if all_came() {
                done = Some(Ok(()));
            } else if let Err(error) = self.check_members() {
                done = Some(Err(error));
            }
            done.is_some()
        };
        // It ends otherwise only where the fabric was closed, which the members' check tells.
        let _ = self.fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut ready });
        done.unwrap_or_else(|| self.check_members())
    }

    /// Any of them: one that is not lost itself may wait for one that is, and leave with an error.
    fn check_members(&self) -> Result<()> {
        Ok(self.members.iter().try_for_each(|&member| self.fabric.membership().check(member))?)
    }

    fn reach(&self, member: usize) -> Result<&RemoteSegment> {
        self.remote[member].as_ref().ok_or_else(|| self.not_connected())
    }

    fn mapped(&self, member: usize) -> Result<&SharedMemory> {
        self.reach(member)?.mapping().ok_or_else(|| self.not_connected())
    }

    fn not_connected(&self) -> Error {
        Error::NotMapped { back_end: self.fabric.capabilities().back_end.clone() }
    }
}

/// The sleeping place at the beginning of a member's segment.
fn bed_of(memory: &SharedMemory) -> &Bed {
    debug_assert!(memory.len() >= size_of::<Bed>());
    // SAFETY: the layout begins with it; mapped segments begin at pages, which is more than the alignment asks for. It is
    // all atomics, for which any bytes are valid and which others may change; it stays mapped as long as the memory.
    unsafe { &*memory.as_ptr().cast::<Bed>() }
}
