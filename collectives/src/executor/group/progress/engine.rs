//! The operations of a group's background, in order.

use std::sync::Arc;

use super::Backlog;
use crate::executor::board::{Awaited, Board};
use crate::executor::coroutine::Coroutine;
use crate::executor::error::{Error, Result};
use crate::executor::group::Group;
use crate::executor::patience::{Patience, Polled, with_meanwhile};
use crate::executor::slots::Memories;

/// What carries operations out; one thread at a time has it.
#[derive(Debug)]
pub(super) struct Engine {
    coroutine: Coroutine,
    backlog: Arc<Backlog>,
    /// What the operation that has begun waits for.
    pub(super) awaited: Option<Awaited>,
    /// What the thread sleeps for on the board, where only one can sleep.
    pub(super) asleep_for: Option<Awaited>,
    /// That of those who wait with the engine in hand.
    patience: Patience,
}

impl Engine {
    /// One that takes tasks from the backlog, for `group`.
    pub(super) fn new(group: Group, backlog: Arc<Backlog>) -> Result<Self> {
        let patience = group.patience.anew();
        let tasks = Arc::clone(&backlog);
        let coroutine = Coroutine::new(move |pause| carry_out(group.pausing(pause), &tasks))?;
        Ok(Self { coroutine, backlog, awaited: None, asleep_for: None, patience })
    }

    /// Polls for what is awaited until it is time to sleep.
    pub(super) fn poll(
        &mut self,
        board: &Board<Arc<Memories>>,
        awaited: Awaited,
        meanwhile: Option<fn()>,
    ) -> Polled {
        let mut is_done = board.watch(awaited);
        if self.patience.glance(&mut is_done) || self.patience.give_turns(&mut is_done) {
            return Polled::Ready;
        }
        let every = self.patience.polls_of_microseconds();
        self.patience.poll(with_meanwhile(is_done, meanwhile, every))
    }

    /// Takes operations as far as they go without waiting.
    pub(super) fn advance(&mut self) {
        if self.awaited.is_some() || !self.backlog.outstanding.is_none() {
            self.awaited = self.coroutine.resume();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.backlog.outstanding.close();
        // Nothing comes any more: the coroutine finds that and ends, with all that is on its stack.
        self.coroutine.resume();
    }
}

/// Does one task after the other, until no more will come.
fn carry_out(mut group: Group, backlog: &Backlog) {
    let mut broken: Option<Error> = None;
    loop {
        // Before the look into the queue: what was put there before the end came is found.
        let is_closing = backlog.outstanding.is_closing();
        match backlog.pop() {
            Some(task) => {
                let before = group.number;
                let done = task(broken.clone().map_or(Ok(&mut group), Err));
                if let Err(error) = &done {
                    group.refuse(before + 1, error);
                    // It may have published what others sleep for, and ended before it roused them.
                    group.leave();
                }
                // After an error the members no longer agree on where they are.
                broken = broken.or(done.err());
            }
            None if is_closing => return,
            None => group.pause_idly(),
        }
    }
}
