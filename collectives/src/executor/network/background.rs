//! Operations of members on several nodes that go on while the application computes.
//!
//! ```text
//!   start ─► queue ─► thread: carries them out in order, by a group that nobody else uses
//!   test, wait ◄────── what came of each, and its buffers
//! ```
//!
//! Who waits for a network sleeps most of the time: so a thread that waits in the application's place costs it little,
//! and no operation needs a second form. (Within a node's memory, where a change of threads takes as long as an
//! operation, [`Group`](crate::executor::Group) does without as long as the application comes by.)

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use svmio_transport::spawn_service_thread;

use super::group::NetworkGroup;
use super::two_level::TwoLevelGroup;
use crate::executor::error::{Error, Result};
use crate::executor::patience::NAP;

/// A group whose operations go on in the background, as one of its members holds it.
///
/// All members begin the same operations in the same order, each by a function that has the group carry it out; any
/// number may be outstanding, and they are carried out one after the other. Operations of other groups of the same
/// members match none of these, and wait for none of these either: the group has a messenger that none of them uses.
/// That is to [watch](svmio_transport::message::Messenger::watch) the members, so that no wait outlasts one of them.
///
/// After an error the group is of no more use, as it is otherwise. Dropped, it carries out what was begun.
///
/// ```no_run
/// # use std::sync::Arc;
/// use svmio_collectives::executor::network::Background;
/// use svmio_collectives::executor::{Elementwise, NetworkGroup, NetworkSettings};
/// # use svmio_collectives::executor::{Error, Fabrics};
/// # use svmio_transport::message::{MessageSettings, Messenger, Port};
/// # use svmio_transport::{Rank, SegmentId};
///
/// # fn example(fabrics: &Fabrics, members: &[Rank], port: Port) -> Result<(), Error> {
/// let messenger = Arc::new(Messenger::open(fabrics.job(), port, &MessageSettings::default())?);
/// messenger.watch(members);
/// let id = SegmentId::new(7, 0);
/// let group = NetworkGroup::join(fabrics, &messenger, members, id, NetworkSettings::default())?;
/// let mut background = Background::of(group)?;
/// let sum = Elementwise::<u64, _>::commutative(u64::wrapping_add);
/// let request = background.start(vec![1; 8 << 20], move |group, data| group.allreduce(data, &sum))?;
/// // … compute …
/// let data = request.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Background<G: Carrier> {
    /// None once it is being dropped.
    tasks: Option<Sender<Task<G>>>,
    thread: Option<JoinHandle<()>>,
    outstanding: Arc<AtomicUsize>,
    meanwhile: Option<fn()>,
}

/// An operation to be carried out; without a group where none can be any more.
type Task<G> = Box<dyn FnOnce(Result<&mut G>) -> Result<()> + Send>;

/// A group that a thread can carry out operations by: a [`NetworkGroup`] or a [`TwoLevelGroup`].
pub trait Carrier: sealed::Leave + Send + 'static {}

impl<G: sealed::Leave + Send + 'static> Carrier for G {}

mod sealed {
    /// Not for others: what a thread does with a group is its business.
    pub trait Leave {
        /// Has the others hear that this member does no more operations.
        fn leave(&mut self, reason: &str);
    }
}

impl sealed::Leave for NetworkGroup {
    fn leave(&mut self, reason: &str) {
        self.withdraw(reason);
    }
}

impl sealed::Leave for TwoLevelGroup {
    fn leave(&mut self, reason: &str) {
        self.withdraw(reason);
    }
}

/// An operation that goes on in the background, with its buffers.
///
/// Dropped before it is complete, the operation goes on, and its buffers are freed when it is complete.
#[derive(Debug)]
#[must_use = "buffers come back by `wait`"]
pub struct Pending<B> {
    completion: Arc<Completion<B>>,
    meanwhile: Option<fn()>,
}

/// Where a task leaves what came of it.
#[derive(Debug)]
struct Completion<B> {
    state: Mutex<State<B>>,
    completed: Condvar,
}

#[derive(Debug)]
enum State<B> {
    Begun,
    Complete(Result<B>),
    Taken,
}

impl<G: Carrier> Background<G> {
    /// Hands `group` over to a thread. Its messenger carries nothing of other groups.
    ///
    /// # Errors
    /// The system's, where there is no thread for it.
    pub fn of(group: G) -> Result<Self> {
        let (tasks, queue) = mpsc::channel::<Task<G>>();
        let run = move || {
            let mut group = group;
            let mut failed: Option<Error> = None;
            for task in queue {
                let carrier = failed.clone().map_or(Ok(&mut group), Err);
                // Also what is dropped with an operation may panic.
                let done = catch_unwind(AssertUnwindSafe(|| task(carrier)));
                if let Err(error) = done.unwrap_or(Err(Error::Panicked)) {
                    if failed.is_none() && matches!(error, Error::Panicked) {
                        group.leave("an operation of this member's has panicked");
                    }
                    failed.get_or_insert(error);
                }
            }
        };
        let thread = spawn_service_thread("svmio-network", run)?;
        Ok(Self { tasks: Some(tasks), thread: Some(thread), outstanding: Arc::default(), meanwhile: None })
    }

