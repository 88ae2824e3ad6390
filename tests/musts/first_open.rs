//! The first file that a program opens costs no more than it has to.

use svmio_tests::{Job, Mpi, Program, Scratch};

/// Open MPI's `ompio` has components of its own for file systems, collective access and more, which it loads for the
/// first file that it opens: svmio has it open none.
#[test]
fn ompio_is_left_alone() {
    let program = Program::c("first_open", Mpi::DebianOpenMpi);
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, 2).argument("svm:/file").succeed();
    assert!(scratch.store().is_dir(), "svmio kept nothing: the file was a stock one");
    let came: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("came ")).collect();
    assert!(came.iter().any(|path| path.contains("mca_io_romio")), "{output}");
    for kind in ["mca_fs_", "mca_fcoll_", "mca_fbtl_", "mca_sharedfp_"] {
        assert!(!came.iter().any(|path| path.contains(kind)), "{kind}: {output}");
    }
}
