//! A process of its own that goes on when the command has ended.
//!
//! The command starts itself anew: a process that already has threads cannot split into two. The new one tells by a
//! line on its standard output that the directory is mounted; what keeps it from that, it says itself, as it has the
//! standard error of the one in front until then.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use super::MountError;
use crate::commands::{CommandError, Outcome};

/// What the process is told by.
const OPTION: &str = "--in-background";

/// What it tells.
const MOUNTED: &str = "mounted";

/// Starts a process that serves `directory`, as this one's arguments say, and waits until it is mounted.
///
/// # Errors
/// What keeps the process from being started. Otherwise it says itself what has gone wrong.
pub(super) fn start(directory: &Path) -> Result<Outcome, CommandError> {
    let failed = |source| CommandError::Outside { action: "starting", path: "svmio mount".into(), source };
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Behind the subcommand: the last one may stand behind `--`.
    arguments.insert(1.min(arguments.len()), OPTION.into());
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut told = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut told).map_err(failed)?;
    }
    if told.trim_end() == MOUNTED {
        return Ok(Outcome::Fine);
    }
    let status = child.wait().map_err(failed)?;
    match status.code().map(u8::try_from) {
        Some(Ok(code)) if code != 0 => Ok(Outcome::EndedWith(code)),
        _ => Err(MountError::Ended { point: directory.to_path_buf(), status }.into()),
    }
}

/// What the process in the background needs to leave the one in front.
pub(super) struct Ready {
    null: File,
    complaints: File,
}

impl Ready {
    /// Opens what there is to be opened, as long as somebody hears of what goes wrong: `log` is where complaints go.
    ///
    /// # Errors
    /// What the operating system says of `log`.
    pub(super) fn prepare(log: Option<&Path>) -> Result<Ready, CommandError> {
        let null = PathBuf::from("/dev/null");
        let (log, appending) = log.map_or((null.as_path(), false), |log| (log, true));
        let open = |path: &Path, appending: bool| {
            let opened = File::options().write(!appending).append(appending).create(appending).open(path);
            opened.map_err(|source| CommandError::Outside {
                action: "opening",
                path: path.to_path_buf(),
                source,
            })
        };
        Ok(Ready { null: open(&null, false)?, complaints: open(log, appending)? })
    }

    /// Tells the process in front that the directory is mounted, and lets go of its terminal and its directory.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn tell(self) -> Result<(), CommandError> {
        let leave = || -> io::Result<()> {
            // It leads no group of processes, unless a person started it by the hidden option.
            let _ = setsid();
            std::env::set_current_dir("/")?;
            dup2_stderr(&self.complaints)?;
            let mut front = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 0)?);
            dup2_stdout(&self.null)?;
            // Last: the command ends then, and whoever waits for that finds this process as it stays. It may have been
            // killed.
            let _ = writeln!(front, "{MOUNTED}");
            Ok(())
        };
        leave().map_err(|source| CommandError::Outside {
            action: "going to",
            path: "the background".into(),
            source,
        })
    }
}
