//! Threads that wait for faults, and how they share them.
//!
//! A fault wakes one thread, and none as long as one is awake that will read faults before it sleeps: a second one would
//! find nothing, or hold the first one up. So of those that sleep at most one hears of faults, and which does is changed
//! with the count of those awake, under one lock. Whoever is to do something that takes long does not count meanwhile.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::mapping_cache::with_descriptor;

use super::memory::PageFault;

/// A descriptor that is readable when there are faults.
type Faults = dyn AsFd + Send + Sync;

/// What the threads of a mapping that serve faults have in common.
pub(super) struct Watch {
    /// Readable when there are faults.
    faults: Arc<Faults>,
    /// Readable when they are to end.
    stop: OwnedFd,
    /// Readable as often as there are faults that were left: written and read where `state` is held, for if it were to
    /// be read and nothing were left, all would wake for ever.
    left: OwnedFd,
    /// How many threads have a place at a time.
    most: usize,
    state: Mutex<State>,
    /// There is a place to be had.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that have a place: they watch.
    watching: usize,
    /// Threads that are awake and not held up, with a place or about to have one: each reads faults once more before it
    /// sleeps.
    awake: usize,
    /// Those that sleep.
    asleep: Vec<Arc<Bed>>,
    /// Beds that nobody sleeps on.
    free: Vec<Arc<Bed>>,
    /// Threads that wait for a place.
    outside: usize,
    /// Faults that were read, and that another thread is to serve.
    left: VecDeque<Left>,
}

/// A fault that was read, and left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) fault: PageFault,
    /// It is to be served on its own: together with others it has failed.
    pub(super) is_alone: bool,
}

/// What a thread sleeps on: one each, so that the kernel wakes one of them for a fault and not all. There are as many
/// as threads that watch, for each takes a descriptor.
struct Bed {
    epoll: OwnedFd,
    /// Whether faults wake it; changed where the watch's state is held.
    hears: AtomicBool,
}

/// A thread's place: it watches. Dropped, it is given up, for something that takes long: if nobody else hears of faults,
/// another thread is to.
pub(super) struct Place<'w>(&'w Watch);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.make_place(&mut self.0.state());
    }
}

/// See [`Watch::promise`].
pub(super) struct Promise<'w>(&'w Watch);

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.0.doze(&mut self.0.state());
    }
}

/// See [`Watch::held_up`].
pub(super) struct HeldUp<'w>(&'w Watch);

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        // Another one may have it: then there is one more for a moment.
        state.watching += 1;
        self.0.wake(&mut state);
    }
}

/// What woke a thread, of which nobody asks.
const FAULTS: EventData = EventData::new_u64(0);

impl Bed {
    /// Has faults wake who sleeps here, or not.
    fn hear(&self, faults: &Faults, hears: bool) -> io::Result<()> {
        // Relaxed: the state is held.
        if self.hears.load(Ordering::Relaxed) != hears {
            // What is added has a part in each fault's time, whatever it is to hear.
            match hears {
                true => epoll::add(&self.epoll, faults, FAULTS, EventFlags::IN)?,
                false => epoll::delete(&self.epoll, faults)?,
            }
            self.hears.store(hears, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Watch {
    /// For so many threads that watch `faults`, of which `most` have a place at a time, while the others wait to take
    /// theirs.
    pub(super) fn new(faults: Arc<Faults>, most: usize, threads: usize) -> io::Result<Watch> {
        let counter = |flags| with_descriptor(|| eventfd(0, EventfdFlags::CLOEXEC | flags));
        let stop = counter(EventfdFlags::empty())?;
        let left = counter(EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)?;
        let watch = Watch { faults, stop, left, most, state: Mutex::default(), changed: Condvar::new() };
        let bed = |_| watch.bed(with_descriptor(|| epoll::create(CreateFlags::CLOEXEC))?);
        let free = (0..most.min(threads)).map(bed).collect::<io::Result<_>>()?;
        watch.state().free = free;
        Ok(watch)
    }

    fn bed(&self, epoll: OwnedFd) -> io::Result<Arc<Bed>> {
        epoll::add(&epoll, &self.left, EventData::new_u64(1), EventFlags::IN | EventFlags::EXCLUSIVE)?;
        epoll::add(&epoll, &self.stop, EventData::new_u64(2), EventFlags::IN)?;
        Ok(Arc::new(Bed { epoll, hears: AtomicBool::new(false) }))
    }

    /// Has the threads end that wait; `is_stopping` is set.
    pub(super) fn stop(&self) -> io::Result<()> {
        // Who has not seen that it is set, has gone to sleep when this is to be had.
        drop(self.state());
        self.changed.notify_all();
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).map(drop).map_err(io::Error::from)
    }

    /// Has a place; waits for one unless all is to end. As long as the caller is awake then, faults wake nobody else,
    /// nor do they in between where it comes with a promise.
    pub(super) fn enter(&self, is_stopping: &AtomicBool, promise: Option<Promise<'_>>) -> Place<'_> {
        let mut state = self.state();
        if promise.is_some() && state.watching < self.most {
            state.watching += 1;
            // As long as the caller is awake.
            std::mem::forget(promise);
            return Place(self);
        }
        drop(state);
        drop(promise);
        state = self.state();
        state.outside += 1;
        // Acquire: with the Release of who ends it.
        while state.watching >= self.most && !is_stopping.load(Ordering::Acquire) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outside -= 1;
        state.watching += 1;
        self.wake(&mut state);
        Place(self)
    }

    /// A promise to [enter](Watch::enter) in a moment: until then faults wake nobody. It is dropped before anything is
    /// waited for.
    pub(super) fn promise(&self) -> Promise<'_> {
        self.wake(&mut self.state());
        Promise(self)
    }

    /// The caller may be held up until the answer is dropped, and has no place as long: if nobody else hears of faults,
    /// another thread is to.
    pub(super) fn held_up(&self) -> HeldUp<'_> {
        self.make_place(&mut self.state());
        HeldUp(self)
    }

    /// One that has a place, and is awake, gives it up.
    fn make_place(&self, state: &mut State) {
        state.watching -= 1;
        if state.watching == 0 && state.outside > 0 {
            self.changed.notify_one();
        }
        self.doze(state);
    }

    /// One more is awake.
    fn wake(&self, state: &mut State) {
        state.awake += 1;
        // Where that fails, they are woken in vain.
        state.asleep.iter().for_each(|bed| drop(bed.hear(&*self.faults, false)));
    }

    /// One less is awake.
    fn doze(&self, state: &mut State) {
        state.awake -= 1;
        if state.is_heard() || state.asleep.is_empty() {
            return;
        }
        if !state.asleep.iter().any(|bed| bed.hear(&*self.faults, true).is_ok()) {
            tracing::error!("faults may have to wait for a thread that is held up");
        }
    }

    /// Sleeps until there are faults, unless others hear of them, or some that others have left, or all is to end. The
    /// caller has a place.
    pub(super) fn wait(&self) -> io::Result<()> {
        /// Where the kernel has no more room for what is waited for.
        const DEAF: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut state = self.state();
        // After some were held up, more than have a place may watch. They do without where it would cost a segment.
        let another = || self.bed(epoll::create(CreateFlags::CLOEXEC).ok()?).ok();
        let Some(bed) = state.free.pop().or_else(another) else {
            drop(state);
            return self.wait_without_bed();
        };
        state.awake -= 1;
        let hears = !state.is_heard();
        let limit = if bed.hear(&*self.faults, hears).is_err() && hears { Some(&DEAF) } else { None };
        state.asleep.push(Arc::clone(&bed));
        drop(state);
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: FAULTS }; 3];
        let waited = epoll::wait(&bed.epoll, &mut events, limit);
        let mut state = self.state();
        state.asleep.retain(|other| !Arc::ptr_eq(other, &bed));
        if state.free.len() < self.most {
            state.free.push(bed);
        }
        state.awake += 1;
        unless_interrupted(waited)
    }

