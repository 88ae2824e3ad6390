//! `ad_svm`: the ADIO device that brings svmio's files into the ROMIO inside a stock MPI.
//!
//! ROMIO, the implementation of MPI's files that nearly every MPI carries, reaches file systems through a
//! table of functions. This crate fills such a table, and plugs it into a ROMIO that was compiled long ago
//! and knows nothing of it.
//!
//! ```text
//!   MPI_File_open("svm:…")  ── mpiio ──►  plug      checks version and layout, then
//!                                          │        mpich: a stub handle gets our table
//!                                          ▼        openmpi: the test driver's table becomes ours
//!   MPI_File_write_all … ──► ROMIO ──►  table       C entry points, one set per `Generation` of ROMIO
//!                              ▲           │
//!          generic functions   │           ├─ opening         rank 0 finds or makes, the others attach
//!          (info)        ◄──  host  ◄──────┼─ strided         datatypes straight into place, alone or collectively
//!                                          ├─ contiguous      bytes in a row
//!                                          └─ shared_pointer  ROMIO's shared file pointers
//! ```
//!
//! * `abi` holds what differs between the families of MPI; everything else is generic over [`abi::Abi`].
//!   `calls` are the MPI functions that are used, found at run time by `library`.
//! * `layout` are ROMIO's own structures. `handle` is what the device keeps of an open file.
//! * `venue` is where files live: in the store that a communicator's ranks share, or, where these are on several nodes,
//!   in a cluster that they form, which `clusters` leaves at the end of `MPI_Finalize`.
//! * `opening` finds or makes a file, of which an `introduction` tells the other ranks, in one of the `modes` that MPI
//!   permits, `appending` moves its pointers to the end, `closing` closes and removes it, `reopening` keeps what ROMIO made
//!   of files that are opened again and again. `noted` is what a thread notes meanwhile.
//! * `resizing` and `viewing` set sizes and views without ROMIO's own way, `comparing` finds out whether all ranks give the
//!   same. `asking` has two of MPICH's functions ask svmio first. `initializing` is `MPI_Init`.
//! * What ranks do together for an open, a sync, a resize or a close is [`svmio_svm::team`]'s. `circle` is by what
//!   those of a communicator tell each other things: MPI, or svmio's engine, which they form (`forming`) in a cluster's
//!   job or one of their own (`jobs`), whose processes find each other by `exchange`. `progress` has MPI go on while they
//!   wait there. Over a network it is MPI, and `watched` gives up where a rank is lost.
//! * `placing` gives the new segments of a collective write their homes, as `placement` says; the first such write
//!   settles how large segments are (`choosing`). For that, `amounts` adds up by node who writes how much where.
//! * `outcome` is who hears when what came of a collective access, `standing_in` what a rank does whose part MPI refuses.
//! * `ordered` is what all ranks do around an ordered access.
//! * `visibility` is when other nodes see what a rank has written, `linked` how programs are known that need it at once.
//! * `background` carries long accesses out while the program computes, [`split`] collective and nonblocking ones, also
//!   in atomic mode (`own_atomic_mode`).
//! * `flatten` tells where the bytes of a datatype are, `view` which bytes of the file a rank sees; `pairing` brings a
//!   buffer and a view together. `converting` turns data to `external32` and back in the place of ROMIO.
//! * `failure` makes MPI error codes that explain themselves, `telling` gets them through ROMIO, `hints` are the `svm_`
//!   keys of info objects.
//!
//! The families' numbers differ, which is why all of this is generic:
//!
//! ```
//! use svmio_adio::ErrorClass;
//! use svmio_adio::abi::{Abi, mpich::Mpich, openmpi::OpenMpi};
//!
//! assert_eq!(Mpich::error_class(ErrorClass::NoSpace), 36);
//! assert_eq!(OpenMpi::error_class(ErrorClass::NoSpace), 41);
//! ```
//!
//! Nothing here links MPI: a program that uses neither MPI nor `svm:` names can load it without harm.

pub mod abi;
mod access;
mod amounts;
mod appending;
mod asking;
mod background;
mod calls;
mod choosing;
mod circle;
mod closing;
mod clusters;
mod comparing;
mod contiguous;
mod converting;
mod exchange;
mod failure;
mod flatten;
mod forming;
mod handle;
mod hints;
pub mod host;
mod initializing;
mod introduction;
mod jobs;
pub mod layout;
pub mod library;
mod linked;
mod modes;
mod noted;
mod opening;
mod ordered;
mod outcome;
mod own_atomic_mode;
mod pairing;
mod placement;
mod placing;
pub mod plug;
pub mod pointer;
mod progress;
pub mod reopening;
mod representation;
mod resizing;
mod shared_pointer;
pub mod split;
mod standing_in;
mod strided;
pub mod table;
mod telling;
mod turn;
mod venue;
mod view;
pub mod viewing;
mod visibility;
mod watched;

pub use access::Direction;
pub use calls::{Background, Mpi, complete_requests};
pub use closing::{close_ahead, delete};
pub use clusters::{begin_finish, finish};
pub use comparing::before_mode;
pub use failure::{ErrorClass, Failure, behind};
pub use flatten::is_one_run;
pub use host::HasHost;
pub use initializing::{MISSING, initializing_function, meet};
pub use modes::demand_opened_for;
pub use opening::agreed;
pub use ordered::{after_ordered_access, check_ordered_part, exchange};
pub use outcome::note_collective_write;
pub use own_atomic_mode::in_own_atomic_mode;
pub use resizing::{after_preallocation, before_preallocation, set_size};
pub use shared_pointer::settle;
pub use standing_in::collective;
pub use svmio_svm::{environment, strip_prefix};
pub use telling::heard;
