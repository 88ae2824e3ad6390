//! Locks that other nodes' ranks hold on this node's segments, and those that other nodes keep.
//!
//! They stand in the same table as those of the node's own ranks. Each rank that holds one or waits for one has a
//! place among the processes that have the file open, taken for it by the agent: when the rank is lost the agent
//! leaves that place, and the table takes it for dead like any process of this node; later, where the rank may have
//! written under a lock: that comes home first. A lock that a node keeps belongs
//! to the node's leader, in whatever rank's name it was asked for, and goes when the leader is lost. What was asked for
//! in the leader's name and is not kept after all gets the rank's own, so that a thread is told that it waits for itself.
//!
//! ```text
//!   lending         an agent locks for other nodes' ranks, and has asked back what is kept in the way
//!   ├─ lent         what is lent of a file, to whom; who waits, and for what
//!   ├─ history      how often a node has asked for the same lock: whether it is to keep it
//!   ├─ orphans      locks of ranks that are lost: what was written under them comes home first
//!   ├─ late         what cannot come home before they go on, and is refused then
//!   └─ giving_back  the other side: this node keeps a lock, which its home asks back
//! ```

mod giving_back;
mod history;
mod late;
mod lent;
mod orphans;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use svmio_transport::Rank;

use crate::attachment::Attachment;
use crate::cluster::wire::{LockNumber, Reply, Request};
use crate::error::{Error, Result};
use crate::locks::{LockError, LockToken, Owner, ThreadId};
use crate::presence::Presence;
use crate::units::FileId;

use super::Agent;
use super::files::Served;

pub(super) use giving_back::forget_kept;
pub(super) use late::Late;
use lent::{Due, Kept, Loan};
pub(super) use lent::{Lent, Wanted};
pub(super) use orphans::Orphans;

/// Marks what is no number of a thread; the kernel's are smaller.
const NO_THREAD: u32 = 1 << 31;

