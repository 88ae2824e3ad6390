//! What is sent: how much of it, and with which settings.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use svmio_svm::ClusterStatistics;
use svmio_transport::message::{MessageSettings, Mode};

use super::*;

/// Settings by which hardly anything fits into a buffer, and nothing goes on by itself.
fn tiny(mode: Mode) -> MessageSettings {
    MessageSettings {
        mode,
        short_packet: 16,
        ring: 64,
        eager_buffer: 1,
        eager_buffers: 1,
        rendezvous_threshold: 0,
        staging_buffer: 64,
        staging_buffers: 1,
        chunk: 4096,
        memory_cap: 1 << 20,
        asynchronous: false,
    }
}

#[test]
fn files_work_with_whatever_settings_messages_have() {
    const LENGTH: usize = 3 * SEGMENT as usize + 5;
    for mode in [Mode::Automatic, Mode::Short, Mode::RendezvousStores, Mode::RendezvousStaged] {
        let (_directory, stores) = stores(3);
        let nodes = stores.iter().cycle().take(6);
        job::run_with(nodes, &CacheSettings::default(), &tiny(mode), |process| {
            let file = open(process, "f", &small_segments());
            let rank = process.rank();
            let own = FileOffset(u64::from(rank) * LENGTH as u64);
            file.write_at(own, &vec![rank as u8 + 1; LENGTH]).unwrap();
            process.sync(&file).unwrap();
            let bytes = content(&file);
            assert_eq!(bytes.len(), 6 * LENGTH);
            for (other, written) in (1..).zip(bytes.chunks(LENGTH)) {
                assert!(written.iter().all(|byte| *byte == other), "{mode:?}: rank {rank} reads of {other}");
            }
            let lock = file.lock(own..FileOffset(own.0 + 10), LockMode::Exclusive).unwrap();
            lock.release().unwrap();
            process.close(file).unwrap();
        });
    }
}

#[test]
#[should_panic(expected = "messages.memory_cap is 4096, too little")]
fn too_little_memory_for_messages_is_told_at_once() {
    let (_directory, stores) = stores(2);
    let messages = MessageSettings { memory_cap: 4096, ..MessageSettings::default() };
    job::run_with(&stores, &CacheSettings::default(), &messages, |_| unreachable!());
}

#[test]
fn small_pieces_cost_few_messages_and_local_ones_none() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        let file = open(process, "pieces", &small_segments());
        let rank = u64::from(process.rank());
        // Each node has one segment.
        file.write_at(FileOffset(rank * SEGMENT), &[0; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        let before = process.cluster.statistics().requests();
        for piece in 0..SEGMENT / 16 {
            file.write_at(FileOffset(rank * SEGMENT + piece * 16), &[1; 8]).unwrap();
        }
        assert_eq!(process.cluster.statistics().requests(), before, "local writes send nothing");
        process.meet();
        let other = (1 - rank) * SEGMENT;
        for piece in 0..SEGMENT / 16 {
            file.write_at(FileOffset(other + piece * 16 + 8), &[2; 8]).unwrap();
        }
        file.flush().unwrap();
        assert!(process.cluster.statistics().requests() <= before + 3, "{}", process.cluster.statistics());
        process.sync(&file).unwrap();
        let expected: Vec<u8> = (0..2 * SEGMENT).map(|at| if at % 16 < 8 { 1 } else { 2 }).collect();
        assert!(content(&file) == expected);
    });
}

