//! What this node kept and its homes have taken back, since its leader is lost.
//!
//! Whoever of the node hears of that first forgets it for all. Others may be using it then, and give up what they wrote
//! when they release it. So whoever has been granted some of it by its home, in whatever way he knows of the loss, lets
//! them come to their end before he writes: what he writes is not to be taken for theirs.

use std::ops::Range;

use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, Result};
use crate::locks::{LockError, Mode};

use super::User;

impl User<'_> {
    /// Waits until nobody of this node uses, as a lock that the node keeps, any of a range that `node` has just granted
    /// this thread: the home has taken that away, or it would not have granted this. False where there is no room to
    /// wait.
    pub(super) fn outlast_users_of_taken_away(
        &self,
        node: NodeIndex,
        range: &Range<u64>,
        mode: Mode,
    ) -> Result<bool> {
        let alive = |slot| self.presence.alive(slot);
        for place in self.kept.in_the_way(node.0, range, mode) {
            loop {
                let token = self.kept.enter_after(self.owner, place, range, mode, &alive);
                let Some(token) = token.map_err(|e| self.failed(e))? else { return Ok(false) };
                let is_kept = self.kept.is_kept_in_the_way(place, node.0, range, mode);
                self.kept.release(token).map_err(|e| self.failed(e))?;
                if !is_kept {
                    break;
                }
                // This process may be the first of the node to notice. Somebody may have come to use it again.
                let taken_away = || self.failed(LockError::TakenAway);
                self.forget_kept(&self.shared.lost_leader().unwrap_or_else(taken_away))?;
            }
        }
        Ok(true)
    }

    /// Forgets all that this node keeps, and gives up what was written under it.
    fn forget_kept(&self, reason: &Error) -> Result<()> {
        let alive = |slot| self.presence.alive(slot);
        let alone = self.kept.enter_to_forget(self.owner, &alive).map_err(|e| self.failed(e))?;
        let forget = |place| {
            // What other homes have granted besides, of the same request, may have gone on already.
            if let Some(grant) =
                self.kept.grant_in(place).filter(|_| self.kept.mode_in(place) == Mode::Exclusive)
            {
                let range = self.kept.range_in(place);
                self.shared.give_up_granted(NodeIndex(grant.home), &range, reason)?;
            }
            // After that: nobody of this node goes on with what a home grants before, and where this process dies,
            // another one goes on.
            self.kept.take_away(place);
            Ok(())
        };
        let forgotten = self.kept.kept().try_for_each(forget);
        self.kept.release(alone).map_err(|e| self.failed(e))?;
        forgotten
    }
}

impl SharedFile {
    /// Where this node has lost its leader, with whom its homes take back what it keeps: forgets that. Bytes that were
    /// written under it are given up, since others may have written there.
    pub(crate) fn forget_taken_away(&self) -> Result<()> {
        let Some(reason) = self.lost_leader() else { return Ok(()) };
        let user = User::new(self)?;
        if user.kept.kept().next().is_some() { user.forget_kept(&reason) } else { Ok(()) }
    }

    /// That this node's leader is lost.
    pub(in crate::cluster) fn lost_leader(&self) -> Option<Error> {
        let own = self.own_node();
        let is_lost = self.cluster().context().is_lost(own);
        is_lost.then(|| self.cluster().check_home(own).err()).flatten()
    }
}
