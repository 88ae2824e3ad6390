//! `svmio`: the command-line tool.
//!
//! ```text
//! main            parses the command line, turns an error into a message and an exit code
//! ├─ command_line what can be typed: the subcommands and what they share
//! ├─ run          `svmio run`: starts an MPI program with svmio's library in each rank
//! ├─ commands     `svmio ls`, `cp`, `cat`, `mount`, ...: a store and its files; `fabric`, `bench`, `barrier`, ...: the fabric
//! ├─ completions  `svmio completions`: the shells' completion scripts
//! ├─ manual       `svmio manual`: pages for man
//! └─ servers      what hosts beside a job are told of it, which its processes may ask for files
//! ```
//!
//! A subcommand is a module with its own arguments (a `clap::Args`), its own error and one function that
//! does it; [`command_line::Command`] names them all.

mod command_line;
mod commands;
mod completions;
mod manual;
mod run;
mod servers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use command_line::{Cli, Command};
use commands::finish;
use svmio_svm::environment;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if !command.leaves_it_to_another() {
        svmio_logging::start();
        environment::tell(command.concerns());
    }
    match command {
        Command::Run(arguments) => match run::run(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // After the end of a terminal nobody reads it.
                let _ = writeln!(io::stderr(), "svmio run: {error}");
                ExitCode::from(error.exit_code())
            }
        },
        Command::Start(arguments) => finish(commands::start::start(&arguments)),
        Command::Ls(arguments) => finish(commands::ls::ls(&arguments)),
        Command::Stat(arguments) => finish(commands::stat::stat(&arguments)),
        Command::Map(arguments) => finish(commands::map::map(&arguments)),
        Command::Cp(arguments) => finish(commands::cp::cp(&arguments)),
        Command::Cat(arguments) => finish(commands::cat::cat(&arguments)),
        Command::Mv(arguments) => finish(commands::mv::mv(&arguments)),
        Command::Rm(arguments) => finish(commands::rm::rm(&arguments)),
        Command::Mount(arguments) => finish(commands::mount::mount(&arguments)),
        Command::Verify(arguments) => finish(commands::verify::verify(&arguments)),
        Command::Store(arguments) => finish(commands::store::store(&arguments)),
        Command::Fabric(arguments) => finish(commands::fabric::fabric(&arguments)),
        Command::Bench(arguments) => finish(commands::bench::bench(&arguments)),
        Command::Barrier(arguments) => finish(commands::barrier::barrier(&arguments)),
        Command::Sim(arguments) => finish(commands::sim::sim(&arguments)),
        Command::Config(arguments) => finish(commands::config::config(&arguments)),
        Command::Manual(arguments) => finish(manual::write(&arguments)),
        Command::ServeStore(arguments) => finish(commands::remote::serve_store(&arguments)),
        Command::Completions(arguments) => finish(completions::print(&arguments)),
    }
}
