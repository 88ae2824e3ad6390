//! Barriers as data, and collectives: a barrier is a schedule, other collectives are algorithms written as code.
//!
//! ```text
//!   Algorithm ("tree:4", "nx:6", …)     Profile (O and L matrices of this machine)
//!       │ schedule(ranks)                  │ clustering ─► tree of ranks ─► composition
//!       ▼                                  ▼
//!   Schedule ◄─────────────────────────────┘       steps of signals, nothing else
//!       ├── is_barrier      the proof: who knows of whom after each step
//!       ├── prediction      its cost on a machine, by critical path
//!       ├── simulation      its cost on a fabric that nobody has, in virtual time, at 100,000 ranks
//!       ├── emission        the same as C or Rust source
//!       └── executor        doing it: over the fabric, or by a host library's send and receive
//!              └── components    which executor serves which function of a group; one of them is the
//!                    └── hardware    barrier of a controller with a line out and a line in per node
//! ```
//!
//! A *schedule* says for each step who signals whom; a rank takes the next step when it has sent its signals and
//! received those that it awaits. That is all that an executor needs, and all that the proof, the prediction and the
//! simulation look at: what one of them says of a schedule holds for what the others do. Steps in which members may count
//! ([`StepKind::FetchAdd`]) are signals to the prediction, and to an executor whose fabric counts by messages.
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
mod schedule;
pub mod simulation;

pub use algorithm::{Algorithm, AlgorithmError, NodesOf};
pub use clustering::{Cluster, SPARSENESS};
pub use composition::{Candidate, Choice, Composition, CompositionError, algorithms, compose, tune};
pub use emission::{EmissionError, Language};
pub use partition::{Partition, PartitionError};
pub use prediction::{CostModel, Prediction};
pub use rank::Rank;
pub use schedule::{PartStep, Schedule, ScheduleError, Signal, Step, StepDescription, StepKind};
