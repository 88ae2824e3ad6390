//! Threads that serve beside the program.

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::back_end::Service;
use crate::error::Result;
use crate::service_thread::spawn_service_thread;

/// Starts a thread beside the program.
///
/// # Errors
/// `System` where no thread can be had.
pub(super) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Thread> {
    let handle = spawn_service_thread(&format!("svmio-{name}"), body)?;
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
