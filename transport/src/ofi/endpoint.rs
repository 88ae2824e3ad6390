//! An endpoint: messages and transfers are posted to it, and their completions read from it.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::domain::{Domain, Registration, Use, close, opened};
use super::slots::{Buffer, Bytes, Slots};
use super::sys::{self, call};
use crate::back_end::ReceiveBuffers;
use crate::error::{Error, Result};
use crate::memory::UserMemory;
use crate::shm::available;
use crate::units::Rank;

pub(super) use self::completions::Event;
use self::completions::Reader;
use self::posting::INJECT_LIMIT;
pub(super) use self::posting::{Part, Posted};
pub(super) use self::queues::Waiting;
use self::queues::open_queues;

mod completions;
mod posting;
mod queues;
mod sleeping;

/// A peer, and how the provider numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    peer: Rank,
    number: sys::fi_addr_t,
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
    /// For messages that leave, in [shares](Slots).
    pub(super) sends: usize,
    /// Transfers under way, likewise.
    pub(super) transfers: usize,
}

impl<T: Send> Endpoint<T> {
    /// Opens one that listens at the address of the domain's offer; one that can be waited for, where the provider has
    /// a way to, if that is wanted.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn open(domain: Arc<Domain>, buffers: Buffers, wants_to_wait: bool) -> Result<Self> {
        let offer = domain.offer();
        let owner = domain.domain();
        let (addresses, completions, waiting) = open_queues(&domain, wants_to_wait)?;
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
                Ok(buffer) => reader.unposted.push(self.receives.grow(buffer)),
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
    pub(super) fn insert(&self, peer: Rank, name: &[u8]) -> Result<Address> {
        let addresses = self.addresses.as_ptr();
        let mut number = sys::ADDRESS_UNSPECIFIED;
        // SAFETY: an open table; `name` is of the length that addresses of this provider have (see `wire`).
        let count = unsafe {
            call!(addresses, ops.insert(addresses, name.as_ptr().cast(), 1, &mut number, 0, ptr::null_mut()))
        };
        match count {
            1 => Ok(Address { peer, number }),
            _ => Err(self.domain.error("taking a peer's address", "it is refused")),
        }
    }

    /// Forgets a peer for good: the provider may close its connection and end what is under way. Those of sockets do
    /// not, so that what they hold on to takes no room from others any more.
    pub(super) fn remove(&self, address: Address) {
        self.sends.give_up(address.peer);
        self.transfers.give_up(address.peer);
        let addresses = self.addresses.as_ptr();
        let mut address = address.number;
        // SAFETY: an open table, an address of it.
        let answer = unsafe { call!(addresses, ops.remove(addresses, &mut address, 1, 0)) };
        if answer != 0 {
            tracing::debug!(answer, "libfabric does not forget a peer");
        }
    }

    /// Registers memory.
    ///
    /// # Safety
    /// As for [`Domain::register`].
    ///
    /// # Errors
    /// `Memory`; `Provider`.
    pub(super) unsafe fn register(&self, memory: UserMemory, purpose: Use) -> Result<Registration> {
        // SAFETY: the caller's promise; the endpoint is of this domain.
        unsafe { self.domain.register(self.endpoint, memory, purpose) }
    }

    /// What messages come into.
    pub(super) fn receive_buffers(&self) -> ReceiveBuffers {
        // All that were made are in use for good.
        ReceiveBuffers { number: self.receives.busy(), bytes: self.message_size }
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

    /// A buffer of `size` bytes, registered where the provider wants that.
    ///
    /// # Errors
    /// `Memory`; `Provider`.
    pub(super) fn buffer(&self, size: usize, purpose: Use) -> Result<Buffer> {
        let mut bytes = Vec::new();
        if available::check(size as u64).is_err() || bytes.try_reserve_exact(size).is_err() {
            return Err(Error::Memory {
                what: "a buffer for the network".into(),
                length: size as u64,
                source: Arc::new(io::ErrorKind::OutOfMemory.into()),
            });
        }
        bytes.resize(size, 0);
        let bytes = Bytes::from(bytes.into_boxed_slice());
        let registration = if self.domain.offer().registers(sys::FI_MR_LOCAL) {
            // SAFETY: the buffer drops the registration before the bytes, and only this process knows the key.
            Some(unsafe { self.register(bytes.memory(size), purpose) }?)
        } else {
            None
        };
        Ok(Buffer { registration, bytes })
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
