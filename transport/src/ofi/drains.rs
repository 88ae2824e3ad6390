//! What may still be coming into memory that is not for peers any more.
//!
//! A receive fails, and its memory is to be the program's again; a segment is dropped. The peer that was to write there
//! need not be dead: it was taken for dead because it stood still, or the job ends, or its messenger only. Providers of
//! sockets look a key up once, when a write begins to arrive, and put the rest of it where it belongs, whatever became
//! of the registration; and over a key that they do not find they close the connection, with all that is under way by
//! it, of others, too. So memory is given back in this order:
//!
//! 1. Each peer that knows the memory is asked to *stop*. Its adapter begins nothing more there
//!    ([`withdrawn`](super::withdrawn)), and says so by a message behind all that it had begun. Who is lost is not
//!    asked, nor anybody once the job ends, nor where the provider takes no question for [`UNCONNECTED`], or chooses
//!    keys itself, which may come again.
//! 2. The registration ends. What begins to arrive from now on is refused, unless the provider keeps registrations that
//!    have ended for later, as `verbs` does: there, only what has begun by now is waited for.
//! 3. A *probe* goes to the peer: a write of eight zero bytes into its *anchor* ([`probes`](super::probes)), memory
//!    that every process keeps for this, until it is acknowledged. There is one connection with a peer at a time, for
//!    both directions, and what the peer's end of it sends comes one after the other. So the acknowledgement comes
//!    behind the rest of what had begun to arrive; and where the probe is canceled, the connection is closed, and
//!    nothing comes by it. Where it could not be sent, what came before may still be read: another one is sent. Where
//!    the provider takes no probe for [`UNCONNECTED`], it is taken to have no connection, by which nothing could come;
//!    the providers of sockets that were tried take one whenever they have a connection, however much waits there.
//!    What this end had begun to send of a segment that the peer reads is on its way before the probe, too.
//! 4. The probe has ended: the receive fails, the segment is unmapped.
//!
//! This needs no answer of the peer's program, only of its adapter and of its provider; it does not matter whom the
//! peer takes for lost: its adapter answers all the same. It costs nothing where all goes well, and a question and one
//! probe for each who knows a segment that is dropped. There is one probe to a peer at a time: what is given back
//! meanwhile waits for the next one, all of it together.
//!
//! **Who does not answer** is dead, with its machine, or stands still, and may go on later. A segment is kept until it
//! does, or the fabric is closed. A receive cannot wait for ever. The watchdog declares the peer lost, or it is lost
//! after the time that any answer may take. A lost one has `ofi.silence` to acknowledge the probe: then the memory is
//! given back, and the log tells of it. Should such a peer go on, the rest of its write may still come there until it
//! finds itself lost.
//!
//! **Where this falls short.** What is said of the acknowledgement holds of sockets. An adapter sends what its own
//! process has posted by a queue of its own, and acknowledges a probe whatever waits there. So where the provider
//! chooses keys, and nobody is asked to stop (`verbs`, `efa`), a write that the peer had posted, and its adapter not yet
//! begun, may still come after the probe has ended, as long as the provider keeps the registration for later.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Token};
use super::domain::Registration;
use super::endpoint::Endpoint;
use super::probes::Probe;
use crate::back_end::Drain;
use crate::memory::SharedMemory;
use crate::stopwatch::STEP;
use crate::units::Rank;

/// How long is tried to make a connection. With a peer that lives it takes some ms, on a busy machine more; nobody but
/// who deals with a dead peer waits for it.
const UNCONNECTED: Duration = Duration::from_secs(1);

/// How often a peer is asked to stop: the question, or the answer, may go down with a connection.
const AGAIN: Duration = Duration::from_secs(1);

/// All memory into which something may still be coming.
///
/// The numbers beside the list only say whether it is worth a look, so they are stored and loaded relaxed: they change
/// where the list is held, and the attendant, which looks, is woken after something was added.
#[derive(Default)]
pub(super) struct Drains {
    open: Mutex<All>,
    /// How many there are.
    count: AtomicUsize,
    /// Whether it is to be looked often at some.
    are_urgent: AtomicBool,
}

#[derive(Default)]
struct All {
    open: Vec<Open>,
    /// The endpoint is about to be closed: no registration is kept any more.
    are_withdrawn: bool,
    /// It is closed: nothing comes any more.
    are_over: bool,
}

