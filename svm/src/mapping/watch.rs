//! Threads that wait for faults, and how they share them.
//!
//! A fault wakes one thread, and none as long as one is awake that will read faults before it sleeps: a second one would
//! find nothing, or hold the first one up. So of those that sleep at most one hears of faults, and which does is changed
//! with the count of those awake, under one lock. Whoever is to do something that takes long does not count meanwhile.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::memory::PageFault;

/// What the threads of a mapping that serve faults have in common.
pub(super) struct Watch {
    /// Readable when there are faults.
    faults: OwnedFd,
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

/// What a thread sleeps on: each has its own, so that the kernel wakes one of them for a fault and not all.
struct Bed {
    epoll: OwnedFd,
    /// Whether faults wake it; changed where the watch's state is held.
    hears: AtomicBool,
}

/// A thread's own bed.
pub(super) struct Waiter(Arc<Bed>);

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
    fn hear(&self, faults: &OwnedFd, hears: bool) -> io::Result<()> {
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
    /// For threads that watch `faults`, a descriptor, of which so many have a place at a time, while the others wait to
    /// take theirs.
    pub(super) fn new(faults: BorrowedFd<'_>, most: usize) -> io::Result<Watch> {
        let faults = faults.try_clone_to_owned()?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let left = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)?;
        Ok(Watch { faults, stop, left, most, state: Mutex::default(), changed: Condvar::new() })
    }

    /// For a thread that watches.
    pub(super) fn waiter(&self) -> io::Result<Waiter> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &self.left, EventData::new_u64(1), EventFlags::IN | EventFlags::EXCLUSIVE)?;
        epoll::add(&epoll, &self.stop, EventData::new_u64(2), EventFlags::IN)?;
        Ok(Waiter(Arc::new(Bed { epoll, hears: AtomicBool::new(false) })))
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
        state.asleep.iter().for_each(|bed| drop(bed.hear(&self.faults, false)));
    }

    /// One less is awake.
    fn doze(&self, state: &mut State) {
        state.awake -= 1;
        if state.is_heard() || state.asleep.is_empty() {
            return;
        }
        if !state.asleep.iter().any(|bed| bed.hear(&self.faults, true).is_ok()) {
            tracing::error!("faults may have to wait for a thread that is held up");
        }
    }

    /// Sleeps until there are faults, unless others hear of them, or some that others have left, or all is to end. The
    /// caller has a place.
    pub(super) fn wait(&self, Waiter(bed): &Waiter) -> io::Result<()> {
        /// Where the kernel has no more room for what is waited for.
        const DEAF: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut state = self.state();
        state.awake -= 1;
        let hears = !state.is_heard();
        let limit = if bed.hear(&self.faults, hears).is_err() && hears { Some(&DEAF) } else { None };
        state.asleep.push(Arc::clone(bed));
        drop(state);
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: FAULTS }; 3];
        let waited = epoll::wait(&bed.epoll, &mut events, limit);
        let mut state = self.state();
        state.asleep.retain(|other| !Arc::ptr_eq(other, bed));
        state.awake += 1;
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
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

