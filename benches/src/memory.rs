//! Programs that use files on several nodes as memory (`svmio-examples`), beside themselves with reads and writes.
//!
//! ```text
//!   job       one run: processes of this very program, on nodes in memory or on hosts; what it tells
//!   limited   processes that may take only so much memory: a control group
//!   stencil   halos by page faults, and by reads and writes
//!   sort      more keys than memory may hold: on nodes, and in a local file that is mapped
//! ```

pub mod job;
mod limited;
pub mod sort;
pub mod stencil;
