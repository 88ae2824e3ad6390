//! The threads of a mapping: those that serve faults, and the one that fetches ahead.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use svmio_transport::spawn_service_thread;

use super::memory::{Memory, PageFault};

/// Who serves a mapping's faults.
pub(super) trait ServesFaults: Send + Sync + 'static {
    /// Where they happen.
    fn memory(&self) -> &Memory;
    /// Serves one: on return the thread goes on, or somebody else will see to that.
    fn serve(&self, fault: PageFault);
    /// The file's name.
    fn file_name(&self) -> &str;
    /// Set when the threads are to end.
    fn is_stopping(&self) -> &AtomicBool;
    /// Has other threads than those that serve faults look whether they are to end.
    fn wake_others(&self);
}

/// Threads that end when this is dropped.
pub(super) struct Handlers<S: ServesFaults> {
    service: Arc<S>,
    /// Readable when they are to end.
    stop: OwnedFd,
    threads: Vec<JoinHandle<()>>,
}

impl<S: ServesFaults> Handlers<S> {
    /// Starts so many threads that serve faults.
    pub(super) fn start(service: &Arc<S>, count: usize) -> io::Result<Handlers<S>> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut handlers = Handlers { service: Arc::clone(service), stop, threads: Vec::new() };
        for _ in 0..count {
            let waiter = Waiter::new(service.memory(), &handlers.stop)?;
            let service = Arc::clone(service);
            handlers.add("svmio-faults", move || waiter.serve_faults(&*service))?;
        }
        Ok(handlers)
    }

    /// Starts another thread, which is waited for with the others.
    pub(super) fn add(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(spawn(name, body)?);
        Ok(())
    }
}

/// Starts a thread of a mapping's.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // The program's signals are served by its own threads: a handler may touch the mapping.
    spawn_service_thread(name, body).map_err(io::Error::other)
}

impl<S: ServesFaults> Drop for Handlers<S> {
    fn drop(&mut self) {
        // Release: with the Acquire of those who look.
        self.service.is_stopping().store(true, Ordering::Release);
        self.service.wake_others();
        if let Err(e) = rustix::io::write(&self.stop, &1u64.to_ne_bytes()) {
            tracing::error!("the threads of a mapping stay: {e}");
            return;
        }
        for thread in self.threads.drain(..) {
            // Its panic has been told.
            let _ = thread.join();
        }
    }
}

/// What a thread sleeps on. Each has its own, so that the kernel wakes one of them for a fault and not all.
struct Waiter(OwnedFd);

impl Waiter {
    fn new(memory: &Memory, stop: &OwnedFd) -> io::Result<Waiter> {
        let waiter = epoll::create(CreateFlags::CLOEXEC)?;
        let faults = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&waiter, memory.descriptor(), EventData::new_u64(0), faults)?;
        epoll::add(&waiter, stop, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Waiter(waiter))
    }

    fn serve_faults(self, service: &impl ServesFaults) {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        // Acquire: with the Release in `drop`.
        while !service.is_stopping().load(Ordering::Acquire) {
            match service.memory().next_fault() {
                Ok(Some(fault)) => {
                    service.serve(fault);
                    continue;
                }
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => tracing::error!("faults of {} cannot be read: {e}", service.file_name()),
            }
            match epoll::wait(&self.0, &mut events, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    tracing::error!("faults of {} are not waited for: {e}", service.file_name());
                    return;
                }
            }
        }
    }
}
