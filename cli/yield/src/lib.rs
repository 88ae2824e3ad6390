//! `libsvmio_yield.so`: MPICH's cure where ranks outnumber cores.
//!
//! MPICH 4.0 waits by polling its transport for ever and never gives the core away, and none of its
//! settings changes that. With more ranks than cores a rank that waits then keeps the rank it waits for
//! from running until the scheduler's time slice is over: milliseconds for what takes microseconds.
//!
//! `svmio run` preloads this library, and nothing else needs to know of it. It stands in front of two
//! functions:
//!
//! | function | where | what changes |
//! |---|---|---|
//! | `ucp_worker_progress` | in the ranks | after a number of polls in a row that found nothing, `sched_yield` (`poll`) |
//! | `setsid` | in the fork of `hydra_pmi_proxy` that becomes a rank | a process group instead of a session (`session`) |
//!
//! The second makes the first work: the kernel schedules by session (autogroups), and a yield hands the
//! core to others of the same session only. MPICH calls `ucp_worker_progress` in each turn of its
//! waiting loop also where all traffic goes through shared memory, which is why this one place is enough.
//!
//! All calls into C are in `sys`. Nothing here allocates, locks or panics.

mod poll;
mod session;
mod sys;
