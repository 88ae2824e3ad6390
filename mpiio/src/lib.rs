//! MPI's file functions for svmio: the part that the preload libraries of all MPI families share.
//!
//! `libsvmio_mpi.so` comes before MPI in a program and defines the few functions in which files are named.
//! [`claim`] decides whose a name is; svmio's go to [`svmio_adio::plug`], all others to the stock function.
//! `MPI_File_close` is defined, too, because files that are opened again and again are [kept](svmio_adio::reopening);
//! and `MPI_Finalize`: processes of several nodes that shared files leave each other there. Split collective accesses
//! are taken at both ends: they go on in between. Views with gaps are
//! set, and pointers in them told, without ROMIO's own lists of their pieces. Sizes are set without ROMIO's own
//! exchange, and ranks compare the modes that they set before. Of collective accesses that block it is only looked
//! whether the MPI refuses a rank's part before our device hears of it, and of reads (`reading`) whether it tells what came
//! of them. Everything else (`MPI_File_write_at`, …) is the stock MPI's own: its ROMIO calls our device. What the first open
//! would wait for is [done](warm_up) when the library is loaded.
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
mod mode;
mod ordered;
mod pointer;
mod reading;
mod size;
mod split;
mod view;
mod warming;

pub use entry::{
    file_close, file_collective, file_delete, file_open, file_ordered, file_preallocate, file_seek_shared,
    file_split_end, finalize, with_stock,
};
pub use mode::file_set_atomicity;
pub use pointer::{file_get_byte_offset, file_get_position, file_seek};
pub use reading::{file_iread, file_read};
pub use size::file_set_size;
pub use view::file_set_view;
pub use warming::warm_up;
