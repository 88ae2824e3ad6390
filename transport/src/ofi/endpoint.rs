//! An endpoint: messages and transfers are posted to it, and their completions read from it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::domain::{Descriptor, Domain, Registration, Use, close, opened};
use super::slots::{Buffer, Role, Slot, Slots};
use super::sys::{self, call, library};
use crate::dma::Direction;
use crate::error::Result;
use crate::memory::UserMemory;
use crate::shm::available;

pub(super) use self::completions::Event;
use self::completions::Reader;
pub(super) use self::queues::Waiting;
use self::queues::open_queues;

mod completions;
mod queues;

/// The longest message that is handed to the provider from the stack, where it takes that.
const INJECT_LIMIT: usize = 256;

/// A peer, as the provider numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(sys::fi_addr_t);

/// Whether the provider took an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Posted {
    /// Yes.
    Yes,
    /// Not now: the connection is not up yet, or its queue is full.
    Busy,
}

/// One side of a transfer and what it is known by.
pub(super) struct Part {
    /// Which way.
    pub(super) direction: Direction,
    /// This process's side.
    pub(super) local: UserMemory,
    /// What the provider wants to know of it.
    pub(super) descriptor: Descriptor,
    /// The registration's key at the peer.
    pub(super) key: u64,
    /// The address there, as its registration counts.
    pub(super) address: u64,
}

/// An endpoint of reliable datagrams. `T` comes back with the completions.
pub(super) struct Endpoint<T> {
    sends: Slots<T>,
    transfers: Slots<T>,
    receives: Slots<T>,
    reader: Mutex<Reader<T>>,
    /// How many receives the provider has refused so far, to be posted again.
    lacking: AtomicUsize,
    message_size: usize,
    inject_size: usize,
    waiting: Waiting,
    endpoint: NonNull<sys::fid_ep>,
    addresses: NonNull<sys::fid_av>,
    completions: NonNull<sys::fid_cq>,
    domain: Arc<Domain>,
}

// SAFETY: the objects were asked for with FI_THREAD_SAFE.
unsafe impl<T: Send> Send for Endpoint<T> {}
// SAFETY: as above; the rest is behind locks or not changed.
unsafe impl<T: Send> Sync for Endpoint<T> {}

/// How many buffers of which size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffers {
    /// Bytes of each.
    pub(super) size: usize,
    /// For messages that come; fewer where memory is short.
    pub(super) receives: usize,
    /// For messages that leave, at most.
    pub(super) sends: usize,
    /// Transfers under way, at most.
    pub(super) transfers: usize,
}

