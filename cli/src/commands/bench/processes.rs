//! A benchmark's job on a real fabric: processes of this same program, told by their command line what to do.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use svmio_transport::Rank;
use svmio_transport::job::{Job, Launcher, Running};

use super::measuring;
use super::plan::{Plan, Report};
use crate::commands::Outcome;
use crate::commands::error::CommandError;

/// The arguments of a process of the job.
#[derive(Debug, Args)]
pub(crate) struct ProcessArguments {
    /// What to do, as JSON.
    plan: String,
    /// Where the first process writes what was measured, as JSON.
    report: PathBuf,
}

/// How the job is started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) fabric: &'static str,
    /// libfabric's, where it is not the one that the settings say.
    pub(super) provider: Option<String>,
    /// What the command lines of the first process and of the others begin with.
    pub(super) prefixes: [Vec<OsString>; 2],
    /// Where the first process is to be met.
    pub(super) master: Option<String>,
    pub(super) ranks: u32,
}

/// Has a job's processes carry out `plan`.
///
/// # Errors
/// Where the job cannot be started, or one of its processes fails; it has said why.
pub(super) fn measured(start: Start, plan: &Plan) -> Result<Report, CommandError> {
    let outside = |action: &'static str, path: PathBuf| {
        move |source: io::Error| CommandError::Outside { action, path, source }
    };
    let program = std::env::current_exe().map_err(outside("finding", "/proc/self/exe".into()))?;
    let directory = tempfile::tempdir().map_err(outside("making a directory in", std::env::temp_dir()))?;
    let path = directory.path().join("report.json");
    let plan = serde_json::to_string(plan).map_err(misunderstanding)?;
    let Start { fabric, provider, prefixes, master, ranks } = start;

    let mut launcher = Launcher::new(program)
        .arguments([OsString::from("bench"), "process".into(), plan.into(), path.clone().into()])
        .size(ranks)
        .environment("SVMIO_FABRIC", fabric)
        .environment("SVMIO_WATCHDOG_SIGNALS", "true")
        .prefix(move |rank| prefixes[usize::from(rank.0 > 0)].clone());
    if let Some(provider) = provider {
        launcher = launcher.environment("SVMIO_OFI_PROVIDER", provider);
    }
    if let Some(master) = master {
        launcher = launcher.master(master);
    }
    all_ended(launcher.spawn()?)?;
    let report = fs::read(&path).map_err(outside("reading", path))?;
    serde_json::from_slice(&report).map_err(misunderstanding)
}

/// Waits until all have ended well; with the first that has not, the others are ended, too.
fn all_ended(mut running: Running) -> Result<(), CommandError> {
    let wait_failed = |error: rustix::io::Errno| CommandError::Waiting(error.into());
    let open = |id: u32| {
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty())
    };
    let handles = running.pids().into_iter().map(open).collect::<Result<Vec<_>, _>>().map_err(wait_failed)?;
    let mut ends: Vec<Option<ExitStatus>> = vec![None; handles.len()];
    while ends.iter().any(Option::is_none) {
        let left: Vec<usize> = (0..ends.len()).filter(|rank| ends[*rank].is_none()).collect();
        let mut events: Vec<_> =
            left.iter().map(|rank| PollFd::new(&handles[*rank], PollFlags::IN)).collect();
        match poll(&mut events, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(wait_failed(error)),
        }
        for rank in left {
            ends[rank] = running.try_wait(Rank(rank as u32))?;
            if let Some(status) = ends[rank].filter(|status| !status.success()) {
                return Err(CommandError::ProcessFailed { rank, status });
            }
        }
    }
    Ok(())
}

/// One process of the job.
///
/// # Errors
/// Where it is none, or something of the plan fails.
pub(super) fn process(arguments: &ProcessArguments) -> Result<Outcome, CommandError> {
    let plan: Plan = serde_json::from_str(&arguments.plan).map_err(misunderstanding)?;
    let job = Job::from_environment()?;
    if let Some(report) = measuring::carry_out(job.fabric(), &job.settings().messages, &plan)? {
        let report = serde_json::to_vec(&report).map_err(misunderstanding)?;
        fs::write(&arguments.report, report).map_err(|source| CommandError::Outside {
            action: "writing",
            path: arguments.report.clone(),
            source,
        })?;
    }
    job.finish()?;
    Ok(Outcome::Fine)
}

fn misunderstanding(error: serde_json::Error) -> CommandError {
    CommandError::Plan { problem: error.to_string() }
}
