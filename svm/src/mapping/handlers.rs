//! The threads of a mapping: those that serve faults, and the one that fetches ahead.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::service::Service;

/// Threads that end when this is dropped.
pub(super) struct Handlers {
    service: Arc<Service>,
    /// Readable when they are to end.
    stop: OwnedFd,
    threads: Vec<JoinHandle<()>>,
}

impl Handlers {
    /// Starts so many threads that serve faults, and one that fetches ahead.
    pub(super) fn start(service: &Arc<Service>, count: usize) -> io::Result<Handlers> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut handlers = Handlers { service: Arc::clone(service), stop, threads: Vec::new() };
        for _ in 0..count {
            let waiter = Waiter::new(service, &handlers.stop)?;
            handlers.spawn("svmio-faults", move |service| waiter.serve_faults(service))?;
        }
        handlers.spawn("svmio-ahead", Service::fetch_ahead)?;
        Ok(handlers)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&Service) + Send + 'static) -> io::Result<()> {
        let service = Arc::clone(&self.service);
        let thread = std::thread::Builder::new().name(name.into());
        // The program's signals are served by its own threads: a handler may touch the mapping.
        let signals = BlockedSignals::block();
        let thread = thread.spawn(move || body(&service));
        drop(signals);
        self.threads.push(thread?);
        Ok(())
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // Release: with the Acquire of those who look.
        self.service.is_stopping.store(true, Ordering::Release);
        self.service.ahead.stop();
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
    fn new(service: &Service, stop: &OwnedFd) -> io::Result<Waiter> {
        let waiter = epoll::create(CreateFlags::CLOEXEC)?;
        let faults = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&waiter, service.memory.descriptor(), EventData::new_u64(0), faults)?;
        epoll::add(&waiter, stop, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Waiter(waiter))
    }

    fn serve_faults(self, service: &Service) {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        // Acquire: with the Release in `drop`.
        while !service.is_stopping.load(Ordering::Acquire) {
            match service.memory.next_fault() {
                Ok(Some(fault)) => {
                    service.serve(fault);
                    continue;
                }
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => tracing::error!("faults of {} cannot be read: {e}", service.file.name()),
            }
            match epoll::wait(&self.0, &mut events, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    tracing::error!("faults of {} are not waited for: {e}", service.file.name());
                    return;
                }
            }
        }
    }
}

/// All signals are blocked for this thread, and those that it starts, until this is dropped.
struct BlockedSignals(Option<libc::sigset_t>);

impl BlockedSignals {
    fn block() -> BlockedSignals {
        let mut all = std::mem::MaybeUninit::uninit();
        let mut before = std::mem::MaybeUninit::uninit();
        // SAFETY: the first call fills `all`, the second reads it and fills `before` where it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
                0 => BlockedSignals(Some(before.assume_init())),
                _ => BlockedSignals(None),
            }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: it is the set that the kernel gave.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
