//! A process of a job, with what it takes to have files on all of the job's nodes.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use svmio_svm::team::Team;
use svmio_svm::{CacheSettings, Cluster, File, FileName, OpenOptions, Placement, SegmentSize, Store};
use svmio_transport::job::{Job, Launcher};

/// One of the processes that run a program together.
pub struct Process {
    team: Team,
    cluster: Arc<Cluster>,
    job: Job,
}

impl Process {
    /// Joins the job that the environment tells of, with the store that it names; returns when all have come.
    ///
    /// # Errors
    /// Where there is no such job or store, or others do not come.
    pub fn join() -> Result<Process> {
        let job = Job::from_environment()?;
        let store = Store::from_environment()?;
        let cluster = Cluster::join(job.fabric().clone(), store, &CacheSettings::default())?;
        let team = Team::of_cluster(&cluster)?;
        Ok(Process { team, cluster, job })
    }

    /// All processes.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Makes memory that all share: a file whose name is gone at once, and which ends with the job.
    ///
    /// # Errors
    /// Where a node cannot have it; on all.
    pub fn make(&self, name: &str, segment: SegmentSize, placement: Placement) -> Result<Arc<File>> {
        let name = FileName::new(name)?;
        let options = OpenOptions::read_write().create(true).exclusive(true).temporary(true);
        let options = options.segment_size(Some(segment)).placement(placement);
        let file = self.team.open_in(&self.cluster, &name, &options)?;
        let removed = if self.team.member() == 0 { self.cluster.remove(&name) } else { Ok(()) };
        self.team.agree(removed)?;
        Ok(Arc::new(file))
    }

    /// Waits until all have come to this point, and says how long `work` took the one that it took longest, seconds.
    ///
    /// # Errors
    /// That of the work; where somebody is lost.
    pub fn timed(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.team.agree::<svmio_svm::Error>(Ok(()))?;
        let started = Instant::now();
        work()?;
        let [longest] = self.team.maxima([started.elapsed().as_nanos() as i64])?;
        Ok(longest as f64 / 1e9)
    }

    /// Closes a file that this process and all others have done with.
    ///
    /// # Errors
    /// Where it cannot be closed on one of the nodes.
    pub fn close(&self, file: Arc<File>) -> Result<()> {
        self.team.close(&file, true)?;
        Ok(())
    }

    /// Ends this process's part in the job, as all others do.
    ///
    /// # Errors
    /// Where somebody was lost.
    pub fn leave(self) -> Result<()> {
        // Nobody needs anybody any more.
        self.team.agree::<svmio_svm::Error>(Ok(()))?;
        drop(self.team);
        self.job.finish()?;
        self.cluster.leave();
        Ok(())
    }
}

/// Runs a program as a process of the job that started it; without a job, starts one of so many processes of this very
/// command line.
///
/// # Errors
/// That of the program; where a process fails.
pub fn run(nodes: u32, program: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
    if std::env::var_os("SVMIO_JOB_RANK").is_none() {
        return launch(nodes);
    }
    let process = Process::join()?;
    program(&process)?;
    process.leave()
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
