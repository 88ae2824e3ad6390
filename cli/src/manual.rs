//! `svmio manual DIRECTORY`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::command_line::Cli;
use crate::commands::{CommandError, Outcome};

const EXAMPLES: &str = "\
Examples:
  svmio manual ~/.local/share/man/man1
  man svmio-cp

cargo xtask install does so, too.

Exit codes: 0 fine; 1 a page could not be written; 2 wrong command line.";

/// Pages have a date before their source: where it is empty, the source is taken for it.
const NO_DATE: &str = " ";

/// The arguments of `svmio manual`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManualArguments {
    /// Where the pages go; it is made if need be
    directory: PathBuf,
}

/// Writes a page of section 1 for `svmio` and each of its commands.
pub(crate) fn write(arguments: &ManualArguments) -> Result<Outcome, CommandError> {
    let directory = &arguments.directory;
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| CommandError::Outside { action, path, source }
    };
    fs::create_dir_all(directory).map_err(failed("making", directory))?;
    let mut tool = Cli::command().disable_help_subcommand(true);
    tool.build();
    for command in with_those_below(&tool) {
        let page =
            Man::new(command.clone()).date(NO_DATE).source(concat!("svmio ", env!("CARGO_PKG_VERSION")));
        let path = directory.join(page.get_filename());
        let text = text_of(&page, command).map_err(failed("writing", &path))?;
        fs::write(&path, text).map_err(failed("writing", &path))?;
    }
    Ok(Outcome::Fine)
}

/// A command and all below it that are told of.
fn with_those_below(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    std::iter::once(command).chain(below.flat_map(with_those_below)).collect()
}

fn text_of(page: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        sections_of(&help.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// What help ends with: a paragraph that begins with a few words and a colon, as `Examples:`, is a section of that name.
fn sections_of(help: &str) -> Roff {
    const OTHERS: &str = "Notes";
    let mut roff = Roff::new();
    let mut last = "";
    for paragraph in help.split("\n\n") {
        let (heading, body) = match paragraph.split_once(':') {
            Some((words, body)) if is_heading(words) => (words, body),
            _ => (OTHERS, paragraph),
        };
        if heading == last {
            roff.control("PP", []);
        } else {
            roff.control("SH", [heading.to_uppercase().as_str()]);
        }
        last = heading;
        let lines: Vec<_> = body.trim_start_matches('\n').lines().collect();
        for lines in lines.chunk_by(|one, next| is_set_off(one) == is_set_off(next)) {
            if is_set_off(lines[0]) {
                roff.control("nf", []).text([roman(lines.join("\n"))]).control("fi", []);
            } else {
                roff.text([roman(lines.join("\n").trim_start())]);
            }
        }
    }
    roff
}

/// Whether it is to stay a line of its own: an example, or a row of a table.
fn is_set_off(line: &str) -> bool {
    line.starts_with("  ")
}

fn is_heading(words: &str) -> bool {
    words.split(' ').count() <= 4 && words.chars().all(|c| c.is_alphabetic() || c == ' ')
}
