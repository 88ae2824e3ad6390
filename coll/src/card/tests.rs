use super::*;

fn job(id: u64, rank: u32) -> Known {
    Known { id, rank, reach: Reach::Memory }
}

fn card(node: u64, jobs: &[Known]) -> Card {
    let mut card = Card {
        is_ready: true,
        left: Collectives::default(),
        begun: Begun::default(),
        nodes: Nodes::All,
        machine: 1,
        node,
        job: 77,
        number: 4,
        ..Card::UNREADY
    };
    for (to, job) in card.jobs.iter_mut().zip(jobs) {
        *to = Some(*job);
    }
    card
}

fn reach(cards: &[Card]) -> Option<Reach> {
    match decide(cards) {
        Decision::Take { reach, .. } => Some(reach),
        Decision::Leave(_) | Decision::TakeOverMpi { .. } => None,
    }
}

#[test]
fn cards_survive_the_wire() {
    let jobs = [job(9, 0), Known { reach: Reach::Network, ..job(8, 7) }];
    let card =
        Card { left: Collectives(5), begun: Begun::All, fabric: Some(FabricChoice::Ofi), ..card(3, &jobs) };
    for card in [
        card,
        Card::UNREADY,
        Card { has_failed: true, nodes: Nodes::One, over: Over::Mpi, ..card },
        Card { has_no_room: true, ..card },
        Card { has_enough: true, ..card },
        Card { is_timed: true, ..card },
        Card { after: 300, ..card },
        Card { has_devices: true, ..card },
    ] {
        assert_eq!(Card::from_bytes(&card.to_bytes()), card);
    }
}

#[test]
fn a_job_that_all_are_in_is_used() {
    let cards = [
        card(1, &[job(5, 0), job(6, 2)]),
        card(1, &[job(6, 1)]),
        card(1, &[job(7, 0), job(6, 0), job(5, 1)]),
    ];
    let known = |job, ranks: &[u32]| Decision::Take {
        found: Found::Known { job, members: ranks.iter().copied().map(Rank).collect() },
        reach: Reach::Memory,
    };
    assert_eq!(decide(&cards), known(6, &[2, 1, 0]));
    assert_eq!(decide(&cards[..1]), known(5, &[0]));
    let none = Decision::Take { found: Found::None { job: 77 }, reach: Reach::Memory };
    assert_eq!(decide(&[cards[0], card(1, &[job(7, 0)])]), none);
    // Who can be in no more jobs still uses those that it is in.
    let full = cards.map(|card| Card { has_no_room: true, ..card });
    assert_eq!(decide(&full), known(6, &[2, 1, 0]));
    assert!(matches!(decide(&[full[0], card(1, &[job(7, 0)])]), Decision::Leave(_)));
}

#[test]
fn who_cannot_leaves_all_to_mpi() {
    let ready = card(1, &[]);
    let full = Card { has_enough: true, ..ready };
    for others in [Card::UNREADY, Card { left: Collectives::EVERY, ..ready }, full] {
        assert!(matches!(decide(&[ready, others]), Decision::Leave(_)), "{others:?}");
    }
}

#[test]
fn nodes_are_reached_by_memory_where_they_share_it() {
    let (one, other) = (card(1, &[]), card(2, &[]));
    let host = Card { machine: 2, ..other };
    let told = |card, fabric| Card { fabric: Some(fabric), ..card };
    assert_eq!(reach(&[one, one]), Some(Reach::Memory));
    assert_eq!(reach(&[told(one, FabricChoice::Ofi), one]), Some(Reach::Memory));
    assert_eq!(reach(&[one, other]), Some(Reach::Memory));
    assert_eq!(reach(&[one, told(other, FabricChoice::Ofi)]), Some(Reach::Network));
    assert_eq!(reach(&[one, host]), Some(Reach::Network));
    assert_eq!(reach(&[one, told(host, FabricChoice::Shm)]), None);
    assert_eq!(reach(&[one, Card { nodes: Nodes::One, ..host }]), None);
    assert_eq!(reach(&[one, Card { nodes: Nodes::One, ..other }]), Some(Reach::Memory));
    assert_eq!(reach(&[one, Card { node: 1, ..host }]), None);
    assert_eq!(reach(&[one, Card { has_failed: true, ..host }]), None);
    assert_eq!(reach(&[one, Card { has_failed: true, ..one }]), Some(Reach::Memory));
}

#[test]
fn hosts_use_messages_of_mpi_where_all_are_told_to() {
    let over_mpi = |card| Card { over: Over::Mpi, ..card };
    let (one, other) = (over_mpi(card(1, &[])), over_mpi(card(2, &[])));
    let host = Card { machine: 2, has_failed: true, ..other };
    let nodes = vec![(1, 1), (2, 2), (1, 1)];
    assert_eq!(decide(&[one, host, one]), Decision::TakeOverMpi { nodes });
    // Memory that they share is quicker.
    assert_eq!(reach(&[one, other]), Some(Reach::Memory));
    assert_eq!(reach(&[one, Card { over: Over::Fabric, has_failed: false, ..host }]), Some(Reach::Network));
    assert!(matches!(decide(&[one, Card { nodes: Nodes::One, ..host }]), Decision::Leave(_)));
}

#[test]
fn only_a_job_over_a_network_reaches_several_hosts() {
    let network = |id, rank| Known { reach: Reach::Network, ..job(id, rank) };
    let one = card(1, &[job(5, 0), network(6, 0)]);
    let host = Card { machine: 2, ..card(2, &[job(5, 1), network(6, 1)]) };
    let found = |cards: &[Card]| match decide(cards) {
        Decision::Take { found: Found::Known { job, .. }, .. } => Some(job),
        _ => None,
    };
    assert_eq!(found(&[one, host]), Some(6));
    assert_eq!(found(&[one, Card { has_failed: true, ..host }]), Some(6));
    // On one node any job will do.
    assert_eq!(found(&[card(1, &[network(6, 0)]), card(1, &[network(6, 1)])]), Some(6));
}

#[test]
fn buffers_of_devices_are_left_to_mpi() {
    let usual = card(1, &[]);
    assert_eq!(reach(&[usual, usual]), Some(Reach::Memory));
    let told = decide(&[usual, Card { has_devices: true, ..usual }]);
    assert!(matches!(told, Decision::Leave(why) if why.contains("devices")), "{told:?}");
}
