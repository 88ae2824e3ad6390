//! `svmio barrier emit`: a barrier as source code.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use svmio_collectives::{EmissionError, Language};

use super::group::GroupArguments;
use super::wanted::Wanted;
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::Output;

/// The arguments of `svmio barrier emit`.
#[derive(Debug, Args)]
pub(crate) struct EmitArguments {
    /// Which barrier
    #[arg(value_name = "BARRIER")]
    barrier: Wanted,

    #[command(flatten)]
    group: GroupArguments,

    /// In which language
    #[arg(long, value_enum)]
    lang: Lang,

    /// What names begin with in C
    #[arg(long, value_name = "NAME", default_value = "svmio_barrier")]
    prefix: String,

    /// Where to write it; without, to standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// In which language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// C11
    C,
    /// A module that uses the standard library only
    Rust,
}

/// Writes it.
///
/// # Errors
/// Where it is no barrier, or cannot be written.
pub(super) fn emit(arguments: &EmitArguments) -> Result<Outcome, CommandError> {
    let language = match arguments.lang {
        Lang::C => Language::C { prefix: arguments.prefix.clone() },
        Lang::Rust => Language::Rust,
    };
    let barrier = arguments.group.group()?.barrier(&arguments.barrier)?;
    let source = barrier.schedule.emit(&language).map_err(|error| match (&arguments.barrier, error) {
        (Wanted::File(path), EmissionError::NoBarrier) => CommandError::NoBarrier { path: path.clone() },
        (_, error) => error.into(),
    })?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, source).map_err(|source| CommandError::Outside {
            action: "writing",
            path: path.clone(),
            source,
        })?;
    } else {
        let mut output = Output::new()?;
        output.line(source.trim_end())?;
        output.finish()?;
    }
    Ok(Outcome::Fine)
}
