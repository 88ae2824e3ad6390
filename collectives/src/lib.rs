//! Barriers and collectives as data: a barrier is a schedule of signals, a collective one of blocks.
//!
//! ```text
//!   Algorithm ("tree:4", "nx:6", …)     Profile (O and L matrices of this machine)
//!       │ schedule(ranks): constructors    │ clustering ─► tree of ranks ─► composition
//!       ▼                                  ▼
//!   Schedule ◄─────────────────────────────┘       steps of signals, nothing else
//!       ├── is_barrier      the proof: who knows of whom after each step
//!       ├── prediction      its cost on a machine, by critical path
//!       ├── simulation      its cost on a fabric that nobody has, in virtual time, at 100,000 ranks
//!       ├── emission        the same as C or Rust source
//!       └── executor        doing it: over the fabric, or by a host library's send and receive
//!              └── components    which executor serves which function of a group; one of them is the
//!                    └── hardware    barrier of a controller with a line out and a line in per node
//!
//!   CollectiveAlgorithm (bcast by a binomial tree, allreduce by a ring, …)                        (collective)
//!       │ schedule(ranks), or one rank's part_of it
//!       ▼
//!   CollectiveSchedule      steps of blocks that are stored or combined where they come
//!       ├── check           the proof: whose contributions each rank has in the end
//!       ├── predict         its cost by what messages cost, by critical path
//!       ├── simulation      its cost on a fabric, in virtual time
//!       └── executor        doing it: each member of a NetworkGroup its part
//! ```
//!
//! A *schedule* says for each step who signals whom; a rank takes the next step when it has sent its signals and
//! received those that it awaits. That is all that an executor needs, and all that the proof, the prediction and the
//! simulation look at: what one of them says of a schedule holds for what the others do. Steps in which members may count
//! ([`StepKind::FetchAdd`]) are signals to the prediction, and to an executor whose fabric counts by messages.
//!
//! A [collective's schedule](collective) says for each step who gives whom which blocks of data, and what becomes of
//! them there. A member of a [`NetworkGroup`](executor::NetworkGroup) makes its own part of it at each call, as long as
//! that is; the others look at all of it. Written as code are those of a [`Group`](executor::Group), whose members
//! reach into each other's memory instead of sending messages, and what a [`TwoLevelGroup`](executor::TwoLevelGroup)
//! makes of these two.
//!
//! ```
//! use svmio_collectives::{Algorithm, Rank};
//!
//! let algorithm: Algorithm = "tree:4".parse()?;
//! let schedule = algorithm.schedule(7)?;
//! assert!(schedule.is_barrier());
//! for step in schedule.part_of(Rank(4)) {
//!     println!("step {}: signal {:?}, then await {:?}", step.number, step.signal, step.awaited);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod clustering;
pub mod collective;
pub mod components;
mod composition;
mod constructors;
mod emission;
pub mod executor;
pub mod hardware;
mod partition;
mod peers;
mod prediction;
pub mod profile;
mod proof;
mod rank;
mod saving;
mod schedule;
pub mod simulation;

pub use algorithm::{Algorithm, AlgorithmError, NodesOf};
pub use clustering::{Cluster, SPARSENESS};
pub use composition::{
    Candidate, Choice, Composition, CompositionError, algorithms, compose, outermost_clusters, tune, tune_on,
};
pub use emission::{EmissionError, Language};
pub use partition::{Partition, PartitionError};
pub use prediction::{CostModel, Prediction};
pub use rank::Rank;
pub use schedule::{PartStep, Schedule, ScheduleError, Signal, Step, StepDescription, StepKind};