    /// Has `meanwhile` called again and again while somebody waits for an operation, as
    /// [`Group::do_meanwhile`](crate::executor::Group::do_meanwhile) has it; by that thread, and not by the one in the
    /// background.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    /// Does no more operations once those that were begun are over, and has the others hear of it: for a host library
    /// that cannot do what it has to before an operation.
    #[cold]
    pub fn withdraw(&mut self, reason: &str) {
        let reason = reason.to_owned();
        let withdrawn = self.start((), move |group, ()| {
            group.leave(&reason);
            Ok(())
        });
        // Nobody waits for it.
        drop(withdrawn);
    }

    /// Begins what `work` does with `buffers`, which come back with the request: one operation of the group, or
    /// several, the same at all members.
    ///
    /// # Errors
    /// [`Error::Panicked`] where the thread is gone.
    pub fn start<B: Send + 'static>(
        &mut self,
        buffers: B,
        work: impl FnOnce(&mut G, &mut B) -> Result<()> + Send + 'static,
    ) -> Result<Pending<B>> {
        let completion = Arc::new(Completion { state: Mutex::new(State::Begun), completed: Condvar::new() });
        // Relaxed, as everywhere: whoever drops the group only looks whether it would have to wait.
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        let promise = Promise {
            completion: Arc::clone(&completion),
            outstanding: Arc::clone(&self.outstanding),
            outcome: Err(Error::Panicked),
        };
        let task: Task<G> = Box::new(move |group| {
            let mut promise = promise;
            let (result, outcome) = carried_out(group, buffers, work);
            promise.outcome = outcome;
            result
        });
        let sent = self.tasks.as_ref().map(|tasks| tasks.send(task));
        match sent {
            Some(Ok(())) => Ok(Pending { completion, meanwhile: self.meanwhile }),
            _ => Err(Error::Panicked),
        }
    }
}

/// That an operation will be complete, whatever becomes of it. Dropped, it is.
struct Promise<B> {
    completion: Arc<Completion<B>>,
    outstanding: Arc<AtomicUsize>,
    outcome: Result<B>,
}

impl<B> Drop for Promise<B> {
    fn drop(&mut self) {
        // Before it shows: who saw the last one complete finds nothing outstanding.
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
        self.completion.complete(std::mem::replace(&mut self.outcome, Err(Error::Panicked)));
    }
}

/// Has the group do `work`: what came of it, and the buffers with that.
fn carried_out<G, B>(
    group: Result<&mut G>,
    mut buffers: B,
    work: impl FnOnce(&mut G, &mut B) -> Result<()>,
) -> (Result<()>, Result<B>) {
    let group = match group {
        Ok(group) => group,
        Err(error) => return (Err(error.clone()), Err(error)),
    };
    let done = catch_unwind(AssertUnwindSafe(|| work(group, &mut buffers)));
    match done.unwrap_or(Err(Error::Panicked)) {
        Ok(()) => (Ok(()), Ok(buffers)),
        Err(error) => {
            // Another member may be writing into what it was lent.
            std::mem::forget(buffers);
            (Err(error.clone()), Err(error))
        }
    }
}

impl<G: Carrier> Drop for Background<G> {
    fn drop(&mut self) {
        drop(self.tasks.take());
        // With something outstanding the thread ends after that: the others may come later.
        if let (0, Some(thread)) = (self.outstanding.load(Ordering::Relaxed), self.thread.take()) {
            // It catches what panics.
            let _ = thread.join();
        }
    }
}

impl<B> Completion<B> {
    fn state(&self) -> MutexGuard<'_, State<B>> {
        // Changed by single assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, outcome: Result<B>) {
        *self.state() = State::Complete(outcome);
        self.completed.notify_all();
    }
}

impl<B> Pending<B> {
    /// Whether the operation is complete, with or without an error.
    #[must_use]
    pub fn test(&self) -> bool {
        !matches!(&*self.completion.state(), State::Begun)
    }

    /// Returns the buffers when the operation is complete.
    ///
    /// # Errors
    /// Those of the operation that waits, [`Error::Panicked`], or that of an operation before it in the same group.
    /// After an error, buffers of an operation that had begun do not come back and are never freed: another member may
    /// be copying to or from them.
    pub fn wait(self) -> Result<B> {
        self.wait_until_done();
        match std::mem::replace(&mut *self.completion.state(), State::Taken) {
            State::Complete(outcome) => outcome,
            State::Begun | State::Taken => Err(Error::Panicked),
        }
    }

    /// Returns when the operation is complete, with or without an error: [`wait`](Self::wait) tells.
    pub fn wait_until_done(&self) {
        let is_begun = |state: &mut State<B>| matches!(state, State::Begun);
        let Completion { completed, .. } = &*self.completion;
        let Some(meanwhile) = self.meanwhile else {
            drop(completed.wait_while(self.completion.state(), is_begun));
            return;
        };
        while !self.test() {
            meanwhile();
            drop(completed.wait_timeout_while(self.completion.state(), NAP, is_begun));
        }
    }
}
