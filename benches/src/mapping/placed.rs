//! On which cores threads run that serve others.
//!
//! A thread that waits for another one on its own core waits for two switches; on another core, that sleeps, for that
//! to be woken, which takes ten times as long or more where the core is a virtual one. Which of these the kernel chooses
//! changes from one moment to the next, so what is compared has to be placed alike.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Where the threads run that a thread starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    /// Where the kernel puts them, as this one.
    Anywhere,
    /// On the core that this one is on.
    Here,
    /// On another core than this one.
    Elsewhere,
}

/// As long as it lives, the thread stays that has made it.
pub(super) struct Placed {
    before: CpuSet,
}

impl Servers {
    /// Starts something with threads of its own.
    ///
    /// # Panics
    /// Where that is not allowed, or there is no other core.
    pub(super) fn start<T>(self, start: impl FnOnce() -> T) -> (T, Placed) {
        let before = sched_getaffinity(None).expect("a thread may ask where it may run");
        let placed = Placed { before };
        if self == Servers::Anywhere {
            return (start(), placed);
        }
        let here = sched_getcpu();
        let another = || (0..CpuSet::MAX_CPU).find(|core| *core != here && before.is_set(*core));
        stay_on(if self == Servers::Here { here } else { another().expect("there are two cores") });
        let started = start();
        stay_on(here);
        (started, placed)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).expect("what was allowed before is again");
    }
}

fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).expect("a thread may be kept on a core");
}
