//! Whether a program may give collectives buffers in the memory of a device, such as a GPU, which only an MPI that knows
//! of these can read and write.

use std::ffi::{CStr, c_int};

use svmio_adio::library::Library;

/// By these MPIs tell whether they take buffers of some kind of devices.
const QUESTIONS: [&CStr; 4] = [
    c"MPIX_Query_cuda_support",
    c"MPIX_Query_hip_support",
    c"MPIX_Query_rocm_support",
    c"MPIX_Query_ze_support",
];

/// Whether this process's MPI takes such buffers, of any kind. MPI can be called.
pub(crate) fn are_taken() -> bool {
    let places = [Some(Library::global()), Library::mpi().ok()];
    QUESTIONS.into_iter().any(|question| {
        type Question = unsafe extern "C" fn() -> c_int;
        // SAFETY: so they are declared wherever they are (mpi.h of MPICH, mpi-ext.h of Open MPI).
        let mut answers =
            places.iter().flatten().map(|place| unsafe { place.function::<Question>(question) });
        // SAFETY: as above; MPI can be called.
        answers.find_map(Result::ok).is_some_and(|ask| unsafe { ask() } == 1)
    })
}
