//! What a provider holds while an operation is under way: the operation's context, and its buffer.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::domain::{Descriptor, Registration};
use super::sys::fi_context2;
use crate::error::Result;
use crate::memory::UserMemory;
use crate::units::Rank;

/// An operation. The provider has its address from posting it until its completion is read.
#[repr(C)]
pub(super) struct Slot<T> {
    // First, so that the address of the context is the address of the slot: providers that ask for it (FI_CONTEXT)
    // write here.
    context: fi_context2,
    /// The peer that it is with; none for receives.
    peer: Option<Rank>,
    /// What the operation is.
    pub(super) role: Role<T>,
    /// What it sends or receives; transfers have their bytes elsewhere.
    pub(super) buffer: Option<Buffer>,
}

/// What an operation is.
pub(super) enum Role<T> {
    /// None is under way.
    Idle,
    /// A receive.
    Receive,
    /// A message, with what the sender wants to have back.
    Send(T),
    /// A remote write or read, likewise.
    Transfer(T),
}

/// Bytes of a message, registered where the provider wants that.
pub(super) struct Buffer {
    // Before the bytes: dropped before them.
    pub(super) registration: Option<Registration>,
    pub(super) bytes: Bytes,
}

/// Bytes that stay where they are, for whoever has their address, when this is moved: a box would claim them anew.
pub(super) struct Bytes(NonNull<[u8]>);

// SAFETY: it owns plain bytes, as a box does.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// The first `length` of them, at most all.
    pub(super) fn memory(&self, length: usize) -> UserMemory {
        UserMemory { start: self.0.cast(), length: length.min(self.0.len()) }
    }
}

