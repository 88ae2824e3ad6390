//! HDF5's parallel tests, and how each is run.
//!
//! Left out is what opens a file by the operating system, too, which knows nothing of `svm:` names (`t_filters_parallel`,
//! `t_cache_image`, `t_pread`, and parts of `testphdf5`), what takes many minutes on any MPI-IO (`t_cache`), and what writes many
//! gigabytes (`t_bigio`).

/// Programs that run one after the other on the same files.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
    /// Whether it takes so long that only the whole suite has it.
    pub(crate) takes_long: bool,
}

/// One program.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) program: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// What it says once where all went well.
    pub(crate) says: Option<&'static str>,
    /// Whether its processes end without MPI's leave, so that the launcher calls it failed.
    pub(crate) breaks_off: bool,
}

impl Step {
    const fn new(program: &'static str) -> Self {
        Self { program, arguments: &[], says: None, breaks_off: false }
    }
}

/// The numbers of ranks that they are run with: most want at least three.
pub(crate) const RANKS: &[u32] = &[4];

/// Parts of `testphdf5` that are left out.
const WITHOUT: &[&str] = &["-x", "calloc", "-x", "fltread", "-x", "cmpdsetr", "-x", "atomicity"];

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "t_mpi",
        steps: &[Step { says: Some("MPI tests finished with no errors"), ..Step::new("t_mpi") }],
        takes_long: false,
    },
    Test {
        name: "testphdf5",
        steps: &[Step {
            arguments: WITHOUT,
            says: Some("PHDF5 tests finished with no errors"),
            ..Step::new("testphdf5")
        }],
        takes_long: false,
    },
    // The first leaves its file to `MPI_Finalize`, the second reads it.
    Test {
        name: "t_pshutdown",
        steps: &[
            Step::new("t_pshutdown"),
            Step { says: Some("proper shutdown of HDF5 library"), ..Step::new("t_prestart") },
        ],
        takes_long: false,
    },
    // The first ends in the middle, the second looks for what it has flushed.
    Test {
        name: "t_pflush",
        steps: &[
            Step { says: Some("PASSED"), breaks_off: true, ..Step::new("t_pflush1") },
            Step::new("t_pflush2"),
        ],
        takes_long: false,
    },
    Test { name: "t_shapesame", steps: &[Step::new("t_shapesame")], takes_long: true },
];
