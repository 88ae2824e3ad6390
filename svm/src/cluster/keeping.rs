//! Locks at other nodes: asked for, kept by this node, and given back.
//!
//! A lock that a node asks for again and again, and no other in between, the home grants for keeping (`agent::lending`
//! decides). It then stands in the node's shared state (`kept_locks`), and whatever process of the node next wants a
//! range that it covers sends no message: it agrees with the other users of the kept lock, and that is all. When
//! somebody else wants the range, the home asks the keeper's agent to give it back.
//!
//! **What is read under a kept lock is current.** When it was granted, cached pages of its range were brought up to
//! date, and nobody of another node could write there since. The segment table has no news where each segment of the
//! range has a home, for entries never change; the size has none that matters where the range ends before it does.
//! Otherwise both are asked for as for any lock.
//!
//! **What is written under it is found.** Users of this node find it in the node's cache. A size that has grown into
//! the range is told to the master at each release. The bytes are brought home when the lock is given back, before the
//! home hears of that. With the node, bytes go that were neither given back nor flushed.
//!
//! **A node without its leader keeps nothing** (module `taken_away`). The homes take back what it kept when they hear
//! of the leader's loss; its other processes forget it when they do, give up the bytes that were written under it and
//! are still here, of which the next flush of each handle tells, and from then on ask the homes for each lock. Who uses
//! a kept lock meanwhile may read what is old; that is an error of the release, and what was written under the lock is
//! given up, before others of the node have any of it: who has been granted it waits for him. Of this much nobody
//! hears: what a process has read, or brought home, before it heard of the loss and after the home did; and what such a
//! user writes after the node has forgotten the lock, if another process brings it home before he releases the lock, or
//! he dies before that.
//!
//! **Nobody waits for ever.** A range is locked at its homes in ascending order, and for each home either by a lock
//! there or by the use of a kept one of that home; a process asks a home only while it uses no kept lock of *that* home
//! for the same request. So a user of a kept lock of home *h* waits, if at all, for locks of higher homes. The agent
//! that gives a lock of *h* back waits for such users, for those who are bringing bytes home, and for answers that
//! agents give without waiting; never for a lock at a home. A process that has asked *h* and reserved a place holds
//! only this empty place, for which nobody waits before *h* has granted; until it has all its locks and its cache is
//! current the place stays its own, and then it is a user like others. Who has been granted a lock of *h* and waits for
//! those who use what *h* has taken away waits as if he were one more user. Where a process dies before it is one, the
//! next one who reserves the place finds nothing of it in his way: the agent says at once that a grant for a place that
//! has passed on is given back, and a home frees what it granted for a place that is reserved anew. So who waits at *h*
//! waits for somebody who goes on, or who waits at a higher home, and at the highest one everybody goes on.
//! (One circle is left, within the time of a message: the agent may have begun to wait for a place, to give back what
//! was granted for it to somebody who has died, when the next one reserves it, who wants another lock of the same home
//! that the same request has asked back, but has not got yet.)
//!
//! Nobody waits for room among the users of kept locks, either, whose table is one for all homes: whoever finds none
//! gives up all that he has of the request, and asks the homes for all of it. So a user of a kept lock who needs
//! another one makes room at the latest then, and an agent, which holds nothing, may wait for it.
//!
//! **Nobody is overtaken for ever.** Requests queue at the home in the order of arrival, and users of a kept lock in
//! the keeper's table, where the agent that gives it back has its place like any of them. While a request waits, the
//! home grants nothing for keeping that is in its way.

mod taken_away;

use std::ops::Range;
use std::sync::Arc;

use crate::attachment::Home;
use crate::error::{Error, Result};
use crate::kept_locks::{Grant, KeptLocks, PlaceNumber};
use crate::locks::{LockError, LockToken, Mode, Owner, ThreadId};
use crate::presence::Presence;
use crate::state::State;
use crate::units::SegmentIndex;

use super::wire::{LockNumber, Reply, Request};
use super::{NodeIndex, SharedFile};

/// A lock on a range as far as another node is the home of its segments.
pub(crate) struct HomeLock {
    shared: Arc<SharedFile>,
    node: NodeIndex,
    held: Held,
}

