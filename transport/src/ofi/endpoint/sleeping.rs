//! Whether a call of the provider that is to sleep does.
//!
//! A queue may be waited for in a way of the provider's choice. What that is need not be told, and not every one serves:
//! some calls look again and again until something comes, some return at once, some hear no signal. So it is tried.

use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::ofi::domain::Domain;
use crate::ofi::faults::Call;
use crate::ofi::keys::{Signal, Wake};
use crate::ofi::sys::{self, call};

/// How long a call is to sleep. Long beside what a call costs that returns at once.
const NAP: Duration = Duration::from_millis(2);

/// How long one that was signalled before. Long beside the time that a busy machine takes to go on with a thread.
const SIGNALLED: Duration = Duration::from_millis(40);

/// How often each is tried. A busy machine keeps this thread from its turn now and then, so that a call seems to sleep
/// that returned at once, or not to have heard: not in each attempt.
const TRIES: usize = 3;

/// Whether a thread that waits for `completions` in the provider sleeps there until the time is over, and wakes when it
/// is signalled. Nothing may come meanwhile: the queue is a new one.
pub(super) fn sleeps(domain: &Domain, completions: NonNull<sys::fid_cq>) -> bool {
    !looks_again_and_again(completions)
        && (0..TRIES).any(|_| wakes(domain, completions))
        && (0..TRIES).all(|_| naps(domain, completions))
}

/// Whether the provider says that whoever waits only gives his core away between two looks, or does not wait at all.
fn looks_again_and_again(completions: NonNull<sys::fid_cq>) -> bool {
    let queue = completions.as_ptr();
    let mut way = sys::fi_wait_obj_FI_WAIT_UNSPEC;
    // SAFETY: an open queue; the answer is a kind of wait object (`fi_cq(3)`, FI_GETWAITOBJ).
    let answer = unsafe {
        call!(queue, fid.ops.control(&raw mut (*queue).fid, sys::FI_GETWAITOBJ as i32, (&raw mut way).cast()))
    };
    answer == 0 && [sys::fi_wait_obj_FI_WAIT_NONE, sys::fi_wait_obj_FI_WAIT_YIELD].contains(&way)
}

/// Whether a call returns long before its time because of a signal.
fn wakes(domain: &Domain, completions: NonNull<sys::fid_cq>) -> bool {
    // SAFETY: the queue is open during this.
    unsafe { Signal::new(completions) }.wake();
    let begun = Instant::now();
    wait(domain, completions, SIGNALLED);
    begun.elapsed() < SIGNALLED / 2
}

/// Whether a call takes its time, and the processor for little of it.
fn naps(domain: &Domain, completions: NonNull<sys::fid_cq>) -> bool {
    let (begun, used) = (Instant::now(), processor_time());
    let answer = wait(domain, completions, NAP);
    let used = processor_time().saturating_sub(used);
    // No entries: otherwise whoever asks for none would be told at once that there are as many.
    answer < 0 && begun.elapsed() >= NAP / 2 && used < NAP / 4
}

/// Waits in the provider for so long.
fn wait(domain: &Domain, completions: NonNull<sys::fid_cq>, limit: Duration) -> isize {
    if let Some(answer) = domain.faults().answer(Call::Wait) {
        return answer as isize;
    }
    let queue = completions.as_ptr();
    let milliseconds = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: an open queue. Asked for no entries, the provider reads none.
    unsafe { call!(queue, ops.sread(queue, ptr::null_mut(), 0, ptr::null(), milliseconds)) }
}

/// What this thread has had of the processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
