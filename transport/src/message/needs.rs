//! What a process has to be interrupted for while its program computes.
//!
//! An interrupt costs both sides microseconds, and most are for nothing: a message for which no receive is posted waits
//! anyway, and so does credit that nobody lacks. So each side tells in its inbox what it waits for, and a peer that can
//! look there triggers the interrupt only for that. The question is Dekker's: one side stores what it needs and then
//! looks whether it has come, the other stores what it brings and then looks whether it is needed, each with a
//! sequentially consistent fence in between. Within this process it is asked once more: whoever posts shows that to the
//! other threads and then looks whether anything has come, the thread that was interrupted knows that something has
//! come and then looks whether it is shown. Loom tries all interleavings, below.

#[cfg(not(all(test, loom)))]
use std::sync::atomic::{Ordering, fence};

#[cfg(all(test, loom))]
use loom::sync::atomic::{Ordering, fence};

/// A set of needs, as it stands in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Needs(u64);

impl Needs {
    /// A message: a receive is posted.
    pub(super) const MESSAGE: Self = Self(1);
    /// Credit: something cannot go out without it.
    pub(super) const CREDIT: Self = Self(2);
    /// Nothing any more: the messenger was closed.
    pub(super) const CLOSED: Self = Self(4);
    /// Nothing any more: the pair has failed here, and the messenger goes on with others.
    pub(super) const GIVEN_UP: Self = Self(8);
    /// Either of these: nothing comes any more.
    pub(super) const LEFT: Self = Self(Self::CLOSED.0 | Self::GIVEN_UP.0);

    /// These and `other`, if `condition`.
    pub(super) fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }

    /// Those of them that stay, whatever else is needed.
    pub(super) fn that_stay(self) -> Self {
        Self(self.0 & Self::LEFT.0)
    }

    /// As it stood in an inbox at some time.
    pub(super) fn seen(word: u64) -> Self {
        Self(word)
    }

    /// Whether something of `other` is among them.
    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether something is in them that was not `before`: then the caller looks once more whether it has come.
    pub(super) fn are_more_than(self, before: Self) -> bool {
        self.0 & !before.0 != 0
    }

    /// Tells the peer by storing the word. What comes after the look that follows, the peer interrupts for.
    pub(super) fn tell(self, store: impl FnOnce(u64)) {
        store(self.0);
        fence(Ordering::SeqCst);
    }

    /// What a peer needs, by its word as it is after all that was stored for it.
    pub(super) fn of(load: impl FnOnce() -> u64) -> Self {
        fence(Ordering::SeqCst);
        Self(load())
    }
}

/// Looks whether what is needed has come, after it was shown to this process's threads that it is.
pub(super) fn look_after_showing(look: impl FnOnce() -> bool) -> bool {
    fence(Ordering::SeqCst);
    look()
}

/// Called by a thread that was interrupted, before it looks at what is shown.
pub(super) fn look_after_interrupt() {
    fence(Ordering::SeqCst);
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::cell::Cell;

    use super::Needs;

    const BOTH: Needs = Needs(3);

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let none = Needs::default();
        assert!(!none.contains(Needs::MESSAGE) && !none.contains(Needs::CREDIT));
        assert_eq!(none.with_if(false, Needs::MESSAGE), none);
        let message = none.with_if(true, Needs::MESSAGE);
        assert!(message.contains(Needs::MESSAGE) && !message.contains(Needs::CREDIT));
        assert_eq!(message.with_if(true, Needs::CREDIT), BOTH);
    }

    #[test]
    fn only_what_is_new_has_to_be_looked_for() {
        let none = Needs::default();
        assert!(Needs::MESSAGE.are_more_than(none));
        assert!(Needs::CREDIT.are_more_than(Needs::MESSAGE));
        assert!(BOTH.are_more_than(Needs::CREDIT));
        for (needs, before) in [(none, none), (none, BOTH), (Needs::MESSAGE, BOTH), (BOTH, BOTH)] {
            assert!(!needs.are_more_than(before), "{needs:?} after {before:?}");
        }
    }

    #[test]
    fn what_is_told_is_what_the_peer_finds() {
        let word = Cell::new(0);
        for needs in [Needs::MESSAGE, BOTH, Needs::CREDIT, Needs::default()] {
            needs.tell(|told| word.set(told));
            assert_eq!(Needs::of(|| word.get()), needs);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use loom::thread;

    use super::{Needs, look_after_interrupt, look_after_showing};

    #[test]
    fn loom_who_needs_a_message_finds_it_or_is_interrupted() {
        loom::model(|| {
            let words = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
            let sender = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    words.1.store(true, Ordering::Release);
                    Needs::of(|| words.0.load(Ordering::Relaxed)).contains(Needs::MESSAGE)
                }
            });
            Needs::MESSAGE.tell(|word| words.0.store(word, Ordering::Relaxed));
            let found = words.1.load(Ordering::Acquire);
            assert!(sender.join().unwrap() || found);
        });
    }

    #[test]
    fn loom_what_comes_while_a_receive_is_posted_is_found_or_its_interrupt_finds_the_receive() {
        loom::model(|| {
            struct Words {
                needs: AtomicU64,
                message: AtomicBool,
                interrupt: AtomicBool,
                is_shown: AtomicBool,
            }
            let words = Arc::new(Words {
                needs: AtomicU64::new(0),
                message: AtomicBool::new(false),
                interrupt: AtomicBool::new(false),
                is_shown: AtomicBool::new(false),
            });
            let sender = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    words.message.store(true, Ordering::Release);
                    if Needs::of(|| words.needs.load(Ordering::Relaxed)).contains(Needs::MESSAGE) {
                        words.interrupt.swap(true, Ordering::AcqRel);
                    }
                }
            });
            // Looks once; an interrupt that comes later wakes it again, with the receive shown.
            let service = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    words.interrupt.swap(false, Ordering::AcqRel) && {
                        look_after_interrupt();
                        words.is_shown.load(Ordering::Relaxed) && words.message.load(Ordering::Acquire)
                    }
                }
            });
            Needs::MESSAGE.tell(|word| words.needs.store(word, Ordering::Relaxed));
            let mut is_found = words.message.load(Ordering::Acquire);
            words.is_shown.store(true, Ordering::Relaxed);
            is_found |= look_after_showing(|| words.message.load(Ordering::Acquire));
            sender.join().unwrap();
            is_found |= service.join().unwrap();
            assert!(is_found || words.interrupt.swap(false, Ordering::AcqRel));
        });
    }
}