enum Held {
    /// The home gets it back.
    AtHome(LockNumber),
    /// The home has granted it just now for keeping. Others of the node leave the place alone.
    Granted { lock: LockNumber, place: PlaceNumber, token: LockToken },
    /// A part of a lock that this node keeps. What the home has granted for this request is new.
    Kept { place: PlaceNumber, token: LockToken, is_new: bool },
}

/// By what a request gets its locks of other homes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// What this node keeps, and the homes where that does not do; they may grant it for keeping.
    KeptOrHomes,
    /// The homes.
    Homes,
}

/// What the locks that a node keeps do for a request.
enum Entered {
    /// It uses a part of one.
    Kept(PlaceNumber, LockToken),
    /// None covers it.
    Uncovered,
    /// There is no room for one more user.
    NoRoom,
}

impl HomeLock {
    /// Locks `range` as far as `node`, which is not this one, is the home of its segments. `None` where there is no
    /// room for one more user of what this node keeps: the caller then gives up all that it holds for the request,
    /// calls [`SharedFile::may_do_without_kept`], and begins anew with [`Source::Homes`].
    pub(crate) fn acquire(
        shared: &Arc<SharedFile>,
        node: NodeIndex,
        range: &Range<u64>,
        mode: Mode,
        source: Source,
    ) -> Result<Option<HomeLock>> {
        let user = User::new(shared)?;
        let entered = match source {
            Source::KeptOrHomes => user.enter_kept(node, range, mode)?,
            Source::Homes => {
                shared.forget_taken_away()?;
                Entered::Uncovered
            }
        };
        let held = match entered {
            Entered::Kept(place, token) => Some(Held::Kept { place, token, is_new: false }),
            Entered::Uncovered => user.ask(node, range, mode, source)?,
            Entered::NoRoom => None,
        };
        Ok(held.map(|held| HomeLock { shared: Arc::clone(shared), node, held }))
    }

    /// The node at which it is locked.
    pub(crate) fn home(&self) -> NodeIndex {
        self.node
    }

    /// Whether the node keeps it when this is given back.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.held, Held::Kept { .. })
    }

    /// Whether this node had it already.
    pub(crate) fn is_old(&self) -> bool {
        matches!(self.held, Held::Kept { is_new: false, .. })
    }

    /// Lets the node keep what was granted for that, now that what it has of the range in its cache is current.
    pub(crate) fn settle(self, range: &Range<u64>, mode: Mode) -> Result<HomeLock> {
        let HomeLock { shared, node, held } = self;
        let held = match held {
            Held::Granted { lock, place, token } => {
                let kept =
                    User::new(&shared).and_then(|user| user.keep(node, (place, &token), lock, range, mode));
                if let Err(error) = kept {
                    let held = Held::Granted { lock, place, token };
                    if let Err(error) = (HomeLock { shared, node, held }).release() {
                        tracing::debug!("giving back what cannot be kept: {error}");
                    }
                    return Err(error);
                }
                Held::Kept { place, token, is_new: true }
            }
            other => other,
        };
        Ok(HomeLock { shared, node, held })
    }

    /// That it was not taken away while this node kept it.
    pub(crate) fn check(&self) -> Result<()> {
        let Held::Kept { place, .. } = self.held else { return Ok(()) };
        self.shared.lost_leader().map_or(Ok(()), Err)?;
        let user = User::new(&self.shared)?;
        // Another process of the node may have heard of the loss, and forgotten it.
        user.kept.grant_in(place).map(|_| ()).ok_or_else(|| user.failed(LockError::TakenAway))
    }

    /// Gives it back.
    pub(crate) fn release(self) -> Result<()> {
        match self.held {
            Held::AtHome(lock) => self.shared.unlock_at(self.node, lock),
            Held::Granted { lock, token, .. } => {
                let unlocked = self.shared.unlock_at(self.node, lock);
                let user = User::new(&self.shared)?;
                user.kept.release(token).map_err(|e| user.failed(e))?;
                unlocked
            }
            Held::Kept { token, .. } => {
                let user = User::new(&self.shared)?;
                user.kept.release(token).map_err(|e| user.failed(e))
            }
        }
    }
}

#[cfg(test)]
impl HomeLock {
    /// Ends it as the process's death before [`HomeLock::settle`] does: the place is anybody's, and the home hears
    /// nothing.
    pub(crate) fn pretend_death(self) {
        let Held::Granted { token, .. } = self.held else { panic!("it was not granted for keeping") };
        User::new(&self.shared).unwrap().kept.release(token).unwrap();
    }
}

