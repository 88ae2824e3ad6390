//! Telling of what is lost.
//!
//! A thread that has touched what cannot be had waits until the program is told, and the log. It may hold what the
//! program's function waits for, or whoever writes the log, as a mutex, the lock of a stream or that of an interpreter,
//! and they would wait for each other for ever. So a thread of its own tells, and is waited for only so long. It is
//! there from the beginning: a loss may be for want of what another thread takes.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::units::FileOffset;

/// Who is told that bytes cannot be had.
pub(super) type OnLoss = Arc<dyn Fn(&LostPage<'_>) + Send + Sync>;

/// A part of a mapping that somebody touched and that cannot be had.
#[derive(Debug)]
pub struct LostPage<'e> {
    /// Which bytes of the file.
    pub range: Range<FileOffset>,
    /// Why.
    pub error: &'e Error,
}

/// A mapping's losses.
pub(super) struct Losses {
    file_name: String,
    on_loss: Option<OnLoss>,
    /// How long is waited until one is told.
    limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be told.
    queue: VecDeque<Loss>,
    /// How many there were.
    count: u64,
    /// How many of them, the first ones, have been told.
    told: u64,
    /// One has taken longer than is waited for: nobody waits until all are told.
    is_overdue: bool,
    /// The mapping ends: nobody waits until one is told.
    is_stopping: bool,
    /// None comes any more.
    is_over: bool,
}

struct Loss {
    range: Range<FileOffset>,
    error: Error,
}

impl Losses {
    /// Those of a file's mapping.
    pub(super) fn new(file_name: &str, on_loss: Option<OnLoss>, limit: Duration) -> Losses {
        let (file_name, state, changed) = (file_name.to_owned(), Mutex::default(), Condvar::new());
        Losses { file_name, on_loss, limit, state, changed }
    }

    /// Has one told: on return that is done, or takes longer than is waited for.
    pub(super) fn tell(&self, range: Range<FileOffset>, error: Error) {
        let loss = Loss { range, error };
        let mut state = self.state();
        let number = state.count;
        state.count += 1;
        state.queue.push_back(loss);
        self.changed.notify_all();
        let is_awaited = |state: &mut State| state.told <= number && !state.is_overdue && !state.is_stopping;
        let waited = self.changed.wait_timeout_while(state, self.limit, is_awaited);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && state.told <= number {
            state.is_overdue = true;
            // Who has touched another one waits for the same.
            self.changed.notify_all();
        }
    }

    /// Tells of all that come, until [`Losses::end`]: what a thread does.
    pub(super) fn tell_all(&self) {
        loop {
            let is_idle = |state: &mut State| state.queue.is_empty() && !state.is_over;
            let waited = self.changed.wait_while(self.state(), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(next) = state.queue.pop_front() else { return };
            drop(state);
            self.tell_now(&next);
            let mut state = self.state();
            state.told += 1;
            state.is_overdue &= !state.queue.is_empty();
            self.changed.notify_all();
        }
    }

    fn tell_now(&self, Loss { range, error }: &Loss) {
        let name = &self.file_name;
        tracing::error!("a page of {name} that is touched cannot be had: {error}");
        let Some(tell) = &self.on_loss else { return };
        let lost = LostPage { range: range.clone(), error };
        // A panic of whoever is told is his own matter.
        if panic::catch_unwind(AssertUnwindSafe(|| tell(&lost))).is_err() {
            tracing::error!("who was told that bytes from {} on are lost has panicked", range.start);
        }
    }

    /// Has nobody wait any more until one is told: who is to end must not be held up.
    pub(super) fn stop(&self) {
        self.state().is_stopping = true;
        self.changed.notify_all();
    }

    /// Has the thread that tells end when it has told of all that have come: none comes any more.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics where it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn is_lost(losses: &Losses, page: u64) {
        losses.tell(FileOffset(page)..FileOffset(page + 1), Error::Settings { problem: "a test".into() });
    }

    #[test]
    fn who_holds_what_the_one_that_is_told_waits_for_goes_on() {
        let held: Arc<Mutex<()>> = Arc::default();
        let (tell, told) = mpsc::channel();
        let wanted = Arc::clone(&held);
        let on_loss: OnLoss = Arc::new(move |lost: &LostPage<'_>| {
            drop(wanted.lock().unwrap());
            tell.send(lost.range.start.0).unwrap();
        });
        let losses = &Losses::new("f", Some(on_loss), Duration::from_secs(1));
        std::thread::scope(|scope| {
            scope.spawn(|| losses.tell_all());
            let (guard, since) = (held.lock().unwrap(), Instant::now());
            (0..100).for_each(|page| is_lost(losses, page));
            assert!(since.elapsed() < Duration::from_secs(50), "each has waited");
            assert!(told.try_recv().is_err());
            drop(guard);
            assert!((0..100).all(|page| told.recv() == Ok(page)));
            losses.end();
        });
    }

    #[test]
    fn who_has_touched_it_waits_until_it_is_told() {
        let (tell, told) = mpsc::channel();
        let on_loss: OnLoss = Arc::new(move |lost: &LostPage<'_>| {
            tell.send(lost.range.start.0).unwrap();
            assert_ne!(lost.range.start.0, 1, "the test says so");
        });
        let losses = &Losses::new("f", Some(on_loss), Duration::from_secs(600));
        std::thread::scope(|scope| {
            scope.spawn(|| losses.tell_all());
            let since = Instant::now();
            for page in 0..3 {
                is_lost(losses, page);
                assert_eq!(told.try_recv(), Ok(page));
            }
            assert!(since.elapsed() < Duration::from_secs(300));
            losses.end();
        });
    }

    #[test]
    fn what_is_to_be_told_when_the_mapping_ends_is_told_before_it_has() {
        let held: Arc<Mutex<()>> = Arc::default();
        let (tell, told) = mpsc::channel();
        let wanted = Arc::clone(&held);
        let on_loss: OnLoss = Arc::new(move |lost: &LostPage<'_>| {
            drop(wanted.lock().unwrap());
            tell.send(lost.range.start.0).unwrap();
        });
        let losses = &Losses::new("f", Some(on_loss), Duration::from_millis(10));
        let guard = held.lock().unwrap();
        std::thread::scope(|scope| {
            let tells = scope.spawn(|| losses.tell_all());
            (0..10).for_each(|page| is_lost(losses, page));
            losses.stop();
            // What a thread serves just then.
            is_lost(losses, 10);
            losses.end();
            drop(guard);
            tells.join().unwrap();
        });
        assert_eq!(told.try_iter().collect::<Vec<_>>(), (0..=10).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_waits_where_nobody_tells_any_more() {
        let losses = &Losses::new("f", Some(Arc::new(|_: &LostPage<'_>| ())), Duration::from_secs(600));
        let since = Instant::now();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| is_lost(losses, 0));
            while losses.state().count == 0 {
                std::thread::yield_now();
            }
            losses.stop();
            waits.join().unwrap();
            losses.end();
            losses.tell_all();
        });
        assert!(since.elapsed() < Duration::from_secs(300));
    }
}
