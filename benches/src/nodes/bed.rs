//! The hosts that the benchmarks run on, and the file systems that are mounted there.

use std::path::PathBuf;
use std::process::Command;

use svmio_tests::{Hosts, Rate, Scratch};

use super::clean_up::{self, CleanUp};
use super::{gluster, one_server};

/// How many hosts there are; as many ranks a job has.
pub const HOSTS: u32 = 4;
/// The rate of each host's link, each way.
pub const MEGABITS: u32 = 1000;

/// What keeps a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// svmio.
    Svmio,
    /// GlusterFS, on bricks of all hosts.
    Gluster,
    /// A host that exports a directory.
    OneServer,
}

impl Keeper {
    /// svmio first, then what it is compared with.
    pub const ALL: [Keeper; 3] = [Keeper::Svmio, Keeper::Gluster, Keeper::OneServer];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Keeper::Svmio => "svmio",
            Keeper::Gluster => "GlusterFS",
            Keeper::OneServer => "one server (sshfs)",
        }
    }
}

/// The hosts and what is mounted on them. Dropping it removes all of it, and so does the end of this process.
#[derive(Debug)]
pub struct Bed {
    // In this order they are dropped: what is mounted goes with the hosts.
    server: Option<one_server::Server>,
    hosts: Hosts,
    mounts: Scratch,
    _clean_up: CleanUp,
}

/// Where this process was started to clean up behind another one, does that and returns true.
///
/// # Panics
/// Where something cannot be removed.
pub fn cleaned_up() -> bool {
    clean_up::is_done_here()
}

/// What is not installed of what [`mount`](Bed::mount) needs; `None` where all is there.
pub fn missing() -> Option<String> {
    /// Programs, and the packages that have them.
    const NEEDED: [(&str, &str); 5] = [
        ("glusterd", "glusterfs-server"),
        ("gluster", "glusterfs-cli"),
        ("sshfs", "sshfs"),
        ("socat", "socat"),
        (one_server::PROGRAM, "openssh-sftp-server"),
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An absolute path goes before what it is added to.
    let is_there = |program: &str| std::env::split_paths(&path).any(|place| place.join(program).is_file());
    let mut packages =
        NEEDED.into_iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| package);
    let first = packages.next()?;
    Some(
        packages.fold(format!("these packages are missing: {first}"), |told, next| format!("{told}, {next}")),
    )
}

impl Bed {
    /// The hosts, with nothing mounted.
    ///
    /// # Panics
    /// Where they cannot be made: only root may.
    pub fn new() -> Bed {
        let clean_up = CleanUp::start();
        let hosts = Hosts::new(HOSTS as usize);
        for host in 0..hosts.count() {
            hosts.set_rate(host, Rate::Megabits(MEGABITS));
        }
        Bed { server: None, hosts, mounts: Scratch::seen_by_hosts(), _clean_up: clean_up }
    }

    /// Mounts what svmio is compared with.
    ///
    /// # Panics
    /// Where something is missing or fails.
    pub fn mount(&mut self) {
        self.mounts.new_directory(directory(Keeper::Gluster));
        gluster::mount(&self.hosts, &self.directory(Keeper::Gluster));
        self.mounts.new_directory(directory(Keeper::OneServer));
        self.server = Some(one_server::mount(&self.hosts, &self.directory(Keeper::OneServer)));
    }

    /// The hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Where it is mounted on all hosts.
    pub(super) fn directory(&self, keeper: Keeper) -> PathBuf {
        self.mounts.file(directory(keeper))
    }
}

impl Default for Bed {
    fn default() -> Self {
        Self::new()
    }
}

fn directory(keeper: Keeper) -> &'static str {
    match keeper {
        Keeper::Svmio => "svmio",
        Keeper::Gluster => "gluster",
        Keeper::OneServer => "one-server",
    }
}

/// Runs a script in a host, with words as its `$1` and so on, and returns what it prints.
///
/// # Panics
/// Where it fails.
pub(super) fn on_host(hosts: &Hosts, host: usize, script: &str, words: &[&str]) -> String {
    let mut command: Command = hosts.command(host, "/bin/sh");
    command.args(["-euc", script, "sh"]).args(words);
    let output = command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "on {}: {}\n{script}\n{text}{errors}", hosts.name(host), output.status);
    text
}
