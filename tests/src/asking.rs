//! How much is asked of the tests.

use crate::mpi::Mpi;

/// Whether the tests that repeat themselves shall do so as often as is promised, and not as often as fits into
/// a check of minutes: `SVMIO_FULL=1`.
pub fn is_full_run() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}

/// The numbers of ranks of `all`, ascending, that a program is run with: in a plain run the fewest and the most with
/// Debian's MPIs, and the most with those that share svmio's libraries with them.
pub fn ranks_tried(mpi: Mpi, all: &[u32]) -> Vec<u32> {
    match all {
        [fewest, .., most] if !is_full_run() => {
            if Mpi::DEBIAN.contains(&mpi) {
                vec![*fewest, *most]
            } else {
                vec![*most]
            }
        }
        all => all.to_vec(),
    }
}
