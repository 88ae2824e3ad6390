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
mod kept;
mod reading;
mod shape;

pub(crate) use cursor::{Cursor, Runs};
pub(crate) use kept::of;
pub(crate) use shape::Shape;
