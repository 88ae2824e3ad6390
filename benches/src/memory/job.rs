//! One run of a program, each process on a node of its own, and what it tells.

use std::ffi::OsString;
use std::path::Path;

use clap::{Parser, Subcommand};
use svmio_examples::{process, sort, stencil};
use svmio_tests::Scratch;
use svmio_transport::Rank;
use svmio_transport::job::{Launcher, Streams};

use super::limited::Limited;
use crate::nodes::bed::{Bed, HOSTS};
use crate::told::Told;

/// How many processes a program has, and nodes.
pub const NODES: u32 = HOSTS;

/// What a process of a job is to do.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    Stencil(stencil::Options),
    Sort(sort::Options),
}

/// Where this process was started as one of a job's, takes part in that and returns true.
///
/// # Panics
/// Where it fails.
pub fn is_done_here() -> bool {
    if std::env::var_os("SVMIO_JOB_RANK").is_none() {
        return false;
    }
    let done = match CommandLine::parse().program {
        Program::Stencil(options) => process::run(NODES, |process| stencil::run(&options, process)),
        Program::Sort(options) => process::run(NODES, |process| sort::run(&options, process)),
    };
    done.unwrap_or_else(|error| panic!("{error:?}"));
    true
}

/// Where the processes of a job run.
#[derive(Debug, Clone, Copy)]
pub enum Nodes<'b> {
    /// Each on a node that this machine plays, all in shared memory.
    Memory,
    /// Each on a host, with links of 1 Gbit/s.
    Hosts(&'b Bed),
}

impl Nodes<'_> {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Nodes::Memory => "shared memory",
            Nodes::Hosts(_) => "1 Gbit/s",
        }
    }

    /// Runs a program, the first of `words`, with the others as its arguments.
    ///
    /// # Panics
    /// Where it fails.
    pub fn run(self, words: &[&str]) -> Told {
        match self {
            Nodes::Memory => {
                let stores = Scratch::new();
                let launcher = on(stores.path(), NODES, words).node(|rank| format!("n{}", rank.0));
                told(launcher.environment("SVMIO_FABRIC", "shm"), words)
            }
            Nodes::Hosts(bed) => {
                let prefixes: Vec<_> =
                    (0..bed.hosts().count()).map(|host| bed.hosts().prefix(host)).collect();
                // The hosts have a `/dev/shm` each, and a network for themselves: any port is free.
                let launcher = Launcher::new(this_program()).arguments(words).size(NODES);
                let launcher = launcher.prefix(move |rank| prefixes[rank.index()].clone());
                let launcher = launcher.master(format!("{}:7000", bed.hosts().address(0)));
                told(
                    launcher.environment("SVMIO_FABRIC", "ofi").environment("SVMIO_STORE", "/dev/shm/memory"),
                    words,
                )
            }
        }
    }
}

/// Runs a program as so many processes of this node, which together take no more memory than `limited` says.
///
/// # Panics
/// Where it fails.
pub(super) fn run_limited(limited: &Limited, processes: u32, words: &[&str]) -> Told {
    let stores = Scratch::new();
    let prefix = limited.prefix();
    let launcher = Launcher::new(this_program()).arguments(words).size(processes);
    let launcher = launcher.prefix(move |_| prefix.clone()).environment("SVMIO_STORE", stores.store());
    told(launcher, words)
}

/// Processes with a store each.
fn on(stores: &Path, processes: u32, words: &[&str]) -> Launcher {
    let stores = stores.to_owned();
    let prefix = move |rank: Rank| {
        let mut store = OsString::from("SVMIO_STORE=");
        store.push(stores.join(format!("n{}", rank.0)));
        vec!["env".into(), store]
    };
    Launcher::new(this_program()).arguments(words).size(processes).prefix(prefix)
}

fn this_program() -> OsString {
    std::env::current_exe().expect("a process has a path to its program").into()
}

/// What the first process tells.
fn told(launcher: Launcher, words: &[&str]) -> Told {
    let title = words.join(" ");
    let running = launcher.streams(Streams::Piped).spawn();
    let running = running.unwrap_or_else(|error| panic!("starting {title}: {error}"));
    let outputs = running.output().unwrap_or_else(|error| panic!("reading what {title} writes: {error}"));
    for (rank, output) in outputs.iter().enumerate() {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{title}: process {rank} ended with {}: {errors}", output.status);
    }
    Told::parse(title, &String::from_utf8_lossy(&outputs[0].stdout))
}
