//! What a provider holds while an operation is under way: the operation's context, and its buffer.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::domain::{Descriptor, Registration};
use super::sys::fi_context2;

/// An operation. The provider has its address from posting it until its completion is read.
#[repr(C)]
pub(super) struct Slot<T> {
    // First, so that the address of the context is the address of the slot: providers that ask for it (FI_CONTEXT)
    // write here.
    context: fi_context2,
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
    pub(super) bytes: Box<[u8]>,
}

impl Buffer {
    /// What a send or receive gives along.
    pub(super) fn descriptor(&self) -> Descriptor {
        self.registration.as_ref().map_or(Descriptor::NONE, Registration::descriptor)
    }
}

/// All slots of one kind. They live until this is dropped, which must not be before the provider has let go of all.
pub(super) struct Slots<T> {
    limit: usize,
    all: Mutex<Vec<NonNull<Slot<T>>>>,
    idle: Mutex<Vec<NonNull<Slot<T>>>>,
}

// SAFETY: slots are reached through this value, or by whoever took one, and by one thread at a time.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above; the lists are behind locks.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// None yet; at most `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, all: Mutex::default(), idle: Mutex::default() }
    }

    /// One that is idle, which is the taker's until it is given back; none where all are under way.
    pub(super) fn take(&self) -> Option<NonNull<Slot<T>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Whether there may be another.
    pub(super) fn may_grow(&self) -> bool {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).len() < self.limit
    }

    /// Makes another, which is the maker's until it is given back.
    pub(super) fn grow(&self, buffer: Option<Buffer>) -> NonNull<Slot<T>> {
        let slot = Box::new(Slot { context: fi_context2::default(), role: Role::Idle, buffer });
        let slot = NonNull::from(Box::leak(slot));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        slot
    }

    /// Gives one back, and returns what it was.
    ///
    /// # Safety
    /// The slot is the caller's: the provider has let go of it, or never had it.
    pub(super) unsafe fn give_back(&self, slot: NonNull<Slot<T>>) -> Role<T> {
        // SAFETY: the caller's promise; slots live as long as `self`.
        let role = std::mem::replace(unsafe { &mut (*slot.as_ptr()).role }, Role::Idle);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        role
    }

    /// How many are not idle.
    pub(super) fn busy(&self) -> usize {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.all.lock().unwrap_or_else(PoisonError::into_inner).len().saturating_sub(idle)
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for slot in self.all.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: made by `grow` from a box, and nobody has it any more (see the type).
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}
