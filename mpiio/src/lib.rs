//! MPI's file functions for svmio: the part that the preload libraries of all MPI families share.
//!
//! `libsvmio_mpi.so` comes before MPI in a program and defines the functions in which files are named, and those before
//! or after which something is to be done that ROMIO leaves out, or does at a price. Each under its `MPI_` and its
//! `PMPI_` name, those with counts also in the large form of MPI-4 where the MPI has that (`MPI_File_` is left out):
//!
//! * `open`, `delete`: [`claim`] decides whose a name is; svmio's go to [`svmio_adio::plug`], all others to the stock
//!   function.
//! * `close`: files that are opened again and again are [kept](svmio_adio::reopening), and a close that fails is told.
//! * `preallocate`, `set_size` (`size`), `set_atomicity` (`mode`): the ranks agree, without ROMIO's own exchanges.
//! * `set_view`, `seek`, `get_position`, `get_byte_offset`: views with gaps are set, and pointers in them told, without
//!   ROMIO's own lists of their pieces; what MPI forbids about a view or a pointer is found out before.
//! * `get_view`: the representation is told that ROMIO has not heard of.
//! * `seek_shared`, `read_ordered`, `write_ordered` and the beginnings of split ones: all ranks hear before of what
//!   only one of ROMIO's would find out.
//! * `read_all`, `write_all`, `read_at_all`, `write_at_all`: it is looked whether the MPI refuses a rank's part before
//!   our device hears of it. Split ones are taken at both ends: they go on in between; for which the file is not open
//!   none begins.
//! * `iwrite_all`, `iwrite_at_all`: the next collective read is to show what they write, though nobody waits in them.
//! * `read`, `read_at`, `read_shared` and all of `iread`, `write`, `write_at`, `write_shared` and all of `iwrite`,
//!   `sync`, `get_position_shared`: the program is told what came of them (`reading`, `writing`; those by the shared
//!   pointer: `shared`).
//!
//! All of these are in `entry`, for any family. And `MPI_Init` (`initialize`), where processes of several nodes
//! [may meet](initialized), and `MPI_Finalize`: those that shared files
//! leave each other there. Both go on to the next library in the process that has such a function, maybe a tool that
//! stands between a program and MPI. What a family needs beyond that, the page of its library tells. Everything else
//! (`MPI_File_get_size`, `MPI_File_get_amode`, …) is the stock MPI's own: its ROMIO
//! calls our device, as it does below the functions above. What the first open would wait for is [done](warm_up) when the
//! library is loaded (`warming`).
//!
//! ```text
//!   program ─► MPI_File_open ─► file_open ─► claim ─┬─ svm:…  ─► Plug::open ─► ROMIO ─► ad_svm
//!                                                   └─ other  ─► the stock PMPI_File_open
//! ```
//!
//! ```
//! use std::ffi::OsStr;
//! use svmio_mpiio::claim::Claims;
//!
//! let claims = Claims::new(OsStr::new("/scratch/ckpt"));
//! assert_eq!(claims.claimed(OsStr::new("svm:/a/b")).as_deref(), Some(OsStr::new("/a/b")));
//! assert_eq!(claims.claimed(OsStr::new("/scratch/ckpt/c")).as_deref(), Some(OsStr::new("/scratch/ckpt/c")));
//! assert_eq!(claims.claimed(OsStr::new("/home/d")), None);
//! ```

pub mod claim;
mod collective;
mod entry;
mod initialize;
mod mode;
mod ordered;
mod pointer;
mod reading;
mod shared;
mod size;
mod split;
mod view;
mod warming;
mod writing;

pub use entry::{
    Prefix, file_close, file_collective, file_delete, file_open, file_ordered, file_preallocate,
    file_seek_shared, file_split_begin, file_split_end, finalize, with_stock,
};
pub use initialize::{initialized, initializing};
pub use mode::file_set_atomicity;
pub use pointer::{file_get_byte_offset, file_get_position, file_seek};
pub use reading::{file_iread, file_read};
pub use shared::{
    file_iread_shared, file_iwrite_shared, file_position_shared, file_read_shared, file_write_shared,
};
pub use size::file_set_size;
pub use view::{file_get_view, file_set_view};
pub use warming::warm_up;
pub use writing::{file_iwrite, file_write, file_write_by_all};
