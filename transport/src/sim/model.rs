//! What things cost on a fabric: a TOML file per fabric, some of them built in.
//!
//! All times in the files are nanoseconds, all bandwidths MiB/s.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::capabilities::{Atomics, Capabilities, Dma, WriteOrder};
use crate::error::{Error, Result};
use crate::sim::network::MOST_LINKS;
use crate::sim::quantities::{Bandwidth, BlockSize, CopyCurve, Count, Delay};
use crate::sim::routes::Routes;

/// The models that are built in: name and text.
const BUILT_IN: [(&str, &str); 6] = [
    ("sci-ring", include_str!("../../models/sci-ring.toml")),
    ("sci-torus", include_str!("../../models/sci-torus.toml")),
    ("sci-switch", include_str!("../../models/sci-switch.toml")),
    ("ethernet-1g", include_str!("../../models/ethernet-1g.toml")),
    ("ethernet-25g", include_str!("../../models/ethernet-25g.toml")),
    ("infiniband-hdr", include_str!("../../models/infiniband-hdr.toml")),
];

/// A fabric's cost model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// How it is called.
    pub name: String,
    /// What it is, for people to read.
    pub description: String,
    /// What the adapter can do.
    pub abilities: Abilities,
    /// How the nodes are linked.
    pub topology: Topology,
    /// The links.
    pub links: Links,
    /// What joins a node to its links.
    pub adapter: Adapter,
    /// Remote writes by the processor.
    pub store: Store,
    /// Knowing that they arrived.
    pub check: Check,
    /// Remote reads.
    pub read: Read,
    /// Atomic changes of remote words.
    pub atomic: Atomic,
    /// Transfers that are handed over; where there is no such section, there is no DMA.
    pub dma: Option<DmaEngine>,
    /// Remote interrupts.
    pub interrupt: InterruptCosts,
    /// Work within a process, and between processes of one node.
    pub local: Local,
    /// Setting things up.
    pub setup: Setup,
}

/// What the adapter can do; the words are those of [`Capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abilities {
    /// The largest write that arrives whole.
    pub transaction_size: BlockSize,
    /// The buffer that gathers stores; none where there is no such thing.
    pub stream_buffer: Option<BlockSize>,
    /// The longest single transfer.
    pub largest_transfer: BlockSize,
    /// Whether user memory can be registered.
    pub registers_user_memory: bool,
    /// Whether writes become visible in any order.
    pub reorders_writes: bool,
    /// Whether every write arrives.
    pub is_reliable: bool,
}

/// How the nodes are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Links in one direction from each node to the next, and from the last to the first.
    Ring {},
    /// Rings in two dimensions, walked along the rows first; all links lead in one direction.
    Torus {
        /// Nodes of a row; by default what makes the torus square.
        columns: Option<Count>,
    },
    /// A switch each of whose ports leads through a ring of a few nodes and back.
    Ringlets {
        /// Nodes of a ring.
        nodes: Count,
        /// From one port to another.
        switch_ns: Delay,
    },
    /// A switch with a link to and from each node.
    Switch {
        /// From one port to another.
        switch_ns: Delay,
    },
    /// Leaf switches with nodes below, and spine switches above all of them. The spine is chosen by destination.
    FatTree {
        /// Nodes of a leaf switch.
        nodes: Count,
        /// Spine switches.
        spines: Count,
        /// Through a switch.
        switch_ns: Delay,
    },
}

/// The links between nodes and switches.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Payload that passes a link.
    pub bandwidth_mib_per_s: Bandwidth,
    /// From one end of a link through what is there to the next link.
    pub hop_ns: Delay,
    /// How finely long transfers share a link.
    pub quantum_bytes: BlockSize,
}

/// What joins a node to its links.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// What passes between memory and the links, per direction: the bus.
    pub bandwidth_mib_per_s: Bandwidth,
    /// Through it, on the way out and again on the way in.
    pub delay_ns: Delay,
}

/// Remote writes by the processor.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// How long the processor stands for each contiguous piece.
    pub stall_ns: Delay,
    /// And how fast its bytes go.
    pub bandwidth_mib_per_s: Bandwidth,
    /// How much later a write arrives that does not end with a stream buffer.
    pub partial_buffer_ns: Delay,
    /// By how much, at most, transactions arrive later than they would in order.
    pub reorder_ns: Delay,
}

