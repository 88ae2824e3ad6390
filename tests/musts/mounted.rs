//! A program reaches its files by MPI and by the operating system at the same time, where a directory is mounted.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};
use svmio_tests::{Installation, Job, Mpi, Program, Scratch};

/// A mounted directory, which is taken away however the test ends.
struct Mounted {
    point: PathBuf,
}

impl Mounted {
    fn new(scratch: &Scratch) -> Mounted {
        assert!(
            rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists(),
            "this test mounts a directory: run it as root, where there is /dev/fuse (modprobe fuse)"
        );
        let mounted = Mounted { point: scratch.new_directory("mounted") };
        let mut command = Command::new(Installation::get().tool());
        command.args(["mount", "--store"]).arg(scratch.store()).arg(&mounted.point);
        let output = command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.point, UnmountFlags::DETACH);
    }
}

fn both_ways(mpi: Mpi) {
    let program = Program::c("mounted", mpi);
    let scratch = Scratch::new();
    let mounted = Mounted::new(&scratch);
    let output = Job::new(&scratch, &program, 3).argument(mounted.point.join("file")).succeed();
    assert!(output.contains("the same both ways"), "{output}");
    let verified = Installation::get().ask(&scratch, &["verify"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn mpich() {
    both_ways(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    both_ways(Mpi::DebianOpenMpi);
}
