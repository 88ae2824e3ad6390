//! What is lent of a file, to whom; who waits, and what is in his way.
//!
//! While a request waits, nothing is granted for keeping that is in its way; and it asks back what was granted before
//! that. Each lock is asked back once: who finds that another request has done so waits for what comes of that, and
//! where it was in vain, asks in its turn.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use svmio_transport::Rank;

use crate::attachment::{Attachment, PROCESSES};
use crate::cluster::NodeIndex;
use crate::cluster::wire::LockNumber;
use crate::locks::{LockError, LockTable, LockToken, Mode, Owner, ThreadId};
use crate::object;
use crate::presence::Presence;

use super::history::History;
use super::late::Late;
use super::orphans::Orphans;
use super::release;

/// The most locks of a file that a home lets other nodes keep. They stand in its table whether they are used or not,
/// and are only asked back by who wants the same bytes: whoever waits for room in the table waits for none of them.
const MOST_KEPT: usize = LockTable::CAPACITY / 2;

/// What is lent of one file.
#[derive(Default)]
pub(in super::super) struct Lent {
    ranks: Mutex<Ranks>,
    /// Rung when a lock is not asked back any more: it was given back, or is to be asked back again.
    answered: Condvar,
}

#[derive(Default)]
struct Ranks {
    present: HashMap<Rank, Arc<Presence>>,
    loans: HashMap<LockNumber, Loan>,
    waiting: HashMap<LockNumber, Waiting>,
    history: History,
}

/// A request that waits.
struct Waiting {
    rank: Rank,
    wanted: Wanted,
    /// The place of a node in which that may keep what it is granted; none, too, where somebody else has it by now.
    place: Option<(NodeIndex, u32)>,
}

/// A request whose wait has begun.
pub(super) struct Begun {
    /// What is to be asked back for it.
    pub(super) due: Vec<Due>,
    /// Whether it may get its lock for keeping.
    pub(super) may_keep: bool,
    /// What was granted for the place that it has reserved, where its node keeps nothing. It is nobody's, and the
    /// caller frees it.
    pub(super) vacated: Vec<Loan>,
}

/// What is locked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Wanted {
    pub(in super::super) range: Range<u64>,
    pub(in super::super) mode: Mode,
}

pub(super) struct Loan {
    /// With whom it goes.
    pub(super) holder: Rank,
    pub(super) token: LockToken,
    pub(super) wanted: Wanted,
    pub(super) kept: Option<Kept>,
    /// The place among the processes in which it stands: it lives as long as the lock.
    pub(super) presence: Arc<Presence>,
}

/// Where a lock is kept.
pub(super) struct Kept {
    pub(super) node: NodeIndex,
    pub(super) place: u32,
    pub(super) is_asked_back: bool,
}

/// A kept lock that is to be asked back.
pub(super) struct Due {
    pub(super) lock: LockNumber,
    pub(super) node: NodeIndex,
    pub(super) place: u32,
}

impl Wanted {
    pub(in super::super) fn new(range: Range<u64>, exclusive: bool) -> Wanted {
        Wanted { range, mode: if exclusive { Mode::Exclusive } else { Mode::Shared } }
    }

