//! Files as memory: what a fault costs, how fast a file of another node is gone through, and what threads gain that
//! wait for pages at the same time.
//!
//! ```text
//!   Bed       where the two nodes are: this machine by shared memory, or by its loopback interface; two hosts with
//!             a link of 1 Gbit/s, and likewise with a delay
//!     run       a Plan, done by two processes of this very program (member); what the first of them tells
//!       bare      faults that nobody but the kernel serves, and a bare thread with `userfaultfd`: the bound
//!       peer      the second process: keeps the file, and answers bare messages
//!       content   what is written, and whether it has come
//!   report    the tables, and what is aimed at
//! ```

mod bare;
mod content;
pub mod member;
mod peer;
mod placed;
pub mod report;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svmio_tests::{Hosts, Rate, Scratch};
use svmio_transport::job::{Launcher, Streams};

use crate::wire::{Server, iperf};

/// The rate of the hosts' links, each way.
pub const MEGABITS: u32 = 1000;

/// How long a packet is under way between hosts that are far from each other: about what two network cards and a switch
/// take, which hosts of one machine do without.
pub const DELAY: Duration = Duration::from_micros(100);

/// Where the two nodes are.
#[derive(Debug)]
pub enum Bed {
    /// Two nodes that this machine plays, which share its memory.
    Shm(Scratch),
    /// Likewise, which reach each other by libfabric over the loopback interface.
    Loopback(Scratch),
    /// Two hosts with a link between them.
    Hosts(Hosts, Scratch),
    /// Likewise, where packets take [`DELAY`] each way.
    Far(Hosts, Scratch),
}

/// What a process is to do, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Where the stores of the nodes are.
    pub directory: PathBuf,
    /// What.
    pub part: Part,
}

/// What is measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Part {
    /// Single faults of each kind, so many in a round, the kinds in turn.
    Faults {
        /// How often.
        rounds: u64,
        /// How many.
        count: u64,
    },
    /// Going through a file of so many bytes that lies on the other node.
    Scan {
        /// How many.
        bytes: u64,
    },
    /// Pages of such a file here and there, each thread so many.
    Random {
        /// How many.
        count: u64,
    },
    /// Writes to the other node of each size, by the cache and straight.
    Writes {
        /// How often.
        rounds: usize,
    },
    /// Reads of bare memory of the other node, by the fabric and by having the other one write.
    Reads {
        /// How often.
        rounds: usize,
    },
    /// Reads of such a file of which nothing is cached, by each way in which pages come.
    Misses {
        /// How often.
        rounds: usize,
    },
}

/// A kind of fault, or what faults are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A page of a file that the kernel has mapped, which is in its page cache.
    Kernel,
    /// A missing page that a bare thread puts in place, which sleeps in between and runs where the kernel puts it.
    Bare,
    /// Likewise, on the core of the thread that waits.
    BareOnOneCore,
    /// Likewise, on another core than the thread that waits.
    BareOnAnother,
    /// A missing page for which a bare thread asks the other process by a short message, before it puts it in place.
    BareAsking,
    /// Likewise, on the core of the thread that waits.
    BareAskingOnOneCore,
    /// Likewise, on another core than the thread that waits.
    BareAskingOnAnother,
    /// A short message to the other process, and an answer of a page.
    Message,
    /// A page of a mapping that lies on this node and is mapped in place.
    InPlace,
    /// A page of a mapping that nobody has written: zeros. Its threads run where the kernel puts them.
    Zeros,
    /// Likewise, where they run on the core of the thread that waits.
    ZerosOnOneCore,
    /// Likewise, where they run on another core than the thread that waits.
    ZerosOnAnother,
    /// The first store into a page of a mapping that is there.
    Store,
    /// A page of a mapping that lies on the other node. The mapping's threads run where the kernel puts them.
    Remote,
    /// Likewise, where they run on the core of the thread that waits.
    RemoteOnOneCore,
    /// Likewise, where they run on another core than the thread that waits.
    RemoteOnAnother,
}

/// How long something took that was done many times, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Half of them took longer.
    pub median: f64,
    /// One of a hundred took longer.
    pub p99: f64,
}

/// How many threads read at a time where many do.
pub const THREADS: usize = 8;

/// How many pages come in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// To a single thread that touches them.
    pub one: f64,
    /// To [`THREADS`].
    pub many: f64,
    /// As answers to bare messages, one after the other.
    pub one_message: f64,
    /// Likewise, with as many messages under way as there are threads.
    pub many_messages: f64,
}

/// How long a write of some size to the other node takes until it is there, seconds: of many, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// Its size.
    pub bytes: u64,
    /// By the cache.
    pub cached: f64,
    /// Into the other node's memory.
    pub straight: f64,
    /// As svmio chooses.
    pub chosen: f64,
}

