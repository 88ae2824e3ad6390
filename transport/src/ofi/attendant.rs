//! The thread that attends to the endpoint when nobody else does.
//!
//! It sleeps until the provider has something to tell. While another thread polls, because it waits for something,
//! that one serves the endpoint as well, and quicker; this thread then only looks now and then whether it still does.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::adapter::Adapter;
use super::chains::Chain;
use super::endpoint::Waiting;
use super::peers::Peer;
use super::unheard::Unheard;
use crate::dma::Completion;
use crate::error::{Error, Result};
use crate::service_thread::spawn_service_thread;
use crate::units::{Rank, SegmentId};

/// How long it leaves the endpoint to a thread that polls before it looks again: as long as a peer's question may go
/// unanswered when that thread has just stopped.
const NAP: Duration = Duration::from_micros(100);

/// How long it sleeps at most. It matters where a provider forgot to wake it, and for peers that [tell
/// nothing](Unheard).
const LONGEST_SLEEP: Duration = Duration::from_secs(2);

/// How long in the first call of the provider after something has happened: some lose the signal that comes just before
/// the call begins to wait (`ofi_rxm` of libfabric 1.17), and one that comes then mostly follows what has happened.
const FIRST_CALL: Duration = Duration::from_millis(50);

/// How long while something waits for room in the provider's queues.
const RETRY: Duration = Duration::from_millis(1);

/// The shortest and the longest time between two looks where the provider cannot wake anybody. What is written straight
/// into memory makes no event, so that this seems to be at rest meanwhile, and with some providers gets on by these looks
/// alone.
const BLIND_SLEEPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// How long a provider may keep transfers to a lost peer before they are given up without it.
const GRACE: Duration = Duration::from_secs(1);

/// The thread, and what others tell it.
pub(super) struct Attendant {
    bell: OwnedFd,
    drivers: AtomicU32,
    drives: AtomicU64,
    sleepers: AtomicU32,
    is_napping: AtomicBool,
    /// Whether it sleeps, or is about to, in a call of the provider, where the bell is not heard.
    is_in_call: AtomicBool,
    has_rung: AtomicBool,
    is_stopped: AtomicBool,
    tasks: Mutex<VecDeque<Task>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: OnceLock<ThreadId>,
}

/// What only this thread does, because it calls the program or takes long.
pub(super) enum Task {
    /// Have a segment provided, then answer.
    Provide { asker: Rank, ticket: u64, id: SegmentId },
    /// Have a question answered.
    Respond { asker: Rank, ticket: u64, question: [u64; 2] },
    /// Tell the end of a chain.
    Finish { done: Arc<Completion>, result: Result<()> },
    /// Go on with a chain that copies within this process.
    Advance(Arc<Chain>),
}

