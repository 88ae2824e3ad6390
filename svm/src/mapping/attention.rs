//! How long a thread that has just served a fault looks for the next one before it sleeps.
//!
//! Whoever goes on where a page has come often touches the next one at once, and a thread that sleeps takes longer to
//! wake than that. So it goes on looking for a moment, as long as it has its core for itself: where giving that away
//! takes long, somebody else needs it.

use std::thread;
use std::time::{Duration, Instant};

/// How long it looks: about as long as a fault takes whose thread has to be woken. In it a program that goes through
/// pages gets from one to the next.
const LOOKING: Duration = Duration::from_micros(30);

/// To give a core away that nobody else wants takes less.
const ALONE: Duration = Duration::from_micros(4);

/// What a thread has left of it.
pub(super) struct Attention(Option<Instant>);

impl Attention {
    /// Nothing: it sleeps.
    pub(super) fn none() -> Attention {
        Attention(None)
    }

    /// A fault has come.
    pub(super) fn renew(&mut self) {
        self.0 = Some(Instant::now() + LOOKING);
    }

    /// Lets others have the core for a moment; says whether to look again, and not to sleep.
    pub(super) fn is_left(&mut self) -> bool {
        let Some(until) = self.0 else { return false };
        let before = Instant::now();
        thread::yield_now();
        if before >= until || before.elapsed() >= ALONE {
            self.0 = None;
        }
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_and_begins_anew() {
        let mut attention = Attention::none();
        assert!(!attention.is_left());
        for _ in 0..3 {
            attention.renew();
            let began = Instant::now();
            while attention.is_left() {}
            assert!(!attention.is_left());
            // Where others run meanwhile, they keep it from coming back.
            assert!(began.elapsed() < Duration::from_secs(10));
        }
    }
}
