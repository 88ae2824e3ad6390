//! Access modes. What MPI says of them is found out before ROMIO opens anything: a rank whose mode ROMIO refuses leaves
//! its open at once, and the others would wait for it there. Also before the beginning of a split access, which ROMIO
//! takes for begun where it fails, and of an ordered one.

use std::ffi::{CStr, c_int};

use svmio_svm::Error;
use svmio_svm::team::Team;

use crate::abi::{Abi, amode};
use crate::access::Direction;
use crate::failure::{ErrorClass, Failure};
use crate::handle;
use crate::layout::RomioFile;

/// Whether all ranks of the `team` open the file `name` in the same mode, of which this one's is `access_mode`, and MPI
/// permits that; and whether `mine`, this rank's outcome so far, is a success on all of them.
///
/// # Errors
/// On all ranks: what failed on one of them; `MPI_ERR_AMODE` where the mode of one makes no sense, `MPI_ERR_NOT_SAME`
/// where they differ.
pub(crate) fn agree(
    team: &Team,
    mine: Result<(), Failure>,
    name: &CStr,
    access_mode: c_int,
) -> Result<(), Failure> {
    let name = name.to_string_lossy();
    let mine = mine.and_then(|()| match is_possible(access_mode) {
        true => Ok(()),
        false => {
            let message = format!("svm:{name}: the access mode, {access_mode}, makes no sense");
            Err(Failure::new(ErrorClass::Amode, message))
        }
    });
    let mode = i64::from(access_mode);
    let [largest, inverse] = team.agree_on(mine, [mode, !mode])?;
    // The largest is the smallest, too, where all are the same.
    if largest != !inverse {
        let message = format!("svm:{name}: the ranks open the file in different access modes");
        return Err(Failure::new(ErrorClass::NotSame, message));
    }
    Ok(())
}

/// Whether the file `fd` was opened for accesses in that direction: the same on all ranks.
///
/// # Errors
/// `MPI_ERR_READ_ONLY` where it was not for writing, `MPI_ERR_ACCESS` where it was not for reading.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn demand_opened_for<A: Abi>(
    fd: *const RomioFile<A>,
    direction: Direction,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    // As the program asked for it: ROMIO opens for reading, too, what is only written.
    let (what, modes) = match direction {
        Direction::Read => ("reading", amode::RDONLY | amode::RDWR),
        Direction::Write => ("writing", amode::WRONLY | amode::RDWR),
    };
    if fd.orig_access_mode & modes != 0 {
        return Ok(());
    }
    let handle = handle::of(fd)?;
    let error = Error::NotOpenedFor { name: handle.file.name().into(), what };
    Err(handle.located(error.into()))
}

/// Whether MPI permits this access mode.
fn is_possible(access_mode: c_int) -> bool {
    match access_mode & (amode::RDONLY | amode::WRONLY | amode::RDWR) {
        amode::RDONLY => access_mode & (amode::CREATE | amode::EXCL) == 0,
        amode::RDWR => access_mode & amode::SEQUENTIAL == 0,
        amode::WRONLY => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_make_no_sense_are_refused() {
        use amode::{APPEND, CREATE, EXCL, RDONLY, RDWR, SEQUENTIAL, WRONLY};
        let opened = |mode| agree(&Team::alone(), Ok(()), c"/a", mode).map_err(|failure| failure.class);
        for mode in [RDONLY, RDONLY | SEQUENTIAL, WRONLY | SEQUENTIAL | CREATE, RDWR | CREATE | EXCL | APPEND]
        {
            assert_eq!(opened(mode), Ok(()), "{mode}");
        }
        for mode in [0, CREATE, RDONLY | WRONLY, RDONLY | CREATE, RDONLY | EXCL, RDWR | SEQUENTIAL] {
            assert_eq!(opened(mode), Err(ErrorClass::Amode), "{mode}");
        }
    }
}
