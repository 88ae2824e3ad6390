//! How a member waits: polling, asleep, or, in the background, not at all.

use std::time::Duration;

use super::Group;
use crate::executor::board::{Awaited, Deed, Whom};
use crate::executor::coroutine::Pause;
use crate::executor::error::Result;
use crate::executor::patience::{NAP, Polled, with_meanwhile};

impl Group {
    #[inline]
    pub(super) fn wait(&mut self, awaited: Awaited) -> Result<()> {
        self.check_goes_on()?;
        if self.pause.is_some() {
            return self.pause_until(awaited);
        }
        let board = &self.board;
        let mut is_done = board.watch(awaited);
        if self.patience.glance(&mut is_done) {
            return Ok(());
        }
        // Others may sleep for what this member has said. Who is seen to sleep is woken before any turn, and behind it,
        // when what was said has reached the other cores. For who is not seen, the fence of `rouse` is needed, which
        // takes a tenth of a microsecond before; it comes when the operation ends, or before this member waits longer.
        let owed = &mut self.owes_rousing;
        board.rouse_seen(owed);
        if self.patience.give_turns(is_done) {
            board.rouse_seen(owed);
            return Ok(());
        }
        if std::mem::take(owed) {
            board.rouse();
        }
        self.wait_long(awaited)
    }

    /// Waits until all have finished with operation `number`: they are about to, within some time. As long as that the
    /// core is not given away, if each has one: whoever else got it would keep it for longer.
    pub(super) fn expect_finished(&mut self, number: u64, within: Duration) -> Result<()> {
        let finished = Awaited { whom: Whom::All, deed: Deed::Finished, number };
        if self.pause.is_none() {
            self.board.rouse_seen(&mut self.owes_rousing);
            let is_done = self.board.watch(finished);
            let every = self.patience.polls_of_microseconds();
            self.patience.expect(within, with_meanwhile(is_done, self.meanwhile, every));
        }
        self.await_finished(number)
    }

    /// Goes on waiting, behind what most waits take.
    #[inline(never)]
    fn wait_long(&mut self, awaited: Awaited) -> Result<()> {
        let is_done = self.board.watch(awaited);
        let every = self.patience.polls_of_microseconds();
        match self.patience.poll(with_meanwhile(is_done, self.meanwhile, every)) {
            Polled::Ready => Ok(()),
            Polled::InVain => self.sleep(awaited),
        }
    }

    /// This group, in which operations pause where they would wait.
    pub(super) fn pausing(mut self, pause: Pause) -> Self {
        self.pause = Some(pause);
        self
    }

    /// Pauses between two operations.
    pub(super) fn pause_idly(&self) {
        if let Some(pause) = &self.pause {
            pause.pause(None);
        }
    }

    /// The same in the background: lets somebody else go on until all is there.
    fn pause_until(&mut self, awaited: Awaited) -> Result<()> {
        while self.board.is_missing(awaited) {
            if std::mem::take(&mut self.owes_rousing) {
                self.board.rouse();
            }
            self.check(awaited)?;
            if !self.pause.as_ref().is_some_and(|pause| pause.pause(Some(awaited))) {
                return self.sleep(awaited);
            }
        }
        Ok(())
    }

    /// Any of them: one that is not lost itself may wait for one that is, and leave with an error.
    pub(super) fn check_members(&self) -> Result<()> {
        let membership = self.fabric.membership();
        Ok(self.watched.iter().try_for_each(|&rank| membership.check(rank))?)
    }

    #[cold]
    fn sleep(&mut self, awaited: Awaited) -> Result<()> {
        let go_on = || {
            if let Some(meanwhile) = self.meanwhile {
                meanwhile();
            }
            self.check_members()?;
            self.board.check(awaited)
        };
        let slept = self.board.sleep(awaited, self.meanwhile.map(|_| NAP), go_on);
        slept.inspect_err(|error| self.give_up(error))
    }
}