impl Attendant {
    /// Without a thread yet.
    ///
    /// # Errors
    /// `System`.
    pub(super) fn new() -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|problem| Error::system("making an eventfd", problem))?;
        Ok(Self {
            bell,
            drivers: AtomicU32::new(0),
            drives: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            is_napping: AtomicBool::new(false),
            is_in_call: AtomicBool::new(false),
            has_rung: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            tasks: Mutex::default(),
            thread: Mutex::default(),
            id: OnceLock::new(),
        })
    }

    /// Starts the thread of `adapter`.
    ///
    /// # Errors
    /// `System`.
    pub(super) fn start(adapter: &Arc<Adapter>) -> Result<()> {
        let copy = Arc::clone(adapter);
        let thread = spawn_service_thread("svmio-ofi", move || run(&copy))?;
        let _ = adapter.attendant.id.set(thread.thread().id());
        *adapter.attendant.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Whether the caller is that thread.
    pub(super) fn is_this_thread(&self) -> bool {
        self.id.get() == Some(&thread::current().id())
    }

    /// Rings the bell; returns whether that is not enough to wake it.
    fn ring(&self) -> bool {
        // SeqCst: either the thread sees that the bell has rung before it sleeps in a call, or this sees that it does.
        self.has_rung.store(true, Ordering::SeqCst);
        // Full of wake-ups, it will wake anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        self.is_in_call.load(Ordering::SeqCst)
    }

    /// The caller polls from now on, until the answer is dropped.
    pub(super) fn drive(&self) -> Driving<'_> {
        self.drivers.fetch_add(1, Ordering::SeqCst);
        self.drives.fetch_add(1, Ordering::Relaxed);
        Driving(self)
    }

    /// The caller sleeps, until the answer is dropped, for something that the endpoint may bring.
    pub(super) fn rely(&self) -> Relying<'_> {
        // SeqCst: either the thread sees that somebody sleeps before it naps, or this sees that it naps.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.is_napping.load(Ordering::SeqCst) {
            self.ring();
        }
        Relying(self)
    }

    /// Whether the endpoint can be left to others: somebody polls, or did just now and nobody sleeps.
    fn is_driven(&self, was_driven: bool) -> bool {
        self.drivers.load(Ordering::SeqCst) > 0 || (was_driven && self.sleepers.load(Ordering::SeqCst) == 0)
    }

    /// All that is left to do.
    pub(super) fn take_tasks(&self) -> VecDeque<Task> {
        std::mem::take(&mut self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sleeps until the bell rings, or `other` has something to tell, or for so long.
    fn sleep(&self, other: Option<std::os::fd::BorrowedFd<'_>>, longest: Duration) {
        let bell = PollFd::new(&self.bell, PollFlags::IN);
        let limit = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let woken = match other {
            Some(other) => {
                let mut all = [bell, PollFd::from_borrowed_fd(other, PollFlags::IN)];
                let answer = poll(&mut all, Some(&limit));
                answer.is_ok() && !all[0].revents().is_empty()
            }
            None => poll(&mut [bell], Some(&limit)).is_ok_and(|count| count > 0),
        };
        if woken {
            let mut count = [0; 8];
            // Empty already: somebody else's wake-up was read along.
            let _ = rustix::io::read(self.bell.as_fd(), &mut count);
        }
    }
}

/// A thread that polls.
pub(super) struct Driving<'a>(&'a Attendant);

impl Driving<'_> {
    /// It sleeps, until the answer is dropped.
    pub(super) fn rest(&self) -> Resting<'_> {
        self.0.drivers.fetch_sub(1, Ordering::SeqCst);
        Resting(self.0.rely())
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        // The attendant is not woken: a thread that waits often would pay for it each time, and the nap is short.
        self.0.drivers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that sleeps, and used to poll.
pub(super) struct Resting<'a>(Relying<'a>);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.0.drivers.fetch_add(1, Ordering::SeqCst);
        self.0.0.drives.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread that sleeps.
pub(super) struct Relying<'a>(&'a Attendant);