/// How long a read takes of which nothing is cached, seconds: of many, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// Its size.
    pub bytes: u64,
    /// Each goes on where the last one ended; otherwise, here and there.
    pub is_in_sequence: bool,
    /// The home is asked for all pages.
    pub asked: f64,
    /// They are read from the home's memory wherever that can be.
    pub native: f64,
    /// As svmio chooses.
    pub chosen: f64,
}

/// What [`Part::Writes`] tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Writes {
    /// From how many bytes on svmio writes straight.
    pub bound: u64,
    /// By size.
    pub writes: Vec<Write>,
}

/// How long it takes to have some bytes of the other node's memory here, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// How many.
    pub bytes: u64,
    /// Read by the fabric.
    pub native: f64,
    /// Asked for by a message, written by the other one, which then answers.
    pub written: f64,
}

impl Bed {
    /// This machine's memory.
    pub fn shm() -> Bed {
        Bed::Shm(Scratch::new())
    }

    /// Its loopback interface.
    pub fn loopback() -> Bed {
        Bed::Loopback(Scratch::new())
    }

    /// Two hosts.
    ///
    /// # Panics
    /// Where they cannot be made: only root may.
    pub fn hosts() -> Bed {
        Bed::Hosts(shaped(Hosts::new(2)), Scratch::seen_by_hosts())
    }

    /// Two hosts that are far from each other.
    ///
    /// # Panics
    /// As [`Bed::hosts`].
    pub fn far() -> Bed {
        Bed::Far(shaped(Hosts::with_delay(2, DELAY)), Scratch::seen_by_hosts())
    }

    /// What tables call it.
    pub fn name(&self) -> &'static str {
        match self {
            Bed::Shm(_) => "shm",
            Bed::Loopback(_) => "ofi, loopback",
            Bed::Hosts(..) => "ofi, 1 Gbit/s",
            Bed::Far(..) => "ofi, 1 Gbit/s, 0.1 ms each way",
        }
    }

    /// MB/s that iperf3 gets from the second host to the first.
    ///
    /// # Panics
    /// Where these are no hosts, or it fails.
    pub fn line_rate(&self) -> f64 {
        let (Bed::Hosts(hosts, _) | Bed::Far(hosts, _)) = self else { panic!("{} has no line", self.name()) };
        let _server = Server::start(hosts, 0);
        iperf(hosts, 1, 0)
    }

    /// What the first of two processes tells that do `part`.
    ///
    /// # Panics
    /// Where one of them fails.
    pub fn run<T: for<'t> Deserialize<'t>>(&self, part: Part) -> T {
        let plan = Plan { directory: self.directory(), part };
        let plan = serde_json::to_string(&plan).expect("a plan can be written as JSON");
        let program = std::env::current_exe().expect("a process has a path to its program");
        let launcher = Launcher::new(program).arguments([member::WORD.to_owned(), plan]).size(2);
        let launcher = launcher.streams(Streams::Piped);
        let launcher = match self {
            Bed::Shm(_) => launcher.node(|rank| format!("n{rank}")),
            Bed::Loopback(_) => launcher.environment("SVMIO_FABRIC", "ofi").node(|rank| format!("n{rank}")),
            Bed::Hosts(hosts, _) | Bed::Far(hosts, _) => {
                let prefixes: Vec<_> = (0..hosts.count()).map(|host| hosts.prefix(host)).collect();
                // The hosts have a network for themselves: any port is free.
                let master = format!("{}:7000", hosts.address(0));
                let launcher = launcher.environment("SVMIO_FABRIC", "ofi").master(master);
                launcher.prefix(move |rank| prefixes[rank.index()].clone())
            }
        };
        let running = launcher.spawn().unwrap_or_else(|error| panic!("starting the members: {error}"));
        let outputs = running.output().unwrap_or_else(|error| panic!("reading the members' output: {error}"));
        for (rank, output) in outputs.iter().enumerate() {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "member {rank} ended with {}: {errors}", output.status);
        }
        let told = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("the first member told {told}: {error}"))
    }

    /// Where the nodes' stores are: in memory.
    fn directory(&self) -> PathBuf {
        match self {
            Bed::Shm(scratch) | Bed::Loopback(scratch) => scratch.path().to_owned(),
            Bed::Hosts(_, scratch) | Bed::Far(_, scratch) => {
                let own = scratch.path().file_name().expect("a scratch directory has a name");
                PathBuf::from("/dev/shm").join(own)
            }
        }
    }
}

fn shaped(hosts: Hosts) -> Hosts {
    (0..hosts.count()).for_each(|host| hosts.set_rate(host, Rate::Megabits(MEGABITS)));
    hosts
}
