use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{Flight, LinkId, Network, Next, Node};
use crate::sim::agenda::Agenda;
use crate::sim::model::{Model, Topology};
use crate::units::Time;

/// A network whose numbers are easy to reckon with: links of 1 byte/ns and 10 ns, adapters of 2 bytes/ns and 100 ns.
fn network(topology: &str, nodes: u32) -> Network {
    let mut model = Model::clone(&Model::named("ethernet-1g").unwrap());
    #[derive(serde::Deserialize)]
    struct File {
        topology: Topology,
    }
    model.topology = toml::from_str::<File>(topology).unwrap().topology;
    let gigabyte = 1e9 / f64::from(1 << 20);
    model.links.bandwidth_mib_per_s = gigabyte.try_into().unwrap();
    model.links.hop_ns = 10.into();
    model.adapter.bandwidth_mib_per_s = (2.0 * gigabyte).try_into().unwrap();
    model.adapter.delay_ns = 100.into();
    Network::new(&model, nodes)
}

fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

/// The hops between the adapters.
fn hops(network: &Network, from: u32, to: u32) -> usize {
    network.route(Node(from), Node(to)).len() - 2
}

const RING: &str = "[topology.ring]";
const TORUS: &str = "[topology.torus]";
const RINGLETS: &str = "[topology.ringlets]\nnodes = 2\nswitch_ns = 50";
const SWITCH: &str = "[topology.switch]\nswitch_ns = 50";
const FAT_TREE: &str = "[topology.fat-tree]\nnodes = 4\nspines = 2\nswitch_ns = 50";
const ALL: [&str; 5] = [RING, TORUS, RINGLETS, SWITCH, FAT_TREE];

#[derive(Debug, Clone, Copy)]
struct Send {
    from: u32,
    to: u32,
    bytes: u64,
    at: u64,
    injection: u64,
}

impl Send {
    fn new(from: u32, to: u32, bytes: u64, at: u64) -> Self {
        Self { from, to, bytes, at, injection: 0 }
    }
}

/// When a transfer came and went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    departed: Time,
    arrived: Time,
}

/// Has all of them happen; those at the same time in their order.
fn deliver(network: &mut Network, sends: &[Send]) -> Vec<Passage> {
    let mut agenda: Agenda<(usize, Option<Flight>)> = Agenda::new();
    for (number, send) in sends.iter().enumerate() {
        agenda.enter(Time(send.at), (number, None));
    }
    let mut passages = vec![Passage { departed: Time(0), arrived: Time(0) }; sends.len()];
    while let Some((now, (number, flight))) = agenda.take() {
        let flight = match flight {
            Some(mut flight) => {
                network.go_on(&mut flight);
                flight
            }
            None => {
                let Send { from, to, bytes, injection, .. } = sends[number];
                network.send(Node(from), Node(to), bytes, now, ns(injection))
            }
        };
        match flight.next() {
            Next::Reaches(time) => agenda.enter(time, (number, Some(flight))),
            Next::Arrives(arrived) => passages[number] = Passage { departed: flight.departed(), arrived },
        }
    }
    passages
}

/// The same by a search, from link to link, for the one whose head is the first to reach any; nothing where two reach
/// the same link at the same time.
fn deliver_by_search(network: &Network, sends: &[Send]) -> Option<Vec<Passage>> {
    struct Pending {
        route: Vec<LinkId>,
        departed: Option<Time>,
        head: u64,
        tail: u64,
    }
    let start = |send: &Send| Pending {
        route: network.route(Node(send.from), Node(send.to)),
        departed: None,
        head: send.at,
        tail: send.at + send.injection,
    };
    let mut all: Vec<Pending> = sends.iter().map(start).collect();
    let mut free_at = BTreeMap::new();
    loop {
        let on_their_way = || (0..all.len()).filter(|&number| !all[number].route.is_empty());
        let Some(next) = on_their_way().min_by_key(|&number| all[number].head) else { break };
        let (link, head) = (all[next].route[0], all[next].head);
        if on_their_way().any(|other| other != next && (all[other].route[0], all[other].head) == (link, head))
        {
            return None;
        }
        let (bandwidth, delay) = (network.bandwidth(link)?, network.links[link.0 as usize].delay);
        let start = head.max(free_at.get(&link.0).copied().unwrap_or(0));
        let free = start + bandwidth.time_for(sends[next].bytes).as_nanos() as u64;
        free_at.insert(link.0, free);
        let (pending, delay) = (&mut all[next], delay.as_nanos() as u64);
        pending.route.remove(0);
        pending.departed.get_or_insert(Time(start));
        pending.head = start + delay;
        pending.tail = pending.tail.max(free) + delay;
    }
    let passage = |(pending, send): (Pending, &Send)| Passage {
        departed: pending.departed.unwrap_or(Time(send.at)),
        arrived: Time(pending.tail),
    };
    Some(all.into_iter().zip(sends).map(passage).collect())
}

