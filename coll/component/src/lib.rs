//! svmio's side of the component of Open MPI's `coll` framework.
//!
//! ```text
//!   MPI_Bcast of Open MPI
//!     └─ the communicator's module ── c/module.c          compiled against Open MPI's headers
//!          └─ svmio_coll_bcast ── here                    MPI's arguments as C has them
//!               └─ svmio_coll::bcast                      done, or not taken
//!          └─ the component below, where it is not taken
//! ```
//!
//! This is a static library: `cargo xtask build` links it with the glue to `mca_coll_svmio.so`, which Open MPI loads
//! from the folder that `OMPI_MCA_mca_component_path` names. In Open MPI a handle is a pointer to the object that the
//! component gets, so communicators, datatypes and operations pass through as they are.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::openmpi::OpenMpi;
use svmio_adio::abi::{Comm, Datatype, Op, Request};
use svmio_coll::Taken;
use svmio_coll::component::Requests;

type Communicator = Comm<OpenMpi>;
type Type = Datatype<OpenMpi>;
type Operation = Op<OpenMpi>;

/// The answer to a call, as `c/coll_svmio.h` has it.
#[derive(Debug)]
#[repr(C)]
pub struct Answer {
    /// Whether it is done; if not, nothing was done.
    is_done: c_int,
    /// The error code of a call that is done.
    code: c_int,
}

impl From<Taken> for Answer {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Done(code) => Self { is_done: 1, code },
            Taken::NotMine => Self { is_done: 0, code: 0 },
        }
    }
}

unsafe extern "C" {
    /// Of `c/request.c`: a request of a communicator, or 0.
    fn coll_svmio_request_new(comm: usize) -> usize;

    /// Of `c/request.c`: completes a request with a code of MPI's.
    fn coll_svmio_request_complete(request: usize, code: c_int);

    /// Of `c/request.c`: has `svmio_coll_progress` called whenever Open MPI makes progress.
    safe fn coll_svmio_request_watch();

    /// Of `c/component.c`: whether a datatype has what `MPI_Type_get_envelope` looks at.
    fn coll_svmio_is_described(datatype: Type) -> c_int;
}

/// What the component tells svmio before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn svmio_coll_open() {
    svmio_coll::component::ask_before_envelope(is_described);
    svmio_coll::component::give_requests(Requests {
        start: coll_svmio_request_new,
        complete: coll_svmio_request_complete,
        watch: coll_svmio_request_watch,
    });
}

/// What Open MPI calls whenever it makes progress: how many requests were completed.
#[unsafe(no_mangle)]
pub extern "C" fn svmio_coll_progress() -> c_int {
    svmio_coll::component::complete_requests() as c_int
}

/// What the component tells svmio in `MPI_Init`, if it is to call [`svmio_coll_end`].
#[unsafe(no_mangle)]
pub extern "C" fn svmio_coll_hear_of_end() {
    svmio_coll::component::hear_of_end();
}

/// What `MPI_Finalize` calls while MPI can still be used, after all that the program has it call.
#[unsafe(no_mangle)]
pub extern "C" fn svmio_coll_end() {
    svmio_coll::component::end();
}

/// What Open MPI calls when a communicator that the component served is gone.
#[unsafe(no_mangle)]
pub extern "C" fn svmio_coll_gone(comm: Communicator) {
    svmio_coll::component::gone(comm);
}

/// # Safety
/// As [`svmio_coll::component::IsDescribed`].
unsafe fn is_described(handle: usize) -> bool {
    // SAFETY: the caller vouches for the handle; the function reads the datatype.
    unsafe { coll_svmio_is_described(Datatype(handle)) != 0 }
}