/// Knowing that writes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A store barrier takes at least that long.
    pub barrier_ns: Delay,
    /// A sequence check with a store barrier within.
    pub check_ns: Delay,
    /// A sequence check when nothing was written since a store barrier.
    pub fast_check_ns: Delay,
}

/// Remote reads: a round trip, and this.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// What is added to the round trip.
    pub delay_ns: Delay,
    /// How fast the bytes come.
    pub bandwidth_mib_per_s: Bandwidth,
}

/// Atomic changes of remote words: a round trip, and this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atomic {
    /// What is added to the round trip.
    pub delay_ns: Delay,
}

/// The adapter's engine: one per node, one chain after the other.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DmaEngine {
    /// The processor's work to hand a chain over.
    pub post_ns: Delay,
    /// The engine's work to begin a chain.
    pub start_ns: Delay,
    /// The engine's work for each further transfer of a chain.
    pub chained_ns: Delay,
    /// How fast the bytes go.
    pub bandwidth_mib_per_s: Bandwidth,
    /// From the arrival of the last byte until a waiter knows.
    pub completion_ns: Delay,
}

/// Remote interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterruptCosts {
    /// The processor's work to trigger one.
    pub trigger_ns: Delay,
    /// From its arrival until who waits for it runs.
    pub wake_ns: Delay,
}

/// Work within a process, and between processes of one node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// One look at what is waited for.
    pub poll_ns: Delay,
    /// Until a process of the same node sees what was written.
    pub delay_ns: Delay,
    /// Copies by the processor: `[[bytes, MiB/s], …]`, cold destinations.
    pub copies: CopyCurve,
}

/// Setting things up.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// To create a segment.
    pub create_ns: Delay,
    /// To connect to one, beside the round trip.
    pub connect_ns: Delay,
    /// To register user memory.
    pub register_ns: Delay,
    /// Segment memory of a process, in bytes; unlimited where it is not given.
    pub segment_memory: Option<u64>,
}

