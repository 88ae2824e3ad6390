//! The threads of a mapping: those that serve faults, the one that fetches ahead, and the one that tells of losses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use svmio_transport::spawn_service_thread;

use crate::error::Error;
use crate::file::File;

use super::attention::Attention;
use super::losses::Losses;
use super::memory::{FaultReader, Memory, PageFault};
use super::watch::{Promise, Watch};

/// Who serves a mapping's faults.
pub(super) trait ServesFaults: Send + Sync + 'static {
    /// Where they happen.
    fn memory(&self) -> &Memory;
    /// Serves one: on return the thread goes on, or somebody else will see to that.
    fn serve(&self, fault: PageFault);
    /// How many faults are read together.
    const TOGETHER: usize = 1;
    /// How many threads watch for faults at a time.
    const WATCHING: usize = usize::MAX;
    /// Every fault that is read comes here first, of `faults` the last `new`; those before were here and were left.
    /// Serves those that need not be waited for, and has what others need asked for. Says whether something was, which
    /// has to be [attended](ServesFaults::attend) to; then the rest is left to whoever watches. What stays in `faults`
    /// is the caller's. The program is never waited for; what may take long, `watch` is told of.
    fn begin(&self, _faults: &mut Vec<PageFault>, _new: usize, _watch: &Watch) -> bool {
        false
    }
    /// Takes what was asked for, until all has come, unless another thread does. What does not come is left to whoever
    /// watches. The program is never waited for. Where nothing is to come any more, promises to watch before it has the
    /// last go on.
    fn attend<'w>(&self, _: &'w Watch) -> Option<Promise<'w>> {
        None
    }
    /// Whether something is asked for that has not come: more threads than one wait for pages.
    fn is_busy(&self) -> bool {
        false
    }
    /// What cannot be had of it.
    fn losses(&self) -> &Losses;
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
    watch: Arc<Watch>,
    threads: Vec<JoinHandle<()>>,
    /// The one that tells of losses.
    tells: Option<JoinHandle<()>>,
}

impl<S: ServesFaults> Handlers<S> {
    /// Starts so many threads that serve faults, and one that tells of losses.
    pub(super) fn start(service: &Arc<S>, count: usize) -> io::Result<Handlers<S>> {
        let watch = Arc::new(Watch::new(service.memory().descriptor(), S::WATCHING, count)?);
        let mut handlers = Handlers {
            service: Arc::clone(service),
            watch: Arc::clone(&watch),
            threads: Vec::new(),
            tells: None,
        };
        for _ in 0..count {
            let (service, watch) = (Arc::clone(service), Arc::clone(&watch));
            handlers.add("svmio-faults", move || serve_faults(&*service, &watch))?;
        }
        let told_of = Arc::clone(service);
        handlers.tells = Some(spawn("svmio-losses", move || told_of.losses().tell_all())?);
        Ok(handlers)
    }

    /// Starts another thread, which is waited for with the others.
    pub(super) fn add(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(spawn(name, body)?);
        Ok(())
    }
}

/// The error where they cannot be started for a file.
pub(super) fn failed(file: &File, error: io::Error) -> Error {
    Error::of_mapping(format!("starting to serve faults of {}", file.name()), &file.directory(), error)
}

/// Starts a thread of a mapping's.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // The program's signals are served by its own threads: a handler that waits must not hold up who serves faults.
    spawn_service_thread(name, body).map_err(io::Error::other)
}

impl<S: ServesFaults> Drop for Handlers<S> {
    fn drop(&mut self) {
        // Release: with the Acquire of those who look.
        self.service.is_stopping().store(true, Ordering::Release);
        self.service.wake_others();
        self.service.losses().stop();
        if let Err(e) = self.watch.stop() {
            tracing::error!("the threads of a mapping stay: {e}");
            return;
        }
        for thread in self.threads.drain(..) {
            // Its panic has been told.
            let _ = thread.join();
        }
        // Of what those have found last is told, too.
        self.service.losses().end();
        let _ = self.tells.take().map(JoinHandle::join);
    }
}

/// Serves faults until all is to end.
fn serve_faults<S: ServesFaults>(service: &S, watch: &Watch) {
    if let Err(e) = try_serve_faults(service, watch) {
        tracing::error!("faults of {} are not waited for: {e}", service.file_name());
    }
}

fn try_serve_faults<S: ServesFaults>(service: &S, watch: &Watch) -> io::Result<()> {
    let mut reader = FaultReader::new(S::TOGETHER);
    let mut faults = Vec::new();
    let mut passed_on = None;
    let mut attention = Attention::none();
    let mut place = watch.enter(service.is_stopping(), None);
    // Acquire: with the Release in `drop`.
    while !service.is_stopping().load(Ordering::Acquire) {
        let left = watch.take();
        // By turns with what is new, if no other thread has taken it.
        let is_its_turn = left.is_some() && left == passed_on.take();
        if !is_its_turn {
            match service.memory().next_faults(&mut reader, &mut faults) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => tracing::error!("faults of {} cannot be read: {e}", service.file_name()),
            }
        }
        let (new, mut own) = (faults.len(), left.map(|left| left.fault));
        if new > 0 {
            own = None;
            left.inspect(|&left| watch.pass_on(left));
            // What was left comes before it. Much of that may be over: a thread that was woken, and faults again where
            // it was, has left one fault more each time.
            faults.splice(..0, watch.take_together());
            let is_asked = service.begin(&mut faults, new, watch);
            if !is_asked && !faults.is_empty() {
                // What takes longer must not keep what comes.
                own = Some(faults.remove(0));
                watch.leave(faults.drain(..));
            }
            attention.renew();
            passed_on = watch.first();
            if !is_asked && own.is_none() {
                continue;
            }
        } else if own.is_none() {
            // Where several wait, it serves more of them at a time when it sleeps.
            if !service.is_busy() && attention.is_left() {
                continue;
            }
            watch.wait()?;
            if service.is_busy() {
                // Others that go on where pages have just come may fault, too, and need not be told of one by one.
                thread::yield_now();
            }
            continue;
        }
        drop(place);
        let promise = match own {
            Some(fault) => {
                service.serve(fault);
                None
            }
            None => service.attend(watch),
        };
        place = watch.enter(service.is_stopping(), promise);
        attention.renew();
    }
    Ok(())
}