/// Messages and bytes that all processes of a job have put on their fabrics.
#[derive(Default)]
struct OnTheWire {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl OnTheWire {
    /// Adds what this process's fabric has counted since `before`.
    fn add(&self, process: &Process<'_>, before: &ClusterStatistics) {
        let (before, after) = (before.fabric, process.cluster.statistics().fabric);
        self.messages.fetch_add(after.messages() - before.messages(), Ordering::Relaxed);
        self.bytes.fetch_add(after.bytes() - before.bytes(), Ordering::Relaxed);
    }
}

#[test]
fn the_fabric_counts_nothing_for_local_writes_and_all_for_others() {
    const PIECES: u64 = 4096;
    const PIECE: u64 = SEGMENT / PIECES;
    let (_directory, stores) = stores(2);
    let [local, remote] = [(); 2].map(|()| OnTheWire::default());
    job(&stores, 4, |process| {
        let file = open(process, "counted", &small_segments());
        // Each rank has a segment on its own node, and the next rank's is on the other one.
        let segment = |rank: u32| u64::from(rank % 4) * SEGMENT;
        let (own, other) = (segment(process.rank()), segment(process.rank() + 1));
        file.write_at(FileOffset(own), &[0; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        for (at, counted) in [(own, &local), (other, &remote)] {
            process.meet();
            let before = process.cluster.statistics();
            process.meet();
            for piece in 0..PIECES {
                file.write_at(FileOffset(at + piece * PIECE), &[1; PIECE as usize]).unwrap();
            }
            if at == other {
                file.flush().unwrap();
            }
            process.meet();
            counted.add(process, &before);
            process.sync(&file).unwrap();
        }
    });
    let OnTheWire { messages, bytes } = local;
    // An agent counts an answer when it is sent: that of a sync may be counted when the sync is over.
    let late = 32;
    assert!(messages.into_inner() < late, "local writes send no messages");
    assert!(bytes.into_inner() < late * 100, "local writes put nothing on the wire");
    let bytes = remote.bytes.into_inner();
    assert!((4 * SEGMENT..8 * SEGMENT).contains(&bytes), "{bytes} bytes for 4 segments that go home");
}

/// Whether opening and closing a file cost each other node as many messages in all cases, and few.
fn check_messages(per_node: &[u64], by_memory: bool) {
    if by_memory {
        assert!(per_node.iter().all(|messages| messages.abs_diff(per_node[0]) <= 1), "{per_node:?}");
        // A request and an answer for each of four.
        assert!((2..=8).contains(&per_node[0]), "{per_node:?}");
    } else {
        // What ranks tell each other, as MPI would for its programs, goes by messages, too: each agreement in as many
        // rounds as the number of nodes has bits.
        assert!(per_node.iter().all(|messages| (2..=24).contains(messages)), "{per_node:?}");
    }
}

#[test]
fn opening_and_closing_cost_each_node_the_same_number_of_messages_however_many_there_are() {
    const ROUNDS: u64 = 16;
    let by_memory = AtomicBool::new(true);
    let per_node = [(2, 2), (4, 4), (8, 8), (4, 8)].map(|(nodes, ranks)| {
        let (_directory, stores) = stores(nodes);
        let on_the_wire = OnTheWire::default();
        job(&stores, ranks, |process| {
            process.close(open(process, "first", &small_segments())).unwrap();
            let before = process.cluster.statistics();
            process.meet();
            for round in 0..ROUNDS {
                process.close(open(process, &format!("f{round}"), &small_segments())).unwrap();
            }
            let requests = process.cluster.statistics().requests() - before.requests();
            // The master's leader looks for the name on the other nodes, has them know the new file, and then commit it,
            // and tells them that nobody has it open any more.
            let most = if process.rank() == 0 { 4 * (nodes as u64 - 1) * ROUNDS } else { 0 };
            assert!(requests <= most, "rank {}: {}", process.rank(), process.cluster.statistics());
            process.meet();
            on_the_wire.add(process, &before);
            by_memory.store(process.cluster.shares_memory(), Ordering::Relaxed);
        });
        // To the nearest whole number: an answer may be counted just after it was received.
        let others = ROUNDS * (nodes as u64 - 1);
        (on_the_wire.messages.into_inner() + others / 2) / others
    });
    check_messages(&per_node, by_memory.into_inner());
}

#[test]
fn opening_a_file_that_exists_costs_each_node_the_same_number_of_messages_however_much_there_is() {
    const FILES: u64 = 8;
    let by_memory = AtomicBool::new(true);
    let per_node = [(2, 1), (4, 1), (8, 1), (4, 16)].map(|(nodes, segments)| {
        let (_directory, stores) = stores(nodes);
        // Each node has so many segments of each.
        job(&stores, nodes, |process| {
            for file in 0..FILES {
                let file = open(process, &format!("f{file}"), &small_segments());
                let own = (0..segments).map(|round| round * nodes as u64 + u64::from(process.rank()));
                own.for_each(|index| file.write_at(FileOffset(index * SEGMENT), &[1; 8]).unwrap());
                process.close(file).unwrap();
            }
        });
        // Processes that know nothing of them yet.
        let on_the_wire = OnTheWire::default();
        job(&stores, nodes, |process| {
            process.close(open(process, "first", &small_segments())).unwrap();
            let before = process.cluster.statistics();
            process.meet();
            for file in 0..FILES {
                let file = open(process, &format!("f{file}"), &OpenOptions::read_write());
                assert!(file.size() > (segments * nodes as u64 - 1) * SEGMENT);
                process.close(file).unwrap();
            }
            process.meet();
            on_the_wire.add(process, &before);
            by_memory.store(process.cluster.shares_memory(), Ordering::Relaxed);
        });
        let others = FILES * (nodes as u64 - 1);
        (on_the_wire.messages.into_inner() + others / 2) / others
    });
    check_messages(&per_node, by_memory.into_inner());
}
