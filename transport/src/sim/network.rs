//! The network: nodes, links, and how long what takes on them. It knows nothing of processes or coroutines.
//!
//! A transfer has each link of its route for as long as its bytes take there, one behind the other: it passes
//! through (the head does not wait for the tail), it gets no more than a link's bandwidth, and it queues where a link is
//! in use, behind all whose heads came before its own, and before all others, whenever they were issued. So it is taken
//! from link to link at the time at which its head reaches each: who sends has a [`Flight`], and says when that time has
//! come. Whoever sends more than [`quantum`](Network::quantum) bytes divides them, and issues each part when it begins, so
//! that others get their turns between.

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

/// A transfer under way.
#[derive(Debug)]
pub struct Flight {
    route: Vec<LinkId>,
    /// How many links of its route it has passed, or is passing.
    passed: usize,
    bytes: u64,
    departed: Time,
    /// When its first byte is beyond those links.
    head: Time,
    /// And its last one.
    tail: Time,
}

impl Flight {
    /// When its first byte entered the first link.
    #[must_use]
    pub fn departed(&self) -> Time {
        self.departed
    }

    /// What becomes of it next.
    #[must_use]
    pub fn next(&self) -> Next {
        if self.passed == self.route.len() { Next::Arrives(self.tail) } else { Next::Reaches(self.head) }
    }
}

/// What becomes of a transfer that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Its head reaches a link at this time: then the network is to have it [`go on`](Network::go_on).
    Reaches(Time),
    /// Its last byte arrives.
    Arrives(Time),
}

/// More links than that are not simulated: each takes some 64 bytes.
pub(crate) const MOST_LINKS: u64 = 1 << 23;

/// What a link has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkUse {
    /// Bytes, or as many as can be counted.
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
}

#[derive(Debug)]
struct Link {
    bandwidth: Bandwidth,
    delay: Duration,
    /// Whether all that it carries comes from one other link, and so in the order in which it passed that one.
    is_in_line: bool,
    free_at: Time,
    used: LinkUse,
}

impl Network {
    /// `nodes` machines linked as `model` says.
    ///
    /// # Panics
    /// Where there are so many links that [`Model::check_nodes`] refuses them.
    #[must_use]
    pub fn new(model: &Model, nodes: u32) -> Self {
        let routes = Routes::new(model.topology, nodes);
        let links = routes.links();
        assert!(links <= MOST_LINKS, "{links} links are too many");
        let links = (0..links as u32)
            .map(|link| {
                let link = LinkId(link);
                let (bandwidth, delay) = if routes.is_adapter(link) {
                    (model.adapter.bandwidth_mib_per_s, model.adapter.delay_ns.0)
                } else {
                    (model.links.bandwidth_mib_per_s, model.links.hop_ns.0 + routes.switch_delay(link))
                };
                let is_in_line = routes.is_in_line(link);
                Link { bandwidth, delay, is_in_line, free_at: Time(0), used: LinkUse::default() }
            })
            .collect();
        Self { routes, links, quantum: model.links.quantum_bytes.bytes() as u64 }
    }

    /// How finely long transfers should be divided, in bytes.
    #[must_use]
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Sends `bytes` from one node to another. The sender begins at `issued` and needs at least `injection` to
    /// bring all of them to the first link. Transfers are to be issued, and to go on, in the order of these times.
    pub fn send(&mut self, from: Node, to: Node, bytes: u64, issued: Time, injection: Duration) -> Flight {
        let (head, tail) = (issued, issued.after(injection));
        let mut flight =
            Flight { route: self.route(from, to), passed: 0, bytes, departed: issued, head, tail };
        if let Some(&LinkId(first)) = flight.route.first() {
            flight.departed = issued.max(self.links[first as usize].free_at);
            self.go_on(&mut flight);
        }
        flight
    }

    /// Takes a transfer over the link that its head reaches now.
    pub fn go_on(&mut self, flight: &mut Flight) {
        while let Some(&LinkId(link)) = flight.route.get(flight.passed) {
            let link = &mut self.links[link as usize];
            let start = flight.head.max(link.free_at);
            let occupied = link.bandwidth.time_for(flight.bytes);
            link.free_at = start.after(occupied);
            link.used.bytes = link.used.bytes.saturating_add(flight.bytes);
            link.used.busy += occupied;
            flight.head = start.after(link.delay);
            flight.tail = flight.tail.max(link.free_at).after(link.delay);
            flight.passed += 1;
            // Nobody gets between on the way to one in line: what comes of it there is known by now.
            let next = flight.route.get(flight.passed);
            if !next.is_some_and(|next| self.links[next.0 as usize].is_in_line) {
                break;
            }
        }
    }

    /// Takes a transfer all its way, and returns when it arrives: for one that meets no other that is under way, but those
    /// that went the same way before it.
    pub fn carry(&mut self, mut flight: Flight) -> Time {
        loop {
            match flight.next() {
                Next::Reaches(_) => self.go_on(&mut flight),
                Next::Arrives(time) => return time,
            }
        }
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
