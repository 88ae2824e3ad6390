//! Answers that tests have a provider give: what those of adapters say now and then, and those of sockets never do.

#[cfg(test)]
use std::collections::VecDeque;
#[cfg(test)]
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::domain::Use;
use super::sys;

/// A call that may be answered by a fault instead of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Registers so many bytes for something.
    Register(usize, Use),
    /// Sends a message.
    Send,
    /// Begins a transfer.
    Transfer,
    /// Opens a queue of completions that is to be waited for so.
    Queue(sys::fi_wait_obj),
    /// Waits for one.
    Wait,
}

/// The faults that are to come; outside of tests there are none.
#[derive(Default)]
pub(super) struct Faults {
    #[cfg(test)]
    planned: Mutex<Planned>,
}

impl Faults {
    /// What to answer to a call instead of asking the provider, if anything.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "in tests it has something to say")]
    pub(super) fn answer(&self, _: Call) -> Option<i32> {
        None
    }
}

#[cfg(test)]
#[derive(Default)]
struct Planned {
    registering: VecDeque<i32>,
    sending: VecDeque<i32>,
    transferring: VecDeque<i32>,
    /// No more than so many bytes can be registered at once.
    longest: Option<usize>,
    /// What is answered where only writes of this process begin.
    source: Option<i32>,
    /// Ways to wait that there are not.
    ways: Vec<sys::fi_wait_obj>,
    /// What whoever waits is answered, at once.
    waiting: Option<i32>,
}

#[cfg(test)]
impl Faults {
    pub(super) fn answer(&self, call: Call) -> Option<i32> {
        let mut planned = self.planned();
        match call {
            Call::Register(length, _) if planned.longest.is_some_and(|longest| length > longest) => {
                Some(-libc::ENOMEM)
            }
            Call::Register(_, Use::Source) if planned.source.is_some() => planned.source,
            Call::Register(..) => planned.registering.pop_front(),
            Call::Send => planned.sending.pop_front(),
            Call::Transfer => planned.transferring.pop_front(),
            Call::Queue(way) => planned.ways.contains(&way).then_some(-libc::ENOSYS),
            Call::Wait => planned.waiting,
        }
    }

    /// Has longer memory than this not be registered, as where a process may lock little of it.
    pub(super) fn limit_registrations(&self, longest: usize) {
        self.planned().longest = Some(longest);
    }

    /// Has memory from which is written not be registered, but answered so.
    pub(super) fn refuse_sources(&self, answer: i32) {
        self.planned().source = Some(answer);
    }

    /// Has the next registrations be answered so.
    pub(super) fn fail_registrations(&self, answers: impl IntoIterator<Item = i32>) {
        self.planned().registering.extend(answers);
    }

    /// Has the next messages be answered so.
    pub(super) fn fail_sends(&self, answers: impl IntoIterator<Item = i32>) {
        self.planned().sending.extend(answers);
    }

    /// Has the next transfers be answered so.
    pub(super) fn fail_transfers(&self, answers: impl IntoIterator<Item = i32>) {
        self.planned().transferring.extend(answers);
    }

    /// Has queues of completions not be opened that are to be waited for in these ways.
    pub(super) fn refuse_queues(&self, ways: &[sys::fi_wait_obj]) {
        self.planned().ways.extend(ways);
    }

    /// Has whoever waits be answered so, without any wait.
    pub(super) fn answer_waits(&self, answer: i32) {
        self.planned().waiting = Some(answer);
    }

    fn planned(&self) -> MutexGuard<'_, Planned> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
