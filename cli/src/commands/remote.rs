//! Stores of other hosts: `svmio serve-store`, which is started on each, and the commands' stores behind it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_svm::{Error, Store, StoreLauncher, StoreSet};

use super::Outcome;
use super::error::CommandError;
use super::interruption::Interruption;
use super::output;

/// The arguments of `svmio serve-store`.
#[derive(Debug, Args)]
pub(crate) struct ServeStoreArguments {
    /// The store [default: SVMIO_STORE, else /dev/shm/svmio-UID, or /dev/shm/svmio-UID-NODE with SVMIO_NODE]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
}

/// Answers what `svmio` on another host asks, until it ends.
pub(crate) fn serve_store(arguments: &ServeStoreArguments) -> Result<Outcome, CommandError> {
    let store = match &arguments.store {
        // A mistyped directory should not come into being.
        Some(path) if matches!(path.try_exists(), Ok(false)) => {
            let reason = "it does not exist (svmio run makes one on each of its hosts)".into();
            Err(Error::NotAStore { path: path.clone(), reason })
        }
        Some(path) => Store::open(path),
        None => Store::from_environment(),
    };
    let interruption = Interruption::watch()?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(CommandError::Output)?;
    let mut questions = Questions { input: File::from(input), interruption };
    svmio_svm::serve(store, &mut questions, &mut output::raw()?).map_err(CommandError::Output)?;
    questions.interruption.check()?;
    Ok(Outcome::Fine)
}

/// Standard input, which a signal ends, too: so that what was being made here is removed.
struct Questions {
    input: File,
    interruption: Interruption,
}

impl Read for Questions {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.interruption.wait_readable(self.input.as_fd())?;
        if self.interruption.check().is_err() { Ok(0) } else { self.input.read(bytes) }
    }
}

/// The stores of `hosts`, in `directory` on each, or where svmio has them by itself; `in_background`, for a process that
/// goes on without the command that was typed.
///
/// # Errors
/// What keeps `launcher` from being started; what hosts and stores say, with the host's name.
pub(crate) fn open(
    hosts: &[String],
    launcher: Option<&str>,
    directory: Option<&Path>,
    in_background: bool,
) -> Result<StoreSet, CommandError> {
    let program = std::env::current_exe().map_err(|source| CommandError::Outside {
        action: "looking for",
        path: PathBuf::from("svmio's own program"),
        source,
    })?;
    // After the end of a terminal nobody reads it.
    let pass_on = |host: &str, line: &str| drop(writeln!(io::stderr(), "{host}: {line}"));
    let launcher = StoreLauncher::new(program.as_os_str(), launcher, directory, pass_on)?;
    let launcher = if in_background { launcher.in_own_groups() } else { launcher };
    Ok(StoreSet::of_hosts(launcher.connect(hosts)?)?)
}
