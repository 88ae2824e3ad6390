//! Threads that serve beside the program.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::back_end::Service;
use crate::error::{Error, Result};

use super::sys;

/// Starts a thread with all signals blocked: they are the application's.
///
/// # Errors
/// `System` where no thread can be had.
pub(super) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Thread> {
    // The kernel keeps 15 bytes of a name.
    let builder = Builder::new().name(format!("svmio-{name}"));
    let handle = sys::with_signals_blocked(|| builder.spawn(body))
        .map_err(|error| Error::system(format!("starting the thread {name}"), error))?;
    Ok(Thread { handle: Mutex::new(Some(handle)) })
}

/// A thread that was started.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    /// Waits until it has ended. Returns at once when it was waited for already, or when it is this very thread.
    pub(super) fn join(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(handle) = handle else {
            return;
        };
        if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
            tracing::error!("a thread of the fabric panicked");
        }
    }
}

impl Service for Thread {
    fn join(self: Box<Self>) {
        (*self).join();
    }
}
