//! MPI-IO for Rust programs: what the crate [`mpi`] (rsmpi) has of MPI, but for files.
//!
//! A [`File`] is opened by all ranks of a communicator together, and read and written by any of them. It is MPI's own:
//! the crate calls `MPI_File_open` and its kin and nothing of svmio's, so that a program works on all files that its
//! MPI knows. Run by `svmio run`, which puts `libsvmio_mpi.so` before MPI, it reaches `svm:` files, too.
//!
//! ```text
//!   OpenOptions ─► File ─┬─ read_at, write_at, …            blocking      at an offset, by the file's pointers,
//!   Hints ─────────┘     ├─ immediate_read_at, … ─► Pending nonblocking   by the one that all ranks share;
//!   View ────────────────┤                                                each rank for itself, or all together
//!                        └─ split_read_at_all, …            around a computation
//!                                    │
//!                                    └─► Transferred: how much came through, or Error: MPI's class and text
//! ```
//!
//! * [`opening`](OpenOptions): how a file is opened, and with which [`Hints`]; [`delete`].
//! * `file`: a file's size, its consistency, its end.
//! * [`view`](View): which bytes of the file a rank sees, and how they are represented.
//! * `access`, `shared`: reading and writing that return when they are done. `nonblocking`: those that go on meanwhile.
//!   `split`: collective ones around a computation.
//! * [`error`](Error): what MPI says of a call that failed.
//! * `sys`: the calls themselves, each kind once, which is where all `unsafe` of the crate is. MPI is called only
//!   while it runs, by threads that may call it: else each call fails.
//!
//! Buffers are those of the crate `mpi`: a number, an array, a slice or a vector of numbers, what derives
//! [`Equivalence`](mpi::traits::Equivalence), or a [`View`](mpi::datatype::View) of memory by any datatype.
//!
//! What is read may be any bytes, and so a buffer that has a `bool` in it is refused; it can be written.
//!
//! Of MPI-3.1's chapter 13 `MPI_File_get_group` is left out, since the crate `mpi` makes no group of a handle.
//!
//! Offsets count elements of the view's etype, bytes where no view was set. What a method's name says of who takes part
//! is MPI's: those with `all`, `ordered`, and all that concern the file as a whole, are collective.
//!
//! ```no_run
//! use mpi::traits::*;
//! use svmio_file::{File, Offset};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let universe = mpi::initialize().ok_or("MPI is initialized already")?;
//!     let world = universe.world();
//!     let mine = vec![f64::from(world.rank()); 1000];
//!     let offset = Offset::from(world.rank()) * size_of_val(&mine[..]) as Offset;
//!
//!     let file = File::create(&world, "svm:/results/step1")?;
//!     file.write_at_all(offset, &mine[..])?;
//!
//!     let mut again = vec![0.0; 1000];
//!     file.read_at_all(offset, &mut again[..])?.demand_all()?;
//!     assert_eq!(again, mine);
//!     file.close()?;
//!     Ok(())
//! }
//! ```

mod access;
mod error;
mod file;
mod hints;
mod nonblocking;
mod opening;
mod shared;
mod split;
mod sys;
mod transferred;
mod view;

pub use error::{Error, ErrorClass};
pub use file::{File, Whence};
pub use hints::Hints;
pub use nonblocking::Pending;
pub use opening::{OpenOptions, delete};
pub use sys::ViewDatatype;
pub use transferred::Transferred;
pub use view::{CurrentView, Representation, View};

/// An offset in a file, or a number of bytes: which of them, and of what, each function says.
pub type Offset = mpi::ffi::MPI_Offset;
