//! Locks that other nodes' ranks hold on this node's segments, and those that other nodes keep.
//!
//! They stand in the same table as those of the node's own ranks. Each rank that holds one or waits for one has a
//! place among the processes that have the file open, taken for it by the agent: when the rank is lost the agent
//! leaves that place, and the table takes it for dead like any process of this node. A lock that a node keeps belongs
//! to the node's leader, in whatever rank's name it was asked for, and goes when the leader is lost. What was asked for
//! in the leader's name and is not kept after all stays in the leader's place and is the rank's, so the place stays, too.
//!
//! A node keeps a lock from the second time on that it asks for the same one without anybody's having asked for what
//! conflicts with it in between: sooner, and ranges that all write in turn would be asked back each time, which takes
//! more messages than not keeping them. Where a kept lock was of so little use that this has happened, it takes
//! twice as many requests the next time. While a request waits, nothing is granted for keeping that is in its way; and
//! it asks back what was granted before that. Each lock is asked back once: who finds that another request has done so
//! waits for what comes of that, and where it was in vain, asks in its turn.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use svmio_transport::Rank;

use crate::attachment::{Attachment, PROCESSES};
use crate::cluster::wire::{LockNumber, Reply, Request};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, ErrorKind, Result};
use crate::kept_locks::{Grant, PlaceNumber};
use crate::locks::{LockError, LockToken, Mode, Owner, ThreadId};
use crate::object;
use crate::presence::Presence;
use crate::units::FileId;

use super::Agent;
use super::files::Served;

/// After how many requests in a row a lock is kept, at first and at most.
const IN_A_ROW: u64 = 2;
const MOST_IN_A_ROW: u64 = 64;

/// Marks what is no number of a thread; the kernel's are smaller.
const NO_THREAD: u32 = 1 << 31;

/// How many different requests are remembered.
const REMEMBERED: usize = 64;

/// What is lent of one file.
#[derive(Default)]
pub(super) struct Lent {
    ranks: Mutex<Ranks>,
    /// Rung when a lock is not asked back any more: it was given back, or is to be asked back again.
    answered: Condvar,
}

#[derive(Default)]
struct Ranks {
    present: HashMap<Rank, Arc<Presence>>,
    loans: HashMap<LockNumber, Loan>,
    waiting: HashMap<LockNumber, (Rank, Wanted)>,
    history: Vec<Run>,
}

/// What is locked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
}

struct Loan {
    /// With whom it goes.
    holder: Rank,
    token: LockToken,
    kept: Option<Kept>,
    /// The place among the processes in which it was taken, the holder's or his leader's: it lives as long as the lock.
    _presence: Arc<Presence>,
}

/// Where a lock is kept.
struct Kept {
    node: NodeIndex,
    place: u32,
    wanted: Wanted,
    is_asked_back: bool,
}

/// How often a node has asked for the same thing in a row.
struct Run {
    node: NodeIndex,
    wanted: Wanted,
    length: u64,
    /// How long it has to be for the lock to be kept.
    needed: u64,
}

/// A kept lock that is to be asked back.
struct Due {
    lock: LockNumber,
    node: NodeIndex,
    place: u32,
}

impl Wanted {
    pub(super) fn new(range: Range<u64>, exclusive: bool) -> Wanted {
        Wanted { range, mode: if exclusive { Mode::Exclusive } else { Mode::Shared } }
    }

