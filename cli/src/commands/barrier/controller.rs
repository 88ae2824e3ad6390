//! `svmio barrier controller`: an emulated controller for hardware barriers, until a signal ends it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_collectives::hardware::Emulator;

use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::interruption::Interruption;
use crate::commands::output::Output;

/// The arguments of `svmio barrier controller`.
#[derive(Debug, Args)]
pub(crate) struct ControllerArguments {
    /// Where nodes find it; made where there is none
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    /// How many groups can have a hardware barrier at once
    #[arg(long, default_value_t = 8)]
    circuits: usize,
}

/// Is a controller until a signal comes.
///
/// # Errors
/// Where there is one already, and what the system says; then the signal.
pub(super) fn controller(arguments: &ControllerArguments) -> Result<Outcome, CommandError> {
    let outside = |source| CommandError::Outside {
        action: "waiting for signals in",
        path: arguments.directory.clone(),
        source,
    };
    let interruption = Interruption::watch()?;
    let controller = Emulator::create(&arguments.directory, arguments.circuits)?.spawn()?;
    let mut output = Output::new()?;
    output.line(format!(
        "a controller with {} circuits; nodes set SVMIO_COMPONENTS_HARDWARE_DEVICE=emulated:{}",
        arguments.circuits,
        arguments.directory.display()
    ))?;
    output.finish()?;
    // Nobody writes there: only a signal ends the wait.
    let (quiet, _other) = UnixStream::pair().map_err(outside)?;
    interruption.wait_readable(quiet.as_fd()).map_err(outside)?;
    controller.stop();
    interruption.check()?;
    Ok(Outcome::Fine)
}
