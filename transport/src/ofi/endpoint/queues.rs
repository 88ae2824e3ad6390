//! The queues of an endpoint, and how a thread sleeps until something comes.

use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::{Endpoint, sleeping};
use crate::error::Result;
use crate::ofi::domain::{Domain, close, opened};
use crate::ofi::faults::Call;
use crate::ofi::keys::{Signal, Wake};
use crate::ofi::sys::{self, call};

/// How a thread sleeps until completions come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ofi) enum Waiting {
    /// By waiting for a descriptor to become readable.
    Descriptor(RawFd),
    /// By a call of the provider that sleeps.
    Call,
    /// Not at all: the provider wakes nobody.
    Blind,
}

impl<T: Send> Endpoint<T> {
    /// How to sleep until there is something to poll for.
    pub(in crate::ofi) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// What becomes readable when there is something to poll for, where that is the way to wait. None where
    /// something is there already that would not wake the waiter.
    pub(in crate::ofi) fn wait_descriptor(&self) -> Option<BorrowedFd<'_>> {
        let Waiting::Descriptor(descriptor) = self.waiting else { return None };
        let fabric = self.domain.fabric();
        // SAFETY: an open fabric, and a queue of it.
        let answer = unsafe {
            let mut object = &raw mut (*self.completions.as_ptr()).fid;
            call!(fabric, ops.trywait(fabric, &mut object, 1))
        };
        // SAFETY: the provider's, open as long as the queue.
        (answer == 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Sleeps in the provider until there is something to poll for, or [`wake`](Self::wake) is called, or for so long.
    pub(in crate::ofi) fn sleep(&self, longest: Duration) {
        let completions = self.completions.as_ptr();
        let milliseconds = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
        let _asleep = self.domain.keys().sleep(self.signal());
        // SAFETY: an open queue. Asked for no entries, the provider reads none, and returns when there are some.
        let answer = unsafe {
            call!(completions, ops.sread(completions, ptr::null_mut(), 0, ptr::null(), milliseconds))
        };
        tracing::trace!(answer, "slept");
    }

    /// Wakes who sleeps in the provider.
    pub(in crate::ofi) fn wake(&self) {
        if self.waiting == Waiting::Call {
            self.signal().wake();
        }
    }

    fn signal(&self) -> Signal {
        // SAFETY: the queue is open as long as this endpoint, which gives the signal away only while it sleeps.
        unsafe { Signal::new(self.completions) }
    }
}

pub(super) type Queues = (NonNull<sys::fid_av>, NonNull<sys::fid_cq>, Waiting);

/// Opens the table of addresses and the queue of completions, the latter with a way to wait for them if possible, and
/// wanted.
pub(super) fn open_queues(domain: &Domain, wants_to_wait: bool) -> Result<Queues> {
    let offer = domain.offer();
    let owner = domain.domain();
    let mut addresses = ptr::null_mut();
    let mut attributes =
        sys::fi_av_attr { type_: sys::fi_av_type_FI_AV_UNSPEC, ..sys::fi_av_attr::default() };
    // SAFETY: an open domain.
    let answer =
        unsafe { call!(owner, ops.av_open(owner, &mut attributes, &mut addresses, ptr::null_mut())) };
    let addresses = opened(offer, "opening the table of addresses", answer, addresses)?;
    let ways = [sys::fi_wait_obj_FI_WAIT_FD, sys::fi_wait_obj_FI_WAIT_UNSPEC, sys::fi_wait_obj_FI_WAIT_NONE];
    let mut problem = None;
    for way in ways.into_iter().skip(if wants_to_wait { 0 } else { ways.len() - 1 }) {
        match open_queue(domain, way) {
            Ok(completions) => match way_to_wait(domain, way, completions) {
                // A queue that cannot be waited for is opened as such: a provider may have work with the others.
                Waiting::Blind if way != sys::fi_wait_obj_FI_WAIT_NONE => {
                    // SAFETY: opened just now; nothing depends on it.
                    unsafe { close(&raw mut (*completions.as_ptr()).fid) };
                }
                waiting => return Ok((addresses, completions, waiting)),
            },
            Err(error) => problem = Some(error),
        }
    }
    // SAFETY: opened above; nothing depends on it.
    unsafe { close(&raw mut (*addresses.as_ptr()).fid) };
    Err(problem.unwrap_or_else(|| domain.error("opening the completion queue", "no way to wait suits")))
}

/// Opens a queue of completions that is to be waited for in this way.
fn open_queue(domain: &Domain, way: sys::fi_wait_obj) -> Result<NonNull<sys::fid_cq>> {
    let owner = domain.domain();
    let mut attributes = sys::fi_cq_attr {
        format: sys::fi_cq_format_FI_CQ_FORMAT_MSG,
        wait_obj: way,
        ..sys::fi_cq_attr::default()
    };
    let mut completions = ptr::null_mut();
    let answer = domain.faults().answer(Call::Queue(way)).unwrap_or_else(|| {
        // SAFETY: an open domain.
        unsafe { call!(owner, ops.cq_open(owner, &mut attributes, &mut completions, ptr::null_mut())) }
    });
    opened(domain.offer(), "opening the completion queue", answer, completions)
}

/// How to wait for a queue that was opened to be waited for in this way.
fn way_to_wait(domain: &Domain, way: sys::fi_wait_obj, completions: NonNull<sys::fid_cq>) -> Waiting {
    match way {
        // Their descriptor stays readable once it was: `fi_trywait` does nothing in libfabric 1.17.
        sys::fi_wait_obj_FI_WAIT_FD if ["net", "tcp"].contains(&domain.offer().provider().as_str()) => {
            Waiting::Call
        }
        sys::fi_wait_obj_FI_WAIT_FD => descriptor(completions).map_or(Waiting::Blind, Waiting::Descriptor),
        sys::fi_wait_obj_FI_WAIT_UNSPEC if sleeping::sleeps(domain, completions) => Waiting::Call,
        _ => Waiting::Blind,
    }
}

/// What becomes readable, of a queue that was opened with a descriptor.
fn descriptor(completions: NonNull<sys::fid_cq>) -> Option<RawFd> {
    let mut descriptor: RawFd = -1;
    let queue = completions.as_ptr();
    // SAFETY: an open queue with a descriptor to wait for; the answer is an int (`fi_cq(3)`, FI_GETWAIT).
    let answer = unsafe {
        call!(
            queue,
            fid.ops.control(&raw mut (*queue).fid, sys::FI_GETWAIT as i32, (&raw mut descriptor).cast())
        )
    };
    (answer == 0 && descriptor >= 0).then_some(descriptor)
}
