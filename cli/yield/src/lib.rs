//! `libsvmio_yield.so`: MPICH's cure for how its ranks wait.
//!
//! MPICH 4.0 waits by polling its transport for ever and never gives the core away, and none of its
//! settings changes that. With more ranks than cores a rank that waits then keeps the rank it waits for
//! from running until the scheduler's time slice is over: milliseconds for what takes microseconds.
//! At one place it waits without polling, at the end of `MPI_Finalize`, and there keeps ranks of other nodes
//! from getting as far for ever.
//!
//! `svmio run` preloads this library, and nothing else needs to know of it. It stands in front of these
//! functions:
//!
//! | function | where | what changes |
//! |---|---|---|
//! | `ucp_worker_progress` | in the ranks | after a number of polls in a row that found nothing, `sched_yield` (`poll`) |
//! | `setsid` | in the fork of `hydra_pmi_proxy` that becomes a rank | a process group instead of a session (`session`) |
//! | `read` | in the ranks, between `ucp_disconnect_nb` and `ucp_worker_destroy`, from the process manager | polls while it waits (`farewell`) |
//!
//! The second makes the first work: the kernel schedules by session (autogroups), and a yield hands the
//! core to others of the same session only. MPICH calls `ucp_worker_progress` in each turn of its
//! waiting loop also where all traffic goes through shared memory, which is why this one place is enough.
//!
//! With `SVMIO_YIELD=never` in the environment nothing yields; the rest stays.
//!
//! All calls into C are in `sys`. Nothing here allocates, locks or panics.

mod farewell;
mod poll;
mod session;
mod sys;

/// Has the loader call [`start`] before the program begins.
#[used]
// SAFETY: the section is an array of functions of this type.
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    sys::find_read();
    poll::start();
}