    /// The same where there are no descriptors for another bed: it hears of everything, and counts as awake.
    fn wait_without_bed(&self) -> io::Result<()> {
        let mut all = [
            PollFd::from_borrowed_fd(self.faults.as_fd(), PollFlags::IN),
            PollFd::new(&self.left, PollFlags::IN),
            PollFd::new(&self.stop, PollFlags::IN),
        ];
        unless_interrupted(poll(&mut all, None))
    }

    /// Leaves faults to others.
    pub(super) fn leave(&self, faults: impl Iterator<Item = PageFault>) {
        faults.for_each(|fault| self.add(Left { fault, is_alone: false }));
    }

    /// Leaves faults to others, each to be served on its own.
    pub(super) fn leave_alone(&self, faults: impl Iterator<Item = PageFault>) {
        faults.for_each(|fault| self.add(Left { fault, is_alone: true }));
    }

    fn add(&self, left: Left) {
        let mut state = self.state();
        state.left.push_back(left);
        self.tell(&state);
    }

    /// Leaves a fault to others that was [taken](Watch::take): it is the next one again.
    pub(super) fn pass_on(&self, left: Left) {
        let mut state = self.state();
        state.left.push_front(left);
        self.tell(&state);
    }

    /// Wakes one thread for one fault that was left.
    fn tell(&self, _: &MutexGuard<'_, State>) {
        // It is full after more faults than there are addresses.
        let _ = rustix::io::write(&self.left, &1u64.to_ne_bytes());
    }

    /// Takes a fault that was left.
    pub(super) fn take(&self) -> Option<Left> {
        let mut state = self.state();
        let left = state.left.pop_front()?;
        self.untell(&state);
        Some(left)
    }

    /// Takes those that were left and may be served with others, in their order.
    pub(super) fn take_together(&self) -> Vec<PageFault> {
        let mut state = self.state();
        let (together, alone) = state.left.iter().partition::<VecDeque<Left>, _>(|left| !left.is_alone);
        state.left = alone;
        together.iter().for_each(|_| self.untell(&state));
        together.into_iter().map(|left| left.fault).collect()
    }

    /// One fault that was left is no more: it can be read once more for each.
    fn untell(&self, _: &MutexGuard<'_, State>) {
        let _ = rustix::io::read(&self.left, &mut [0; 8]);
    }

    /// The fault that is taken next.
    pub(super) fn first(&self) -> Option<Left> {
        self.state().left.front().copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unless_interrupted(waited: Result<usize, Errno>) -> io::Result<()> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

impl State {
    /// Whether somebody hears of faults: who is awake looks for them, and who sleeps may be woken by them.
    fn is_heard(&self) -> bool {
        // Relaxed: the state is held.
        self.awake > 0 || self.asleep.iter().any(|bed| bed.hears.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
