use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{Network, Node};
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
        let passage = network.transfer(Node(from), Node(to), 1000, Time(500), Duration::ZERO);
        assert_eq!(passage.arrived.since(Time(500)), expected, "{topology} {from} {to}");
        assert_eq!(passage.departed, Time(500));
    }
}

#[test]
fn a_slow_sender_sets_the_pace_but_leaves_the_link_to_others() {
    let mut network = network(RING, 4);
    let slow = network.transfer(Node(0), Node(1), 1000, Time(0), ns(5000));
    assert_eq!(slow.arrived, Time(5000 + 210));
    // The link was taken for 1000 ns from 100 on, though the sender went on for longer.
    let other = network.transfer(Node(0), Node(1), 100, Time(2000), Duration::ZERO);
    assert_eq!(other.arrived, Time(2000 + 210 + 100));
}

#[test]
fn transfers_queue_where_they_share_a_link_and_only_there() {
    // From 0 and from 1 to 2 both pass the link from 1 to 2.
    let mut ring = network(RING, 4);
    let first = ring.transfer(Node(0), Node(2), 1000, Time(0), Duration::ZERO);
    assert_eq!(first.arrived, Time(220 + 1000));
    // It reached the shared link at 110; the second finds it in use from 100 on the way until 1110.
    let second = ring.transfer(Node(1), Node(2), 1000, Time(0), Duration::ZERO);
    assert_eq!(second.arrived, Time(1110 + 1000 + 10 + 100));
    // The other way round the ring nobody is.
    let apart = ring.transfer(Node(2), Node(3), 1000, Time(0), Duration::ZERO);
    assert_eq!(apart.arrived, Time(210 + 1000));
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

#[derive(Debug, Clone)]
struct Send {
    from: u32,
    to: u32,
    bytes: u64,
    after: u64,
    injection: u64,
}

fn sends(nodes: u32) -> impl Strategy<Value = Vec<Send>> {
    let send = (0..nodes, 0..nodes, 1_u64..5000, 0_u64..2000, 0_u64..3000)
        .prop_map(|(from, to, bytes, after, injection)| Send { from, to, bytes, after, injection });
    prop::collection::vec(send, 1..60)
}

proptest! {
    #[test]
    fn nothing_arrives_before_it_can_and_no_link_carries_more_than_it_can(
        topology in prop::sample::select(&ALL[..]),
        sends in sends(13),
    ) {
        let mut network = network(topology, 13);
        let mut now = Time(0);
        let mut last = Time(0);
        for send in sends {
            now = now.after(ns(send.after));
            let (from, to) = (Node(send.from), Node(send.to));
            let passage = network.transfer(from, to, send.bytes, now, ns(send.injection));
            let least = network.undisturbed(from, to, send.bytes).max(ns(send.injection));
            prop_assert!(passage.departed >= now);
            prop_assert!(passage.arrived.since(now) >= least);
            last = last.max(passage.arrived);
        }
        // Reserved one after the other, and for as long as the bytes take at the link's bandwidth.
        for (number, used) in network.used().enumerate() {
            prop_assert!(used.busy <= last.since(Time(0)), "link {number}");
            let bandwidth = network.bandwidth(super::LinkId(number as u32)).unwrap();
            prop_assert!(bandwidth.time_for(used.bytes) <= used.busy, "link {number}");
        }
    }

    #[test]
    fn transfers_of_a_pair_stay_in_order(topology in prop::sample::select(&ALL[..]), sends in sends(7)) {
        let mut network = network(topology, 7);
        let mut now = Time(0);
        let mut last = BTreeMap::new();
        for send in sends {
            now = now.after(ns(send.after));
            // A processor that stores takes its time for each write before the next.
            let passage = network.transfer(Node(send.from), Node(send.to), send.bytes, now, ns(send.injection));
            now = now.after(ns(send.injection));
            if send.from != send.to {
                let last = last.insert((send.from, send.to), passage.arrived);
                prop_assert!(last.is_none_or(|last| last <= passage.arrived));
            }
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
