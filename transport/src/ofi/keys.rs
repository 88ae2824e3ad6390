//! The keys of registered memory, which the provider is not to look for while they change.
//!
//! The provider `tcp` of libfabric 1.17 looks up the keys that come in with transfers without the lock under which they
//! are put in and taken out, although it was asked to serve any number of threads (`ofi_mr_map_verify` in its progress,
//! `ofi_mr_map_insert` and `ofi_mr_map_remove` under the domain's lock): it walks a tree that is being turned, and
//! crashes. So what makes progress (reading completions, and posting
//! where a queue is full) does not run while memory is registered, or given back.

use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::sys::{self, call};

/// After what time a sleeper is woken again that did not wake: some providers lose the signal that comes just before
/// the call begins to wait.
const AGAIN: Duration = Duration::from_micros(100);

/// What ends a call that sleeps in the provider.
pub(super) trait Wake {
    /// Has the call that is under way, or the next, return.
    fn wake(&self);
}

/// Ends a call that sleeps for a queue of completions.
#[derive(Debug)]
pub(super) struct Signal(NonNull<sys::fid_cq>);

// SAFETY: the queue was asked for with FI_THREAD_SAFE.
unsafe impl Send for Signal {}

impl Signal {
    /// For `completions`.
    ///
    /// # Safety
    /// The queue stays open as long as this.
    pub(super) unsafe fn new(completions: NonNull<sys::fid_cq>) -> Self {
        Self(completions)
    }
}

impl Wake for Signal {
    fn wake(&self) {
        let completions = self.0.as_ptr();
        // SAFETY: it is open, as `new` was promised.
        let answer = unsafe { call!(completions, ops.signal(completions)) };
        tracing::trace!(answer, "woken");
    }
}

/// Who looks for keys, and who changes them. Whoever waits to change some comes before those who come to look.
#[derive(Debug)]
pub(super) struct Keys<W> {
    turn: Mutex<Turn<W>>,
    is_free: Condvar,
}

#[derive(Debug)]
struct Turn<W> {
    looking: u32,
    is_changing: bool,
    wanting_to_change: u32,
    sleeper: Option<W>,
}

impl<W> Default for Keys<W> {
    fn default() -> Self {
        let turn = Turn { looking: 0, is_changing: false, wanting_to_change: 0, sleeper: None };
        Self { turn: Mutex::new(turn), is_free: Condvar::new() }
    }
}

impl<W: Wake> Keys<W> {
    /// The provider may look for keys until the result is dropped. Until then its thread is not to look again, nor to
    /// change any.
    pub(super) fn look(&self) -> Looking<'_, W> {
        self.turn_to_look().looking += 1;
        Looking(self)
    }

    /// The same for a call that sleeps until it is woken, one at a time.
    pub(super) fn sleep(&self, sleeper: W) -> Asleep<'_, W> {
        let mut turn = self.turn_to_look();
        turn.looking += 1;
        turn.sleeper = Some(sleeper);
        Asleep(self)
    }

    /// Nobody looks for keys until the result is dropped. Who sleeps is woken.
    pub(super) fn change(&self) -> Changing<'_, W> {
        let mut turn = self.turn();
        turn.wanting_to_change += 1;
        while turn.looking > 0 || turn.is_changing {
            if let Some(sleeper) = &turn.sleeper {
                sleeper.wake();
            }
            turn = match self.is_free.wait_timeout(turn, AGAIN) {
                Ok((turn, _)) => turn,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        turn.wanting_to_change -= 1;
        turn.is_changing = true;
        Changing(self)
    }

    fn turn_to_look(&self) -> MutexGuard<'_, Turn<W>> {
        let is_taken = |turn: &mut Turn<W>| turn.is_changing || turn.wanting_to_change > 0;
        self.is_free.wait_while(self.turn(), is_taken).unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, Turn<W>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_looked(&self, turn: &mut Turn<W>) {
        turn.looking -= 1;
        if turn.looking == 0 && turn.wanting_to_change > 0 {
            self.is_free.notify_all();
        }
    }
}

/// While this is there, the provider may look for keys.
#[must_use]
pub(super) struct Looking<'k, W: Wake>(&'k Keys<W>);

impl<W: Wake> Drop for Looking<'_, W> {
    fn drop(&mut self) {
        self.0.has_looked(&mut self.0.turn());
    }
}

/// While this is there, a call sleeps in the provider, and may look for keys.
#[must_use]
pub(super) struct Asleep<'k, W: Wake>(&'k Keys<W>);

impl<W: Wake> Drop for Asleep<'_, W> {
    fn drop(&mut self) {
        let mut turn = self.0.turn();
        turn.sleeper = None;
        self.0.has_looked(&mut turn);
    }
}

/// While this is there, nobody looks for keys.
#[must_use]
pub(super) struct Changing<'k, W: Wake>(&'k Keys<W>);

impl<W: Wake> Drop for Changing<'_, W> {
    fn drop(&mut self) {
        self.0.turn().is_changing = false;
        self.0.is_free.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::thread;

    use super::{Keys, Wake};

    /// Loses every other signal, as providers do.
    struct Forgetful {
        signals: SyncSender<()>,
        count: AtomicU32,
    }

    impl Wake for Forgetful {
        fn wake(&self) {
            if self.count.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                let _ = self.signals.try_send(());
            }
        }
    }

    fn signals() -> (Forgetful, Receiver<()>) {
        let (signals, heard) = sync_channel(1);
        (Forgetful { signals, count: AtomicU32::new(0) }, heard)
    }

    #[test]
    fn nobody_looks_while_keys_change_and_who_sleeps_makes_way() {
        let keys = Keys::default();
        let (looking, changing) = (AtomicU32::new(0), AtomicU32::new(0));
        let is_looking = || {
            looking.fetch_add(1, Ordering::SeqCst);
            assert_eq!(changing.load(Ordering::SeqCst), 0);
        };
        let changes = AtomicU32::new(0);
        let are_done = || changes.load(Ordering::SeqCst) == 2 * 500;
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !are_done() {
                        let _looking = keys.look();
                        is_looking();
                        thread::yield_now();
                        looking.fetch_sub(1, Ordering::SeqCst);
                    }
                });
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _changing = keys.change();
                        assert_eq!(changing.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        assert_eq!(looking.load(Ordering::SeqCst), 0);
                        changing.fetch_sub(1, Ordering::SeqCst);
                        changes.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                while !are_done() {
                    let (sleeper, heard) = signals();
                    let end = sleeper.signals.clone();
                    let _asleep = keys.sleep(sleeper);
                    is_looking();
                    if are_done() {
                        let _ = end.try_send(());
                    }
                    heard.recv().expect("it is there itself");
                    looking.fetch_sub(1, Ordering::SeqCst);
                }
            });
            // The last sleeper has nobody who wakes it.
            while !are_done() {
                thread::yield_now();
            }
            drop(keys.change());
        });
    }
}
