//! Operations that go on while the application computes.
//!
//! ```text
//!   start ─► queue ─► engine: carries them out in order, on a coroutine that pauses where it would wait
//!                       ▲  whoever holds it resumes it:
//!                       ├── start, test      once
//!                       ├── wait             until the request is complete: polling, then asleep on the board
//!                       └── thread           when nobody else has come by for a while: asleep on the board
//! ```
//!
//! As long as the application comes by often enough, nothing changes threads, and an operation takes as long as one
//! that is waited for. When it does not for a turn of the thread's clock, the thread takes over, and gives back when it
//! finds that the application came by again. Without anything outstanding it soon sleeps for good.
//!
//! The engine is a group with the same members and memory of its own. Operations of different groups have different
//! engines and threads: none waits for another.

mod engine;
mod handover;
mod request;
mod thread;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use svmio_transport::{Fabric, Rank, spawn_service_thread};

use super::Group;
use crate::executor::board::{Awaited, Board};
use crate::executor::error::{Error, Result};
use crate::executor::slots::Memories;
use engine::Engine;
use handover::{Handover, Holding, Outstanding};
use request::Completion;

pub use request::Request;

/// An operation to be carried out; without a group where none can be any more.
type Task = Box<dyn FnOnce(Result<&mut Group>) -> Result<()> + Send>;

/// What carries out a group's operations in the background. Dropping it lets them end.
#[derive(Debug)]
pub(super) struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What its thread, the group and its requests share.
#[derive(Debug)]
struct Shared {
    backlog: Arc<Backlog>,
    handover: Handover<Engine>,
    /// The engine's, for those who sleep there.
    board: Board<Arc<Memories>>,
    members: Vec<Rank>,
    fabric: Fabric,
    /// How often the application came by.
    visits: AtomicU64,
    /// How many sleep until another thread has completed their request.
    sleepers: AtomicUsize,
    /// Whether the thread has to take over at once.
    is_urgent: AtomicBool,
}

/// What is to be done.
#[derive(Default)]
struct Backlog {
    queue: Mutex<VecDeque<Task>>,
    /// Those that have begun, too.
    outstanding: Outstanding,
}

impl Group {
    /// Begins what `work` does with `buffers`, which come back with the request.
    // Not public: `work` must not pause with anything on its stack that belongs to one thread.
    pub(super) fn start<B: Send + 'static>(
        &mut self,
        buffers: B,
        work: impl FnOnce(&mut Group, &mut B) -> Result<()> + Send + 'static,
    ) -> Result<Request<B>> {
        let progress = self.progress()?;
        let shared = Arc::clone(&progress.shared);
        let completion = Arc::new(Completion::default());
        let task = request::task(Arc::clone(&shared.backlog), Arc::clone(&completion), buffers, work);
        shared.push(task);
        Ok(Request::new(shared, completion, self.meanwhile))
    }

    /// What carries operations out in the background. Where it cannot be had, the others hear of it, once and for all:
    /// what is begun later would be none of what they have begun.
    fn progress(&mut self) -> Result<&Progress> {
        if self.progress.is_none() {
            let made = Progress::new(self);
            self.progress = Some(made.map_err(|error| {
                let mut inner = self.in_background();
                inner.refuse(1, &error);
                inner.refused.unwrap_or_else(|| Box::new(error))
            }));
        }
        match &self.progress {
            Some(Ok(progress)) => Ok(progress),
            Some(Err(error)) => Err((**error).clone()),
            None => Err(Error::Panicked),
        }
    }
}

impl Progress {
    fn new(group: &Group) -> Result<Self> {
        let inner = group.in_background();
        let board = Board::new(Arc::clone(&inner.memories), inner.own);
        let backlog = Arc::new(Backlog::default());
        let shared = Arc::new(Shared {
            members: inner.members.clone(),
            fabric: inner.fabric.clone(),
            handover: Handover::new(Engine::new(inner, Arc::clone(&backlog))?),
            backlog,
            board,
            visits: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            is_urgent: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = spawn_service_thread("svmio-progress", move || thread::run(&own))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.handover.close(&shared.backlog.outstanding);
        shared.board.rouse_own();
        // With something outstanding the thread ends after that: the others may come later.
        if let (true, Some(thread)) = (shared.backlog.outstanding.is_none(), self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Has a task carried out after all before it, and begins with it if nothing is before it.
    fn push(&self, task: Task) {
        self.backlog.push(task);
        self.visit();
        if !self.advance_once() {
            self.handover.announce(&self.backlog.outstanding);
        }
    }

    /// The application came by.
    fn visit(&self) {
        // Relaxed: the thread only compares it with what it was a turn ago.
        self.visits.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes operations as far as they go without waiting; false where somebody else does.
    fn advance_once(&self) -> bool {
        let Some(mut engine) = self.handover.try_take() else { return false };
        engine.advance();
        self.leave(engine);
        true
    }

    /// Gives the engine back; whoever has to look after it hears of that.
    fn leave(&self, engine: Holding<'_, Engine>) {
        // The thread sleeps for something that has come: nobody would wake it for what is awaited instead.
        let oversleeps = engine.asleep_for.is_some() && engine.asleep_for != engine.awaited;
        let is_left = self.handover.give_back(engine, &self.backlog.outstanding);
        if is_left && oversleeps {
            self.board.rouse_own();
        }
        // Relaxed: `give_back` has a fence, as those have who sleep.
        if is_left && self.sleepers.load(Ordering::Relaxed) > 0 {
            self.is_urgent.store(true, Ordering::Relaxed);
            self.handover.rouse();
        }
    }

    /// That what is awaited can still come. Any of them: one that is not lost itself may wait for one that is, and
    /// leave with an error.
    fn check(&self, awaited: Awaited) -> Result<()> {
        let membership = self.fabric.membership();
        self.members.iter().try_for_each(|&member| membership.check(member))?;
        self.board.check(awaited)
    }
}

impl Backlog {
    fn push(&self, task: Task) {
        self.outstanding.begin();
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
    }

    fn pop(&self) -> Option<Task> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Backlog").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}
