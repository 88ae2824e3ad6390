//! Answers that tests have a provider give: what those of adapters say now and then, and those of sockets never do.

#[cfg(test)]
use std::collections::VecDeque;
#[cfg(test)]
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::domain::Use;

/// A call that may be answered by a fault instead of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Registers so many bytes for something.
    Register(usize, Use),
    /// Sends a message.
    Send,
    /// Begins a transfer.
    Transfer,
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

    fn planned(&self) -> MutexGuard<'_, Planned> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