/// What one peer had begun to write into one place.
struct Open {
    drain: Arc<Drain>,
    peer: Rank,
    stage: Stage,
    /// For how long the provider has taken no question, or no probe.
    refused: Duration,
    /// For how long the answer has been waited for: of the question, then of the probe.
    waited: Duration,
    looked: Instant,
    /// Between the last two looks.
    passed: Duration,
    /// Memory of ours into which it may come; nobody waits for that.
    segment: Option<SharedMemory>,
}

/// How far giving memory back has come.
enum Stage {
    /// The peer is asked to stop.
    Stopping { kept: Arc<Registration>, asked: Option<Instant>, has_stopped: bool },
    /// Others who know the memory have not stopped yet, or something of this process is still written from there: as
    /// long as there is the registration.
    Ending(Weak<Registration>),
    /// The registration has ended.
    Probing(Option<Arc<Probe>>),
}

impl Open {
    fn new(drain: Arc<Drain>, peer: Rank, stage: Stage, segment: Option<SharedMemory>) -> Self {
        let [refused, waited, passed] = [Duration::ZERO; 3];
        Self { drain, peer, stage, refused, waited, looked: Instant::now(), passed, segment }
    }

    fn is_unprobed(&self) -> bool {
        matches!(self.stage, Stage::Probing(None))
    }

    fn is_probed(&self) -> bool {
        matches!(self.stage, Stage::Probing(Some(_)))
    }

    /// A probe was not taken, or could not be sent.
    fn refuse(&mut self) {
        self.refused += self.passed;
        if self.refused >= UNCONNECTED {
            tracing::debug!(peer = %self.peer, "memory is given back: there is no connection with its peer");
            self.drain.end();
        }
    }

    /// Lets go of the registration, which has no use any more for this peer.
    fn release(&mut self) -> Option<Arc<Registration>> {
        let Stage::Stopping { kept, .. } = &self.stage else { return None };
        let ending = Stage::Ending(Arc::downgrade(kept));
        let Stage::Stopping { kept, .. } = std::mem::replace(&mut self.stage, ending) else { return None };
        // Only from now on nothing begins to arrive.
        (self.refused, self.waited) = (Duration::ZERO, Duration::ZERO);
        Some(kept)
    }
}

