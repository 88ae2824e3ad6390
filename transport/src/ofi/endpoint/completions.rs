//! Reading completions, one thread at a time.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use super::Endpoint;
use crate::ofi::slots::{Role, Slot};
use crate::ofi::sys::{self, call};

/// How many completions are read at once.
const BATCH: usize = 32;

/// What came of an operation.
pub(in crate::ofi) enum Event<'a, T> {
    /// A message came.
    Received(&'a [u8]),
    /// A message has left.
    Sent,
    /// A transfer has arrived.
    Transferred(T),
    /// A message came that could not be received, with the provider's code. These bytes begin as it does, or with a
    /// zero where the provider gave nothing of it.
    Missed(&'a [u8], i32),
    /// A message or transfer failed, with the provider's code.
    Failed(T, i32),
    /// Completions cannot be read any more, with the provider's code: what has come is not seen, nor what comes.
    Unreadable(isize),
}

/// What whoever reads completions needs.
pub(super) struct Reader<T> {
    entries: [sys::fi_cq_msg_entry; BATCH],
    /// Receives that could not be posted again at once.
    pub(super) unposted: Vec<NonNull<Slot<T>>>,
}

impl<T> Default for Reader<T> {
    fn default() -> Self {
        Self { entries: [Default::default(); BATCH], unposted: Vec::new() }
    }
}

// SAFETY: it holds addresses only: of slots that are the reader's, and of what the provider answered.
unsafe impl<T: Send> Send for Reader<T> {}

impl<T: Send> Endpoint<T> {
    /// Reads all completions that there are, in their order, and tells them to `handle`; returns how many. None where
    /// another thread is reading.
    pub(in crate::ofi) fn poll(&self, mut handle: impl FnMut(Event<'_, T>)) -> Option<usize> {
        let mut reader = match self.reader.try_lock() {
            Ok(reader) => reader,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if !reader.unposted.is_empty() {
            self.post_again(&mut reader);
        }
        let completions = self.completions.as_ptr();
        let mut total = 0;
        loop {
            let looking = self.domain.keys().look();
            // SAFETY: an open queue of this format; there is room for so many entries.
            let count = unsafe {
                call!(completions, ops.read(completions, reader.entries.as_mut_ptr().cast(), BATCH))
            };
            drop(looking);
            if let Ok(count) = usize::try_from(count) {
                for index in 0..count {
                    let entry = reader.entries[index];
                    self.complete(&mut reader, entry.op_context, Ok(entry.len), &mut handle);
                }
                total += count;
                if count < BATCH {
                    return Some(total);
                }
                continue;
            }
            let count = match count == -(sys::FI_EAVAIL as isize) {
                true => self.read_failure(&mut reader, &mut handle),
                false => count,
            };
            match usize::try_from(count) {
                Ok(count @ 1..) => total += count,
                // A failure that is announced and not there is looked for at the next time.
                Ok(0) => return Some(total),
                Err(_) => {
                    if ![libc::EAGAIN, libc::EINTR].contains(&(-count as i32)) {
                        handle(Event::Unreadable(count));
                    }
                    return Some(total);
                }
            }
        }
    }

    /// Reads one failure; as the provider counts, and what it says where there is none.
    fn read_failure(&self, reader: &mut Reader<T>, handle: &mut impl FnMut(Event<'_, T>)) -> isize {
        let mut entry = sys::fi_cq_err_entry::default();
        let completions = self.completions.as_ptr();
        // SAFETY: an open queue; the entry asks for no further data.
        let count = unsafe { call!(completions, ops.readerr(completions, &mut entry, 0)) };
        if count == 1 {
            self.complete(reader, entry.op_context, Err(entry.err), handle);
        }
        count
    }

    fn complete(
        &self,
        reader: &mut Reader<T>,
        context: *mut c_void,
        outcome: std::result::Result<usize, i32>,
        handle: &mut impl FnMut(Event<'_, T>),
    ) {
        let Some(slot) = NonNull::new(context.cast::<Slot<T>>()) else { return };
        // SAFETY: contexts are addresses of slots, and with its completion the provider has let go of this one.
        let kind = unsafe { &(*slot.as_ptr()).role };
        match kind {
            Role::Receive => {
                // SAFETY: as above; nobody else has it until it is posted again.
                let buffer = unsafe { &(*slot.as_ptr()).buffer };
                let bytes = buffer.as_ref().map_or(&[][..], |buffer| &*buffer.bytes);
                match outcome {
                    Ok(length) => handle(Event::Received(&bytes[..length.min(bytes.len())])),
                    // That is what the provider says of the receives of an endpoint that is closed.
                    Err(libc::ECANCELED) => {}
                    Err(code) => handle(Event::Missed(bytes, code)),
                }
                reader.unposted.push(slot);
                self.post_again(reader);
            }
            Role::Send(_) => {
                // SAFETY: as above.
                let role = unsafe { self.sends.give_back(slot) };
                match (outcome, role) {
                    (Err(code), Role::Send(token)) => handle(Event::Failed(token, code)),
                    _ => handle(Event::Sent),
                }
            }
            Role::Transfer(_) => {
                // SAFETY: as above.
                if let Role::Transfer(token) = unsafe { self.transfers.give_back(slot) } {
                    handle(match outcome {
                        Ok(_) => Event::Transferred(token),
                        Err(code) => Event::Failed(token, code),
                    });
                }
            }
            Role::Idle => tracing::warn!("libfabric completed an operation twice"),
        }
    }

    /// Posts receives that are not posted, as far as there is room.
    pub(super) fn post_again(&self, reader: &mut Reader<T>) {
        let endpoint = self.endpoint.as_ptr();
        while let Some(slot) = reader.unposted.pop() {
            // SAFETY: the slot is ours until the provider takes it.
            let (bytes, length, descriptor) = unsafe {
                let slot = &mut *slot.as_ptr();
                slot.role = Role::Receive;
                let Some(buffer) = &mut slot.buffer else { continue };
                let descriptor = buffer.descriptor();
                // Should the next message not be received, nobody takes it for the one that was here before.
                if let Some(begin) = buffer.bytes.first_chunk_mut::<4>() {
                    *begin = [0; 4];
                }
                (buffer.bytes.as_mut_ptr(), buffer.bytes.len(), descriptor)
            };
            let context = slot.as_ptr().cast();
            // SAFETY: an open endpoint; the buffer stays in place until the completion is read.
            let answer = unsafe {
                call!(
                    endpoint,
                    msg.recv(endpoint, bytes.cast(), length, descriptor.0, sys::ADDRESS_UNSPECIFIED, context)
                )
            };
            if answer != 0 {
                let is_new = self.lacking.load(Ordering::Relaxed) == 0;
                if is_new && answer != -(libc::EAGAIN as isize) {
                    tracing::warn!(answer, "libfabric refuses a receive: it is tried again and again");
                }
                reader.unposted.push(slot);
                break;
            }
        }
        self.lacking.store(reader.unposted.len(), Ordering::Relaxed);
    }
}
