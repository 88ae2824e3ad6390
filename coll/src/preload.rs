//! What a preload library is made of: MPI's functions, of one family.

mod freeing;
mod large;

use std::ffi::{CStr, c_int};

use svmio_adio::library::{Library, SymbolError};

use crate::face;
use crate::family::Family;

pub use freeing::freeing;

/// MPI's own function `symbol`, a name with its closing zero.
///
/// # Safety
/// `F` is a function pointer of the type that the function has.
pub unsafe fn stock<F: Copy>(symbol: &str) -> Option<F> {
    let symbol = CStr::from_bytes_with_nul(symbol.as_bytes()).ok()?;
    // SAFETY: the caller vouches for the type.
    found(Library::mpi().and_then(|library| unsafe { library.function(symbol) }))
}

/// The function `symbol` of the next library that has it, or MPI's own, which is called `of_mpi`.
///
/// # Safety
/// `F` is a function pointer of the type that both have.
pub unsafe fn behind<F: Copy>(symbol: &CStr, of_mpi: &CStr) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    found(unsafe { Library::behind(symbol, of_mpi) })
}

/// A function, or a word about it.
fn found<F>(function: Result<F, SymbolError>) -> Option<F> {
    let missing = |problem| {
        svmio_logging::start();
        tracing::error!("{problem}");
    };
    function.map_err(missing).ok()
}

/// Before `MPI_Init`.
pub fn initializing() {
    svmio_logging::start();
}

/// After `MPI_Init`, which returned `code`.
pub fn initialized<A: Family>(code: c_int) -> c_int {
    if code == svmio_adio::abi::SUCCESS {
        face::begin::<A>();
    }
    code
}

