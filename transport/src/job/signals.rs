//! Signals that end the job.
//!
//! The first SIGINT or SIGTERM is told to the control thread. A second one does at once what it does by default, and
//! so does one that comes when no job of this process watches any more. SIGHUP, the end of the terminal, is told, too,
//! unless the program ignores it or takes it itself: to many that run for long it means something else. A second one
//! does nothing, as long as a job watches: both the kernel and the shell send one.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

use super::poller::{Poller, Token};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handlers;
use crate::service_thread::spawn_service_thread;

const ALWAYS_WATCHED: [i32; 2] = [SIGINT, SIGTERM];

/// How long closing the fabric may take before the process is ended: somewhat longer than it waits for a peer that does
/// nothing.
const CLOSING: Duration = Duration::from_secs(2);

/// As long as it lives, signals come to its poller.
#[derive(Debug)]
pub(super) struct Signals {
    poller: Arc<Poller>,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    signal: i32,
    token: Token,
    pipe: UnixStream,
    registration: SigId,
}

/// What holds for the whole process: what signals do by default, and whether they do it.
struct Defaults {
    guards: usize,
    apply: Option<Apply>,
    /// What is watched: decided once, since afterwards nothing tells what the program thinks of a signal.
    watched: Vec<i32>,
}

/// When signals do what they do by default.
#[derive(Debug, Clone, Default)]
struct Apply {
    /// From the second one on, and when no job watches.
    again: Arc<AtomicBool>,
    /// When no job watches: SIGHUP.
    unwatched: Arc<AtomicBool>,
}

impl Apply {
    fn set(&self, applies: bool) {
        // SeqCst: nothing is won by less here.
        self.again.store(applies, Ordering::SeqCst);
        self.unwatched.store(applies, Ordering::SeqCst);
    }
}

static DEFAULTS: Mutex<Defaults> = Mutex::new(Defaults { guards: 0, apply: None, watched: Vec::new() });

impl Signals {
    /// Has signals come to `poller`.
    pub(super) fn guard(poller: &Arc<Poller>) -> Result<Self> {
        let refused = |problem| Error::system("taking over SIGINT, SIGTERM and SIGHUP", problem);
        // The first registration of a signal installs the handler.
        let _turn = handlers::turn();
        let watched = suspend_defaults().map_err(refused)?;
        let mut signals = Self { poller: Arc::clone(poller), sources: Vec::new() };
        for signal in watched {
            let (pipe, writer) = UnixStream::pair().map_err(refused)?;
            pipe.set_nonblocking(true).map_err(refused)?;
            let token = poller.add(&pipe)?;
            let registration = low_level::pipe::register(signal, writer).map_err(refused)?;
            signals.sources.push(Source { signal, token, pipe, registration });
        }
        Ok(signals)
    }

    /// The signal that `token`, which is ready, stands for.
    pub(super) fn take(&mut self, token: Token) -> Option<u8> {
        let source = self.sources.iter_mut().find(|source| source.token == token)?;
        // Every byte is the same signal; what cannot be read was read.
        while source.pipe.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
        u8::try_from(source.signal).ok()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for source in &self.sources {
            low_level::unregister(source.registration);
            self.poller.remove(&source.pipe);
        }
        let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
        defaults.guards -= 1;
        if defaults.guards == 0
            && let Some(apply) = &defaults.apply
        {
            apply.set(true);
        }
    }
}

/// Has signals do nothing by themselves; which ones.
fn suspend_defaults() -> std::io::Result<Vec<i32>> {
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    if defaults.apply.is_none() {
        let apply = Apply::default();
        for signal in ALWAYS_WATCHED {
            // In this order: the first signal finds the flag unset and sets it, the second one finds it set.
            handlers::register_ending(signal, Arc::clone(&apply.again))?;
            flag::register(signal, Arc::clone(&apply.again))?;
        }
        let mut watched = ALWAYS_WATCHED.to_vec();
        if handlers::has_default_action(SIGHUP) {
            handlers::register_ending(SIGHUP, Arc::clone(&apply.unwatched))?;
            watched.push(SIGHUP);
        }
        defaults.apply = Some(apply);
        defaults.watched = watched;
    }
    defaults.guards += 1;
    if defaults.guards == 1
        && let Some(apply) = &defaults.apply
    {
        apply.set(false);
    }
    Ok(defaults.watched.clone())
}

/// A signal's name.
pub(super) fn name(signal: u8) -> String {
    low_level::signal_name(signal.into()).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Ends this process as the signal does by default, so that its exit status tells; closes the fabric before.
pub(super) fn end_process(signal: u8, fabric: Option<&Fabric>) {
    tracing::warn!("the program did not end by itself after {}: it is ended", name(signal));
    if let Some(fabric) = fabric.cloned() {
        let (closed, is_closed) = mpsc::channel();
        // Beside this thread, so that a fabric that does not close cannot keep the process.
        let closer = spawn_service_thread("svmio-close", move || {
            fabric.close();
            // Nobody may listen any more.
            let _ = closed.send(());
        });
        if closer.is_ok() {
            // Whether it took too long makes no difference.
            let _ = is_closed.recv_timeout(CLOSING);
        }
    }
    handlers::end_by(signal.into());
}
