//! The network: nodes, links, and how long what takes on them. It knows nothing of processes or coroutines.
//!
//! A transfer reserves each link of its route for as long as its bytes take there, one behind the other: it passes
//! through (the head does not wait for the tail), it queues where a link is in use, and it gets no more than a
//! link's bandwidth. Whoever sends more than [`quantum`](Network::quantum) bytes divides them, and issues each part
//! when it begins, so that others get their turns between.

use std::time::Duration;

use crate::sim::model::Model;
use crate::sim::quantities::Bandwidth;
use crate::sim::routes::Routes;
use crate::units::Time;

/// A machine of the network: 0 up to the number of nodes, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl Node {
    /// As an index into a table with an entry per node.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link of the network, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId(pub u32);

/// When a transfer came and went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// When its first byte entered the first link.
    pub departed: Time,
    /// When its last byte arrived.
    pub arrived: Time,
}

/// What a link has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkUse {
    /// Bytes.
    pub bytes: u64,
    /// For how long it was reserved in all.
    pub busy: Duration,
}

/// The links of a fabric and what they are doing.
#[derive(Debug)]
pub struct Network {
    routes: Routes,
    links: Vec<Link>,
    quantum: u64,
    route: Vec<LinkId>,
}

#[derive(Debug)]
struct Link {
    bandwidth: Bandwidth,
    delay: Duration,
    free_at: Time,
    used: LinkUse,
}

impl Network {
    /// `nodes` machines linked as `model` says.
    #[must_use]
    pub fn new(model: &Model, nodes: u32) -> Self {
        let routes = Routes::new(model.topology, nodes);
        let links = (0..routes.links())
            .map(|link| {
                let link = LinkId(link);
                let (bandwidth, delay) = if routes.is_adapter(link) {
                    (model.adapter.bandwidth_mib_per_s, model.adapter.delay_ns.0)
                } else {
                    (model.links.bandwidth_mib_per_s, model.links.hop_ns.0 + routes.switch_delay(link))
                };
                Link { bandwidth, delay, free_at: Time(0), used: LinkUse::default() }
            })
            .collect();
        Self { routes, links, quantum: model.links.quantum_bytes.bytes() as u64, route: Vec::new() }
    }

    /// How finely long transfers should be divided, in bytes.
    #[must_use]
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Sends `bytes` from one node to another. The sender begins at `issued` and needs at least `injection` to
    /// bring all of them to the first link. Transfers are to be issued in the order of their times.
    pub fn transfer(
        &mut self,
        from: Node,
        to: Node,
        bytes: u64,
        issued: Time,
        injection: Duration,
    ) -> Passage {
        let mut head = issued;
        let mut tail = issued.after(injection);
        let mut departed = None;
        self.route.clear();
        self.routes.find(from, to, &mut self.route);
        for &LinkId(link) in &self.route {
            let link = &mut self.links[link as usize];
            let start = head.max(link.free_at);
            departed = departed.or(Some(start));
            let occupied = link.bandwidth.time_for(bytes);
            link.free_at = start.after(occupied);
            link.used.bytes += bytes;
            link.used.busy += occupied;
            head = start.after(link.delay);
            tail = tail.max(link.free_at).after(link.delay);
        }
        Passage { departed: departed.unwrap_or(issued), arrived: tail }
    }

    /// How long `bytes` take from one node to another when nobody else is there.
    #[must_use]
    pub fn undisturbed(&self, from: Node, to: Node, bytes: u64) -> Duration {
        let mut route = Vec::new();
        self.routes.find(from, to, &mut route);
        let (mut head, mut tail) = (Duration::ZERO, Duration::ZERO);
        for LinkId(link) in route {
            let link = &self.links[link as usize];
            tail = tail.max(head + link.bandwidth.time_for(bytes)) + link.delay;
            head += link.delay;
        }
        tail
    }

    /// Which links lead from one node to another, in order.
    #[must_use]
    pub fn route(&self, from: Node, to: Node) -> Vec<LinkId> {
        let mut route = Vec::new();
        self.routes.find(from, to, &mut route);
        route
    }

    /// What each link has carried, by its number.
    pub fn used(&self) -> impl Iterator<Item = LinkUse> {
        self.links.iter().map(|link| link.used)
    }

    /// A link's bandwidth.
    #[must_use]
    pub fn bandwidth(&self, link: LinkId) -> Option<Bandwidth> {
        self.links.get(link.0 as usize).map(|link| link.bandwidth)
    }
}

#[cfg(test)]
mod tests;
