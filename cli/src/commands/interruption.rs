//! Signals that end a program, held back until what it left half-done is cleared away.
//!
//! What waits for a disk or for another host may not notice: a second SIGINT or SIGTERM ends it on the spot.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::error::CommandError;
use super::supervision::SAME;

/// Watches for signals until the end of the process.
pub(crate) struct Interruption {
    /// The signal that came; 0 as long as none did.
    signal: Arc<AtomicUsize>,
    /// Readable once a signal came.
    wake: UnixStream,
}

impl Interruption {
    /// Begins to watch: from here on the first signal ends nothing by itself.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn watch() -> Result<Interruption, CommandError> {
        let watch = || -> io::Result<Interruption> {
            let signal = Arc::new(AtomicUsize::new(0));
            let (wake, waker) = UnixStream::pair()?;
            // Under `nohup` the end of the terminal is nothing to go by.
            let hang_up = Some(SIGHUP).filter(|signal| svmio_transport::has_default_action(*signal));
            let again = Arc::new(AtomicBool::new(false));
            for number in [SIGINT, SIGTERM] {
                svmio_transport::register_ending(number, Arc::clone(&again))?;
            }
            for number in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
                flag::register_usize(number, Arc::clone(&signal), number as usize)?;
                // After the flag, so that whoever is woken finds it.
                low_level::pipe::register(number, waker.try_clone()?)?;
            }
            let first = wake.try_clone()?;
            thread::Builder::new().name("svmio-signals".into()).spawn(move || {
                // Without it there is just no second signal that ends the process.
                if wait_for(&mut [PollFd::new(&first, PollFlags::IN)]).is_ok() {
                    thread::sleep(SAME);
                    // SeqCst is what the handler loads with.
                    again.store(true, Ordering::SeqCst);
                }
            })?;
            Ok(Interruption { signal, wake })
        };
        watch().map_err(|source| CommandError::Outside {
            action: "watching for signals in",
            path: "svmio".into(),
            source,
        })
    }

    /// # Errors
    /// [`CommandError::Interrupted`] once a signal came.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        // SeqCst is what the handler stores with; nothing else hangs on the order.
        match self.signal.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(CommandError::Interrupted { signal: signal as i32 }),
        }
    }

    /// Waits until `input` can be read, or a signal came.
    ///
    /// # Errors
    /// That of `poll(2)`.
    pub(crate) fn wait_readable(&self, input: BorrowedFd<'_>) -> io::Result<()> {
        wait_for(&mut [PollFd::new(&input, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)])
    }
}

/// Waits until one of `events` has come.
fn wait_for(events: &mut [PollFd<'_>]) -> io::Result<()> {
    loop {
        match poll(events, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
