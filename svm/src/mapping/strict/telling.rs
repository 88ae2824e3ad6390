//! Homes are told of copies for loads that went. A home that does not know finds out when it orders one given up: so
//! whoever serves faults waits for no home's answer to it, and each home is told one thing at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::cluster::{AskedAhead, NodeIndex, SharedFile};
use crate::error::Error;

use super::Keeper;

/// What homes are being told. Held by one thread at a time, which may wait for room for a message.
#[derive(Default)]
pub(super) struct Telling(Mutex<UnderWay>);

type UnderWay = BTreeMap<NodeIndex, AskedAhead>;

impl Telling {
    /// `None` where another thread has it.
    fn try_begin(&self) -> Option<MutexGuard<'_, UnderWay>> {
        match self.0.try_lock() {
            Ok(under_way) => Some(under_way),
            // A panic elsewhere leaves the map whole.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn begin(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Has homes told of copies that went, where there are many. Those of a home that has not answered yet stay for a
    /// later time.
    pub(super) fn tell_gone(&self) {
        let Some(shared) = self.file.shared() else { return };
        // Who has it looks for more when he has told what there was.
        let Some(mut under_way) = self.telling.try_begin() else { return };
        let all = std::mem::take(&mut *under_way);
        let (answered, open) = all.into_iter().partition(|(_, asked)| shared.is_answered(asked));
        *under_way = open;
        self.end_telling(shared, answered);
        self.begin_telling(shared, &mut under_way);
    }

    /// The same, and waits until all of them know.
    pub(super) fn tell_gone_and_wait(&self) {
        let Some(shared) = self.file.shared() else { return };
        let mut under_way = self.telling.begin();
        loop {
            self.begin_telling(shared, &mut under_way);
            if under_way.is_empty() {
                return;
            }
            self.end_telling(shared, std::mem::take(&mut *under_way));
        }
    }

    /// Waits for the answers to what homes were told.
    pub(super) fn await_told(&self) {
        let Some(shared) = self.file.shared() else { return };
        let told = std::mem::take(&mut *self.telling.begin());
        self.end_telling(shared, told);
    }

    /// Tells each home that is not being told anything.
    fn begin_telling(&self, shared: &SharedFile, under_way: &mut UnderWay) {
        loop {
            let many = self.pages().many_gone(|home| !under_way.contains_key(&home));
            let Some((home, gone)) = many else { return };
            match shared.begin_tell_gone((home, self.number), self.memory.page(), gone) {
                Ok(asked) => _ = under_way.insert(home, asked),
                Err(error) => self.note_untold(&error),
            }
        }
    }

    fn end_telling(&self, shared: &SharedFile, told: UnderWay) {
        for asked in told.into_values() {
            if let Err(error) = shared.finish_acquire_ahead(asked, |_, _| ()) {
                self.note_untold(&error);
            }
        }
    }

    fn note_untold(&self, error: &Error) {
        tracing::debug!("a home of {} is not told of copies that went: {error}", self.file.name());
    }
}
