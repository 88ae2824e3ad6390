//! The stock drivers of an MPI, which make the files that svmio's are compared with.

use crate::mpi::Mpi;

/// What the program `same_bytes` writes, besides through random datatypes.
pub const KINDS: [&str; 7] =
    ["contiguous", "strided", "collective", "shared", "nonblocking", "external32", "nonblocking-collective"];

/// A stock driver, and what can be compared with it.
#[derive(Debug)]
pub struct Stock {
    /// What selects it in a file's name.
    pub prefix: &'static str,
    /// Its MCA component, where it is one of Open MPI's.
    pub component: Option<&'static str>,
    /// Those of [`KINDS`] that it cannot do.
    pub lacks: &'static [&'static str],
    /// Whether it can be trusted with random datatypes.
    pub is_random: bool,
}

impl Stock {
    /// Those of one of Debian's MPIs, the best first.
    pub fn of(mpi: Mpi) -> &'static [Stock] {
        match mpi {
            Mpi::DebianMpich => &[Stock { prefix: "ufs:", component: None, lacks: &[], is_random: true }],
            _ => &[
                // Crashes in nonblocking collectives.
                Stock {
                    prefix: "ufs:",
                    component: Some("romio321"),
                    lacks: &["nonblocking-collective"],
                    is_random: true,
                },
                // Loses bytes in collective accesses through some datatypes (seed 19 with 4 ranks).
                Stock { prefix: "", component: Some("ompio"), lacks: &[], is_random: false },
            ],
        }
    }

    /// The [`KINDS`] that it can do.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        KINDS.into_iter().filter(|kind| !self.lacks.contains(kind))
    }
}

/// Fails unless both files have the same bytes.
///
/// # Panics
/// Where they have not.
pub fn compare(ours: &[u8], theirs: &[u8], what: &str) {
    let first = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let sizes = (ours.len(), theirs.len());
    assert!(first.is_none() && sizes.0 == sizes.1, "{what}: sizes {sizes:?}, first difference at {first:?}");
}