impl From<Box<[u8]>> for Bytes {
    fn from(bytes: Box<[u8]>) -> Self {
        Self(NonNull::from(Box::leak(bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: from a box that was leaked, and ours until it is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: from a box that was leaked, and nobody has it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Buffer {
    /// What a send or receive gives along.
    pub(super) fn descriptor(&self) -> Descriptor {
        self.registration.as_ref().map_or(Descriptor::NONE, Registration::descriptor)
    }
}

/// All slots of one kind. They live until this is dropped, which must not be before the provider has let go of all.
///
/// **Shares.** A peer that hangs holds its slots until it goes on, which may be never, and others are not to starve of
/// that. So a peer may have as many as it leaves to others: half of all where nobody else has any, and always
/// `reserved` ones, whatever others have; once all together have twice the limit, always one. When it is given up, what
/// it holds counts no more.
pub(super) struct Slots<T> {
    limit: usize,
    reserved: usize,
    pool: Mutex<Pool<T>>,
}

struct Pool<T> {
    all: Vec<NonNull<Slot<T>>>,
    idle: Vec<NonNull<Slot<T>>>,
    /// What each peer has, by its number.
    shares: Vec<Share>,
    /// How many those have together that are not given up.
    counted: usize,
}

#[derive(Clone, Copy, Default)]
struct Share {
    slots: usize,
    is_given_up: bool,
}

// SAFETY: slots are reached through this value, or by whoever took one, and by one thread at a time.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above; the lists are behind locks.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Pool<T> {
    fn share(&mut self, peer: Rank) -> &mut Share {
        if self.shares.len() <= peer.index() {
            self.shares.resize(peer.index() + 1, Share::default());
        }
        &mut self.shares[peer.index()]
    }

    fn charge(&mut self, peer: Rank) {
        let share = self.share(peer);
        share.slots += 1;
        let counts = !share.is_given_up;
        self.counted += usize::from(counts);
    }

    fn release(&mut self, peer: Rank) {
        let share = self.share(peer);
        share.slots -= 1;
        let counts = !share.is_given_up;
        self.counted -= usize::from(counts);
    }

    fn add(&mut self, peer: Option<Rank>, buffer: Option<Buffer>) -> NonNull<Slot<T>> {
        let slot = Box::new(Slot { context: fi_context2::default(), peer, role: Role::Idle, buffer });
        let slot = NonNull::from(Box::leak(slot));
        self.all.push(slot);
        slot
    }
}

impl<T> Slots<T> {
    /// None yet; at most `limit`, not counting those that peers always get.
    pub(super) fn new(limit: usize) -> Self {
        let pool = Pool { all: Vec::new(), idle: Vec::new(), shares: Vec::new(), counted: 0 };
        Self { limit, reserved: limit.div_ceil(16), pool: Mutex::new(pool) }
    }

    /// One for an operation with `peer`, which is the taker's until it is given back; none where the peer has its
    /// share. Where none is idle, a new one gets what `make` makes.
    ///
    /// # Errors
    /// What `make` says.
    pub(super) fn take(
        &self,
        peer: Rank,
        make: impl FnOnce() -> Result<Option<Buffer>>,
    ) -> Result<Option<NonNull<Slot<T>>>> {
        let mut pool = self.pool();
        let (limit, counted) = (self.limit, pool.counted);
        let Share { slots, is_given_up } = *pool.share(peer);
        let reserved = if counted < 2 * limit { self.reserved } else { 1 };
        let may_have = slots < reserved || (!is_given_up && slots < limit.saturating_sub(counted));
        if may_have { self.hand_out(pool, peer, make).map(Some) } else { Ok(None) }
    }

    /// The same, whatever the peer has.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub(super) fn take_anyway(
        &self,
        peer: Rank,
        make: impl FnOnce() -> Result<Option<Buffer>>,
    ) -> Result<NonNull<Slot<T>>> {
        self.hand_out(self.pool(), peer, make)
    }

    fn hand_out(
        &self,
        mut pool: MutexGuard<'_, Pool<T>>,
        peer: Rank,
        make: impl FnOnce() -> Result<Option<Buffer>>,
    ) -> Result<NonNull<Slot<T>>> {
        pool.charge(peer);
        if let Some(slot) = pool.idle.pop() {
            // SAFETY: nobody else has an idle one.
            unsafe { (*slot.as_ptr()).peer = Some(peer) };
            return Ok(slot);
        }
        drop(pool);
        // Without the lock: it may take long.
        let made = make();
        let mut pool = self.pool();
        match made {
            Ok(buffer) => Ok(pool.add(Some(peer), buffer)),
            Err(error) => {
                pool.release(peer);
                Err(error)
            }
        }
    }

    /// Makes one that is with no peer, and the maker's for good.
    pub(super) fn grow(&self, buffer: Buffer) -> NonNull<Slot<T>> {
        self.pool().add(None, Some(buffer))
    }

    /// Gives one back, and returns what it was.
    ///
    /// # Safety
    /// The slot is the caller's: the provider has let go of it, or never had it.
    pub(super) unsafe fn give_back(&self, slot: NonNull<Slot<T>>) -> Role<T> {
        // SAFETY: the caller's promise; slots live as long as `self`.
        let (role, peer) = unsafe {
            let slot = &mut *slot.as_ptr();
            (std::mem::replace(&mut slot.role, Role::Idle), slot.peer.take())
        };
        let mut pool = self.pool();
        if let Some(peer) = peer {
            pool.release(peer);
        }
        pool.idle.push(slot);
        role
    }

    /// A peer is given up: what the provider holds of it counts no more.
    pub(super) fn give_up(&self, peer: Rank) {
        let mut pool = self.pool();
        let share = pool.share(peer);
        if !std::mem::replace(&mut share.is_given_up, true) {
            let slots = share.slots;
            pool.counted -= slots;
        }
    }

    /// How many are not idle.
    pub(super) fn busy(&self) -> usize {
        let pool = self.pool();
        pool.all.len() - pool.idle.len()
    }

    fn pool(&self) -> MutexGuard<'_, Pool<T>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for slot in self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).all.drain(..) {
            // SAFETY: made by `add` from a box, and nobody has it any more (see the type).
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::{Slot, Slots};
    use crate::units::Rank;

    /// All that a peer gets now.
    fn take_all(slots: &Slots<()>, peer: u32) -> Vec<NonNull<Slot<()>>> {
        std::iter::from_fn(|| slots.take(Rank(peer), || Ok(None)).unwrap()).collect()
    }

    fn give_back(slots: &Slots<()>, taken: Vec<NonNull<Slot<()>>>) {
        for slot in taken {
            // SAFETY: it was taken, and no provider has it.
            unsafe { slots.give_back(slot) };
        }
    }

    #[test]
    fn a_peer_gets_as_many_as_it_leaves_to_others_and_always_some() {
        let slots = Slots::new(32);
        let taken = [1, 2, 3, 4, 5, 6, 7].map(|peer| take_all(&slots, peer));
        assert_eq!(taken.each_ref().map(Vec::len), [16, 8, 4, 2, 2, 2, 2]);
        assert_eq!(slots.busy(), 36);
        taken.into_iter().for_each(|taken| give_back(&slots, taken));
        assert_eq!((slots.busy(), take_all(&slots, 8).len()), (0, 16));
        assert_eq!(take_all(&Slots::new(1), 0).len(), 1);
    }

    #[test]
    fn many_peers_get_one_each_once_they_have_twice_the_limit() {
        let slots = Slots::new(32);
        let taken: Vec<_> = (0..1000).map(|peer| take_all(&slots, peer)).collect();
        let twos = taken.iter().filter(|taken| taken.len() == 2).count();
        assert_eq!(taken.iter().take(3).map(Vec::len).collect::<Vec<_>>(), [16, 8, 4]);
        assert_eq!((twos, taken.last().map(Vec::len)), (18, Some(1)));
        assert_eq!(slots.busy(), 16 + 8 + 4 + 18 * 2 + (1000 - 3 - 18));
        // As soon as others have given theirs back, it gets more.
        taken.into_iter().for_each(|taken| give_back(&slots, taken));
        assert_eq!(take_all(&slots, 999).len(), 16);
    }

    #[test]
    fn what_a_peer_holds_that_is_given_up_counts_no_more() {
        let slots = Slots::new(32);
        let held = take_all(&slots, 1);
        slots.give_up(Rank(1));
        slots.give_up(Rank(1));
        let others = take_all(&slots, 2);
        assert_eq!(others.len(), 16);
        assert_eq!(take_all(&slots, 1).len(), 0);
        give_back(&slots, held);
        // What tells it of that still finds room.
        let told = take_all(&slots, 1);
        assert_eq!(told.len(), 2);
        give_back(&slots, told);
        give_back(&slots, others);
        assert_eq!((slots.busy(), take_all(&slots, 2).len()), (0, 16));
    }
}