impl Model {
    /// The names of the built-in models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// The built-in model of that name.
    ///
    /// # Errors
    /// [`Error::Setting`] for a name that is not among [`names`](Self::names).
    pub fn named(name: &str) -> Result<Arc<Self>> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = Self::names().collect();
            let problem = format!("no such model; there are {}, or give a file", known.join(", "));
            return Err(Error::Setting { place: format!("model {name}"), problem });
        };
        Self::parse(text, &format!("{name}.toml"))
    }

    /// The built-in model of that name, or the model in the file of that name.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is neither, or for a file that is wrong: with its line.
    pub fn find(name: &str) -> Result<Arc<Self>> {
        if Self::names().any(|known| known == name) {
            return Self::named(name);
        }
        if Path::new(name).exists() { Self::load(Path::new(name)) } else { Self::named(name) }
    }

    /// The model in a file.
    ///
    /// # Errors
    /// [`Error::Setting`] with the file, and the line where it is wrong.
    pub fn load(path: &Path) -> Result<Arc<Self>> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Setting { place: place.clone(), problem: source.to_string() })?;
        Self::parse(&text, &place)
    }

    fn parse(text: &str, place: &str) -> Result<Arc<Self>> {
        toml::from_str(text).map(Arc::new).map_err(|error| {
            let line =
                error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count()) + 1;
            Error::Setting { place: format!("{place}:{line}"), problem: error.message().to_owned() }
        })
    }

    /// That so many nodes can be simulated.
    ///
    /// # Errors
    /// [`Error::Setting`] where they have too many links.
    pub fn check_nodes(&self, nodes: u32) -> Result<()> {
        let links = Routes::new(self.topology, nodes).links();
        if links <= MOST_LINKS {
            return Ok(());
        }
        let problem = format!(
            "{nodes} nodes have {links} links there, more than the {MOST_LINKS} that can be simulated; take fewer \
             nodes, or a model with fewer switches"
        );
        Err(Error::Setting { place: format!("model {}", self.name), problem })
    }

    /// What a fabric of this model can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let abilities = &self.abilities;
        Capabilities {
            back_end: "sim".into(),
            provider: self.name.clone(),
            // Stores through a mapping would cost no time and could not be lost.
            direct_mapping: false,
            transaction_size: abilities.transaction_size.bytes(),
            stream_buffer: abilities.stream_buffer.map(BlockSize::bytes),
            largest_transfer: abilities.largest_transfer.bytes() as u64,
            dma: if self.dma.is_some() { Dma::Adapter } else { Dma::None },
            registers_user_memory: abilities.registers_user_memory,
            pins_memory: false,
            remote_read: true,
            atomics: Atomics::Adapter,
            ordering: if abilities.reorders_writes { WriteOrder::Any } else { WriteOrder::Issued },
            is_reliable: abilities.is_reliable,
        }
    }

    /// How long the processor is busy with a remote write of one contiguous piece.
    #[must_use]
    pub fn store_time(&self, bytes: u64) -> Duration {
        self.store.stall_ns.0 + self.store.bandwidth_mib_per_s.time_for(bytes)
    }

    /// How long a local copy takes.
    #[must_use]
    pub fn copy_time(&self, bytes: u64) -> Duration {
        self.local.copies.time_for(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Model;
    use crate::capabilities::{Dma, WriteOrder};
    use crate::error::Error;
    use crate::sim::options::SimOptions;
    use crate::sim::world::World;

    #[test]
    fn every_built_in_model_is_sound_and_named_as_its_file() {
        for name in Model::names() {
            let model = Model::named(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(model.name, name);
            assert_eq!(model.capabilities().dma, Dma::Adapter);
        }
    }

    #[test]
    fn scalable_coherent_interface_orders_nothing_and_registers_nothing() {
        let capabilities = Model::named("sci-switch").unwrap().capabilities();
        assert_eq!(capabilities.ordering, WriteOrder::Any);
        assert!(!capabilities.registers_user_memory && !capabilities.is_reliable);
        assert_eq!(capabilities.transaction_size, 64);
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let ethernet = include_str!("../../models/ethernet-1g.toml");
        let (ringlets, tree) =
            (include_str!("../../models/sci-switch.toml"), include_str!("../../models/infiniband-hdr.toml"));
        let cases = [
            (ethernet, "stall_ns = ", "stall_ns = -", "stall_ns"),
            (ethernet, "quantum_bytes = ", "quantum_bytes = 3 #", "quantum_bytes"),
            (ethernet, "trigger_ns = ", "triger_ns = ", "triger_ns"),
            (
                ethernet,
                "[adapter]\nbandwidth_mib_per_s = ",
                "[adapter]\nbandwidth_mib_per_s = 0 #",
                "[adapter]",
            ),
            (ringlets, "\nnodes = ", "\nnodes = 4294967295 #", "= 4294967295"),
            (tree, "spines = ", "spines = 4294967295 #", "= 4294967295"),
        ];
        for (good, from, to, at) in cases {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            std::fs::write(&file, &text).unwrap();
            let line = text.lines().position(|line| line.contains(at)).unwrap() + 1;
            let Err(Error::Setting { place, problem }) = Model::load(&file) else {
                panic!("{to} is accepted")
            };
            let named: usize = place.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!(place.starts_with(file.to_str().unwrap()), "{place}: {problem}");
            assert!((line..=line + 1).contains(&named), "{place}: {problem}, not {line}");
        }
        assert!(Model::load(&folder.path().join("absent.toml")).is_err());
        let Err(error) = Model::find("sci-cube") else { panic!("found") };
        assert!(error.to_string().contains("sci-torus"), "{error}");
    }

    #[test]
    fn what_has_too_many_links_is_refused() {
        for name in Model::names() {
            Model::named(name).unwrap().check_nodes(1 << 20).unwrap();
        }
        // Each number by itself is possible.
        let text =
            include_str!("../../models/infiniband-hdr.toml").replace("spines = ", "spines = 1048576 #");
        let model = Model::parse(&text, "many.toml").unwrap();
        model.check_nodes(40).unwrap();
        let error = model.check_nodes(1 << 20).unwrap_err().to_string();
        assert!(error.contains("1048576 nodes have 54981033984 links"), "{error}");
        let world = World::new(SimOptions::new(1 << 10, model));
        let refused = world.run(|_| ()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("1024 nodes have"), "{refused}");
    }
}