    pub(super) fn conflicts(&self, other: &Wanted) -> bool {
        self.range.start < other.range.end
            && other.range.start < self.range.end
            && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

impl Ranks {
    /// What is kept in the way of a request and was not asked back; the caller does.
    fn due(&mut self, wanted: &Wanted) -> Vec<Due> {
        let mut due = Vec::new();
        for (lock, loan) in &mut self.loans {
            if let Some(kept) = &mut loan.kept
                && !kept.is_asked_back
                && loan.wanted.conflicts(wanted)
            {
                kept.is_asked_back = true;
                due.push(Due { lock: *lock, node: kept.node, place: kept.place });
            }
        }
        due
    }

    /// Has nothing kept in a place any more; returns what was.
    fn vacate(&mut self, place: (NodeIndex, u32)) -> Vec<Loan> {
        let is_in_it = |loan: &Loan| loan.kept.as_ref().is_some_and(|kept| (kept.node, kept.place) == place);
        self.waiting.values_mut().filter(|waiting| waiting.place == Some(place)).for_each(|waiting| {
            waiting.place = None;
        });
        self.loans.extract_if(|_, loan| is_in_it(loan)).map(|(_, loan)| loan).collect()
    }

    /// Whether no more is to be kept.
    fn keep_enough(&self) -> bool {
        self.loans.values().filter(|loan| loan.kept.is_some()).count() >= MOST_KEPT
    }

    /// Whether something is kept in the way of a request.
    fn is_in_the_way(&self, wanted: &Wanted) -> bool {
        self.loans.values().any(|loan| loan.kept.is_some() && loan.wanted.conflicts(wanted))
    }
}

impl Loan {
    /// Whether the holder may have written under it what nobody else of its node takes care of.
    fn may_leave_writes(&self) -> bool {
        self.kept.is_none() && self.wanted.mode == Mode::Exclusive
    }
}

impl Lent {
    /// Gives back all that a lost rank had, but for locks under which it may have written: these are returned.
    pub(in super::super) fn forget_rank(
        &self,
        attachment: &Arc<Attachment>,
        late: &Arc<Late>,
        (rank, node): (Rank, NodeIndex),
    ) -> Orphans {
        let (presence, loans) = {
            let mut ranks = self.ranks();
            let of_it = ranks.loans.extract_if(|_, loan| loan.holder == rank);
            let loans: Vec<_> = of_it.map(|(_, loan)| loan).collect();
            ranks.waiting.retain(|_, waiting| waiting.rank != rank);
            (ranks.present.remove(&rank), loans)
        };
        self.answered.notify_all();
        let orphans = orphans(attachment, late, (rank, node), loans);
        drop(presence);
        orphans
    }

    /// The same of one lock, if it is not kept: what is kept is asked back, or goes with the leader.
    pub(super) fn forget_unsaid(
        &self,
        attachment: &Arc<Attachment>,
        late: &Arc<Late>,
        holder: (Rank, NodeIndex),
        lock: LockNumber,
    ) -> Orphans {
        let is_it = |number: &LockNumber, loan: &mut Loan| *number == lock && loan.kept.is_none();
        let loans = self.ranks().loans.extract_if(is_it).map(|(_, loan)| loan).collect();
        orphans(attachment, late, holder, loans)
    }

    /// Begins the wait of a request of a rank of `node`, which has just reserved a place there, if it has one.
    ///
    /// Whoever else was to keep something in that place died before he did. What he was granted is to be freed, and
    /// what he waits for is not to be kept there: to ask that back would be to wait for the place, and so for the one
    /// who reserved it.
    pub(super) fn begin(
        &self,
        number: LockNumber,
        (rank, node): (Rank, NodeIndex),
        wanted: &Wanted,
        place: Option<u32>,
    ) -> Begun {
        let mut ranks = self.ranks();
        let place = place.map(|place| (node, place));
        let vacated = place.map_or_else(Vec::new, |place| ranks.vacate(place));
        self.answered.notify_all();
        // Who holds a lock that is not kept, and may wait for himself, goes by his own name, so that this is found out.
        let holds_none = ranks.loans.values().all(|loan| loan.holder != rank || loan.kept.is_some());
        let is_often = ranks.history.note(node, wanted);
        ranks.waiting.insert(number, Waiting { rank, wanted: wanted.clone(), place });
        let may_keep = is_often && holds_none && !ranks.keep_enough();
        Begun { due: ranks.due(wanted), may_keep, vacated }
    }

    /// Waits for what others have asked back and is in the way of a request; what they asked for in vain, the caller
    /// asks back.
    pub(super) fn still_due(&self, wanted: &Wanted) -> Vec<Due> {
        let mut ranks = self.ranks();
        loop {
            let due = ranks.due(wanted);
            if !due.is_empty() || !ranks.is_in_the_way(wanted) {
                return due;
            }
            ranks = self.answered.wait(ranks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A lock that was asked back was not given back: whoever waits for it asks again.
    pub(super) fn ask_again(&self, lock: LockNumber) {
        if let Some(kept) = self.ranks().loans.get_mut(&lock).and_then(|loan| loan.kept.as_mut()) {
            kept.is_asked_back = false;
        }
        self.answered.notify_all();
    }

    /// Learns of how much use a lock was that a node kept.
    pub(super) fn learn(&self, node: NodeIndex, wanted: &Wanted, uses: u64) {
        self.ranks().history.learn(node, wanted, uses);
    }

    /// Takes what was lent under a number off the list.
    pub(super) fn take_off(&self, lock: LockNumber) -> Option<Loan> {
        let loan = self.ranks().loans.remove(&lock);
        self.answered.notify_all();
        loan
    }

    /// Ends the wait of a request without a lock; says whether there was such a wait.
    pub(super) fn end(&self, number: LockNumber) -> bool {
        self.ranks().waiting.remove(&number).is_some()
    }

    /// Ends the wait of a request with a lock; says whether it is kept.
    pub(super) fn lend(&self, number: LockNumber, mut loan: Loan, leader: Rank) -> bool {
        let mut ranks = self.ranks();
        let has_place = ranks.waiting.remove(&number).is_some_and(|waiting| waiting.place.is_some());
        let is_waited_for = ranks.waiting.values().any(|waiting| waiting.wanted.conflicts(&loan.wanted));
        // Once more: others may have been told at the same time that they may.
        loan.kept = loan.kept.filter(|_| has_place && !is_waited_for && !ranks.keep_enough());
        let is_kept = loan.kept.is_some();
        if is_kept {
            loan.holder = leader;
        }
        ranks.loans.insert(number, loan);
        is_kept
    }

    /// Has what is lent under a number, if it still is, stand in the name of a thread in the place `presence`.
    pub(super) fn put_in_name(
        &self,
        number: LockNumber,
        locks: &LockTable,
        thread: ThreadId,
        presence: Arc<Presence>,
    ) -> Result<(), LockError> {
        let mut ranks = self.ranks();
        let Some(loan) = ranks.loans.get_mut(&number) else { return Ok(()) };
        locks.set_owner(&loan.token, Owner { slot: presence.slot(), thread })?;
        let former = std::mem::replace(&mut loan.presence, presence);
        drop(ranks);
        drop(former);
        Ok(())
    }

    pub(super) fn presence(&self, attachment: &Attachment, rank: Rank) -> io::Result<Arc<Presence>> {
        let mut ranks = self.ranks();
        if let Some(presence) = ranks.present.get(&rank) {
            return Ok(Arc::clone(presence));
        }
        // An open of its own: the locks that tell who is there belong to what `open` returns.
        let state = File::options().read(true).write(true).open(attachment.path().join(object::STATE))?;
        let presence = Arc::new(Presence::enter(state, PROCESSES)?);
        if let Some(state) = attachment.state() {
            state.reap(presence.slot(), attachment.own()).map_err(io::Error::other)?;
        }
        ranks.present.insert(rank, Arc::clone(&presence));
        Ok(presence)
    }

    /// Whether a rank has a place among the processes that have the file open.
    #[cfg(test)]
    pub(super) fn has_place(&self, rank: Rank) -> bool {
        self.ranks().present.contains_key(&rank)
    }

    fn ranks(&self) -> MutexGuard<'_, Ranks> {
        // A panic elsewhere leaves the maps whole.
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives back what a rank had, but for locks under which it may have written.
fn orphans(
    attachment: &Arc<Attachment>,
    late: &Arc<Late>,
    holder: (Rank, NodeIndex),
    loans: Vec<Loan>,
) -> Orphans {
    let (orphans, free): (Vec<_>, Vec<_>) = loans.into_iter().partition(Loan::may_leave_writes);
    free.into_iter().for_each(|loan| release(attachment, loan.token));
    Orphans::new(attachment, late, holder, orphans)
}

#[cfg(test)]
mod tests;