/// A thread that wants a lock.
struct User<'f> {
    shared: &'f SharedFile,
    kept: KeptLocks<'f>,
    presence: &'f Presence,
    owner: Owner,
}

impl<'f> User<'f> {
    fn new(shared: &'f SharedFile) -> Result<User<'f>> {
        let attachment = shared.attachment();
        let (state, presence) = attachment.writable()?;
        let failed = |source| Error::Lock { name: attachment.name().into(), source };
        let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
        Ok(User { shared, kept: state.kept_locks().map_err(failed)?, presence, owner })
    }

    /// Uses a lock that this node keeps, if there is one that covers the range.
    fn enter_kept(&self, node: NodeIndex, range: &Range<u64>, mode: Mode) -> Result<Entered> {
        let failed = |e| self.failed(e);
        self.shared.forget_taken_away()?;
        while let Some(place) = self.kept.find(node.0, range, mode) {
            self.shared.cluster().check_home(node)?;
            let alive = |slot| self.presence.alive(slot);
            let token = self.kept.enter(self.owner, place, range, mode, &alive).map_err(failed)?;
            let Some(token) = token else { return Ok(Entered::NoRoom) };
            if self.kept.covers(place, node.0, range, mode) {
                self.kept.count_use(place);
                return Ok(Entered::Kept(place, token));
            }
            // It was given back meanwhile.
            self.kept.release(token).map_err(failed)?;
        }
        Ok(Entered::Uncovered)
    }

    /// Asks the home. `None` where there is no room to wait for those who use what it has taken away.
    fn ask(&self, node: NodeIndex, range: &Range<u64>, mode: Mode, source: Source) -> Result<Option<Held>> {
        let failed = |e| self.failed(e);
        if let Some(held) = self.kept.in_own_way(self.owner, node.0, range, mode).map_err(failed)? {
            return Err(self.failed(LockError::WouldDeadlock { requested: range.clone(), held }));
        }
        let alive = |slot| self.presence.alive(slot);
        let keeps_none = source == Source::Homes || range.is_empty();
        let reserved = if keeps_none || self.shared.lost_leader().is_some() {
            None
        } else {
            self.kept.reserve(self.owner, node.0, &alive).map_err(failed)?
        };
        let request = Request::Lock {
            file: self.shared.file(),
            range: range.clone(),
            thread: self.owner.thread.0,
            exclusive: mode == Mode::Exclusive,
            place: reserved.as_ref().map(|(place, _)| place.0),
        };
        let granted = match self.shared.cluster().ask(node, &request) {
            Ok(Reply::Locked { lock, is_kept, has_late }) => {
                // Before any of it is looked at.
                let ready = self.make_ready(node, range, mode, has_late);
                if !matches!(ready, Ok(true))
                    && let Err(error) = self.shared.unlock_at(node, lock)
                {
                    tracing::debug!("giving back what cannot be used: {error}");
                }
                ready.map(|is_ready| is_ready.then_some((lock, is_kept)))
            }
            Ok(_) => Err(self.shared.cluster().context().out_of_place(node)),
            Err(error) => Err(error),
        };
        match (granted, reserved) {
            (Ok(Some((lock, true))), Some((place, token))) => Ok(Some(Held::Granted { lock, place, token })),
            (granted, reserved) => {
                reserved.map_or(Ok(()), |(_, token)| self.kept.release(token)).map_err(failed)?;
                granted.map(|granted| granted.map(|(lock, _)| Held::AtHome(lock)))
            }
        }
    }

    /// Nobody of this node has anything to do any more with what others left in a range that this thread has just been
    /// granted. False where there is no room to wait for that.
    fn make_ready(&self, node: NodeIndex, range: &Range<u64>, mode: Mode, has_late: bool) -> Result<bool> {
        let is_ready = self.outlast_users_of_taken_away(node, range, mode)?;
        if is_ready && has_late {
            self.shared.give_up_late(node)?;
        }
        Ok(is_ready)
    }

    fn keep(
        &self,
        node: NodeIndex,
        place: (PlaceNumber, &LockToken),
        lock: LockNumber,
        range: &Range<u64>,
        mode: Mode,
    ) -> Result<()> {
        // The agent has the file open from now on: what is kept, and what is written under it, outlives all handles.
        let file = self.shared.file();
        self.shared
            .cluster()
            .ask(self.shared.own_node(), &Request::Versions { file, segments: Vec::new() })?;
        let grant = Grant { home: node.0, lock: lock.0 };
        self.kept.keep(place, grant, range, mode).map_err(|e| self.failed(e))
    }

    fn failed(&self, source: LockError) -> Error {
        Error::Lock { name: self.shared.attachment().name().into(), source }
    }
}

impl SharedFile {
    /// That this thread uses nothing that this node keeps. Else somebody may wait for that who has the room that there
    /// is for users, and the homes would wait for him.
    ///
    /// # Errors
    /// [`Error::Lock`]: it does.
    pub(crate) fn may_do_without_kept(&self, range: &Range<u64>) -> Result<()> {
        let user = User::new(self)?;
        let no_room = |held| LockError::NoRoom { requested: range.clone(), held };
        match user.kept.used_by(user.owner).map_err(|e| user.failed(e))?.map(no_room) {
            Some(error) => Err(user.failed(error)),
            None => Ok(()),
        }
    }

