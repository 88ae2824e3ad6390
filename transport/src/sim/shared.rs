//! What all of a world hold: the state behind a lock, and how a task waits.
//!
//! Nobody holds the lock while switching to another coroutine or calling foreign code.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::back_end;
use crate::sim::fiber;
use crate::sim::state::{Awaited, Effect, Event, State};
use crate::units::Time;

/// The state of a world, for its processes.
pub(crate) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which world it is, for as long as it exists.
    pub(crate) fn world(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// The task of this world that runs on this thread, if one does.
    pub(crate) fn task(&self) -> Option<usize> {
        fiber::current().filter(|current| current.world == self.world()).map(|current| current.task)
    }

    /// Lets the running task wait for that, at most until `until`. It returns as well when it is woken for nothing.
    pub(crate) fn park(&self, awaited: Awaited, until: Option<Time>) {
        let Some(task) = self.running() else { return };
        {
            let mut state = self.lock();
            let now = state.now;
            let entry = &mut state.tasks[task];
            entry.waits = Some((awaited, now));
            entry.waking += 1;
            let (rank, waking) = (entry.rank, entry.waking);
            state.rank(rank).report.waits += 1;
            if let Some(until) = until {
                state.agenda.enter(until.max(now), Event::Resume { task, waking });
            }
            if std::thread::panicking() {
                state.doomed = Some(task);
            }
        }
        fiber::suspend();
    }

    /// The running task; nobody once the world is over.
    ///
    /// # Panics
    /// Where someone who is no task of this world waits while the world runs: that time would never come.
    fn running(&self) -> Option<usize> {
        let task = self.task();
        assert!(
            task.is_some() || self.lock().is_over,
            "only a simulated process or its service can wait in the simulated fabric, on the thread of its world"
        );
        task
    }

    /// Lets the clock come to the running task's own time, and returns that.
    pub(crate) fn settle(&self) -> Time {
        let time = {
            let mut state = self.lock();
            let Some(task) = self.task() else { return state.now };
            let debt = std::mem::take(&mut state.tasks[task].debt);
            state.now.after(debt)
        };
        self.sleep_until(time);
        time
    }

    /// Lets the running task wait until `time`.
    pub(crate) fn sleep_until(&self, time: Time) {
        {
            let mut state = self.lock();
            if time <= state.now || self.task().is_none() {
                return;
            }
            // Nothing else happens before: the clock can be put forward without switching.
            if state.agenda.next_time().is_none_or(|next| next > time) && time <= state.limit {
                state.now = time;
                return;
            }
        }
        while self.lock().now < time {
            self.park(Awaited::Time, Some(time));
        }
    }

    /// Lets the running task use the processor for so long; the clock follows when it next waits.
    pub(crate) fn charge(&self, time: Duration) {
        let task = self.task();
        self.lock().charge(task, time);
    }

    /// Carries out what the last event, or a call, left to be done.
    pub(crate) fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                // Whoever is lost is told of no end; what it would do then would be progress.
                Effect::Finish(rank, ..) if !self.lock().runs(rank) => {}
                Effect::Finish(rank, done, result) => {
                    done.finish(result);
                    self.lock().stir(rank);
                }
                Effect::Provide { provider, asker, owner, task, number, id } => {
                    back_end::provide(&*provider, asker, id);
                    self.lock().answer_connect(asker, owner, task, number, id);
                }
                Effect::Respond { respondent, asker, owner, task, number, question } => {
                    let answer = back_end::respond(&*respondent, asker, question);
                    self.lock().answer_inquiry(asker, owner, task, number, answer);
                }
                Effect::DeclareLost { membership, lost, reason } => membership.declare_lost(lost, reason),
            }
        }
    }
}
