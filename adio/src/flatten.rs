//! Datatypes, flattened: where the bytes are that a datatype names.
//!
//! ```text
//!   datatype ── reading ──► Shape       nested loops, as compact as the calls that made the type
//!      │       (dimensions)   │
//!      └── kept with it ──────┤ address(position), position(address)
//!                             └ Cursor  regular runs of bytes, from any position on
//! ```
//!
//! `reading` asks MPI how a datatype was made; a shape and its cursors know nothing of MPI. A datatype is read once:
//! its shape is kept as an attribute of it, so that it goes when the handle is freed, however soon that is given again.

mod cursor;
mod dimensions;
mod elementary;
mod kept;
mod reading;
mod shape;

pub(crate) use cursor::{Cursor, Runs};
pub(crate) use elementary::is_elementary;
pub(crate) use kept::{is_kept, of, share};
pub(crate) use shape::Shape;

use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;

/// Whether the data of one `datatype` is a single run of bytes that begins where the datatype is put. False, too, where
/// that is not known.
pub fn is_one_run<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> bool {
    of(mpi, datatype).is_ok_and(|shape| shape.is_one_run())
}
