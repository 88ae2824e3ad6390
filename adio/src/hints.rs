//! svmio's own hints: what a program may set in an info object, and what it gets back.
//!
//! | key | meaning |
//! |---|---|
//! | `svm_segment_size` | bytes per segment of a file that is being made, also `4M`; a power of two, 64K to 1G |
//! | `svm_placement` | which nodes new segments go to: `first_touch` (who writes most), `round_robin`, `block`, `node=NAME` |
//! | `svm_store` | (told only) the directory of the store |
//! | `svm_node` | (told only) the node that the store belongs to |
//! | `svm_file_id` | (told only) the file's identity |
//!
//! For programs that set neither, the environment does: `SVMIO_SEGMENT_SIZE` and `SVMIO_PLACEMENT`. A value that makes no
//! sense is ignored, as MPI wants it, and logged. Where no segment size is given, the first collective write to a file
//! of several nodes settles it, see [`choosing`](crate::choosing).

use std::ffi::CStr;
use std::fmt;

use svmio_svm::{File, Placement, SegmentSize, Store};

use crate::abi::{Abi, Info, SUCCESS};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::host::Host;
use crate::layout::RomioFile;

const SEGMENT_SIZE: &CStr = c"svm_segment_size";
const PLACEMENT: &CStr = c"svm_placement";

/// The segment size that `info` asks for, or the environment.
pub(crate) fn segment_size<A: Abi>(mpi: &Mpi<A>, info: Info<A>) -> Option<SegmentSize> {
    let wish = Wish::of(mpi, info, SEGMENT_SIZE, "SVMIO_SEGMENT_SIZE")?;
    match wish.value.parse() {
        Ok(size) => Some(size),
        Err(reason) => {
            tracing::warn!("{wish} is ignored: {reason}");
            None
        }
    }
}

/// The placement that `info` asks for, or the environment.
pub(crate) fn placement<A: Abi>(mpi: &Mpi<A>, info: Info<A>) -> Option<Placement> {
    let wish = Wish::of(mpi, info, PLACEMENT, "SVMIO_PLACEMENT")?;
    match wish.value.parse() {
        Ok(placement) => Some(placement),
        Err(reason) => {
            tracing::warn!("{wish} is ignored: {reason}");
            None
        }
    }
}

/// What is asked for, and where.
struct Wish {
    source: String,
    value: String,
}

impl Wish {
    fn of<A: Abi>(mpi: &Mpi<A>, info: Info<A>, hint: &CStr, variable: &str) -> Option<Wish> {
        if let Some(value) = mpi.info(info, hint) {
            return Some(Wish { source: format!("the hint {}", hint.to_string_lossy()), value });
        }
        let value = std::env::var_os(variable)?.to_string_lossy().into_owned();
        Some(Wish { source: variable.to_owned(), value })
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.source, self.value)
    }
}

/// Notes in `info`, which the file keeps, what `users` asks for.
pub(crate) fn take<A: Abi>(mpi: &Mpi<A>, users: Info<A>, info: Info<A>) -> Result<(), Failure> {
    if let Some(size) = segment_size(mpi, users) {
        mpi.set_info(info, SEGMENT_SIZE, &size.to_string())?;
    }
    match mpi.info(users, PLACEMENT) {
        Some(text) => mpi.set_info(info, PLACEMENT, &text),
        None => Ok(()),
    }
}

const SIEVING_READS: &CStr = c"romio_ds_read";

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
    tell_segment_size(mpi, info, file.segment_size())?;
    mpi.set_info(info, PLACEMENT, &file.placement().to_string())?;
    if file.is_shared_by_nodes() {
        mpi.set_info(info, c"romio_visibility_immediate", "false")?;
    }
    mpi.set_info(info, c"svm_store", &store.path().to_string_lossy())?;
    mpi.set_info(info, c"svm_node", store.node().as_str())?;
    mpi.set_info(info, c"svm_file_id", &file.id().to_string())
}

/// Notes in `info` how large segments are.
pub(crate) fn tell_segment_size<A: Abi>(
    mpi: &Mpi<A>,
    info: Info<A>,
    size: SegmentSize,
) -> Result<(), Failure> {
    mpi.set_info(info, SEGMENT_SIZE, &size.to_string())
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
