//! Which links lead from one node to another.

use std::time::Duration;

use crate::sim::model::Topology;
use crate::sim::network::{LinkId, Node};

/// The wiring of a number of nodes.
///
/// Links are numbered: each node's way out of its adapter, each node's way into it, and then what the topology has.
#[derive(Debug)]
pub(crate) struct Routes {
    nodes: u32,
    shape: Shape,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Ring,
    Torus { columns: u32, rows: u32 },
    Ringlets { nodes: u32, switch: Duration },
    Switch { switch: Duration },
    FatTree { nodes: u32, spines: u32, switch: Duration },
}

impl Routes {
    pub(crate) fn new(topology: Topology, nodes: u32) -> Self {
        let shape = match topology {
            Topology::Ring {} => Shape::Ring,
            Topology::Torus { columns } => {
                let square = f64::from(nodes).sqrt().ceil() as u32;
                let columns = columns.map_or(square, |columns| columns.get()).clamp(1, nodes.max(1));
                Shape::Torus { columns, rows: nodes.div_ceil(columns) }
            }
            Topology::Ringlets { nodes, switch_ns } => {
                Shape::Ringlets { nodes: nodes.get(), switch: switch_ns.0 }
            }
            Topology::Switch { switch_ns } => Shape::Switch { switch: switch_ns.0 },
            Topology::FatTree { nodes, spines, switch_ns } => {
                Shape::FatTree { nodes: nodes.get(), spines: spines.get(), switch: switch_ns.0 }
            }
        };
        Self { nodes, shape }
    }

    /// How many links there are.
    pub(crate) fn links(&self) -> u64 {
        let all = u64::from(self.nodes);
        let between = match self.shape {
            Shape::Ring => all,
            Shape::Torus { columns, rows } => 2 * u64::from(columns) * u64::from(rows),
            Shape::Ringlets { nodes, .. } => all.div_ceil(nodes.into()) * (u64::from(nodes) + 1),
            Shape::Switch { .. } => 2 * all,
            Shape::FatTree { nodes, spines, .. } => {
                2 * all + 2 * all.div_ceil(nodes.into()) * u64::from(spines)
            }
        };
        2 * all + between
    }

    /// Whether it is a node's way out of or into its adapter.
    pub(crate) fn is_adapter(&self, LinkId(link): LinkId) -> bool {
        link < 2 * self.nodes
    }

    /// How long the switch takes to which a link leads; zero where it leads to none.
    pub(crate) fn switch_delay(&self, LinkId(link): LinkId) -> Duration {
        let Some(link) = link.checked_sub(2 * self.nodes) else { return Duration::ZERO };
        match self.shape {
            Shape::Ring | Shape::Torus { .. } => Duration::ZERO,
            Shape::Ringlets { nodes, switch } if link % (nodes + 1) == nodes => switch,
            Shape::Switch { switch } if link < self.nodes => switch,
            // All but the ways down to the nodes lead to a switch.
            Shape::FatTree { switch, .. } if link < self.nodes || link >= 2 * self.nodes => switch,
            _ => Duration::ZERO,
        }
    }

    /// Whether all that passes a link has passed the same one before it, or none.
    pub(crate) fn is_in_line(&self, link: LinkId) -> bool {
        let LinkId(number) = link;
        let leads_in = self.is_adapter(link) && number >= self.nodes;
        match self.shape {
            // Into a node come those of its row, and those of its column.
            Shape::Torus { .. } => false,
            Shape::Ring | Shape::Ringlets { .. } => leads_in,
            // And each node's way up to the switch.
            Shape::Switch { .. } | Shape::FatTree { .. } => {
                leads_in || (2 * self.nodes..3 * self.nodes).contains(&number)
            }
        }
    }

    /// Appends the links from one node to another, in order; none from a node to itself.
    pub(crate) fn find(&self, from: Node, to: Node, route: &mut Vec<LinkId>) {
        if from == to {
            return;
        }
        route.push(LinkId(from.0));
        self.find_between(from.0, to.0, |link| route.push(LinkId(2 * self.nodes + link)));
        route.push(LinkId(self.nodes + to.0));
    }

    fn find_between(&self, from: u32, to: u32, mut link: impl FnMut(u32)) {
        match self.shape {
            Shape::Ring => {
                let mut at = from;
                while at != to {
                    link(at);
                    at = (at + 1) % self.nodes;
                }
            }
            Shape::Torus { columns, rows } => {
                let (mut column, mut row) = (from % columns, from / columns);
                while column != to % columns {
                    link(row * columns + column);
                    column = (column + 1) % columns;
                }
                while row != to / columns {
                    link(columns * rows + row * columns + column);
                    row = (row + 1) % rows;
                }
            }
            Shape::Ringlets { nodes, .. } => {
                // Of each port: place 0 is the switch, then come the nodes; link i leads from place i to the next.
                let (port, to_port) = (from / nodes, to / nodes);
                let (place, to_place) = (from % nodes + 1, to % nodes + 1);
                let first = |port: u32| port * (nodes + 1);
                if port == to_port && place < to_place {
                    (place..to_place).for_each(|place| link(first(port) + place));
                } else {
                    (place..=nodes).for_each(|place| link(first(port) + place));
                    (0..to_place).for_each(|place| link(first(to_port) + place));
                }
            }
            Shape::Switch { .. } => {
                link(from);
                link(self.nodes + to);
            }
            Shape::FatTree { nodes, spines, .. } => {
                let (leaf, to_leaf) = (from / nodes, to / nodes);
                link(from);
                if leaf != to_leaf {
                    let spine = to % spines;
                    let ups = 2 * self.nodes;
                    let downs = ups + self.nodes.div_ceil(nodes) * spines;
                    link(ups + leaf * spines + spine);
                    link(downs + to_leaf * spines + spine);
                }
                link(self.nodes + to);
            }
        }
    }
}
