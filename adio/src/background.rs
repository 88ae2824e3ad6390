//! Accesses that go on while the program computes: a thread of the process carries them out, one after the other.
//!
//! It calls nothing of MPI's, so that it does not matter with which level of threads the program has initialised that.
//! What the program waits for is a generalized request ([`crate::calls::Mpi::request_for`]).

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svmio_transport::spawn_service_thread;

use crate::calls::Background;
use crate::failure::{ErrorClass, Failure};
use crate::handle::Handle;

/// An access in the background.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    /// How many bytes were moved; once it is over.
    outcome: Mutex<Option<Result<u64, Failure>>>,
    ended: Condvar,
}

impl Operation {
    /// What became of it; `None` as long as it goes on.
    pub(crate) fn ended(&self) -> Option<Result<u64, Failure>> {
        self.lock().clone()
    }

    /// One that is over.
    pub(crate) fn over(outcome: Result<u64, Failure>) -> Arc<Operation> {
        let operation = Operation::default();
        operation.end(outcome);
        Arc::new(operation)
    }

    fn end(&self, outcome: Result<u64, Failure>) {
        *self.lock() = Some(outcome);
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Result<u64, Failure>>> {
        // A panic elsewhere leaves the outcome whole.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Background for Operation {
    fn is_over(&self) -> bool {
        self.lock().is_some()
    }

    /// What it waits for itself ends, with an error where a node is lost.
    fn wait(&self) {
        let waited = self.ended.wait_while(self.lock(), |outcome| outcome.is_none());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn rest(&self) {
        const A_WHILE: Duration = Duration::from_micros(100);
        let waited = self.ended.wait_timeout_while(self.lock(), A_WHILE, |outcome| outcome.is_none());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn outcome(&self) -> Result<u64, Failure> {
        self.ended().unwrap_or_else(|| Err(interrupted()))
    }
}

/// How many operations of a file are not over.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl UnderWay {
    /// Waits until there is none.
    pub(crate) fn settle(&self) {
        let waited = self.fewer.wait_while(self.count(), |count| *count > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        *self.count() > 0
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has `work` done behind all that was started before.
///
/// # Errors
/// Where there can be no thread.
pub(crate) fn start(
    handle: Arc<Handle>,
    work: impl FnOnce(&Handle) -> Result<u64, Failure> + Send + 'static,
) -> Result<Arc<Operation>, Failure> {
    let operation = Arc::new(Operation::default());
    let under_way = Arc::clone(&handle.under_way);
    *under_way.count() += 1;
    let mut ending = Ending { under_way, operation: Arc::clone(&operation), outcome: Err(interrupted()) };
    let task: Task = Box::new(move || {
        ending.outcome = work(&handle);
        // Whoever is told that it is over finds nobody else at the file.
        drop(handle);
        drop(ending);
    });
    let mut worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner);
    let undone = match &*worker {
        Some(sender) => sender.send(task).err().map(|unsent| unsent.0),
        None => Some(task),
    };
    if let Some(task) = undone {
        let sender = worker.insert(new_worker()?);
        // The thread was started just now, and ends only when the sender is gone.
        let _ = sender.send(task);
    }
    Ok(operation)
}

type Task = Box<dyn FnOnce() + Send>;

/// The thread that carries tasks out, once there was one.
static WORKER: Mutex<Option<Sender<Task>>> = Mutex::new(None);

fn new_worker() -> Result<Sender<Task>, Failure> {
    let (sender, tasks) = channel::<Task>();
    let body = move || tasks.into_iter().for_each(|task| task());
    spawn_service_thread("svmio-access", body)
        .map_err(|error| Failure::new(ErrorClass::Other, error.to_string()))?;
    Ok(sender)
}

fn interrupted() -> Failure {
    Failure::new(ErrorClass::Other, "an access in the background was given up: its thread ended")
}

/// Ends an operation, whatever becomes of its task.
struct Ending {
    under_way: Arc<UnderWay>,
    operation: Arc<Operation>,
    outcome: Result<u64, Failure>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Ok(0));
        if let Err(failure) = &outcome {
            // Some MPIs tell the program no more than that there was a failure.
            tracing::error!("{}", failure.message);
        }
        *self.under_way.count() -= 1;
        self.under_way.fewer.notify_all();
        self.operation.end(outcome);
    }
}
