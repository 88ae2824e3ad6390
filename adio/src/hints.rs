//! svmio's own hints: what a program may set in an info object, and what it gets back.
//!
//! | key | meaning |
//! |---|---|
//! | `svm_segment_size` | bytes per segment of a file that is being made, also `4M`; a power of two, 64K to 1G |
//! | `svm_store` | (told only) the directory of the store |
//! | `svm_node` | (told only) the node that the store belongs to |
//! | `svm_file_id` | (told only) the file's identity |
//!
//! A value that makes no sense is ignored, as MPI wants it, and logged.

use svmio_svm::{File, SegmentSize, Store};

use crate::abi::{Abi, Info, SUCCESS};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::host::Host;
use crate::layout::RomioFile;

const SEGMENT_SIZE: &std::ffi::CStr = c"svm_segment_size";

/// The segment size that `info` asks for.
pub(crate) fn segment_size<A: Abi>(mpi: &Mpi<A>, info: Info<A>) -> Option<SegmentSize> {
    let text = mpi.info(info, SEGMENT_SIZE)?;
    match text.parse() {
        Ok(size) => Some(size),
        Err(reason) => {
            tracing::warn!("the hint svm_segment_size={text} is ignored: {reason}");
            None
        }
    }
}

/// Notes in `info`, which the file keeps, what `users` asks for.
pub(crate) fn take<A: Abi>(mpi: &Mpi<A>, users: Info<A>, info: Info<A>) -> Result<(), Failure> {
    match segment_size(mpi, users) {
        Some(size) => mpi.set_info(info, SEGMENT_SIZE, &size.to_string()),
        None => Ok(()),
    }
}

const SIEVING_READS: &std::ffi::CStr = c"romio_ds_read";

/// Switches data sieving off in `info`, which is on its way to ROMIO. For reads it would hide where the file ends;
/// for writes ROMIO does so by itself, because the device does not say that it can.
pub(crate) fn without_sieving<A: Abi>(mpi: &Mpi<A>, info: Info<A>) -> Result<(), Failure> {
    mpi.set_info(info, SIEVING_READS, "disable")
}

/// Tells in `info`, which ROMIO has filled, what became of data sieving: to a user who left it to us
/// (`automatic`) that it is left to us.
pub(crate) fn tell_sieving<A: Abi>(mpi: &Mpi<A>, users: Info<A>, info: Info<A>) -> Result<(), Failure> {
    match mpi.info(users, SIEVING_READS).as_deref() {
        None | Some("automatic") => mpi.set_info(info, SIEVING_READS, "automatic"),
        Some(_) => Ok(()),
    }
}

/// Notes in `info` what is in force for an open file.
pub(crate) fn tell<A: Abi>(mpi: &Mpi<A>, info: Info<A>, store: &Store, file: &File) -> Result<(), Failure> {
    mpi.set_info(info, SEGMENT_SIZE, &file.segment_size().to_string())?;
    mpi.set_info(info, c"svm_store", &store.path().to_string_lossy())?;
    mpi.set_info(info, c"svm_node", store.node().as_str())?;
    mpi.set_info(info, c"svm_file_id", &file.id().to_string())
}

/// Has the generic SetInfo take what is in `info`.
pub(crate) fn hand_to_romio<A: Abi>(
    host: &Host<A>,
    fd: &mut RomioFile<A>,
    info: Info<A>,
) -> Result<(), Failure> {
    // SAFETY: the file is one of ROMIO's, of which nobody else makes references.
    match unsafe { host.set_info(fd, info) } {
        SUCCESS => Ok(()),
        code => Err(Failure::new(ErrorClass::Other, "ROMIO refuses a hint").with_code(code)),
    }
}
