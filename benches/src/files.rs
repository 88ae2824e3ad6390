//! Files on one node: svmio beside the stock drivers of both MPIs, the very same programs on the same file system.
//!
//! ```text
//!   workload      what is run, of programs/files, what it tells, and what is aimed at
//!     catalogue   all that there is
//!
//!   place         where the files of both sides lie: /dev/shm, a tmpfs of huge pages, a disk
//!   keeper        who keeps them: svmio under each MPI, each stock driver
//!
//!   measuring     a workload × all keepers in turn, beside what the cores copy meanwhile
//!   outcome       what came of it: medians, and ratios over the best of the others
//!
//!   report        the table, as Markdown and as JSON
//!   curves        bandwidth over the size of pieces, as SVG
//! ```

mod catalogue;
pub mod curves;
pub mod keeper;
pub mod measuring;
pub mod outcome;
pub mod place;
pub mod report;
pub mod workload;

pub use catalogue::{BtClass, NAMES, Wanted, workloads};
