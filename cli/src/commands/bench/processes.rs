//! A benchmark's job on a real fabric: processes of this same program, told by their command line what to do.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use svmio_transport::job::{Job, Launcher};

use super::measuring;
use super::plan::{Plan, Report};
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::supervision;

/// The arguments of a process of the job.
#[derive(Debug, Args)]
pub(crate) struct ProcessArguments {
    /// What to do, as JSON.
    plan: String,
    /// Where the first process writes what was measured, as JSON.
    report: PathBuf,
}

/// How a job of this program's processes is started.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Start {
    pub(in crate::commands) fabric: &'static str,
    /// libfabric's, where it is not the one that the settings say.
    pub(in crate::commands) provider: Option<String>,
    /// What the command lines of the processes begin with, by rank; those of further ranks with nothing.
    pub(in crate::commands) prefixes: Vec<Vec<OsString>>,
    /// Where the first process is to be met.
    pub(in crate::commands) master: Option<String>,
    pub(in crate::commands) ranks: u32,
}

/// Has a job's processes carry out `plan`.
///
/// # Errors
/// Where the job cannot be started, or one of its processes fails; it has said why.
pub(super) fn measured(start: Start, plan: &Plan) -> Result<Report, CommandError> {
    let plan = OsString::from(serde_json::to_string(plan).map_err(misunderstanding)?);
    reported(start, |report| Ok(["bench".into(), "process".into(), plan, report.into()].into()))
}

/// Runs a job of this program's processes, with the arguments that `arguments` says, and returns what the first of them
/// has [written](report) to the file that `arguments` is told. Beside it is room for other files.
///
/// # Errors
/// Where the job cannot be started, or one of its processes fails; it has said why.
pub(in crate::commands) fn reported<R: DeserializeOwned>(
    start: Start,
    arguments: impl FnOnce(&Path) -> Result<Vec<OsString>, CommandError>,
) -> Result<R, CommandError> {
    let outside = |action: &'static str, path: PathBuf| {
        move |source: io::Error| CommandError::Outside { action, path, source }
    };
    let program = std::env::current_exe().map_err(outside("finding", "/proc/self/exe".into()))?;
    let directory = tempfile::tempdir().map_err(outside("making a directory in", std::env::temp_dir()))?;
    let path = directory.path().join("report.json");
    let Start { fabric, provider, prefixes, master, ranks } = start;

    let mut launcher = Launcher::new(program)
        .arguments(arguments(&path)?)
        .size(ranks)
        .environment("SVMIO_FABRIC", fabric)
        .prefix(move |rank| prefixes.get(rank.0 as usize).cloned().unwrap_or_default());
    if let Some(provider) = provider {
        launcher = launcher.environment("SVMIO_OFI_PROVIDER", provider);
    }
    if let Some(master) = master {
        launcher = launcher.master(master);
    }
    supervision::run(launcher, ranks)?;
    let report = fs::read(&path).map_err(outside("reading", path))?;
    serde_json::from_slice(&report).map_err(misunderstanding)
}

/// Writes what the first process has to tell.
///
/// # Errors
/// Where the file cannot be written.
pub(in crate::commands) fn report(value: &impl Serialize, path: &Path) -> Result<(), CommandError> {
    let report = serde_json::to_vec(value).map_err(misunderstanding)?;
    fs::write(path, report).map_err(|source| CommandError::Outside {
        action: "writing",
        path: path.to_owned(),
        source,
    })
}

/// One process of the job.
///
/// # Errors
/// Where it is none, or something of the plan fails.
pub(super) fn process(arguments: &ProcessArguments) -> Result<Outcome, CommandError> {
    let plan: Plan = serde_json::from_str(&arguments.plan).map_err(misunderstanding)?;
    let job = Job::from_environment()?;
    if let Some(measured) = measuring::carry_out(job.fabric(), &job.settings().messages, &plan)? {
        report(&measured, &arguments.report)?;
    }
    job.finish()?;
    Ok(Outcome::Fine)
}

/// What it is when processes do not understand what they are told.
pub(in crate::commands) fn misunderstanding(error: serde_json::Error) -> CommandError {
    CommandError::Plan { problem: error.to_string() }
}
