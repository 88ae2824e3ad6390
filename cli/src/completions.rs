//! `svmio completions SHELL`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::command_line::Cli;
use crate::commands::{CommandError, Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  svmio completions bash > ~/.local/share/bash-completion/completions/svmio
  svmio completions zsh  > \"${fpath[1]}/_svmio\"
  svmio completions fish > ~/.config/fish/completions/svmio.fish

Exit codes: 0 fine; 1 writing to standard output failed; 2 wrong command line.";

/// The arguments of `svmio completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// The shell to complete in
    shell: Shell,
}

/// Prints the completion script of the shell asked for.
pub(crate) fn print(arguments: &CompletionsArguments) -> Result<Outcome, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "svmio", &mut script);
    let mut output = Output::new()?;
    output.line(script.trim_ascii_end())?;
    output.finish()?;
    Ok(Outcome::Fine)
}