    fn conflicts(&self, other: &Wanted) -> bool {
        self.range.start < other.range.end
            && other.range.start < self.range.end
            && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

impl Ranks {
    /// Notes a request; says whether the node has asked often enough to keep what it gets.
    fn note(&mut self, node: NodeIndex, wanted: &Wanted) -> bool {
        let others = self.history.iter_mut().filter(|run| run.node != node && run.wanted.conflicts(wanted));
        others.for_each(|run| run.length = 0);
        let place = self.history.iter().position(|run| run.node == node && run.wanted == *wanted);
        let mut run = match place {
            Some(place) => self.history.remove(place),
            None => Run { node, wanted: wanted.clone(), length: 0, needed: IN_A_ROW },
        };
        run.length += 1;
        let is_enough = run.length >= run.needed;
        if self.history.len() >= REMEMBERED {
            self.history.remove(0);
        }
        self.history.push(run);
        is_enough
    }

    /// What is kept in the way of a request and was not asked back; the caller does.
    fn due(&mut self, wanted: &Wanted) -> Vec<Due> {
        let mut due = Vec::new();
        for (lock, loan) in &mut self.loans {
            if let Some(kept) = &mut loan.kept
                && !kept.is_asked_back
                && kept.wanted.conflicts(wanted)
            {
                kept.is_asked_back = true;
                due.push(Due { lock: *lock, node: kept.node, place: kept.place });
            }
        }
        due
    }

    /// Whether something is kept in the way of a request.
    fn is_in_the_way(&self, wanted: &Wanted) -> bool {
        self.loans.values().filter_map(|loan| loan.kept.as_ref()).any(|kept| kept.wanted.conflicts(wanted))
    }

    /// Learns of how much use a kept lock was.
    fn learn(&mut self, kept: &Kept, uses: u64) {
        let of_it = |run: &&mut Run| run.node == kept.node && run.wanted == kept.wanted;
        if let Some(run) = self.history.iter_mut().find(of_it) {
            run.needed = if uses > run.needed { IN_A_ROW } else { (run.needed * 2).min(MOST_IN_A_ROW) };
        }
    }
}

impl Lent {
    /// Gives back all that a lost rank had.
    pub(super) fn forget_rank(&self, attachment: &Attachment, rank: Rank) {
        let (presence, loans) = {
            let mut ranks = self.ranks();
            let of_it = ranks.loans.extract_if(|_, loan| loan.holder == rank);
            let loans: Vec<_> = of_it.map(|(_, loan)| loan).collect();
            ranks.waiting.retain(|_, (waiting, _)| *waiting != rank);
            (ranks.present.remove(&rank), loans)
        };
        self.answered.notify_all();
        loans.into_iter().for_each(|loan| release(attachment, loan.token));
        drop(presence);
    }

    /// Gives back what was granted for a place in which `node` keeps nothing, since somebody there has just reserved it:
    /// whoever had it died before he kept anything. To ask that back would be to wait for the place, and so for the one
    /// who reserved it.
    fn vacate(&self, attachment: &Attachment, node: NodeIndex, place: u32) {
        let is_in_it =
            |loan: &Loan| loan.kept.as_ref().is_some_and(|kept| (kept.node, kept.place) == (node, place));
        let loans: Vec<_> =
            self.ranks().loans.extract_if(|_, loan| is_in_it(loan)).map(|(_, loan)| loan).collect();
        self.answered.notify_all();
        loans.into_iter().for_each(|loan| release(attachment, loan.token));
    }

    /// Begins the wait of a request. Says what is to be asked back for it, and whether it may get its lock for keeping.
    fn begin(&self, number: LockNumber, rank: Rank, node: NodeIndex, wanted: &Wanted) -> (Vec<Due>, bool) {
        let mut ranks = self.ranks();
        // Who holds a lock that is not kept, and may wait for himself, goes by his own name, so that this is found out.
        let holds_none = ranks.loans.values().all(|loan| loan.holder != rank || loan.kept.is_some());
        let is_often = ranks.note(node, wanted);
        ranks.waiting.insert(number, (rank, wanted.clone()));
        (ranks.due(wanted), is_often && holds_none)
    }

    /// Waits for what others have asked back and is in the way of a request; what they asked for in vain, the caller asks
    /// back.
    fn still_due(&self, wanted: &Wanted) -> Vec<Due> {
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
    fn ask_again(&self, lock: LockNumber) {
        if let Some(kept) = self.ranks().loans.get_mut(&lock).and_then(|loan| loan.kept.as_mut()) {
            kept.is_asked_back = false;
        }
        self.answered.notify_all();
    }

    /// Takes what was lent under a number off the list.
    fn take_off(&self, lock: LockNumber) -> Option<Loan> {
        let loan = self.ranks().loans.remove(&lock);
        self.answered.notify_all();
        loan
    }

    /// Ends the wait of a request without a lock; says whether there was such a wait.
    fn end(&self, number: LockNumber) -> bool {
        self.ranks().waiting.remove(&number).is_some()
    }

    /// Ends the wait of a request with a lock; says whether it is kept.
    fn lend(&self, number: LockNumber, mut loan: Loan, leader: Rank) -> bool {
        let mut ranks = self.ranks();
        ranks.waiting.remove(&number);
        let is_waited_for =
            |kept: &Kept| ranks.waiting.values().any(|(_, waiting)| waiting.conflicts(&kept.wanted));
        loan.kept = loan.kept.filter(|kept| !is_waited_for(kept));
        let is_kept = loan.kept.is_some();
        if is_kept {
            loan.holder = leader;
        }
        ranks.loans.insert(number, loan);
        is_kept
    }

    fn presence(&self, attachment: &Attachment, rank: Rank) -> io::Result<Arc<Presence>> {
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

    fn ranks(&self) -> MutexGuard<'_, Ranks> {
        // A panic elsewhere leaves the maps whole.
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        if let Some(place) = place {
            served.lent.vacate(&served.attachment, node, place);
        }
        let (due, is_often) = served.lent.begin(number, rank, node, wanted);
        let leader = roster.leader(node);
        let is_lost = |rank| self.context.fabric.membership().check(rank).is_err();
        // A node without its leader keeps nothing.
        let mut place = place.filter(|_| is_often && !is_lost(leader));
        let locked = self.clear(&served, due, wanted).and_then(|()| {
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
        let kept = place.map(|place| Kept { node, place, wanted: wanted.clone(), is_asked_back: false });
        let loan = Loan { holder: rank, token, kept, _presence: presence };
        let is_kept = served.lent.lend(number, loan, leader);
        for holder in [rank, leader] {
            if is_lost(holder) {
                // Lost while it waited.
                self.bury(&served, holder);
            }
        }
        Ok(Reply::Locked { lock: number, is_kept })
    }

    /// Asks back what is in the way of a rank of this node; nothing more is given for keeping until the number that is
    /// returned is taken back.
    pub(super) fn clear_way(&self, rank: Rank, file: FileId, wanted: &Wanted) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let number = next_number();
        let (due, _) = served.lent.begin(number, rank, self.context.roster.own(), wanted);
        self.clear(&served, due, wanted).inspect_err(|_| {
            served.lent.end(number);
        })?;
        if self.context.fabric.membership().check(rank).is_err() {
            served.lent.end(number);
        }
        Ok(Reply::Locked { lock: number, is_kept: false })
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

    /// Gives a kept lock back, by which the home may take it for free: waits until nobody of this node uses it, and
    /// brings home what was written under it.
    pub(super) fn give_up(&self, home: Rank, file: FileId, lock: LockNumber, place: u32) -> Result<Reply> {
        let served = match self.files.get(&self.context, file) {
            // It was removed, and closed by all of this node.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(Reply::GivenBack { uses: 0 }),
            served => served?,
        };
        let attachment = &served.attachment;
        let failed = |source| Error::Lock { name: attachment.name().into(), source };
        let (state, presence) = attachment.writable()?;
        let kept = state.kept_locks().map_err(failed)?;
        let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
        let (place, alive) = (PlaceNumber(place), |slot| presence.alive(slot));
        let grant = Grant { home: self.context.roster.node_of(home).0, lock: lock.0 };
        if kept.is_passed_on(place, grant) {
            // Who has the place may be waiting for the one who asks this.
            return Ok(Reply::GivenBack { uses: 0 });
        }
        let token = kept.enter_whole(owner, place, &alive).map_err(failed)?;
        let mut uses = 0;
        // If it is something else, he who asked has died before he had it.
        if kept.grant_in(place) == Some(grant) {
            let cluster = self.cluster();
            if let Some(cluster) = cluster {
                let shared = SharedFile::new(cluster, Arc::clone(attachment));
                bring_home(&shared, &kept.range_in(place), kept.mode_in(place));
            }
            uses = kept.clear(place);
        }
        kept.release(token).map_err(failed)?;
        Ok(Reply::GivenBack { uses })
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
                    if let Some(Loan { kept: Some(kept), .. }) = &loan {
                        served.lent.ranks().learn(kept, uses);
                    }
                    if let Some(loan) = loan {
                        release(&served.attachment, loan.token);
                    }
                }
                Err(_) if context.fabric.membership().check(leader).is_err() => self.bury(served, leader),
                Err(error) => {
                    served.lent.ask_again(due.lock);
                    outcome = Err(error);
                }
            }
        }
        outcome
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
        let at_place = |e| Error::io(format!("locking {}", attachment.name()), &attachment.path(), e);
        let failed = |source| Error::Lock { name: attachment.name().into(), source };
        let (slot, presence) = {
            let presence = served.lent.presence(attachment, rank).map_err(at_place)?;
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

/// Brings home what was written under a kept lock that goes back. What cannot be brought there is given up: the lock goes
/// on in any case, and the next holder's bytes are the newer ones.
fn bring_home(shared: &SharedFile, range: &Range<u64>, mode: Mode) {
    let Err(error) = shared.flush_range(range) else { return };
    tracing::error!("what was written under a lock did not reach its home: {error}");
    if mode == Mode::Exclusive
        && let Err(error) = shared.give_up_range(range, &error, false)
    {
        tracing::error!("what did not reach its home may come there too late: {error}");
    }
}

fn next_number() -> LockNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness counts.
    LockNumber(NEXT.fetch_add(1, Ordering::Relaxed))
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

/// Forgets what a node keeps of a file that nobody has open any more.
pub(super) fn forget_kept(attachment: &Attachment) {
    let Ok((state, presence)) = attachment.writable() else { return };
    let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
    let cleared = state.kept_locks().and_then(|kept| kept.clear_all(owner, &|slot| presence.alive(slot)));
    if let Err(e) = cleared {
        tracing::error!("forgetting what is kept of {}: {e}", attachment.name());
    }
}

#[cfg(test)]
impl Agent {
    /// Whether a rank has a place among the processes that have the file open.
    pub(in crate::cluster) fn has_place(&self, file: FileId, rank: Rank) -> bool {
        self.files
            .get(&self.context, file)
            .is_ok_and(|served| served.lent.ranks().present.contains_key(&rank))
    }
}

#[cfg(test)]
mod tests;