impl<T: Send> Endpoint<T> {
    /// Opens one that listens at the address of the domain's offer.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn open(domain: Arc<Domain>, buffers: Buffers) -> Result<Self> {
        let offer = domain.offer();
        let owner = domain.domain();
        let (addresses, completions, waiting) = open_queues(&domain)?;
        let mut endpoint = ptr::null_mut();
        // SAFETY: an open domain and its offer.
        let answer =
            unsafe { call!(owner, ops.endpoint(owner, offer.as_ptr(), &mut endpoint, ptr::null_mut())) };
        let endpoint = match opened(offer, "opening the endpoint", answer, endpoint) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                // SAFETY: opened above; nothing depends on them.
                unsafe {
                    close(&raw mut (*completions.as_ptr()).fid);
                    close(&raw mut (*addresses.as_ptr()).fid);
                }
                return Err(error);
            }
        };
        let inject_size = offer.inject_size().min(INJECT_LIMIT);
        let (sends, receives) = offer.queue_lengths();
        let receives = buffers.receives.min(receives).max(1);
        let this = Self {
            sends: Slots::new(buffers.sends.min(sends).max(1)),
            transfers: Slots::new(buffers.transfers),
            receives: Slots::new(receives),
            reader: Mutex::default(),
            lacking: AtomicUsize::new(0),
            message_size: buffers.size,
            inject_size,
            waiting,
            endpoint,
            addresses,
            completions,
            domain,
        };
        this.enable()?;
        this.post_receives(receives)?;
        Ok(this)
    }

    fn enable(&self) -> Result<()> {
        let endpoint = self.endpoint.as_ptr();
        // SAFETY: open objects of one domain.
        unsafe {
            let own = &raw mut (*endpoint).fid;
            let addresses = &raw mut (*self.addresses.as_ptr()).fid;
            self.domain.check("binding addresses", call!(endpoint, fid.ops.bind(own, addresses, 0)))?;
            let completions = &raw mut (*self.completions.as_ptr()).fid;
            let both = sys::FI_TRANSMIT | sys::FI_RECV;
            self.domain
                .check("binding completions", call!(endpoint, fid.ops.bind(own, completions, both)))?;
            let answer = call!(endpoint, fid.ops.control(own, sys::FI_ENABLE as i32, ptr::null_mut()));
            self.domain.check("enabling the endpoint", answer)
        }
    }

    /// Posts receives, fewer than `wanted` where memory is short.
    fn post_receives(&self, wanted: usize) -> Result<()> {
        const ENOUGH: usize = 8;
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        for count in 0..wanted {
            match self.buffer(self.message_size, Use::Receives) {
                Ok(buffer) => reader.unposted.push(self.receives.grow(Some(buffer))),
                Err(error) if count < ENOUGH => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, count, "fewer receive buffers than wanted");
                    break;
                }
            }
        }
        self.post_again(&mut reader);
        Ok(())
    }

    /// What it is opened in.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The address by which peers find it.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn name(&self) -> Result<Vec<u8>> {
        let endpoint = self.endpoint.as_ptr();
        let mut name = vec![0; 128];
        loop {
            let mut length = name.len();
            // SAFETY: an open endpoint; the buffer has `length` bytes.
            let answer = unsafe {
                call!(endpoint, cm.getname(&raw mut (*endpoint).fid, name.as_mut_ptr().cast(), &mut length))
            };
            if answer == 0 && length <= name.len() {
                name.truncate(length);
                return Ok(name);
            }
            if length <= name.len() {
                self.domain.check("asking for the endpoint's address", answer)?;
            }
            name.resize(length, 0);
        }
    }

    /// Makes a peer known by its address.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn insert(&self, name: &[u8]) -> Result<Address> {
        let addresses = self.addresses.as_ptr();
        let mut address = sys::ADDRESS_UNSPECIFIED;
        // SAFETY: an open table; `name` is of the length that addresses of this provider have (see `wire`).
        let count = unsafe {
            call!(addresses, ops.insert(addresses, name.as_ptr().cast(), 1, &mut address, 0, ptr::null_mut()))
        };
        match count {
            1 => Ok(Address(address)),
            _ => Err(self.domain.error("taking a peer's address", "it is refused")),
        }
    }

    /// Forgets a peer: the provider may close its connection and end what is under way. Those of sockets do not.
    pub(super) fn remove(&self, address: Address) {
        let addresses = self.addresses.as_ptr();
        let mut address = address.0;
        // SAFETY: an open table, an address of it.
        let answer = unsafe { call!(addresses, ops.remove(addresses, &mut address, 1, 0)) };
        if answer != 0 {
            tracing::debug!(answer, "libfabric does not forget a peer");
        }
    }

    /// Sends a message of `length` bytes, which `fill` makes. Short ones leave no completion.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn send(
        &self,
        to: Address,
        length: usize,
        token: T,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Posted> {
        let endpoint = self.endpoint.as_ptr();
        if length <= self.inject_size {
            let mut bytes = [0; INJECT_LIMIT];
            fill(&mut bytes[..length]);
            let looking = self.domain.keys().look();
            // SAFETY: an open endpoint; the provider takes a copy before it returns.
            let answer =
                unsafe { call!(endpoint, msg.inject(endpoint, bytes.as_ptr().cast(), length, to.0)) };
            drop(looking);
            return self.posted("sending", answer);
        }
        let Some(slot) = self.idle_send()? else { return Ok(Posted::Busy) };
        // SAFETY: the slot is ours until the provider takes it.
        let (bytes, descriptor) = unsafe {
            let slot = &mut *slot.as_ptr();
            slot.role = Role::Send(token);
            let Some(buffer) = &mut slot.buffer else { return Ok(Posted::Busy) };
            let descriptor = buffer.descriptor();
            fill(&mut buffer.bytes[..length]);
            (buffer.bytes.as_ptr(), descriptor)
        };
        let context = slot.as_ptr().cast::<c_void>();
        let looking = self.domain.keys().look();
        // SAFETY: an open endpoint; the buffer stays in place until the completion is read.
        let answer =
            unsafe { call!(endpoint, msg.send(endpoint, bytes.cast(), length, descriptor.0, to.0, context)) };
        drop(looking);
        if answer != 0 {
            // SAFETY: the provider did not take it.
            drop(unsafe { self.sends.give_back(slot) });
        }
        self.posted("sending", answer)
    }

    /// Begins a transfer. It is reported when it has arrived.
    ///
    /// # Safety
    /// The local memory stays valid until the completion, and for a write unchanged.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) unsafe fn transfer(&self, to: Address, part: &Part, token: T) -> Result<Posted> {
        let slot = match self.transfers.take() {
            Some(slot) => slot,
            None if self.transfers.may_grow() => self.transfers.grow(None),
            None => return Ok(Posted::Busy),
        };
        // SAFETY: the caller's promise.
        unsafe { self.begin(to, part, token, slot) }
    }

    /// The same, however many are under way: busy is only the provider.
    ///
    /// # Safety
    /// As for [`transfer`](Self::transfer).
    ///
    /// # Errors
    /// `Provider`.
    pub(super) unsafe fn transfer_anyway(&self, to: Address, part: &Part, token: T) -> Result<Posted> {
        let slot = self.transfers.take().unwrap_or_else(|| self.transfers.grow(None));
        // SAFETY: the caller's promise.
        unsafe { self.begin(to, part, token, slot) }
    }

    /// Posts a transfer in a slot that was taken.
    ///
    /// # Safety
    /// As for [`transfer`](Self::transfer); the slot is the caller's.
    ///
    /// # Errors
    /// `Provider`.
    unsafe fn begin(&self, to: Address, part: &Part, token: T, slot: NonNull<Slot<T>>) -> Result<Posted> {
        // SAFETY: the slot is ours until the provider takes it.
        unsafe { (*slot.as_ptr()).role = Role::Transfer(token) };
        let local = sys::iovec { iov_base: part.local.start.as_ptr().cast(), iov_len: part.local.length };
        let remote = sys::fi_rma_iov { addr: part.address, len: part.local.length, key: part.key };
        let mut descriptor = part.descriptor.0;
        let message = sys::fi_msg_rma {
            msg_iov: &local,
            desc: &mut descriptor,
            iov_count: 1,
            addr: to.0,
            rma_iov: &remote,
            rma_iov_count: 1,
            context: slot.as_ptr().cast(),
            data: 0,
        };
        let endpoint = self.endpoint.as_ptr();
        let looking = self.domain.keys().look();
        // SAFETY: an open endpoint; the description is read before the call returns, the memory is the caller's
        // promise. Without delivery, a write would be reported when it has left, even to a key that does not exist.
        let answer = unsafe {
            match part.direction {
                Direction::Write => {
                    let flags = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;
                    call!(endpoint, rma.writemsg(endpoint, &message, flags))
                }
                Direction::Read => call!(endpoint, rma.readmsg(endpoint, &message, sys::FI_COMPLETION)),
            }
        };
        drop(looking);
        if answer != 0 {
            // SAFETY: the provider did not take it.
            drop(unsafe { self.transfers.give_back(slot) });
        }
        self.posted("transferring", answer)
    }

    /// Registers memory.
    ///
    /// # Safety
    /// As for [`Domain::register`].
    ///
    /// # Errors
    /// `Provider`.
    pub(super) unsafe fn register(&self, memory: UserMemory, purpose: Use) -> Result<Registration> {
        // SAFETY: the caller's promise; the endpoint is of this domain.
        unsafe { self.domain.register(self.endpoint, memory, purpose) }
    }

    /// How many messages are on their way out.
    pub(super) fn leaving(&self) -> usize {
        self.sends.busy()
    }

    /// Whether receives wait to be posted again: until then, fewer messages find room.
    pub(super) fn lacks_receives(&self) -> bool {
        // Relaxed: who misses it looks again after the next sleep.
        self.lacking.load(Ordering::Relaxed) > 0
    }

    fn idle_send(&self) -> Result<Option<NonNull<Slot<T>>>> {
        match self.sends.take() {
            Some(slot) => Ok(Some(slot)),
            None if self.sends.may_grow() => {
                Ok(Some(self.sends.grow(Some(self.buffer(self.message_size, Use::Sends)?))))
            }
            None => Ok(None),
        }
    }

    /// A buffer of `size` bytes, registered where the provider wants that.
    ///
    /// # Errors
    /// `Provider`, also where memory is short.
    pub(super) fn buffer(&self, size: usize, purpose: Use) -> Result<Buffer> {
        let mut bytes = Vec::new();
        if available::check(size as u64).is_err() || bytes.try_reserve_exact(size).is_err() {
            return Err(self.domain.error("making a buffer", "memory is short"));
        }
        bytes.resize(size, 0);
        let mut bytes = bytes.into_boxed_slice();
        let registration = if self.domain.offer().registers(sys::FI_MR_LOCAL) {
            // SAFETY: the buffer drops the registration before the bytes, and only this process knows the key.
            Some(unsafe { self.register(UserMemory::of_mut(&mut bytes), purpose) }?)
        } else {
            None
        };
        Ok(Buffer { registration, bytes })
    }

    fn posted(&self, doing: &str, answer: isize) -> Result<Posted> {
        match answer {
            0 => Ok(Posted::Yes),
            busy if busy == -(libc::EAGAIN as isize) => Ok(Posted::Busy),
            code => Err(self.domain.error(doing, library()?.describe(code))),
        }
    }
}

impl<T> Drop for Endpoint<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more. The endpoint comes first: with it the provider lets go of all slots,
        // which are dropped after this.
        unsafe {
            close(&raw mut (*self.endpoint.as_ptr()).fid);
            close(&raw mut (*self.completions.as_ptr()).fid);
            close(&raw mut (*self.addresses.as_ptr()).fid);
        }
    }
}