#[test]
fn an_undisturbed_transfer_takes_the_sum_of_delays_and_its_bytes_on_the_slowest_link() {
    // Adapters 2 x 100, links by 10, and 1000 bytes at 1 byte/ns. The slower link comes behind an adapter that is
    // faster, so its 1000 ns are all that is added.
    for (topology, nodes, from, to, delays) in [
        (RING, 8, 0, 1, 210),
        (RING, 8, 1, 0, 270),
        (TORUS, 16, 0, 5, 220),
        (TORUS, 16, 5, 0, 260),
        (RINGLETS, 8, 0, 1, 210),
        // 1 to the switch, through it, and to the second of the next ring.
        (RINGLETS, 8, 1, 3, 200 + 10 + 50 + 20),
        (SWITCH, 8, 1, 3, 200 + 10 + 50 + 10),
        (FAT_TREE, 8, 1, 3, 200 + 10 + 50 + 10),
        (FAT_TREE, 8, 1, 5, 200 + 4 * 10 + 3 * 50),
    ] {
        let mut network = network(topology, nodes);
        let expected = ns(delays + 1000);
        assert_eq!(network.undisturbed(Node(from), Node(to), 1000), expected, "{topology} {from} {to}");
        let flight = network.send(Node(from), Node(to), 1000, Time(500), Duration::ZERO);
        assert_eq!(flight.departed(), Time(500));
        assert_eq!(network.carry(flight).since(Time(500)), expected, "{topology} {from} {to}");
    }
}

#[test]
fn a_slow_sender_sets_the_pace_but_leaves_the_link_to_others() {
    let slow = Send { injection: 5000, ..Send::new(0, 1, 1000, 0) };
    let passages = deliver(&mut network(RING, 4), &[slow, Send::new(0, 1, 100, 2000)]);
    assert_eq!(passages[0].arrived, Time(5000 + 210));
    // The link was taken for 1000 ns from 100 on, though the sender went on for longer.
    assert_eq!(passages[1].arrived, Time(2000 + 210 + 100));
}

#[test]
fn transfers_queue_where_they_share_a_link_and_only_there() {
    // From 0 and from 1 to 2 both pass the link from 1 to 2; the other way round the ring nobody is.
    let sends = [Send::new(0, 2, 1000, 0), Send::new(1, 2, 1000, 0), Send::new(2, 3, 1000, 0)];
    let passages = deliver(&mut network(RING, 4), &sends);
    // The second reached the shared link at 100. The first, there at 110, found it in use until 1100.
    assert_eq!(passages[1].arrived, Time(210 + 1000));
    assert_eq!(passages[0].arrived, Time(1100 + 1000 + 10 + 100));
    assert_eq!(passages[2].arrived, Time(210 + 1000));
}

/// Who was issued first is no better off than who is nearer.
#[test]
fn a_link_is_free_until_a_head_reaches_it() {
    // The first gets to the link from 6 to 7 at 160: by then the others have passed it.
    let sends = [Send::new(0, 7, 40, 0), Send::new(6, 7, 40, 0), Send::new(6, 7, 10, 25)];
    let passages = deliver(&mut network(RING, 8), &sends);
    assert_eq!(passages[0].arrived, Time(200 + 70 + 40));
    assert_eq!(passages[1].arrived, Time(200 + 10 + 40));
    assert_eq!(passages[2].arrived, Time(140 + 10 + 10 + 100));
}

#[test]
fn rows_come_before_columns() {
    let network = network(TORUS, 16);
    assert_eq!(hops(&network, 0, 15), 6);
    assert_eq!(hops(&network, 15, 0), 2);
    // Along the row first: the way from 0 to 5 shares its first link with that from 0 to 1.
    assert_eq!(network.route(Node(0), Node(5))[1], network.route(Node(0), Node(1))[1]);
    assert_ne!(network.route(Node(0), Node(5))[1], network.route(Node(0), Node(4))[1]);
}

