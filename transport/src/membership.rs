//! Who takes part in the job, and who of them is lost.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use crate::callback;
use crate::error::{Error, Result};
use crate::units::Rank;

/// How long an answer of a peer is waited for where nothing else is said: far longer than one takes that has no turn on
/// its processor.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The processes of a job as one of them knows them. Shared by all who wait for peers.
pub struct Membership {
    rank: Rank,
    nodes: Arc<[String]>,
    /// Few, if any: a table with an entry per rank would be large in a simulation of thousands.
    losses: RwLock<BTreeMap<Rank, String>>,
    ending: OnceLock<String>,
    /// Whether anything of the two above is set: the one word that the fast path reads.
    is_disturbed: AtomicBool,
    wakers: Arc<Wakers>,
    answer_limit: Duration,
}

/// Who is told of disturbances.
#[derive(Default)]
struct Wakers {
    all: Mutex<Vec<Arc<Waker>>>,
}

type Waker = dyn Fn() + Send + Sync;

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Waker>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a closure called whenever something is declared in a [`Membership`], until this is dropped. A call that is under
/// way on another thread then may still end later.
#[must_use = "dropped, it tells nobody of anything"]
pub struct Subscription {
    wakers: Weak<Wakers>,
    waker: Arc<Waker>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(wakers) = self.wakers.upgrade() {
            wakers.lock().retain(|waker| !Arc::ptr_eq(waker, &self.waker));
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Membership {
    /// A job with a process on each of `nodes`, of which this is `rank`.
    ///
    /// # Panics
    /// Where `rank` is not one of them.
    #[must_use]
    pub fn new(rank: Rank, nodes: Vec<String>) -> Self {
        Self::with_shared_nodes(rank, nodes.into())
    }

    /// The same for many processes that are simulated side by side.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with_shared_nodes(rank: Rank, nodes: Arc<[String]>) -> Self {
        assert!(rank.index() < nodes.len(), "rank {rank} in a job of {}", nodes.len());
        Self {
            rank,
            nodes,
            losses: RwLock::default(),
            ending: OnceLock::new(),
            is_disturbed: AtomicBool::new(false),
            wakers: Arc::default(),
            answer_limit: ANSWER_LIMIT,
        }
    }

    /// The same, with an [`answer_limit`](Self::answer_limit) of its own.
    #[must_use]
    pub fn with_answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = limit;
        self
    }

    /// How long the answer of a peer is waited for that is not known to be lost: 30 s, or as long as a process of the
    /// job may stand still.
    #[must_use]
    pub fn answer_limit(&self) -> Duration {
        self.answer_limit
    }

