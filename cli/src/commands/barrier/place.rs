//! Where something is measured.

use std::ffi::OsString;

use clap::Args;

use crate::commands::bench::FabricChoice;
use crate::commands::bench::processes::Start;

/// Where something is measured, as it is typed.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// shm, ofi, ofi:PROVIDER or sim:MODEL (`svmio fabric info` lists them)
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    fabric: FabricChoice,

    /// A command that processes are started by, as in "ip netns exec a"; given several times, the first part of the
    /// ranks is started by the first, and so on
    #[arg(long, value_name = "COMMAND")]
    prefix: Vec<String>,

    /// Where the first process is to be met by the others; needed where the commands lead to other networks
    #[arg(long, value_name = "HOST:PORT")]
    master: Option<String>,
}

/// Where something is measured.
pub(super) enum Place<'arguments> {
    /// Between processes.
    Job(Start),
    /// In virtual time, with that cost model.
    Simulated(&'arguments str),
}

impl PlaceArguments {
    /// For so many ranks.
    pub(super) fn place(&self, ranks: u32) -> Place<'_> {
        let (fabric, provider) = match &self.fabric {
            FabricChoice::Sim(model) => return Place::Simulated(model),
            FabricChoice::Shm => ("shm", None),
            FabricChoice::Ofi(provider) => ("ofi", provider.clone()),
        };
        let prefix = |rank: u32| {
            let at = u64::from(rank) * self.prefix.len() as u64 / u64::from(ranks);
            let words = self.prefix.get(at as usize).map_or("", String::as_str).split_whitespace();
            words.map(OsString::from).collect()
        };
        let prefixes = (0..ranks).map(prefix).collect();
        Place::Job(Start { fabric, provider, prefixes, master: self.master.clone(), ranks })
    }

    /// How it is called.
    pub(super) fn name(&self) -> String {
        match &self.fabric {
            FabricChoice::Shm => "shm".into(),
            FabricChoice::Ofi(None) => "ofi".into(),
            FabricChoice::Ofi(Some(provider)) => format!("ofi ({provider})"),
            FabricChoice::Sim(model) => format!("sim ({model})"),
        }
    }

    /// Whether it is in virtual time.
    pub(super) fn is_simulated(&self) -> bool {
        matches!(self.fabric, FabricChoice::Sim(_))
    }

    /// Whether every rank has a core to itself.
    pub(super) fn has_cores_for(&self, ranks: u32) -> bool {
        self.is_simulated() || std::thread::available_parallelism().map_or(1, usize::from) >= ranks as usize
    }
}
