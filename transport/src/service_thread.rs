//! Threads that serve beside the program: they take none of its signals, and are not kept waiting by its computation;
//! and such as help the calling thread with what it is at.
//!
//! A thread that wakes is let run at once only if it is to be done sooner than the one that has the core: otherwise the
//! kernel lets that finish its slice, one to four milliseconds, in which a message that has come, or a page that is
//! wanted, lies there. So service threads ask for the shortest slice there is. They get no more of the processor for
//! that: the shares stay equal, only the pieces are smaller.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// The shortest that Linux grants, from version 6.12 on; others take no notice of it. In nanoseconds.
const SLICE: u64 = 100_000;

/// Signals by which the kernel tells a thread of its own doings.
const OWN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `body` on a thread of its own, which takes no signals of the program's, and gets the processor soon when it wakes.
///
/// # Errors
/// [`Error::System`] where no thread can be had.
pub fn spawn_service_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    // The kernel keeps 15 bytes of a name.
    let builder = Builder::new().name(name.chars().take(15).collect());
    let prompt = move || {
        if let Err(problem) = be_prompt() {
            tracing::debug!(%problem, "a service thread may have to wait for the program's computation");
        }
        body();
    };
    // The new thread inherits the mask, so no signal can come to it even in its first moment.
    let blocked = BlockedSignals::all();
    let thread = builder.spawn(prompt);
    drop(blocked);
    thread.map_err(|problem| Error::system(format!("starting the thread {name}"), problem))
}

/// Runs `body` on the calling thread and, at the same time, on up to `helpers` others, which take no signals of
/// the program's and are called `name`. It returns when all are through. Threads that cannot be had are done without.
pub fn run_with_helpers(helpers: usize, name: &str, body: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        let blocked = BlockedSignals::all();
        for _ in 0..helpers {
            let builder = Builder::new().name(name.chars().take(15).collect());
            if let Err(problem) = builder.spawn_scoped(scope, &body) {
                tracing::debug!(%problem, "no thread to help");
                break;
            }
        }
        drop(blocked);
        body();
    });
}

/// Has the calling thread be let run soon when it wakes, where the kernel can do that.
fn be_prompt() -> io::Result<()> {
    let mut attributes = attributes()?;
    attributes.sched_flags |= libc::SCHED_FLAG_KEEP_POLICY as u64;
    attributes.sched_runtime = SLICE;
    // SAFETY: the structure is as long as it says, and read only; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<libc::sched_attr> {
    let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
    let length = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `length` bytes, all of which are there; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), length, 0) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers only, zero before the kernel wrote some of them.
    Ok(unsafe { attributes.assume_init() })
}

/// All signals blocked for this thread, and for those that it starts meanwhile, but for those that tell a thread of what it
/// has done itself: a program may have handlers for its memory, which such threads read and write for it.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn all() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are written by the calls before they are read; with these arguments neither fails.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for own in OWN {
                libc::sigdelset(all.as_mut_ptr(), own);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: a set that `pthread_sigmask` gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::{Barrier, Mutex, mpsc};

    use super::{SLICE, attributes, run_with_helpers, spawn_service_thread};

    #[test]
    fn a_service_thread_has_the_shortest_slice_and_the_rest_of_who_started_it() {
        let own = attributes().unwrap();
        let (tell, told) = mpsc::channel();
        spawn_service_thread("prompt", move || tell.send(attributes().unwrap()).unwrap()).unwrap();
        let others = told.recv().unwrap();
        assert_eq!((others.sched_policy, others.sched_nice), (own.sched_policy, own.sched_nice));
        // Kernels before 6.12 tell of no slices.
        let is_told = own.sched_runtime != 0;
        assert_eq!(others.sched_runtime, if is_told { SLICE } else { 0 });
    }

    /// Of some signals, whether they are kept from the calling thread; of the last one, whether it is not.
    fn blocked() -> [bool; 4] {
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: the set is written before it is read.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            let mask = mask.assume_init();
            let is_blocked = |signal| libc::sigismember(&mask, signal) == 1;
            let [a, b, c] = [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1].map(is_blocked);
            [a, b, c, !is_blocked(libc::SIGSEGV)]
        }
    }

    #[test]
    fn a_service_thread_takes_no_signals() {
        let (tell, told) = mpsc::channel();
        spawn_service_thread("no signals", move || tell.send(blocked()).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap(), [true; 4]);
    }

    #[test]
    fn helpers_run_beside_the_caller_without_its_signals() {
        let (before, caller) = (blocked(), std::thread::current().id());
        let seen = Mutex::new(Vec::new());
        // Nobody is through before all have come.
        let all = Barrier::new(4);
        run_with_helpers(3, "helper", || {
            seen.lock().unwrap().push((std::thread::current().id() == caller, blocked()));
            all.wait();
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        assert_eq!(seen, [(false, [true; 4]), (false, [true; 4]), (false, [true; 4]), (true, before)]);
        assert_eq!(blocked(), before);
    }
}
