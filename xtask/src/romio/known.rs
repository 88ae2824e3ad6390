//! What of ROMIO's tests fails on stock MPI-IO, and why.

use crate::comparison::Known;
use crate::mpi::Mpi;

const WHEELS: &[Mpi] = &[Mpi::WheelMpich, Mpi::WheelOpenMpi];
const NO_FORTRAN: &str = "the wheel has no Fortran";

const NOT_ITS_WORDS: &str = "the test wants the word \"displacement\" in the message of the error, \
    and this MPI's says \"invalid argument\"";

/// Found by running them; a run that is not listed here must pass.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        program: "error",
        mpis: &[Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi],
        ranks: &[1, 2, 4, 8],
        sign: "Unexpected error message",
        reason: NOT_ITS_WORDS,
    },
    Known {
        program: "file_info",
        mpis: &[Mpi::WheelOpenMpi],
        ranks: &[1, 2, 4, 8],
        sign: "Found 4 errors",
        reason: "the hints given to MPI_File_open do not reach its ROMIO",
    },
    Known {
        program: "syshints",
        mpis: &[Mpi::DebianOpenMpi],
        ranks: &[1],
        sign: "for key \"romio_no_indep_rw\"",
        reason: "MPI_File_get_info leaves out romio_no_indep_rw of ROMIO's file of hints",
    },
    Known { program: "fcoll_test", mpis: WHEELS, ranks: &[], sign: "", reason: NO_FORTRAN },
    Known { program: "fmisc", mpis: WHEELS, ranks: &[], sign: "", reason: NO_FORTRAN },
    Known { program: "fperf", mpis: WHEELS, ranks: &[], sign: "", reason: NO_FORTRAN },
    Known { program: "pfcoll_test", mpis: WHEELS, ranks: &[], sign: "", reason: NO_FORTRAN },
];
