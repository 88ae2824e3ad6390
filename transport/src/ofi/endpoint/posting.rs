//! What leaves: messages and transfers.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::{Address, Endpoint};
use crate::dma::Direction;
use crate::error::Result;
use crate::memory::UserMemory;
use crate::ofi::domain::{Descriptor, Use};
use crate::ofi::failures::{Refusal, refusal};
use crate::ofi::faults::Call;
use crate::ofi::slots::{Role, Slot};
use crate::ofi::sys::{self, call, library};

/// The longest message that is handed to the provider from the stack, where it takes that.
pub(super) const INJECT_LIMIT: usize = 256;

/// Whether the provider took an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::ofi) enum Posted {
    /// Yes.
    Yes,
    /// Not now: the connection is not up yet, its queue is full, or the peer has its share of what there is.
    Busy,
    /// Not now: this process or its machine lacks what a connection takes, as the system's code tells.
    Short(i32),
    /// Never: something is wrong with it at this end, as the provider's code tells.
    Unfit(i32),
}

/// One side of a transfer and what it is known by.
pub(in crate::ofi) struct Part {
    /// Which way.
    pub(in crate::ofi) direction: Direction,
    /// This process's side.
    pub(in crate::ofi) local: UserMemory,
    /// What the provider wants to know of it.
    pub(in crate::ofi) descriptor: Descriptor,
    /// The registration's key at the peer.
    pub(in crate::ofi) key: u64,
    /// The address there, as its registration counts.
    pub(in crate::ofi) address: u64,
}

impl<T: Send> Endpoint<T> {
    /// Sends a message of `length` bytes, which `fill` makes. Short ones leave no completion.
    ///
    /// # Errors
    /// `Provider`.
    pub(in crate::ofi) fn send(
        &self,
        to: Address,
        length: usize,
        token: T,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Posted> {
        if let Some(answer) = self.domain.faults().answer(Call::Send) {
            return self.posted("sending", answer as isize);
        }
        let endpoint = self.endpoint.as_ptr();
        if length <= self.inject_size {
            let mut bytes = [0; INJECT_LIMIT];
            fill(&mut bytes[..length]);
            let looking = self.domain.keys().look();
            // SAFETY: an open endpoint; the provider takes a copy before it returns.
            let answer =
                unsafe { call!(endpoint, msg.inject(endpoint, bytes.as_ptr().cast(), length, to.number)) };
            drop(looking);
            return self.posted("sending", answer);
        }
        let slot = match self.sends.take(to.peer, || self.buffer(self.message_size, Use::Sends).map(Some)) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Ok(Posted::Busy),
            Err(error) => {
                // It is this process that lacks it, not the peer; what is under way may give one back.
                tracing::debug!(%error, "no buffer to send from");
                return Ok(Posted::Short(libc::ENOMEM));
            }
        };
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
        let answer = unsafe {
            call!(endpoint, msg.send(endpoint, bytes.cast(), length, descriptor.0, to.number, context))
        };
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
    pub(in crate::ofi) unsafe fn transfer(&self, to: Address, part: &Part, token: T) -> Result<Posted> {
        if let Some(answer) = self.domain.faults().answer(Call::Transfer) {
            return self.posted("transferring", answer as isize);
        }
        let Some(slot) = self.transfers.take(to.peer, || Ok(None))? else { return Ok(Posted::Busy) };
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
    pub(in crate::ofi) unsafe fn transfer_anyway(
        &self,
        to: Address,
        part: &Part,
        token: T,
    ) -> Result<Posted> {
        let slot = self.transfers.take_anyway(to.peer, || Ok(None))?;
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
            addr: to.number,
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

    /// What the provider's answer means.
    pub(super) fn posted(&self, doing: &str, answer: isize) -> Result<Posted> {
        if answer == 0 {
            return Ok(Posted::Yes);
        }
        let code = -answer as i32;
        match refusal(code) {
            Refusal::Busy => Ok(Posted::Busy),
            Refusal::Short => Ok(Posted::Short(code)),
            Refusal::Unfit => {
                tracing::debug!(doing, code, "the provider finds it unfit");
                Ok(Posted::Unfit(code))
            }
            Refusal::Lost => Err(self.domain.error(doing, library()?.describe(answer))),
        }
    }
}
