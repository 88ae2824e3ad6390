//! MPI's collectives by svmio's [`Group`](svmio_collectives::executor::Group),
//! [`TwoLevelGroup`](svmio_collectives::executor::TwoLevelGroup) and, over MPI's own messages,
//! [`NetworkGroup`](svmio_collectives::executor::NetworkGroup): what all adapters share.
//!
//! An adapter is what a program's call of a collective reaches: a preload library (`coll/mpich`, `coll/openmpi`), or a
//! component of Open MPI's `coll` framework. It asks this crate first, and MPI where that does not take the call:
//!
//! ```text
//!   adapter ─► barrier(comm), bcast(…), …  ─┬─ Taken::Done(code)   it is done; code is MPI's, not yet reported
//!                                           └─ Taken::NotMine      nothing was done: the caller calls MPI's own
//! ```
//!
//! * The functions have exactly the arguments of MPI's C functions, and their names without `MPI_`: `ibarrier` and so
//!   on are those that do not block. Those for large counts (`MPI_Bcast_c`) are the same with other [numbers](Count).
//! * All members of a communicator get the same answer, unless one of them has passed an argument that is wrong in
//!   itself (a negative count, a root that is not there): that one is told `NotMine`, for MPI to say what is wrong.
//! * A code that is not `MPI_SUCCESS` has not been given to the communicator's error handler: a component returns it to
//!   Open MPI, which does that; a preload library calls [`report`].
//! * An error of MPI's own, of a message that a group sends by it, is given as it is.
//! * A member that cannot do its part, as MPI packs nothing for it, tells the others: for all of them this call or one
//!   that follows ends with a code, and so do all further ones, of those that do not block, too.
//! * Nothing has to be started. A communicator's group is formed at a collective that blocks, over MPI's own
//!   collectives, when it has had so many that it is worth it; that of `MPI_COMM_WORLD` at the first one. Meanwhile
//!   these functions answer `NotMine` to the thread that forms it, so that a component may be asked by the very MPI
//!   that this crate asks. [`begin`], called by all processes after `MPI_Init`, forms that of `MPI_COMM_WORLD` at once,
//!   so that all other groups use its fabric.
//! * Nothing has to be ended. An attribute of `MPI_COMM_SELF`, which `MPI_Finalize` deletes first, ends all groups.
//! * Before `MPI_Init` has returned, and after `MPI_Finalize` has begun, all answers are `NotMine`.
//!
//! How a call is done:
//!
//! ```text
//!   face        the functions that adapters call
//!     kept      the group of a communicator: the one of the last call, or its attribute, or a new one
//!       forming    what they show each other (card) decides; the fabrics they share (jobs), the group; agreed by all
//!       devices    whether MPI takes buffers that are in no memory of the process
//!       room       how many groups a process can be in
//!       trial      how many collectives MPI does before there is a group
//!     group     of members that share memory, or of several nodes
//!       company     who these are in their job, and which loss is behind an error
//!       chosen      the barrier of a component that the user wants instead, by SVMIO_COMPONENTS
//!       over_mpi    messages of MPI's own, where the user has several nodes go by these
//!     counts    numbers of elements, large or not
//!     call      moving, varying, reducing: a call's arguments as those of the group's function
//!       aliasing    one buffer for what is sent and what is received: left to MPI, or copied
//!       layout      a buffer, or blocks: bytes in a row as they are, others by MPI_Pack and MPI_Unpack
//!       operator    MPI_Op: predefined ones in loops of our own, all others by MPI_Reduce_local
//!       background  the same of calls that do not block
//!     background  collectives that go on while the program computes, and their requests
//!       behind    what carries them out: the group, or, over a network, another one with a thread
//!     progress  MPI goes on with what it has to do while a process waits in a group
//!     counting  how many calls were taken, for SVMIO_STATS
//!     setting   which collectives are left to MPI, by SVMIO_COLLECTIVES_OFF, and on which communicators, by _NODES
//!   component   what the component of Open MPI knows of datatypes beyond that, and its requests
//!   family      what differs between the families of MPI;  stock: MPI's own functions
//! ```
//!
//! Memory is the program's, and only what a call is given is touched: what it sends is only ever read, blocks that lie
//! apart are referred to one by one, and the gaps of a datatype are MPI's to leave alone.
//!
//! What is left to MPI: all, where it takes buffers in the memory of devices, unless the user says that there are none;
//! intercommunicators; communicators of one process or of several worlds; those of several nodes,
//! unless the user wants them taken and a job can be formed; with a preload library, those that are being freed, once
//! their group is gone; neighbourhood and persistent collectives. Of collectives
//! that do not block also short ones, unless the user wants them taken; those of a communicator without a group, since
//! forming one would wait; of several nodes, unless the user wants all taken; that reduce by an operation that MPI
//! carries out; and, with MPICH, of programs that call MPI by several threads at the same time.

mod background;
mod behind;
mod call;
mod card;
mod chosen;
mod company;
pub mod component;
mod counting;
mod counts;
mod devices;
mod error;
mod face;
pub mod family;
mod forming;
mod group;
mod jobs;
mod kept;
mod layout;
mod operator;
mod over_mpi;
pub mod preload;
mod progress;
mod room;
mod setting;
mod stock;
mod trial;

pub use counts::{Count, Numbers};
pub use face::{
    Taken, allgather, allgatherv, allreduce, alltoall, alltoallv, alltoallw, barrier, bcast, begin, exscan,
    gather, gatherv, iallgather, iallgatherv, iallreduce, ialltoall, ialltoallv, ialltoallw, ibarrier,
    ibcast, iexscan, igather, igatherv, ireduce, ireduce_scatter, ireduce_scatter_block, iscan, iscatter,
    iscatterv, reduce, reduce_scatter, reduce_scatter_block, report, scan, scatter, scatterv,
};
pub use family::Family;
pub use operator::{Kind, Number, Operator};
pub use stock::Stock;
pub use svmio_adio::{MISSING, export_initialization};
