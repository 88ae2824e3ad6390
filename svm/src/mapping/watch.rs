//! Threads that wait for faults, and how they share them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::memory::PageFault;

/// What the threads of a mapping that serve faults have in common.
pub(super) struct Watch {
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
    /// Threads that have a place: they watch, or do nothing that takes long.
    watching: usize,
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

/// What a thread sleeps on. Each has its own, so that the kernel wakes one of them for a fault and not all.
pub(super) struct Waiter(OwnedFd);

impl Watch {
    /// For threads of which so many have a place at a time, while the others wait to take theirs.
    pub(super) fn new(most: usize) -> io::Result<Watch> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let left = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)?;
        Ok(Watch { stop, left, most, state: Mutex::default(), changed: Condvar::new() })
    }

    /// For a thread that watches `faults`, a descriptor.
    pub(super) fn waiter(&self, faults: BorrowedFd<'_>) -> io::Result<Waiter> {
        let waiter = epoll::create(CreateFlags::CLOEXEC)?;
        let alone = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&waiter, faults, EventData::new_u64(0), alone)?;
        epoll::add(&waiter, self.left.as_fd(), EventData::new_u64(1), alone)?;
        epoll::add(&waiter, &self.stop, EventData::new_u64(2), EventFlags::IN)?;
        Ok(Waiter(waiter))
    }

    /// Has the threads end that wait; `is_stopping` is set.
    pub(super) fn stop(&self) -> io::Result<()> {
        // Who has not seen that it is set, has gone to sleep when this is to be had.
        drop(self.state());
        self.changed.notify_all();
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).map(drop).map_err(io::Error::from)
    }

    /// Has a place; waits for one unless all is to end.
    pub(super) fn enter(&self, is_stopping: &AtomicBool) {
        let mut state = self.state();
        state.outside += 1;
        // Acquire: with the Release of who ends it.
        while state.watching >= self.most && !is_stopping.load(Ordering::Acquire) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outside -= 1;
        state.watching += 1;
    }

    /// Gives the place up, for something that takes long: if nobody else has one, another thread is woken for it.
    pub(super) fn quit(&self) {
        let mut state = self.state();
        state.watching -= 1;
        if state.watching == 0 && state.outside > 0 {
            self.changed.notify_one();
        }
    }

    /// Sleeps until there are faults, to be read or left by others, or all is to end. The caller has a place.
    pub(super) fn wait(&self, waiter: &Waiter) -> io::Result<()> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 3];
        match epoll::wait(&waiter.0, &mut events, None) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc;

    use super::*;

    fn fault(page: u64) -> PageFault {
        PageFault { page, was_there: false, is_store: false }
    }

    #[test]
    fn faults_that_are_left_are_taken_in_their_order_and_wake_nobody_after_that() {
        let watch = Watch::new(1).unwrap();
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
            let (watch, is_stopping) = (&Watch::new(most).unwrap(), &AtomicBool::new(false));
            // Nothing is ever to be read from it.
            let silent = &eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            let (took, taken) = mpsc::channel();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    let took = took.clone();
                    scope.spawn(move || {
                        let waiter = watch.waiter(silent.as_fd()).unwrap();
                        watch.enter(is_stopping);
                        while !is_stopping.load(Ordering::Acquire) {
                            let Some(left) = watch.take() else {
                                watch.wait(&waiter).unwrap();
                                continue;
                            };
                            watch.quit();
                            took.send(left.fault.page).unwrap();
                            watch.enter(is_stopping);
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
}