/// Defines MPI's collectives of a family, and the functions that initialize it, under both names of each: Open MPI's
/// Fortran functions, and tools that stand between a program and MPI, call the second.
#[macro_export]
macro_rules! export_collectives {
    ($family:ty) => {
        $crate::export_collectives! { @each $family,
            barrier, MPI_Barrier, PMPI_Barrier, ibarrier, MPI_Ibarrier, PMPI_Ibarrier: ();
            bcast, MPI_Bcast, PMPI_Bcast, ibcast, MPI_Ibcast, PMPI_Ibcast:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$family>, root: c_int);
            gather, MPI_Gather, PMPI_Gather, igather, MPI_Igather, PMPI_Igather:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: c_int, receive_type: Datatype<$family>, root: c_int);
            gatherv, MPI_Gatherv, PMPI_Gatherv, igatherv, MPI_Igatherv, PMPI_Igatherv:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_counts: *const c_int, places: *const c_int, receive_type: Datatype<$family>, root: c_int);
            scatter, MPI_Scatter, PMPI_Scatter, iscatter, MPI_Iscatter, PMPI_Iscatter:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: c_int, receive_type: Datatype<$family>, root: c_int);
            scatterv, MPI_Scatterv, PMPI_Scatterv, iscatterv, MPI_Iscatterv, PMPI_Iscatterv:
                (send: *const c_void, send_counts: *const c_int, places: *const c_int, send_type: Datatype<$family>,
                 receive: *mut c_void, receive_count: c_int, receive_type: Datatype<$family>, root: c_int);
            allgather, MPI_Allgather, PMPI_Allgather, iallgather, MPI_Iallgather, PMPI_Iallgather:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: c_int, receive_type: Datatype<$family>);
            allgatherv, MPI_Allgatherv, PMPI_Allgatherv, iallgatherv, MPI_Iallgatherv, PMPI_Iallgatherv:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_counts: *const c_int, places: *const c_int, receive_type: Datatype<$family>);
            alltoall, MPI_Alltoall, PMPI_Alltoall, ialltoall, MPI_Ialltoall, PMPI_Ialltoall:
                (send: *const c_void, send_count: c_int, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: c_int, receive_type: Datatype<$family>);
            alltoallv, MPI_Alltoallv, PMPI_Alltoallv, ialltoallv, MPI_Ialltoallv, PMPI_Ialltoallv:
                (send: *const c_void, send_counts: *const c_int, send_places: *const c_int,
                 send_type: Datatype<$family>, receive: *mut c_void, receive_counts: *const c_int,
                 receive_places: *const c_int, receive_type: Datatype<$family>);
            alltoallw, MPI_Alltoallw, PMPI_Alltoallw, ialltoallw, MPI_Ialltoallw, PMPI_Ialltoallw:
                (send: *const c_void, send_counts: *const c_int, send_places: *const c_int,
                 send_types: *const Datatype<$family>, receive: *mut c_void, receive_counts: *const c_int,
                 receive_places: *const c_int, receive_types: *const Datatype<$family>);
            reduce, MPI_Reduce, PMPI_Reduce, ireduce, MPI_Ireduce, PMPI_Ireduce:
                (send: *const c_void, receive: *mut c_void, count: c_int, datatype: Datatype<$family>,
                 op: Op<$family>, root: c_int);
            allreduce, MPI_Allreduce, PMPI_Allreduce, iallreduce, MPI_Iallreduce, PMPI_Iallreduce:
                (send: *const c_void, receive: *mut c_void, count: c_int, datatype: Datatype<$family>,
                 op: Op<$family>);
            reduce_scatter, MPI_Reduce_scatter, PMPI_Reduce_scatter, ireduce_scatter, MPI_Ireduce_scatter, PMPI_Ireduce_scatter:
                (send: *const c_void, receive: *mut c_void, counts: *const c_int, datatype: Datatype<$family>,
                 op: Op<$family>);
            reduce_scatter_block, MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block, ireduce_scatter_block, MPI_Ireduce_scatter_block, PMPI_Ireduce_scatter_block:
                (send: *const c_void, receive: *mut c_void, count: c_int, datatype: Datatype<$family>,
                 op: Op<$family>);
            scan, MPI_Scan, PMPI_Scan, iscan, MPI_Iscan, PMPI_Iscan:
                (send: *const c_void, receive: *mut c_void, count: c_int, datatype: Datatype<$family>,
                 op: Op<$family>);
            exscan, MPI_Exscan, PMPI_Exscan, iexscan, MPI_Iexscan, PMPI_Iexscan:
                (send: *const c_void, receive: *mut c_void, count: c_int, datatype: Datatype<$family>,
                 op: Op<$family>);
        }
        $crate::export_initialization! {
            $crate::preload::initializing, $crate::preload::initialized::<$family>
        }
    };
    (@each $family:ty, $($face:ident, $name:ident, $profiled:ident, $begin:ident, $begin_name:ident,
        $begin_profiled:ident: ($($argument:ident: $kind:ty),*);)*) => {$(
        $crate::export_collectives! { @one $family, $face, $name, $profiled, ($($argument: $kind),*), () }
        $crate::export_collectives! { @one $family, $face, $profiled, $profiled, ($($argument: $kind),*), () }
        $crate::export_collectives! {
            @one $family, $begin, $begin_name, $begin_profiled, ($($argument: $kind),*), (request: *mut Request<$family>)
        }
        $crate::export_collectives! {
            @one $family, $begin, $begin_profiled, $begin_profiled, ($($argument: $kind),*),
            (request: *mut Request<$family>)
        }
    )*};
    (@one $family:ty, $face:ident, $name:ident, $profiled:ident, ($($argument:ident: $kind:ty),*),
        ($($request:ident: $of:ty)?)) => {
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($argument: $kind,)*
            comm: Comm<$family>,
            $($request: $of)?
        ) -> c_int {
            type Function = unsafe extern "C" fn($($kind,)* Comm<$family>, $($of)?) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            // SAFETY: the caller's arguments.
            match unsafe { $crate::$face::<$family>($($argument,)* comm, $($request)?) } {
                $crate::Taken::Done(SUCCESS) => SUCCESS,
                $crate::Taken::Done(code) => $crate::report(comm, code),
                $crate::Taken::NotMine => {
                    let symbol = concat!(stringify!($profiled), "\0");
                    // SAFETY: the type is that of the function in mpi.h.
                    let stock = STOCK.get_or_init(|| unsafe { $crate::preload::stock(symbol) });
                    // SAFETY: the caller's arguments.
                    stock.map_or($crate::MISSING, |stock| unsafe { stock($($argument,)* comm, $($request)?) })
                }
            }
        }
    };
}
