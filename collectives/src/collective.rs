//! Collectives as values: steps in which ranks give each other blocks of data.
//!
//! ```text
//!   CollectiveAlgorithm     "allreduce:ring", …   (names, text, constructors)
//!       ├── part_of         what one rank does, of which the others need not be made     (part, transfer, blocks)
//!       │      └── executor    each member of a NetworkGroup, by messages
//!       └── schedule        what all do                                                  (schedule)
//!              ├── check       the proof: whose contributions are where in the end       (proof, definition)
//!              ├── predict     its cost by what messages cost, by critical path          (prediction, costs)
//!              └── simulation  its cost on a fabric, in virtual time
//! ```
//!
//! A transfer says who gives whom which blocks, and what becomes of them there: they are stored, or combined with what
//! is there, on one side of it. Blocks are numbers. How long they are, and where they lie in a rank's memory, is bound
//! when a schedule is executed.
//!
//! ```
//! use svmio_collectives::Rank;
//! use svmio_collectives::collective::{AllreduceAlgorithm, CollectiveAlgorithm, MessageCosts};
//!
//! let algorithm = CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::Ring);
//! let schedule = algorithm.schedule(5);
//! schedule.check(algorithm.collective(), algorithm.operands())?;
//! for step in algorithm.part_of(5, Rank(2)).steps() {
//!     println!("{step:?}");
//! }
//! // Vectors of 5 KiB.
//! let nanoseconds = schedule.predict(&MessageCosts::default(), 1024.0).total;
//! # assert!(nanoseconds > 0.0);
//! # Ok::<(), svmio_collectives::collective::Flaw>(())
//! ```

mod algorithm;
mod blocks;
mod constructors;
mod costs;
mod definition;
mod error;
mod names;
mod part;
mod prediction;
mod proof;
mod schedule;
mod text;
mod transfer;

pub use algorithm::CollectiveAlgorithm;
pub use blocks::Blocks;
pub(crate) use constructors::tree::subtree;
pub use costs::MessageCosts;
pub(crate) use costs::SHORT;
pub use definition::Collective;
pub use error::{CollectiveScheduleError, Flaw};
pub use names::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};
pub use part::Part;
pub use proof::Operands;
pub use schedule::CollectiveSchedule;
pub use text::UnknownCollective;
pub use transfer::{Receipt, Transfer};