impl Agent {
    /// Locks a range for a rank of another node, which keeps it in `place` if it may.
    pub(super) fn lend(
        &self,
        rank: Rank,
        file: FileId,
        wanted: &Wanted,
        thread: u32,
        place: Option<u32>,
    ) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let roster = &self.context.roster;
        let (node, number) = (roster.node_of(rank), next_number());
        let begun = served.lent.begin(number, (rank, node), wanted, place);
        begun.vacated.into_iter().for_each(|loan| release(&served.attachment, loan.token));
        let leader = roster.leader(node);
        let is_lost = |rank| self.context.fabric.membership().check(rank).is_err();
        // A node without its leader keeps nothing.
        let mut place = place.filter(|_| begun.may_keep && !is_lost(leader));
        let locked = self.clear(&served, begun.due, wanted).and_then(|()| {
            if place.is_some() {
                // Different locks of a node are those of different threads.
                let as_leader = self.wait_for_lock(&served, leader, number.0 as u32 | NO_THREAD, wanted);
                if as_leader.is_ok() || !is_lost(leader) {
                    return as_leader;
                }
                place = None;
            }
            self.wait_for_lock(&served, rank, thread, wanted)
        });
        let (token, presence) = locked.inspect_err(|_| {
            served.lent.end(number);
        })?;
        let kept = place.map(|place| Kept { node, place, is_asked_back: false });
        let loan = Loan { holder: rank, token, wanted: wanted.clone(), kept, presence };
        let is_kept = served.lent.lend(number, loan, leader);
        if place.is_some() && !is_kept {
            self.put_in_own_name(&served, rank, number, thread)?;
        }
        for holder in [rank, leader] {
            if is_lost(holder) {
                // Lost while it waited.
                self.free(self.bury(&served, holder));
            }
        }
        // Whoever had it before has left what is to be left.
        let has_late = served.late().touches(node, &wanted.range);
        Ok(Reply::Locked { lock: number, is_kept, has_late })
    }

    /// Asks back what is in the way of a rank of this node; nothing more is given for keeping until the number that is
    /// returned is taken back.
    pub(super) fn clear_way(&self, rank: Rank, file: FileId, wanted: &Wanted) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let number = next_number();
        let begun = served.lent.begin(number, (rank, self.context.roster.own()), wanted, None);
        self.clear(&served, begun.due, wanted).inspect_err(|_| {
            served.lent.end(number);
        })?;
        if self.context.fabric.membership().check(rank).is_err() {
            served.lent.end(number);
        }
        Ok(Reply::Locked { lock: number, is_kept: false, has_late: false })
    }

    /// Takes a lock back, or ends a wait; an error where the lock was not its holder's any more.
    pub(super) fn take_back(&self, file: FileId, lock: LockNumber) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let was_waiting = served.lent.end(lock);
        let released = match served.lent.take_off(lock) {
            Some(loan) => try_release(&served.attachment, loan.token),
            None if was_waiting => Ok(()),
            None => Err(LockError::TakenAway),
        };
        released.map_err(|source| Error::Lock { name: served.attachment.name().into(), source })?;
        Ok(Reply::Done)
    }

    /// Frees a lock of which its holder was not told, as far as is known here: nobody will give it back. He may have
    /// heard of it all the same, and have written under it before he was lost.
    pub(super) fn take_unsaid(&self, holder: Rank, file: FileId, lock: LockNumber) {
        let Ok(served) = self.files.get(&self.context, file) else { return };
        let node = self.context.roster.node_of(holder);
        self.free(served.lent.forget_unsaid(&served.attachment, served.late(), (holder, node), lock));
    }

    /// Has all given back that is kept in the way of a request, beginning with what is due.
    fn clear(&self, served: &Served, mut due: Vec<Due>, wanted: &Wanted) -> Result<()> {
        loop {
            self.ask_back(served, due)?;
            due = served.lent.still_due(wanted);
            if due.is_empty() {
                return Ok(());
            }
        }
    }

    /// Has kept locks given back, and waits for that.
    fn ask_back(&self, served: &Served, due: Vec<Due>) -> Result<()> {
        let file = served.attachment.id();
        let context = &self.context;
        let begin = |due: Due| {
            let request = Request::GiveBack { file, lock: due.lock, place: due.place };
            (context.begin(due.node, &request, &[]), due)
        };
        let asked: Vec<_> = due.into_iter().map(begin).collect();
        let mut outcome = Ok(());
        for (question, due) in asked {
            let name = context.roster.name(due.node);
            let answer = question.and_then(|q| context.client.wait(q, name, &mut |_, _| {}));
            let uses = match answer {
                Ok(Reply::GivenBack { uses }) => Ok(uses),
                Ok(_) => Err(context.out_of_place(due.node)),
                Err(error) => Err(error),
            };
            let leader = context.roster.leader(due.node);
            match uses {
                Ok(uses) => {
                    let loan = served.lent.take_off(due.lock);
                    if let Some(Loan { kept: Some(kept), wanted, .. }) = &loan {
                        served.lent.learn(kept.node, wanted, uses);
                    }
                    if let Some(loan) = loan {
                        release(&served.attachment, loan.token);
                    }
                }
                Err(_) if context.fabric.membership().check(leader).is_err() => {
                    self.free(self.bury(served, leader));
                }
                Err(error) => {
                    served.lent.ask_again(due.lock);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// A lock that was asked for in the leader's name, and is not kept, stands in that of a rank's thread from here on.
    fn put_in_own_name(&self, served: &Served, rank: Rank, number: LockNumber, thread: u32) -> Result<()> {
        let attachment = &served.attachment;
        let put = || {
            let presence = served.lent.presence(attachment, rank).map_err(|e| cannot_lock(attachment, e))?;
            let (state, _) = attachment.writable()?;
            let put = state
                .locks()
                .and_then(|locks| served.lent.put_in_name(number, locks, ThreadId(thread), presence));
            put.map_err(|source| Error::Lock { name: attachment.name().into(), source })
        };
        put().inspect_err(|_| {
            if let Some(loan) = served.lent.take_off(number) {
                release(attachment, loan.token);
            }
        })
    }

    /// Locks a range in a rank's name; returns the lock with the rank's place, in which it stands.
    fn wait_for_lock(
        &self,
        served: &Served,
        rank: Rank,
        thread: u32,
        wanted: &Wanted,
    ) -> Result<(LockToken, Arc<Presence>)> {
        let attachment = &served.attachment;
        let failed = |source| Error::Lock { name: attachment.name().into(), source };
        let (slot, presence) = {
            let presence = served.lent.presence(attachment, rank).map_err(|e| cannot_lock(attachment, e))?;
            // Weak: the place of who is lost while he waits goes at once, and nobody waits for him.
            (presence.slot(), Arc::downgrade(&presence))
        };
        let (state, own) = attachment.writable()?;
        let owner = Owner { slot, thread: ThreadId(thread) };
        let alive = |slot| state.is_alive(own, slot, attachment.own());
        let acquired =
            state.locks().and_then(|locks| locks.acquire(owner, wanted.range.clone(), wanted.mode, &alive));
        let token = acquired.map_err(failed)?;
        let Some(presence) = presence.upgrade() else {
            release(attachment, token);
            return Err(failed(LockError::TakenAway));
        };
        Ok((token, presence))
    }
}

fn next_number() -> LockNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness counts.
    LockNumber(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn cannot_lock(attachment: &Attachment, error: io::Error) -> Error {
    Error::io(format!("locking {}", attachment.name()), &attachment.path(), error)
}

fn release(attachment: &Attachment, token: LockToken) {
    if let Err(e) = try_release(attachment, token) {
        tracing::error!("unlocking {}: {e}", attachment.name());
    }
}

fn try_release(attachment: &Attachment, token: LockToken) -> std::result::Result<(), LockError> {
    let Some(state) = attachment.state() else { return Ok(()) };
    state.locks().and_then(|locks| locks.release(token))
}

#[cfg(test)]
impl Agent {
    /// Whether a rank has a place among the processes that have the file open.
    pub(in crate::cluster) fn has_place(&self, file: FileId, rank: Rank) -> bool {
        self.files.get(&self.context, file).is_ok_and(|served| served.lent.has_place(rank))
    }
}