    /// This process.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// All ranks of the job.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.size()).map(Rank)
    }

    /// On which node a process runs.
    #[must_use]
    pub fn node(&self, rank: Rank) -> &str {
        self.nodes.get(rank.index()).map_or("?", String::as_str)
    }

    /// Whether `peer` can be dealt with: it exists, is not known to be lost, and the job goes on. Cheap.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::PeerLost`] or [`Error::Ending`].
    #[inline]
    pub fn check(&self, peer: Rank) -> Result<()> {
        // Relaxed: the tables have locks of their own, and whoever was woken by a declaration sees the flag, which was
        // set before.
        if self.is_disturbed.load(Ordering::Relaxed) || peer.index() >= self.nodes.len() {
            return self.check_closely(peer);
        }
        Ok(())
    }

    /// Whether the job goes on; losses of single processes do not matter here.
    ///
    /// # Errors
    /// [`Error::Ending`].
    pub fn check_job(&self) -> Result<()> {
        self.ending.get().map_or(Ok(()), |reason| Err(Error::Ending { reason: reason.clone() }))
    }

    #[cold]
    fn check_closely(&self, peer: Rank) -> Result<()> {
        if peer.index() >= self.nodes.len() {
            return Err(Error::NoSuchRank { rank: peer, size: self.size() });
        }
        if let Some(reason) = self.losses.read().unwrap_or_else(PoisonError::into_inner).get(&peer) {
            return Err(Error::PeerLost { rank: peer, node: self.node(peer).into(), reason: reason.clone() });
        }
        self.check_job()
    }

    /// Which processes are lost, in the order of their ranks.
    #[must_use]
    pub fn lost(&self) -> Vec<Rank> {
        self.losses.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Whether there were others in the job, and all of them are lost. Cheap.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        // Relaxed: as in `check`.
        self.is_disturbed.load(Ordering::Relaxed) && {
            let lost = self.losses.read().unwrap_or_else(PoisonError::into_inner).len();
            lost > 0 && lost + 1 >= self.nodes.len()
        }
    }

    /// Makes it known in this process that `peer` is lost, and wakes all who wait. The first reason stays.
    /// A rank that does not exist is ignored.
    pub fn declare_lost(&self, peer: Rank, reason: impl Into<String>) {
        if peer.index() >= self.nodes.len() {
            return;
        }
        let mut losses = self.losses.write().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(vacant) = losses.entry(peer) {
            self.disturb();
            vacant.insert(reason.into());
            drop(losses);
            self.wake();
        }
    }

    /// Makes it known in this process that the job ends, and wakes all who wait. The first reason stays.
    pub fn declare_ending(&self, reason: impl Into<String>) {
        self.disturb();
        if self.ending.set(reason.into()).is_ok() {
            self.wake();
        }
    }

    /// Has `waker` called, from any thread, whenever something is declared, as long as the answer is kept. A back end
    /// wakes its waiters there. Where it panics, the log says so, and the others are called all the same.
    pub fn on_disturbance(&self, waker: impl Fn() + Send + Sync + 'static) -> Subscription {
        let waker: Arc<Waker> = Arc::new(waker);
        self.wakers.lock().push(Arc::clone(&waker));
        Subscription { wakers: Arc::downgrade(&self.wakers), waker }
    }

    /// Has `check` look closely; before there is something to be found, so that what `lost` shows, `check` tells.
    fn disturb(&self) {
        self.is_disturbed.store(true, Ordering::Relaxed);
    }

    fn wake(&self) {
        // Called without the lock: what a waker drops may be the last of somebody who subscribed.
        let wakers = self.wakers.lock().clone();
        for waker in wakers {
            if callback::panics(|| waker()) {
                tracing::error!("what was to be called when a process is lost, or the job ends, panicked");
            }
        }
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Membership")
            .field("rank", &self.rank)
            .field("size", &self.size())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::{Membership, Subscription};
    use crate::{Error, Rank};

    fn three() -> Membership {
        Membership::new(Rank(1), vec!["a".into(), "b".into(), "c".into()])
    }

    #[test]
    fn a_loss_is_told_by_name_and_only_for_the_lost() {
        let membership = three();
        assert!(membership.check(Rank(2)).is_ok());
        membership.declare_lost(Rank(2), "its control connection closed");
        membership.declare_lost(Rank(2), "a later reason");
        let error = membership.check(Rank(2)).unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(2)));
        assert_eq!(error.to_string(), "rank 2 on node c is lost: its control connection closed");
        assert!(membership.check(Rank(0)).is_ok());
        assert_eq!(membership.lost(), [Rank(2)]);
        assert!(!membership.is_alone());
        membership.declare_lost(Rank(0), "likewise");
        assert!(membership.is_alone());
        let only_one = Membership::new(Rank(0), vec!["a".into()]);
        assert!(!only_one.is_alone(), "it has lost nobody");
    }

    #[test]
    fn an_ending_job_is_told_for_every_peer() {
        let membership = three();
        membership.declare_ending("rank 0 got SIGTERM");
        assert!(matches!(membership.check(Rank(0)), Err(Error::Ending { .. })));
        assert!(membership.check_job().is_err());
    }

    #[test]
    fn ranks_that_do_not_exist_are_refused_and_never_lost() {
        let membership = three();
        membership.declare_lost(Rank(3), "nobody");
        assert!(matches!(membership.check(Rank(3)), Err(Error::NoSuchRank { rank: Rank(3), size: 3 })));
        assert!(membership.lost().is_empty());
        assert_eq!(membership.node(Rank(3)), "?");
    }

    #[test]
    fn each_first_declaration_wakes_all_wakers_once() {
        let membership = three();
        let calls = Arc::new(AtomicU32::new(0));
        let subscribed = [(); 2].map(|()| subscribe(&membership, &calls));
        membership.declare_lost(Rank(0), "once");
        membership.declare_lost(Rank(0), "twice");
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        drop(subscribed);
    }

    fn subscribe(membership: &Membership, calls: &Arc<AtomicU32>) -> Subscription {
        let calls = Arc::clone(calls);
        membership.on_disturbance(move || {
            calls.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[test]
    fn who_has_unsubscribed_is_forgotten() {
        let membership = three();
        let calls = Arc::new(AtomicU32::new(0));
        let (kept, dropped) = (subscribe(&membership, &calls), subscribe(&membership, &calls));
        drop(dropped);
        // The one that is kept holds it, and this test.
        assert_eq!(Arc::strong_count(&calls), 2);
        membership.declare_ending("for once");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        drop(membership);
        drop(kept);
        assert_eq!(Arc::strong_count(&calls), 1);
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_else_asleep() {
        let membership = three();
        let panicking = membership.on_disturbance(|| panic!("the test says so"));
        let calls = Arc::new(AtomicU32::new(0));
        let other = subscribe(&membership, &calls);
        membership.declare_lost(Rank(0), "for the test");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(membership.lost(), [Rank(0)]);
        drop((panicking, other));
    }

    #[test]
    fn a_waker_may_drop_the_last_of_a_subscriber() {
        let membership = three();
        let subscriber = Arc::new(Mutex::new(None));
        let own = Arc::clone(&subscriber);
        let subscription = membership.on_disturbance(move || drop(own.lock().unwrap().take()));
        *subscriber.lock().unwrap() = Some(subscription);
        membership.declare_lost(Rank(0), "it goes");
        assert!(subscriber.lock().unwrap().is_none());
    }
}
