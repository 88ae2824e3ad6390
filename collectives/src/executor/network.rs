//! Collectives of members that share no memory, or share it only within their nodes.
//!
//! ```text
//!   Fabrics         the job's fabric, and shared memory within each node; barriers take both             (fabrics)
//!   NetworkGroup    collectives over messages, each by the algorithm that costs least                    (group)
//!     ├── point_to_point   what it asks of whatever carries its messages: the fabric (over_fabric), or a host library
//!     │     └── barrier    flags of the fabric's, or any schedule by messages alone
//!     ├── costs       what a message costs, and by that what each algorithm does; choices override
//!     │     └── learning   measured where the first member does not know it
//!     ├── spreading   bcast │ collecting  gather, scatter │ sharing  allgather │ trading  alltoall
//!     ├── reducing    reduce, allreduce, reduce_scatter    prefix  scan, exscan
//!     │     ├── interpreter   what all of these do: the member's part of a collective's schedule, step by step
//!     │     ├── memory        where its blocks lie: in the caller's buffers, or beside them (shares: their sizes)
//!     │     └── exchange      a message to one, a message from another, at the same time
//!     └── refusing    who cannot do an operation leaves, and nobody waits for it
//!   TwoLevelGroup   a Group of shared memory within each node, its first members over the network        (two_level, by_nodes)
//!                   what has no second level goes by messages alone                                        (messages)
//!   Background      either kind, with a thread that carries its operations out while the application computes
//!                                                                                                        (background)
//! ```
//!
//! The algorithms are values ([`collective`](crate::collective)), and the well-known ones (R. Thakur, R. Rabenseifner
//! and W. Gropp, "Optimization of Collective Communication Operations in MPICH"). Operations that do not commute are
//! combined in the order of members by all of those that are chosen for them.

mod background;
mod barrier;
mod by_nodes;
mod choices;
mod collecting;
mod costs;
mod exchange;
mod fabrics;
mod group;
mod interpreter;
mod learning;
mod memory;
mod messages;
mod over_fabric;
mod point_to_point;
mod prefix;
mod reducing;
mod refusing;
mod shares;
mod sharing;
mod spreading;
mod trading;
mod two_level;

pub use background::{Background, Carrier, Pending};
pub use choices::Choices;
pub use fabrics::Fabrics;
pub use group::{NetworkGroup, NetworkSettings};
pub use point_to_point::PointToPoint;
pub use two_level::TwoLevelGroup;

pub use crate::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    MessageCosts, ReduceAlgorithm, ReduceScatterAlgorithm,
};