impl Drains {
    /// Whether it is to be looked often at some: somebody waits, or a probe is to go out.
    pub(super) fn are_urgent(&self) -> bool {
        self.are_urgent.load(Ordering::Relaxed)
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // A panic elsewhere leaves the list whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adapter {
    /// Ends a registration, of which `peer` knows; tells when nothing more comes of what it had begun to write there.
    pub(super) fn drain(&self, registration: Arc<Registration>, peer: Rank) -> Arc<Drain> {
        let drain = Arc::new(Drain::default());
        self.begin_drains(registration, [(Arc::clone(&drain), peer, None)]);
        drain
    }

    /// The same where the registration is ended by somebody else.
    pub(super) fn drain_ended(&self, peer: Rank) -> Arc<Drain> {
        let drain = Arc::new(Drain::default());
        let open = Open::new(Arc::clone(&drain), peer, Stage::Ending(Weak::new()), None);
        self.keep_open(vec![open]);
        drain
    }

    /// The same for a segment that these `peers` know; it is kept until then.
    pub(super) fn drain_segment(
        &self,
        registration: Arc<Registration>,
        peers: Vec<Rank>,
        segment: &SharedMemory,
    ) {
        let drains = peers.into_iter().map(|peer| (Arc::default(), peer, Some(segment.clone())));
        self.begin_drains(registration, drains);
    }

    fn begin_drains(
        &self,
        kept: Arc<Registration>,
        drains: impl IntoIterator<Item = (Arc<Drain>, Rank, Option<SharedMemory>)>,
    ) {
        let mut begun = Vec::new();
        for (drain, peer, segment) in drains {
            if peer == self.rank() {
                drain.end();
                continue;
            }
            let stage = match self.asks_to_stop {
                true => Stage::Stopping { kept: Arc::clone(&kept), asked: None, has_stopped: false },
                false => Stage::Ending(Arc::downgrade(&kept)),
            };
            begun.push(Open::new(drain, peer, stage, segment));
        }
        // From here on it ends with the last stage, or write of this process, that keeps it.
        drop(kept);
        if !begun.is_empty() {
            self.keep_open(begun);
        }
    }

    fn keep_open(&self, mut begun: Vec<Open>) {
        let mut all = self.drains.all();
        if all.are_over {
            begun.iter().for_each(|open| open.drain.end());
            drop(all);
            return;
        }
        let released: Vec<_> = match all.are_withdrawn {
            true => begun.iter_mut().filter_map(Open::release).collect(),
            false => Vec::new(),
        };
        all.open.append(&mut begun);
        self.drains.count.store(all.open.len(), Ordering::Relaxed);
        self.drains.are_urgent.store(true, Ordering::Relaxed);
        drop(all);
        drop(released);
        // At once, so that whoever is told by the next message that the memory is gone knows it already; in the list by
        // now, where the answer finds it. Closed meanwhile, it all ends.
        let _ = self.with_endpoint(|endpoint| {
            let now = Instant::now();
            self.drains.all().open.iter_mut().for_each(|open| self.ask_to_stop(endpoint, open, now));
            Ok(())
        });
        // Which posts the probe: whoever drops a segment waits for nothing.
        self.wake_attendant();
    }

    /// A peer says that it has stopped to use this key.
    pub(super) fn note_stopped(&self, peer: Rank, key: u64) {
        let mut all = self.drains.all();
        for open in all.open.iter_mut().filter(|open| open.peer == peer) {
            if let Stage::Stopping { kept, has_stopped, .. } = &mut open.stage
                && kept.key() == key
            {
                *has_stopped = true;
                self.drains.are_urgent.store(true, Ordering::Relaxed);
            }
        }
        drop(all);
        self.wake_attendant();
    }

    /// A probe could not be sent: another one is to be.
    pub(super) fn probe_again(&self, probe: &Probe) {
        probe.fail();
        // Nobody may wait for it any more: then nothing is urgent.
        let all = self.drains.all();
        self.drains.are_urgent.store(!all.open.is_empty(), Ordering::Relaxed);
        drop(all);
        self.wake_attendant();
    }

    /// Goes on with all of them.
    pub(super) fn advance_drains(&self, now: Instant) {
        if self.drains.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (mut silent, mut ended) = (Vec::new(), Vec::new());
        // Closed meanwhile, they are ended by whoever closes.
        let _ = self.with_endpoint(|endpoint| {
            let stopped = self.look_who_has_stopped(endpoint, now);
            // Without the lock: it waits for whoever makes progress.
            drop(stopped);
            let mut all = self.drains.all();
            self.send_probes(endpoint, &mut all.open);
            all.open.iter().for_each(|open| self.look_after(open, &mut silent));
            ended.extend(all.open.extract_if(.., |open| open.drain.is_over()));
            let probed: HashSet<Rank> =
                all.open.iter().filter(|open| open.is_probed()).map(|open| open.peer).collect();
            let is_urgent = |open: &Open| match &open.stage {
                _ if open.segment.is_none() => true,
                Stage::Stopping { asked, has_stopped, .. } => asked.is_none() || *has_stopped,
                Stage::Ending(_) => false,
                Stage::Probing(_) => !probed.contains(&open.peer),
            };
            self.drains.count.store(all.open.len(), Ordering::Relaxed);
            self.drains.are_urgent.store(all.open.iter().any(is_urgent), Ordering::Relaxed);
            Ok(())
        });
        if !ended.is_empty() {
            self.waiters.look_again();
        }
        // Without the locks: unmapping takes its time, and who is told may drop segments, or the fabric.
        drop(ended);
        for peer in silent {
            let limit = self.settings.answer_limit();
            self.membership.declare_lost(peer, format!("it acknowledged nothing for {limit:?}"));
        }
    }

    /// Ends the registrations that are kept: providers close no endpoint that has any.
    pub(super) fn withdraw_drains(&self) {
        let mut all = self.drains.all();
        all.are_withdrawn = true;
        let released: Vec<_> = all.open.iter_mut().filter_map(Open::release).collect();
        drop(all);
        drop(released);
    }

    /// Ends all of them: the endpoint is closed, and the provider has let go of everything.
    pub(super) fn end_drains(&self) {
        let open = {
            let mut all = self.drains.all();
            all.are_over = true;
            std::mem::take(&mut all.open)
        };
        self.drains.count.store(0, Ordering::Relaxed);
        self.drains.are_urgent.store(false, Ordering::Relaxed);
        open.iter().for_each(|open| open.drain.end());
    }

    /// Asks those who are to stop; the registrations of which they, or the last of them, have no use any more.
    fn look_who_has_stopped(&self, endpoint: &Endpoint<Token>, now: Instant) -> Vec<Arc<Registration>> {
        let mut all = self.drains.all();
        let mut released = Vec::new();
        for open in &mut all.open {
            open.passed = now.saturating_duration_since(open.looked).min(STEP);
            open.waited += open.passed;
            open.looked = now;
            if matches!(open.stage, Stage::Stopping { asked: None, .. }) {
                open.refused += open.passed;
            }
            if let Stage::Stopping { has_stopped, .. } = open.stage {
                let is_useless = self.membership.check(open.peer).is_err() || open.refused >= UNCONNECTED;
                if has_stopped || is_useless {
                    released.extend(open.release());
                } else {
                    self.ask_to_stop(endpoint, open, now);
                }
            }
        }
        released
    }

    /// Asks a peer to stop that lives and was not asked lately, if there is room for the question.
    fn ask_to_stop(&self, endpoint: &Endpoint<Token>, open: &mut Open, now: Instant) {
        let Stage::Stopping { kept, asked, has_stopped: false } = &mut open.stage else { return };
        let Some(peer) = self.peers.get(open.peer.index()) else { return };
        let is_known = asked.is_some_and(|asked| now.saturating_duration_since(asked) < AGAIN);
        if is_known || self.membership.check(open.peer).is_err() {
            return;
        }
        *asked = self.post_stop(endpoint, peer, kept.key()).then_some(now);
        if asked.is_some() {
            open.refused = Duration::ZERO;
        }
    }

    /// Probes those peers to which no probe is under way, each for all that waits for it.
    fn send_probes(&self, endpoint: &Endpoint<Token>, all: &mut [Open]) {
        for open in &mut *all {
            match &open.stage {
                Stage::Ending(kept) if kept.strong_count() == 0 => open.stage = Stage::Probing(None),
                Stage::Probing(Some(probe)) if probe.has_failed() => {
                    open.stage = Stage::Probing(None);
                    open.refuse();
                }
                _ => {}
            }
        }
        let mut busy: HashSet<Rank> = all
            .iter()
            .filter(|open| open.is_probed() && !open.drain.is_over())
            .map(|open| open.peer)
            .collect();
        for index in 0..all.len() {
            let peer = all[index].peer;
            if !all[index].is_unprobed() || !busy.insert(peer) {
                continue;
            }
            let theirs = |open: &&mut Open| open.peer == peer && open.is_unprobed();
            let drains = all.iter().filter(|open| open.peer == peer && open.is_unprobed());
            let probe = Arc::new(Probe::new(drains.map(|open| Arc::clone(&open.drain)).collect()));
            if self.probe(endpoint, peer, &probe) {
                let posted = |open: &mut Open| open.stage = Stage::Probing(Some(Arc::clone(&probe)));
                all.iter_mut().filter(theirs).for_each(posted);
            } else {
                all.iter_mut().filter(theirs).for_each(Open::refuse);
            }
        }
    }

    /// Does not wait longer for one than it may take; adds its peer to those who are `silent` for too long.
    fn look_after(&self, open: &Open, silent: &mut Vec<Rank>) {
        if open.segment.is_some() || open.drain.is_over() {
            return;
        }
        if self.membership.check(open.peer).is_ok() {
            if open.waited >= self.settings.answer_limit() && !silent.contains(&open.peer) {
                silent.push(open.peer);
            }
        } else if open.waited >= self.settings.silence && matches!(open.stage, Stage::Probing(_)) {
            tracing::warn!(
                peer = %open.peer,
                "a message's memory is given back though its sender, which is lost, does not say that it has stopped \
                 writing; if it stood still and goes on, something may still come there"
            );
            open.drain.end();
        }
    }
}
