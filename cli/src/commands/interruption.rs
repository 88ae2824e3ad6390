//! Signals that end a program, held back until what it left half-done is cleared away.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::error::CommandError;

/// Watches for signals until the end of the process.
pub(crate) struct Interruption {
    /// The signal that came; 0 as long as none did.
    signal: Arc<AtomicUsize>,
    /// Readable once a signal came.
    wake: UnixStream,
}

impl Interruption {
    /// Begins to watch: from here on a signal ends nothing by itself.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn watch() -> Result<Interruption, CommandError> {
        let watch = || -> io::Result<Interruption> {
            let signal = Arc::new(AtomicUsize::new(0));
            let (wake, waker) = UnixStream::pair()?;
            // Under `nohup` the end of the terminal is nothing to go by.
            let hang_up = Some(SIGHUP).filter(|signal| svmio_transport::has_default_action(*signal));
            for number in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
                signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
                // After the flag, so that whoever is woken finds it.
                signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
            }
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
        let mut both =
            [PollFd::new(&input, PollFlags::IN), PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        loop {
            match poll(&mut both, None) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}