impl State {
    /// Whether somebody hears of faults: who is awake looks for them, and who sleeps may be woken by them.
    fn is_heard(&self) -> bool {
        // Relaxed: the state is held.
        self.awake > 0 || self.asleep.iter().any(|bed| bed.hears.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::fd::AsFd;
    use std::sync::mpsc;

    use super::*;

    fn fault(page: u64) -> PageFault {
        PageFault { page, was_there: false, is_store: false }
    }

    /// Nothing is ever to be read from it.
    fn silent() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn faults_that_are_left_are_taken_in_their_order_and_wake_nobody_after_that() {
        let watch = Watch::new(silent().as_fd(), 1).unwrap();
        let left = |page: u64, is_alone: bool| Some(Left { fault: fault(page), is_alone });
        watch.leave((1..3).map(fault));
        watch.leave_alone((3..5).map(fault));
        watch.leave((5..6).map(fault));
        let first = watch.take().unwrap();
        assert_eq!(Some(first), left(1, false));
        watch.pass_on(first);
        assert_eq!(watch.first(), left(1, false));
        // What has failed with others stays to be served on its own.
        assert_eq!(watch.take_together(), [1, 2, 5].map(fault));
        assert_eq!(watch.take_together(), []);
        assert_eq!([watch.take(), watch.take(), watch.take()], [left(3, true), left(4, true), None]);
        assert_eq!(watch.first(), None);
        assert_eq!(rustix::io::read(&watch.left, &mut [0; 8]), Err(rustix::io::Errno::AGAIN));
    }

    #[test]
    fn faults_that_are_left_are_taken_once_each_whoever_watches_and_wake_nobody_after_that() {
        const FAULTS: u64 = 50_000;
        for (threads, most) in [(1, 1), (4, 1), (4, 2), (3, usize::MAX)] {
            let (watch, is_stopping) =
                (&Watch::new(silent().as_fd(), most).unwrap(), &AtomicBool::new(false));
            let (took, taken) = mpsc::channel();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    let took = took.clone();
                    scope.spawn(move || {
                        let waiter = watch.waiter().unwrap();
                        let mut place = watch.enter(is_stopping, None);
                        while !is_stopping.load(Ordering::Acquire) {
                            let Some(left) = watch.take() else {
                                watch.wait(&waiter).unwrap();
                                continue;
                            };
                            drop(place);
                            took.send(left.fault.page).unwrap();
                            place = watch.enter(is_stopping, None);
                        }
                    });
                }
                (0..FAULTS / 5).for_each(|some| watch.leave((some * 5..some * 5 + 5).map(fault)));
                let all: BTreeSet<u64> = taken.iter().take(FAULTS as usize).collect();
                assert_eq!(all.len() as u64, FAULTS);
                is_stopping.store(true, Ordering::Release);
                watch.stop().unwrap();
            });
            assert_eq!(taken.try_recv().ok(), None);
            let told = rustix::io::read(&watch.left, &mut [0; 8]);
            assert_eq!(told, Err(rustix::io::Errno::AGAIN));
        }
    }

    #[test]
    fn who_sleeps_hears_of_faults_only_where_nobody_is_awake_or_about_to_be() {
        let faults = silent();
        let (watch, is_stopping) = (&Watch::new(faults.as_fd(), 2).unwrap(), &AtomicBool::new(false));
        let hears = || watch.state().asleep.first().map(|bed| bed.hears.load(Ordering::Relaxed));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let _place = watch.enter(is_stopping, None);
                watch.wait(&watch.waiter().unwrap()).unwrap();
            });
            while watch.state().asleep.is_empty() {
                std::thread::yield_now();
            }
            let mut heard = vec![hears()];
            let place = watch.enter(is_stopping, None);
            heard.push(hears());
            let held_up = watch.held_up();
            heard.push(hears());
            drop(held_up);
            heard.push(hears());
            drop(place);
            heard.push(hears());
            let promise = watch.promise();
            heard.push(hears());
            let place = watch.enter(is_stopping, Some(promise));
            heard.push(hears());
            let promise = watch.promise();
            drop(place);
            heard.push(hears());
            drop(promise);
            heard.push(hears());
            watch.stop().unwrap();
            sleeper.join().unwrap();
            let expected = [true, false, true, false, true, false, false, false, true];
            assert_eq!(heard, expected.map(Some));
        });
        let state = watch.state();
        assert_eq!((state.watching, state.awake, state.asleep.len()), (0, 0, 0));
    }

    #[test]
    fn who_waits_for_a_place_hears_of_faults_where_all_that_have_one_are_held_up() {
        let (watch, is_stopping) = (&Watch::new(silent().as_fd(), 2).unwrap(), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let places = [watch.enter(is_stopping, None), watch.enter(is_stopping, None)];
            let outsider = scope.spawn(|| drop(watch.enter(is_stopping, None)));
            while watch.state().outside == 0 {
                std::thread::yield_now();
            }
            let held_up = [watch.held_up(), watch.held_up()];
            let since = std::time::Instant::now();
            while !outsider.is_finished() && since.elapsed() < std::time::Duration::from_secs(20) {
                std::thread::yield_now();
            }
            let has_got_in = outsider.is_finished();
            drop((held_up, places));
            assert!(has_got_in);
        });
        let state = watch.state();
        assert_eq!((state.watching, state.awake, state.outside), (0, 0, 0));
    }

    #[test]
    fn a_fault_is_found_whoever_sleeps_and_whoever_is_at_work() {
        const FAULTS: u64 = 20_000;
        const HOW: EventfdFlags = EventfdFlags::CLOEXEC.union(EventfdFlags::NONBLOCK);
        for (threads, most) in [(1, 1), (4, 1), (4, 2), (3, usize::MAX)] {
            let faults = &eventfd(0, HOW.union(EventfdFlags::SEMAPHORE)).unwrap();
            let (watch, is_stopping) = (&Watch::new(faults.as_fd(), most).unwrap(), &AtomicBool::new(false));
            let (took, taken) = mpsc::channel();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let took = took.clone();
                    scope.spawn(move || {
                        let waiter = watch.waiter().unwrap();
                        let mut place = watch.enter(is_stopping, None);
                        for turn in thread.. {
                            if is_stopping.load(Ordering::Acquire) {
                                break;
                            }
                            if rustix::io::read(faults, &mut [0; 8]).is_err() {
                                watch.wait(&waiter).unwrap();
                                continue;
                            }
                            let held_up = (turn % 4 == 0).then(|| watch.held_up());
                            if turn % 4 < 2 {
                                took.send(()).unwrap();
                                drop(held_up);
                                continue;
                            }
                            drop(place);
                            let promise = (turn % 4 == 2).then(|| watch.promise());
                            took.send(()).unwrap();
                            place = watch.enter(is_stopping, promise);
                        }
                    });
                }
                let are_found = |number: u64| {
                    // Now and then two at a time.
                    let count = if number.is_multiple_of(5) { 2 } else { 1 };
                    (0..count).for_each(|_| assert!(rustix::io::write(faults, &1u64.to_ne_bytes()).is_ok()));
                    (0..count).all(|_| taken.recv_timeout(std::time::Duration::from_secs(20)).is_ok())
                };
                let missed = (0..FAULTS).find(|number| !are_found(*number));
                is_stopping.store(true, Ordering::Release);
                watch.stop().unwrap();
                assert_eq!(missed, None, "{threads} threads, {most} places");
            });
        }
    }
}