    fn unlock_at(&self, node: NodeIndex, lock: LockNumber) -> Result<()> {
        let request = Request::Unlock { file: self.file(), lock };
        self.cluster().ask(node, &request).map(|_| ())
    }

    /// Has other nodes give back what they keep of this node's segments and what is in the way of `range`; while the
    /// number that is returned is not taken back with [`SharedFile::end_wait`], they get nothing new to keep there.
    pub(crate) fn begin_wait(&self, range: &Range<u64>, mode: Mode) -> Result<LockNumber> {
        let (file, range, exclusive) = (self.file(), range.clone(), mode == Mode::Exclusive);
        match self.cluster().ask(self.own_node(), &Request::AskBack { file, range, exclusive })? {
            Reply::Locked { lock, .. } => Ok(lock),
            _ => Err(self.cluster().context().out_of_place(self.own_node())),
        }
    }

    /// The wait is over.
    pub(crate) fn end_wait(&self, number: LockNumber) -> Result<()> {
        let request = Request::Unlock { file: self.file(), lock: number };
        self.cluster().ask(self.own_node(), &request).map(|_| ())
    }

    /// Whether this node knows of `range`, which it has locked since it last asked, all that there is to know: the
    /// homes of its segments, where else it is locked, and that the file does not end in it.
    pub(crate) fn knows_all_of(&self, range: &Range<u64>) -> bool {
        range.end <= self.attachment().size()
            && !self.may_have_holes(range)
            && self.attachment().state().is_some_and(State::are_homes_asked)
    }

    /// Whether segments in `range` may have no home that this node knows.
    pub(crate) fn may_have_holes(&self, range: &Range<u64>) -> bool {
        let (first, last) = self.segments_of(range);
        let is_hole = |index| self.attachment().home(SegmentIndex(index as u32)) == Home::Hole;
        self.has_many_segments(range) || (first..=last).any(is_hole)
    }

    /// The first and the last segment that `range` has a part of.
    pub(super) fn segments_of(&self, range: &Range<u64>) -> (u64, u64) {
        let segment = self.attachment().segment_size().bytes();
        let first = range.start / segment;
        (first, (range.end.saturating_sub(1) / segment).max(first))
    }

    /// What was written in `range` is where others look for it.
    pub(crate) fn flush_range(&self, range: &Range<u64>) -> Result<()> {
        self.attachment().tell_changes();
        let home = self.bring_range_home(range);
        // Also where some of it could not be brought home.
        home.and(self.tell_of(range))
    }

    /// What of `range` was in the cache only is at home.
    pub(crate) fn bring_range_home(&self, range: &Range<u64>) -> Result<()> {
        if self.is_cached() { self.flush_cached_in(range) } else { Ok(()) }
    }

    /// Others hear of what is at home of `range`. Only nodes are asked that have to do with it: the loss of another one
    /// is of no interest to whoever has locked this.
    pub(crate) fn tell_of(&self, range: &Range<u64>) -> Result<()> {
        self.attachment().tell_changes();
        let told = self.tell_homes_in(range);
        told.and(self.report_size_up_to(range.end))
    }
}
