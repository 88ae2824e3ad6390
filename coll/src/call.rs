//! One call of a collective, on one member.

use crate::error::Result;
use crate::family::Family;
use crate::group::Group;
use crate::stock::Stock;

mod aliasing;
pub(crate) mod background;
mod moving;
mod reducing;
mod varying;

pub(crate) use moving::{Received, Sent};
pub(crate) use reducing::Combined;
pub(crate) use varying::{Datatypes, Divided};

/// What a call has besides its arguments.
pub(crate) struct Call<'c, A: Family> {
    pub(crate) stock: &'c Stock<A>,
    pub(crate) group: &'c mut Group,
}

/// Whether a call was taken; not where its arguments are wrong, or MPI has to do it.
pub(crate) type Outcome = Result<bool>;

/// Goes on with an argument, or leaves the call to MPI.
macro_rules! or_leave {
    ($argument:expr) => {
        match $argument {
            Some(argument) => argument,
            None => return Ok(false),
        }
    };
}
use or_leave;

impl<A: Family> Call<'_, A> {
    /// Which member the root of a call is.
    fn root(&self, root: std::ffi::c_int) -> Option<usize> {
        usize::try_from(root).ok().filter(|&root| root < self.group.size())
    }
}
