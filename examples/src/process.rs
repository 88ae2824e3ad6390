//! A process of a job, with what it takes to have files on all of the job's nodes.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use svmio_svm::session::Session;
use svmio_svm::team::Team;
use svmio_svm::{File, OpenOptions, Placement, SegmentSize};
use svmio_transport::job::{self, Launcher};

/// One of the processes that run a program together.
pub struct Process(Session);

impl Process {
    /// All processes.
    pub fn team(&self) -> &Team {
        self.0.team()
    }

    /// Makes memory that all share: a file without a name, which ends with the job.
    ///
    /// # Errors
    /// Where a node cannot have it; on all.
    pub fn make(&self, segment: SegmentSize, placement: Placement) -> Result<Arc<File>> {
        let options = OpenOptions::read_write().segment_size(Some(segment)).placement(placement);
        Ok(Arc::new(self.0.open_unnamed(&options)?))
    }

    /// Waits until all have come to this point, and says how long `work` took the one that it took longest, seconds.
    ///
    /// # Errors
    /// That of the work; where somebody is lost.
    pub fn timed(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.team().agree::<svmio_svm::Error>(Ok(()))?;
        let started = Instant::now();
        work()?;
        let [longest] = self.team().maxima([started.elapsed().as_nanos() as i64])?;
        Ok(longest as f64 / 1e9)
    }

    /// Closes a file that this process and all others have done with.
    ///
    /// # Errors
    /// Where it cannot be closed on one of the nodes.
    pub fn close(&self, file: Arc<File>) -> Result<()> {
        Ok(self.0.close(&file, true)?)
    }
}

/// Runs a program as a process of the job that started it; without a job, starts one of so many processes of this very
/// command line.
///
/// # Errors
/// That of the program; where a process fails.
pub fn run(nodes: u32, program: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
    if !job::is_told_of() {
        return launch(nodes);
    }
    let process = Process(Session::from_environment()?);
    program(&process)?;
    // Nobody needs anybody any more.
    process.team().agree::<svmio_svm::Error>(Ok(()))?;
    Ok(process.0.finish()?)
}

/// Starts this very command line on so many nodes that this machine plays, each with a store of its own in memory.
fn launch(nodes: u32) -> Result<()> {
    let stores = tempfile::tempdir_in("/dev/shm")?;
    let directory = stores.path().to_owned();
    let of_node = move |rank: svmio_transport::Rank| {
        let mut store = OsString::from("SVMIO_STORE=");
        store.push(directory.join(format!("n{}", rank.0)));
        vec!["env".into(), store]
    };
    let launcher = Launcher::new(std::env::current_exe()?).arguments(std::env::args_os().skip(1)).size(nodes);
    let ends = launcher.node(|rank| format!("n{}", rank.0)).prefix(of_node).spawn()?.wait()?;
    for (rank, end) in ends.into_iter().enumerate() {
        ensure!(end.success(), "the process of rank {rank} has failed: {end}");
    }
    Ok(())
}
