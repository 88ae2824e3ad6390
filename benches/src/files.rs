//! Files on one node: svmio beside the stock drivers of both MPIs, the very same programs on the same file system.
//!
//! ```text
//!   workload      what is run, of programs/files, what it tells, and what is aimed at
//!     catalogue   all that there is; its few rows for a short look; and what is asked for and not there
//!     bt_class    the sizes of one of them
//!
//!   place         where the files of both sides lie: /dev/shm, a tmpfs of huge pages, a disk
//!   keeper        who keeps them: svmio under each MPI, each stock driver
//!
//!   measuring     a workload × all keepers in turn, beside what the cores copy meanwhile
//!   outcome       what came of it: medians, and ratios over the best of the others
//!   earlier       the same of an interrupted run, which another one goes on with
//!
//!   report        the table, as Markdown and as JSON
//!   curves        bandwidth over the size of pieces, as SVG
//! ```

mod bt_class;
mod catalogue;
pub mod curves;
pub mod earlier;
pub mod keeper;
pub mod measuring;
pub mod outcome;
pub mod place;
pub mod report;
pub mod workload;

pub use bt_class::BtClass;
pub use catalogue::{Amount, Lacking, NAMES, Wanted, lacking, workloads};
