//! `MPI_Init`, and what may be done when it has returned.

use std::ffi::{CString, c_int};

use crate::abi::Abi;
use crate::calls::Mpi;
use crate::circle;
use crate::failure::Failure;
use crate::library::Library;
use crate::venue::Venue;

/// Brings the nodes of all ranks of `MPI_COMM_WORLD` together, as an open by it would: what single ranks open from then
/// on is found on all of them. All ranks call this, when MPI is initialized.
///
/// # Errors
/// What keeps a rank from it, on all of them. Opens will try it again.
pub fn meet<A: Abi>(mpi: &'static Mpi<A>) -> Result<(), Failure> {
    let world = mpi.constants.comm_world;
    let meeting = || {
        let venue = Venue::of(&circle::team(mpi, world))?;
        if let Some(company) = venue.company() {
            circle::use_cluster(mpi, world, company);
        }
        Ok(())
    };
    // SAFETY: this communicator is always there.
    unsafe { circle::opening(mpi, world, meeting) }
}

/// What a function returns that this MPI does not have: a code of a class that is an error in all families.
pub const MISSING: c_int = 16;

/// Defines the functions that initialize MPI, under both names of each: Open MPI's Fortran functions, and tools that
/// stand between a program and MPI, call the second. They go on to the next library's of the same name, or MPI's.
/// `$before` is called first; `$after` gets the code that these return, and returns the program's; it may be called
/// within itself where such a tool is the next library.
#[macro_export]
macro_rules! export_initialization {
    ($before:expr, $after:expr) => {
        $crate::export_initialization! { @each $before, $after,
            MPI_Init, PMPI_Init: (count: *mut c_int, arguments: *mut c_void);
            MPI_Init_thread, PMPI_Init_thread:
                (count: *mut c_int, arguments: *mut c_void, required: c_int, provided: *mut c_int);
        }
    };
    (@each $before:expr, $after:expr, $($name:ident, $profiled:ident: $arguments:tt;)*) => {$(
        $crate::export_initialization! { @one $before, $after, $name, $profiled, $arguments }
        $crate::export_initialization! { @one $before, $after, $profiled, $profiled, $arguments }
    )*};
    (@one $before:expr, $after:expr, $name:ident, $profiled:ident, ($($argument:ident: $kind:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            type Function = unsafe extern "C" fn($($kind),*) -> c_int;
            $before();
            // SAFETY: the type is that of the function in mpi.h.
            match unsafe { $crate::initializing_function::<Function>(stringify!($name), stringify!($profiled)) } {
                // SAFETY: the caller's arguments.
                Some(function) => $after(unsafe { function($($argument),*) }),
                None => $crate::MISSING,
            }
        }
    };
}

/// The function `symbol` that initializes MPI: of the next library, or MPI's own, which is called `of_mpi`.
///
/// # Safety
/// `F` is a function pointer of the type that both have.
#[doc(hidden)]
pub unsafe fn initializing_function<F: Copy>(symbol: &str, of_mpi: &str) -> Option<F> {
    let [symbol, of_mpi] = [symbol, of_mpi].map(|name| CString::new(name).unwrap_or_default());
    // SAFETY: the caller vouches for the type.
    let function = unsafe { Library::behind(&symbol, &of_mpi) };
    function.map_err(|missing| tracing::error!("MPI cannot be initialized: {missing}")).ok()
}
