//! A thread on a core of its choice, for a while: each of two who are measured, or one who leaves a shared core.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this thread may run on.
#[derive(Debug)]
pub(super) struct Cores {
    all: CpuSet,
    numbers: Vec<usize>,
}

impl Cores {
    /// Those of now.
    pub(super) fn of_thread() -> Self {
        // Where nobody tells, there are none to choose from.
        let all = sched_getaffinity(None).unwrap_or_default();
        let numbers = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
        Self { all, numbers }
    }

    /// Their numbers, the least first.
    pub(super) fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// Keeps this thread on one of them until this is dropped. Where that is not allowed, the scheduler's choice has to
    /// do.
    pub(super) fn keep_on(&self, core: usize) -> Pinned<'_> {
        let mut one = CpuSet::new();
        one.set(core);
        let _ = sched_setaffinity(None, &one);
        Pinned { cores: self }
    }

    /// Keeps this thread, that of place `own`, on a core that is not the other's, until this is dropped: the scheduler
    /// may have both on one otherwise, where signals take a hundred times as long. Each place has its own core where
    /// there are enough.
    pub(super) fn pin(&self, own: usize, other: usize) -> Option<Pinned<'_>> {
        let count = self.numbers.len();
        if count < 2 {
            return None;
        }
        let is_shared = own % count == other % count;
        let at = if is_shared && own > other { own + 1 } else { own } % count;
        Some(self.keep_on(self.numbers[at]))
    }
}

/// A thread on one core.
#[derive(Debug)]
pub(super) struct Pinned<'cores> {
    cores: &'cores Cores,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // It was allowed before, so at most memory is short, for a moment.
        let all = &self.cores.all;
        let _ = sched_setaffinity(None, all).or_else(|_| sched_setaffinity(None, all));
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::Cores;

    #[test]
    fn two_have_different_cores_and_all_of_them_again_afterwards() {
        let cores = Cores::of_thread();
        for (one, other) in [(0, 1), (0, cores.numbers.len()), (3, 3 + 2 * cores.numbers.len())] {
            let of = |own, other| {
                let _pinned = cores.pin(own, other);
                sched_getaffinity(None).unwrap()
            };
            let (first, second) = (of(one, other), of(other, one));
            if cores.numbers.len() > 1 {
                assert!(first.count() == 1 && second.count() == 1 && first != second, "{one} and {other}");
            }
        }
        assert_eq!(sched_getaffinity(None).unwrap(), cores.all);
    }
}