macro_rules! collectives {
    ($($symbol:ident = $name:ident, $begin_symbol:ident = $begin:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!("`MPI_", stringify!($name), "`, for the glue.")]
        ///
        /// # Safety
        /// The arguments are those of MPI's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($argument: $kind),*) -> Answer {
            // SAFETY: the caller vouches for the arguments.
            unsafe { svmio_coll::$name::<OpenMpi>($($argument),*) }.into()
        }

        #[doc = concat!("`MPI_", stringify!($begin), "`, for the glue.")]
        ///
        /// # Safety
        /// The arguments are those of MPI's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $begin_symbol($($argument: $kind,)* request: *mut Request<OpenMpi>) -> Answer {
            // SAFETY: the caller vouches for the arguments.
            unsafe { svmio_coll::$begin::<OpenMpi>($($argument,)* request) }.into()
        }
    )*};
}

// As the table of c/coll_svmio.h has them.
collectives! {
    svmio_coll_allgather = allgather, svmio_coll_iallgather = iallgather(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void, receive_count: c_int,
        receive_type: Type, comm: Communicator);
    svmio_coll_allgatherv = allgatherv, svmio_coll_iallgatherv = iallgatherv(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void,
        receive_counts: *const c_int, places: *const c_int, receive_type: Type, comm: Communicator);
    svmio_coll_allreduce = allreduce, svmio_coll_iallreduce = iallreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: Type, op: Operation,
        comm: Communicator);
    svmio_coll_alltoall = alltoall, svmio_coll_ialltoall = ialltoall(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void, receive_count: c_int,
        receive_type: Type, comm: Communicator);
    svmio_coll_alltoallv = alltoallv, svmio_coll_ialltoallv = ialltoallv(
        send: *const c_void, send_counts: *const c_int, send_places: *const c_int, send_type: Type,
        receive: *mut c_void, receive_counts: *const c_int, receive_places: *const c_int,
        receive_type: Type, comm: Communicator);
    svmio_coll_alltoallw = alltoallw, svmio_coll_ialltoallw = ialltoallw(
        send: *const c_void, send_counts: *const c_int, send_places: *const c_int, send_types: *const Type,
        receive: *mut c_void, receive_counts: *const c_int, receive_places: *const c_int,
        receive_types: *const Type, comm: Communicator);
    svmio_coll_barrier = barrier, svmio_coll_ibarrier = ibarrier(
        comm: Communicator);
    svmio_coll_bcast = bcast, svmio_coll_ibcast = ibcast(
        buffer: *mut c_void, count: c_int, datatype: Type, root: c_int, comm: Communicator);
    svmio_coll_exscan = exscan, svmio_coll_iexscan = iexscan(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: Type, op: Operation,
        comm: Communicator);
    svmio_coll_gather = gather, svmio_coll_igather = igather(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void, receive_count: c_int,
        receive_type: Type, root: c_int, comm: Communicator);
    svmio_coll_gatherv = gatherv, svmio_coll_igatherv = igatherv(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void,
        receive_counts: *const c_int, places: *const c_int, receive_type: Type, root: c_int,
        comm: Communicator);
    svmio_coll_reduce = reduce, svmio_coll_ireduce = ireduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: Type, op: Operation, root: c_int,
        comm: Communicator);
    svmio_coll_reduce_scatter = reduce_scatter, svmio_coll_ireduce_scatter = ireduce_scatter(
        send: *const c_void, receive: *mut c_void, counts: *const c_int, datatype: Type, op: Operation,
        comm: Communicator);
    svmio_coll_reduce_scatter_block = reduce_scatter_block, svmio_coll_ireduce_scatter_block = ireduce_scatter_block(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: Type, op: Operation,
        comm: Communicator);
    svmio_coll_scan = scan, svmio_coll_iscan = iscan(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: Type, op: Operation,
        comm: Communicator);
    svmio_coll_scatter = scatter, svmio_coll_iscatter = iscatter(
        send: *const c_void, send_count: c_int, send_type: Type, receive: *mut c_void, receive_count: c_int,
        receive_type: Type, root: c_int, comm: Communicator);
    svmio_coll_scatterv = scatterv, svmio_coll_iscatterv = iscatterv(
        send: *const c_void, send_counts: *const c_int, places: *const c_int, send_type: Type,
        receive: *mut c_void, receive_count: c_int, receive_type: Type, root: c_int, comm: Communicator);
}
