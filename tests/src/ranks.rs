//! The ranks of a job as threads of this process, each with its own back end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use svmio_transport::back_end::{BackEnd, Prepared};
use svmio_transport::{Fabric, Membership, Rank};

/// A rank that runs on a thread.
#[derive(Debug)]
pub struct ThreadRank<'a> {
    /// Its place on the fabric.
    pub fabric: Fabric,
    gathering: &'a Gathering,
}

impl ThreadRank<'_> {
    /// Waits until all ranks have come to this point, by other means than the fabric.
    ///
    /// # Panics
    /// Where one of them has panicked.
    pub fn gather(&self) {
        assert!(self.gathering.come(self.fabric.size()), "another rank has panicked");
    }
}

/// A barrier that lets go when somebody will never come.
#[derive(Debug, Default)]
struct Gathering {
    state: Mutex<Gathered>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gathered {
    present: u32,
    rounds: u64,
    is_given_up: bool,
}

impl Gathering {
    /// Waits for `size` to come; false where one will not.
    fn come(&self, size: u32) -> bool {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.present += 1;
        if state.present == size {
            state.present = 0;
            state.rounds += 1;
            self.changed.notify_all();
        } else {
            let round = state.rounds;
            let is_waiting = |state: &mut Gathered| state.rounds == round && !state.is_given_up;
            state = self.changed.wait_while(state, is_waiting).expect("nobody panics with it");
        }
        !state.is_given_up
    }

    fn give_up(&self) {
        self.state.lock().expect("nobody panics with it").is_given_up = true;
        self.changed.notify_all();
    }
}

/// Runs `body` as each rank of a job of `size`. What `prepare` makes is brought together, and given to `wrap` to be
/// put into something else, or returned as it is.
///
/// # Panics
/// Where a back end does not come to life, or with what the first of the ranks panics with; it is lost to the others
/// then.
pub fn in_threads(
    size: u32,
    prepare: impl Fn(Rank) -> Box<dyn Prepared>,
    wrap: impl Fn(Arc<dyn BackEnd>) -> Arc<dyn BackEnd>,
    body: impl Fn(&ThreadRank<'_>) + Sync,
) {
    let prepared: Vec<_> = (0..size).map(Rank).map(prepare).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let node = || "this-node".to_owned();
    let nodes: Vec<_> = (0..size).map(|_| node()).collect();
    let memberships: Vec<_> =
        (0..size).map(|rank| Arc::new(Membership::new(Rank(rank), nodes.clone()))).collect();
    let fabrics = prepared.into_iter().zip(&memberships).map(|(prepared, membership)| {
        let back_end = prepared.join(Arc::clone(membership), addresses.clone());
        Fabric::new(wrap(back_end.unwrap_or_else(|error| panic!("joining: {error}"))))
    });
    let fabrics: Vec<_> = fabrics.collect();
    let gathering = Gathering::default();
    // The first panic is the reason for the others.
    let first = OnceLock::new();
    let run = |fabric: &Fabric| {
        let rank = ThreadRank { fabric: fabric.clone(), gathering: &gathering };
        let result = catch_unwind(AssertUnwindSafe(|| body(&rank)));
        if result.is_err() {
            let _ = first.set(fabric.rank());
            // The others need not wait for it.
            gathering.give_up();
            for membership in &memberships {
                membership.declare_lost(fabric.rank(), "it panicked");
            }
        }
        result
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = fabrics.iter().map(|fabric| scope.spawn(|| run(fabric))).collect();
        threads.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
    });
    for fabric in &fabrics {
        fabric.close();
    }
    if let Some(first) = first.get()
        && let Err(panic) = results.swap_remove(first.index())
    {
        resume_unwind(panic);
    }
}