fn sends(nodes: u32) -> impl Strategy<Value = Vec<Send>> {
    let send = (0..nodes, 0..nodes, 1_u64..5000, 0_u64..20_000, 0_u64..3000)
        .prop_map(|(from, to, bytes, at, injection)| Send { from, to, bytes, at, injection });
    prop::collection::vec(send, 1..60)
}

proptest! {
    #[test]
    fn nothing_arrives_before_it_can_and_no_link_carries_more_than_it_can(
        topology in prop::sample::select(&ALL[..]),
        sends in sends(13),
    ) {
        let mut network = network(topology, 13);
        let passages = deliver(&mut network, &sends);
        for (send, passage) in sends.iter().zip(&passages) {
            let least = network.undisturbed(Node(send.from), Node(send.to), send.bytes).max(ns(send.injection));
            prop_assert!(passage.departed >= Time(send.at));
            prop_assert!(passage.arrived.since(Time(send.at)) >= least);
        }
        let last = passages.iter().map(|passage| passage.arrived).max().unwrap();
        // Used by one after the other, and for as long as the bytes take at the link's bandwidth.
        for (number, used) in network.used().enumerate() {
            prop_assert!(used.busy <= last.since(Time(0)), "link {number}");
            let bandwidth = network.bandwidth(LinkId(number as u32)).unwrap();
            prop_assert!(bandwidth.time_for(used.bytes) <= used.busy, "link {number}");
        }
    }

    #[test]
    fn a_link_serves_first_whose_head_comes_first(
        topology in prop::sample::select(&ALL[..]),
        sends in sends(13),
    ) {
        let mut network = network(topology, 13);
        if let Some(expected) = deliver_by_search(&network, &sends) {
            prop_assert_eq!(deliver(&mut network, &sends), expected);
        }
    }

    /// All nodes of a ring send at once, equally far: nobody is before another, whoever is first in the program.
    #[test]
    fn a_shift_around_a_ring_takes_all_equally_long_in_any_order(
        order in Just((0..24_u32).collect::<Vec<_>>()).prop_shuffle(),
        distance in 1_u32..24,
        bytes in 1_u64..100,
    ) {
        let sends: Vec<_> =
            order.into_iter().map(|from| Send::new(from, (from + distance) % 24, bytes, 0)).collect();
        let passages = deliver(&mut network(RING, 24), &sends);
        // The next link is in use until all of the one before has left it.
        let each = bytes.max(10);
        let expected = Time(100 + u64::from(distance - 1) * each + 10 + bytes + 100);
        for (send, passage) in sends.iter().zip(&passages) {
            prop_assert_eq!(passage.arrived, expected, "from {}", send.from);
        }
    }

    #[test]
    fn transfers_of_a_pair_stay_in_order(topology in prop::sample::select(&ALL[..]), sends in sends(7)) {
        let (mut sends, mut now) = (sends, 0);
        for send in &mut sends {
            now += send.at / 10;
            send.at = now;
            // A processor that stores takes its time for each write before the next.
            now += send.injection;
        }
        let passages = deliver(&mut network(topology, 7), &sends);
        let mut last = BTreeMap::new();
        for (send, passage) in sends.iter().zip(&passages).filter(|(send, _)| send.from != send.to) {
            let last = last.insert((send.from, send.to), passage.arrived);
            prop_assert!(last.is_none_or(|last| last <= passage.arrived));
        }
    }

    #[test]
    fn every_node_reaches_every_other_over_links_that_exist(
        topology in prop::sample::select(&ALL[..]),
        nodes in 1_u32..40,
    ) {
        let network = network(topology, nodes);
        for from in 0..nodes {
            for to in 0..nodes {
                let route = network.route(Node(from), Node(to));
                prop_assert_eq!(route.is_empty(), from == to);
                let mut links: Vec<_> = route.iter().map(|link| link.0).collect();
                prop_assert!(links.iter().all(|&link| (link as usize) < network.links.len()));
                links.sort_unstable();
                links.dedup();
                prop_assert_eq!(links.len(), route.len(), "no link twice");
            }
        }
    }
}
