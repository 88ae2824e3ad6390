//! Where the ranks of a job run: on one node, on nodes that this machine plays, on several hosts.
//!
//! ```text
//!   One           rank 0 1 2 ...                      one store, the scratch directory's
//!   Emulated(4)   rank 0 4 .. as node n0, 1 5 .. n1   programs/as_node.sh sets SVMIO_NODE and SVMIO_STORE
//!   Chosen(2 5)   rank 0 2 .. as node n2, 1 3 .. n5   likewise
//!   Hosts         rank 0 4 .. on svm0, 1 5 .. svm1    the same SVMIO_STORE in all, each in a /dev/shm of its own
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::asking::is_full_run;
use crate::hosts::Hosts;
use crate::installation::Installation;
use crate::scratch::Scratch;

/// The nodes of a job; ranks are dealt out to them one by one.
#[derive(Debug, Clone, Copy)]
pub enum Nodes<'h> {
    /// This machine, which is one node.
    One,
    /// This machine, which passes for so many nodes.
    Emulated(u32),
    /// This machine, which passes for those of so many nodes that have these numbers.
    Chosen(&'h [usize]),
    /// Hosts of their own.
    Hosts(&'h Hosts),
}

impl Nodes<'_> {
    /// How many there are.
    pub fn count(self) -> usize {
        match self {
            Nodes::One => 1,
            Nodes::Emulated(count) => count as usize,
            Nodes::Chosen(numbers) => numbers.len(),
            Nodes::Hosts(hosts) => hosts.count(),
        }
    }

    /// The numbers of ranks to run a program with: as many as there are nodes, and twice as many. In a plain run
    /// emulated nodes have two ranks each, and others one.
    pub fn numbers_of_ranks(self) -> Vec<u32> {
        let nodes = u32::try_from(self.count()).expect("few nodes");
        match self {
            _ if is_full_run() => vec![nodes, 2 * nodes],
            Nodes::Emulated(_) | Nodes::Chosen(_) => vec![2 * nodes],
            Nodes::One | Nodes::Hosts(_) => vec![nodes],
        }
    }

    /// The node that a rank runs on.
    pub fn of_rank(self, rank: u32) -> usize {
        rank as usize % self.count()
    }

    /// The name that a node goes by in svmio; one node's is the machine's.
    pub fn name(self, node: usize) -> String {
        match self {
            Nodes::One => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            Nodes::Emulated(_) => emulated_name(node),
            Nodes::Chosen(numbers) => emulated_name(numbers[node]),
            Nodes::Hosts(hosts) => hosts.name(node),
        }
    }

    /// A scratch directory that all of them see.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn scratch(self) -> Scratch {
        match self {
            Nodes::One | Nodes::Emulated(_) | Nodes::Chosen(_) => Scratch::new(),
            Nodes::Hosts(_) => Scratch::seen_by_hosts(),
        }
    }

    /// What `svmio`, run on a node, answers about the node's store.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn ask(self, scratch: &Scratch, node: usize, arguments: &[&str]) -> Output {
        let installation = Installation::get();
        match self {
            Nodes::One => installation.ask(scratch, arguments),
            Nodes::Emulated(_) | Nodes::Chosen(_) => {
                let mut command = Command::new(installation.tool());
                command.env("SVMIO_NODE", self.name(node)).env("SVMIO_STORE", self.store(scratch, node));
                output(command.args(arguments))
            }
            Nodes::Hosts(hosts) => {
                let mut command = hosts.command(node, installation.tool());
                output(command.args(arguments).env("SVMIO_STORE", store_of_hosts(scratch)))
            }
        }
    }

    /// Where a node's store is for this process, to look at its files. The tool is to be run on the node: it takes
    /// memory of another host for lost.
    pub fn store(self, scratch: &Scratch, node: usize) -> PathBuf {
        assert!(node < self.count(), "there is no node {node}");
        match self {
            Nodes::One => scratch.store().to_owned(),
            Nodes::Emulated(_) => emulated_store(scratch, node),
            Nodes::Chosen(numbers) => emulated_store(scratch, numbers[node]),
            Nodes::Hosts(hosts) => hosts.path_from_outside(node, &store_of_hosts(scratch)),
        }
    }

    /// The stores of all nodes.
    pub fn stores(self, scratch: &Scratch) -> Vec<PathBuf> {
        (0..self.count()).map(|node| self.store(scratch, node)).collect()
    }

    /// What `svmio verify` tells of the stores of all nodes.
    ///
    /// # Panics
    /// Where it finds something damaged.
    pub fn verified(self, scratch: &Scratch) -> String {
        let stores = self.stores(scratch).into_iter().map(|store| format!("--store={}", store.display()));
        let words: Vec<String> = std::iter::once("verify".to_owned()).chain(stores).collect();
        let verified = self.ask(scratch, 0, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(verified.status.success(), "{verified:?}");
        String::from_utf8_lossy(&verified.stdout).into_owned()
    }

    /// Fails unless every node has a store: otherwise the ranks did not run where they should have.
    ///
    /// # Panics
    /// Where one has none.
    pub fn demand_stores(self, scratch: &Scratch) {
        for store in self.stores(scratch) {
            assert!(store.join("objects").is_dir(), "{}: no store, nothing of svmio's here", store.display());
        }
    }
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"))
}

/// Where the store is in each host: in its own memory, under a name that no other job's has.
pub(crate) fn store_of_hosts(scratch: &Scratch) -> PathBuf {
    let own = scratch.path().file_name().expect("a scratch directory has a name");
    Path::new("/dev/shm").join(own)
}

/// The words to put before a program and its arguments, so that a rank is part of its emulated node, of those that have
/// these numbers.
pub(crate) fn emulation(scratch: &Scratch, numbers: &[usize]) -> [OsString; 4] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/as_node.sh");
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    ["/bin/sh".into(), script.into(), numbers.join(",").into(), scratch.file(EMULATED_STORES).into()]
}

/// What the names of emulated nodes' stores begin with.
const EMULATED_STORES: &str = "store-of-";

fn emulated_name(node: usize) -> String {
    format!("n{node}")
}

fn emulated_store(scratch: &Scratch, node: usize) -> PathBuf {
    scratch.file(&format!("{EMULATED_STORES}{}", emulated_name(node)))
}
