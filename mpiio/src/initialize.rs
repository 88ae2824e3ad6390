//! `MPI_Init`: where it is asked for, the nodes of all ranks are brought together then, and not by the first file that
//! ranks of several nodes open together. So files of single ranks are found on all nodes from the beginning.

use std::env;
use std::ffi::c_int;
use std::sync::Once;

use svmio_adio::Mpi;
use svmio_adio::abi::{Abi, SUCCESS};

/// When the ranks' nodes are brought together.
const VARIABLE: &str = "SVMIO_MEET";

/// Before `MPI_Init`.
pub fn initializing() {
    svmio_logging::start();
}

/// After `MPI_Init`, which returned `code`.
pub fn initialized<A: Abi>(code: c_int) -> c_int {
    if code != SUCCESS {
        return code;
    }
    static MEETING: Once = Once::new();
    // A tool may have called this within MPI_Init.
    MEETING.call_once(|| {
        match Mpi::<A>::get() {
            Ok(mpi) if is_asked_for(mpi) => meet(mpi),
            // With an MPI that cannot be used, it is the first open that fails.
            _ => {}
        }
    });
    code
}

fn meet<A: Abi>(mpi: &'static Mpi<A>) {
    if let Err(failure) = svmio_adio::meet(mpi)
        && is_first(mpi)
    {
        tracing::warn!("{VARIABLE}=init has no effect: {failure}");
    }
}

/// Whether `MPI_Init` is when that is done.
fn is_asked_for<A: Abi>(mpi: &Mpi<A>) -> bool {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    match value.to_string_lossy().as_ref() {
        "init" => true,
        "open" | "" => false,
        other => {
            if is_first(mpi) {
                tracing::warn!("{VARIABLE}={other} is neither init nor open");
            }
            false
        }
    }
}

fn is_first<A: Abi>(mpi: &Mpi<A>) -> bool {
    mpi.rank(mpi.constants.comm_world) == 0
}