impl Drop for Relying<'_> {
    fn drop(&mut self) {
        self.0.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the thread does until it is stopped.
fn run(adapter: &Arc<Adapter>) {
    let attendant = &adapter.attendant;
    let mut latest_news = Instant::now();
    let mut drives = 0;
    let mut call = FIRST_CALL;
    let mut unheard = Unheard::new(Instant::now());
    while !attendant.is_stopped.load(Ordering::SeqCst) {
        if attendant.has_rung.swap(false, Ordering::SeqCst) {
            call = FIRST_CALL;
        }
        for task in attendant.take_tasks() {
            adapter.carry_out(task);
        }
        adapter.give_up_the_lost();
        unheard.look(adapter, Instant::now());
        let drives_now = attendant.drives.load(Ordering::Relaxed);
        let was_driven = std::mem::replace(&mut drives, drives_now) != drives_now;
        if was_driven {
            call = FIRST_CALL;
            latest_news = Instant::now();
        }
        if attendant.is_driven(was_driven) {
            attendant.is_napping.store(true, Ordering::SeqCst);
            if attendant.is_driven(was_driven) {
                attendant.sleep(None, NAP);
            }
            attendant.is_napping.store(false, Ordering::SeqCst);
            continue;
        }
        match adapter.process() {
            Ok(Some(0)) => {}
            Ok(Some(_)) => {
                latest_news = Instant::now();
                call = FIRST_CALL;
                continue;
            }
            // Another thread reads, which the next round sees.
            Ok(None) => {
                thread::yield_now();
                continue;
            }
            Err(_) => return,
        }
        let is_busy = adapter.has_leftovers() || adapter.drains.are_urgent();
        let endpoint = adapter.endpoint.read().unwrap_or_else(PoisonError::into_inner);
        let Some(endpoint) = endpoint.as_ref() else { return };
        let longest = if is_busy || endpoint.lacks_receives() { RETRY } else { LONGEST_SLEEP };
        match endpoint.waiting() {
            Waiting::Descriptor(_) => {
                if let Some(descriptor) = endpoint.wait_descriptor() {
                    attendant.sleep(Some(descriptor), longest);
                }
            }
            Waiting::Call => {
                attendant.is_in_call.store(true, Ordering::SeqCst);
                // Whoever rang before that did not know that it takes more than the bell.
                if !attendant.has_rung.load(Ordering::SeqCst) {
                    endpoint.sleep(longest.min(call));
                    call = LONGEST_SLEEP;
                }
                attendant.is_in_call.store(false, Ordering::SeqCst);
            }
            Waiting::Blind => {
                attendant.sleep(None, blind_sleep(latest_news.elapsed()).min(longest));
            }
        }
    }
}

/// How long to sleep where nobody is woken, and nothing has come for so long: who waits does so longer by an eighth of it.
fn blind_sleep(quiet: Duration) -> Duration {
    let (shortest, longest) = BLIND_SLEEPS;
    (quiet / 8).clamp(shortest, longest)
}

impl Adapter {
    /// Leaves the attendant something to do.
    pub(super) fn leave(&self, task: Task) {
        self.attendant.tasks.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
        self.wake_attendant();
    }

    /// Has the attendant look again.
    pub(super) fn wake_attendant(&self) {
        if self.attendant.ring()
            // Never waits: whoever reads completions has the endpoint already, and whoever closes has stopped the
            // attendant before.
            && let Ok(endpoint) = self.endpoint.try_read()
            && let Some(endpoint) = endpoint.as_ref()
        {
            endpoint.wake();
        }
    }

    /// Stops the attendant and waits for its end, except where it stops itself.
    pub(super) fn stop_attendant(&self) {
        self.attendant.is_stopped.store(true, Ordering::SeqCst);
        self.wake_attendant();
        let thread = self.attendant.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && !self.attendant.is_this_thread()
        {
            // A panic there has been reported by then; there is nothing to add.
            let _ = thread.join();
        }
    }

    /// Does what only the attendant does.
    fn carry_out(&self, task: Task) {
        match task {
            Task::Provide { asker, ticket, id } => self.provide(asker, ticket, id),
            Task::Respond { asker, ticket, question } => self.respond(asker, ticket, question),
            Task::Finish { done, result } => {
                done.finish(result);
                self.waiters.look_again();
            }
            Task::Advance(chain) => {
                // Closed meanwhile, the chain is ended by whoever closes.
                let _ = self.with_endpoint(|endpoint| {
                    self.advance(endpoint, &chain);
                    Ok(())
                });
                self.waiters.look_again();
            }
        }
    }

    /// Has the provider end what is under way to peers that are lost, and ends it where the provider does not.
    fn give_up_the_lost(&self) {
        let now = Instant::now();
        if self.is_disturbed.swap(false, Ordering::AcqRel) {
            for peer in self.peers.iter().filter(|peer| peer.rank != self.rank()) {
                if self.membership.check(peer.rank).is_err() {
                    self.give_up(peer);
                }
            }
            self.chains.fail_lost(&self.membership, now + GRACE);
        }
        self.clear_doubts(now);
        self.advance_drains(now);
        self.end_abandoned_chains(now);
    }

    fn give_up(&self, peer: &Peer) {
        let mut outgoing = peer.outgoing();
        outgoing.is_given_up = true;
        let answers = std::mem::take(&mut outgoing.answers).len() as u64;
        self.waiting_answers.fetch_sub(answers, Ordering::Relaxed);
        if let Some(address) = outgoing.address.take() {
            // Closed meanwhile, there is nothing left to forget.
            let _ = self.with_endpoint(|endpoint| {
                endpoint.remove(address);
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::blind_sleep;

    #[test]
    fn who_is_not_woken_looks_the_less_often_the_longer_nothing_comes() {
        let micros = [0, 100, 800, 8000, 50_000, 200_000, 1_000_000, 3_600_000_000];
        let slept = micros.map(|quiet| blind_sleep(Duration::from_micros(quiet)).as_micros());
        assert_eq!(slept, [20, 20, 100, 1000, 1000, 1000, 1000, 1000]);
    }
}
