//! Files that several nodes share, by processes that are threads here, each with a fabric of its own.

use std::sync::{Arc, Barrier, Mutex};

use svmio_svm::{
    CacheSettings, Cluster, ErrorKind, File, FileName, FileOffset, LockMode, NodeIndex, OpenOptions,
    SegmentSize, Store,
};
use svmio_transport::{Fabric, Membership, Rank, settings::Settings, shm};

/// A rank of a job.
struct Process {
    cluster: Arc<Cluster>,
    barrier: Arc<Barrier>,
    /// What one rank tells the others.
    told: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    fn meet(&self) {
        self.barrier.wait();
    }

    fn open(&self, name: &str, options: &OpenOptions) -> File {
        let name = FileName::new(name).unwrap();
        if self.cluster.rank() == Rank(0) {
            let nodes: Vec<_> = (0..self.cluster.nodes().len() as u32).map(NodeIndex).collect();
            *self.told.lock().unwrap() = self.cluster.open(&name, options, &nodes).unwrap().to_bytes();
        }
        self.meet();
        let introduction = svmio_svm::Introduction::from_bytes(&self.told.lock().unwrap().clone()).unwrap();
        let file = self.cluster.attach(&introduction, options).unwrap();
        self.meet();
        file
    }

    fn is_first_of_node(&self) -> bool {
        let node = self.cluster.own_node();
        (0..self.cluster.rank().0).all(|rank| self.cluster.node_of(Rank(rank)) != node)
    }

    fn sync(&self, file: &File) {
        file.flush().unwrap();
        self.meet();
        file.sync_data().unwrap();
        if self.is_first_of_node() {
            file.sync_node().unwrap();
        }
        self.meet();
        if self.cluster.rank() == Rank(0) {
            file.commit(true).unwrap();
        }
        self.meet();
        if self.is_first_of_node() {
            file.refresh().unwrap();
        }
        self.meet();
    }

    fn set_size(&self, file: &File, size: u64) {
        file.flush().unwrap();
        self.meet();
        if self.cluster.rank() == Rank(0) {
            file.set_size(size).unwrap();
        }
        self.meet();
        if self.is_first_of_node() {
            file.refresh().unwrap();
        }
        self.meet();
    }
}

/// Runs `body` as each rank of a job, rank r on node `r % stores`.
fn job(stores: &[&Store], ranks: u32, body: impl Fn(&Process) + Sync) {
    let nodes: Vec<_> =
        (0..ranks).map(|rank| stores[rank as usize % stores.len()].node().to_string()).collect();
    let secret = svmio_transport::JobSecret::random().unwrap();
    let prepared: Vec<_> =
        (0..ranks).map(|_| shm::prepare(&Settings::default().shm, &secret).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let fabrics = prepared.into_iter().zip(0..).map(|(prepared, rank)| {
        let membership = Arc::new(Membership::new(Rank(rank), nodes.clone()));
        Fabric::new(prepared.join(membership, addresses.clone()).unwrap())
    });
    let fabrics: Vec<_> = fabrics.collect();
    let (barrier, told) = (Arc::new(Barrier::new(ranks as usize)), Arc::default());
    std::thread::scope(|scope| {
        for (fabric, rank) in fabrics.into_iter().zip(0..) {
            let store = stores[rank % stores.len()].clone();
            let (barrier, told, body) = (Arc::clone(&barrier), Arc::clone(&told), &body);
            scope.spawn(move || {
                let process = Process {
                    cluster: Cluster::join(fabric, store, &CacheSettings::default()).unwrap(),
                    barrier,
                    told,
                };
                body(&process);
                process.meet();
                process.cluster.leave();
            });
        }
    });
}

/// Stores of nodes `n0`, `n1` …
fn stores(count: usize) -> (tempfile::TempDir, Vec<Store>) {
    let directory = tempfile::tempdir().unwrap();
    let store = |number| {
        let name = svmio_svm::NodeName::new(format!("n{number}"));
        Store::open_for(&directory.path().join(format!("n{number}")), &name).unwrap()
    };
    let stores = (0..count).map(store).collect();
    (directory, stores)
}

fn small_segments() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
    bytes
}

const SEGMENT: u64 = 1 << 16;

#[test]
fn what_each_wrote_is_read_by_all_after_a_sync_and_by_later_jobs() {
    let (_directory, stores) = stores(4);
    let all: Vec<_> = stores.iter().collect();
    let expected: Vec<u8> = (0..8 * SEGMENT).map(|at| (at / (SEGMENT / 2)) as u8).collect();
    job(&all, 8, |process| {
        let file = process.open("/a/b", &small_segments());
        let rank = u64::from(process.cluster.rank().0);
        let half = SEGMENT / 2;
        for turn in 0..2 {
            let at = (turn * 8 + rank) * half;
            file.write_at(FileOffset(at), &vec![(at / half) as u8; half as usize]).unwrap();
        }
        process.sync(&file);
        assert_eq!(file.size(), 8 * SEGMENT);
        assert!(content(&file) == expected);
    });
    // Fewer ranks, and the nodes in another order.
    let turned: Vec<_> = stores.iter().rev().collect();
    job(&turned, 4, |process| {
        let file = process.open("a/b", &OpenOptions::reading());
        assert!(content(&file) == expected);
    });
}

#[test]
fn a_file_that_was_made_shorter_reads_as_zero_where_it_grows_again() {
    let (_directory, stores) = stores(3);
    let all: Vec<_> = stores.iter().collect();
    job(&all, 3, |process| {
        let file = process.open("f", &small_segments());
        let rank = u64::from(process.cluster.rank().0);
        file.write_at(FileOffset(rank * SEGMENT), &[7; SEGMENT as usize]).unwrap();
        process.sync(&file);
        assert_eq!(content(&file), vec![7; 3 * SEGMENT as usize]);
        process.set_size(&file, 100);
        assert_eq!(content(&file), [7; 100]);
        process.set_size(&file, 3 * SEGMENT);
        let mut shorter = vec![0; 3 * SEGMENT as usize];
        shorter[..100].fill(7);
        assert_eq!(content(&file), shorter);
    });
}

#[test]
fn parts_on_nodes_that_are_not_there_are_named() {
    let (_directory, stores) = stores(2);
    job(&[&stores[0], &stores[1]], 2, |process| {
        let file = process.open("f", &small_segments());
        file.write_at(FileOffset(u64::from(process.cluster.rank().0) * SEGMENT), &[1; 10]).unwrap();
        process.sync(&file);
    });
    let alone = stores[1].open_file(&FileName::new("f").unwrap(), &OpenOptions::reading()).unwrap_err();
    assert!(alone.to_string().contains("segment 0 lies on node n0, which is not served"), "{alone}");
}

#[test]
fn adding_under_a_lock_loses_nothing() {
    let (_directory, stores) = stores(4);
    let all: Vec<_> = stores.iter().collect();
    const TURNS: u64 = 25;
    job(&all, 8, |process| {
        let file = process.open("counters", &small_segments());
        for turn in 0..TURNS {
            // Two words in two segments, homes of which differ.
            let first = FileOffset(SEGMENT * (turn % 3) + 8);
            let range = first..FileOffset(first.0 + SEGMENT + 8);
            let _lock = file.lock(range, LockMode::Exclusive).unwrap();
            for at in [first, FileOffset(first.0 + SEGMENT)] {
                let mut word = [0; 8];
                file.read_at(at, &mut word).unwrap();
                file.write_at(at, &(u64::from_le_bytes(word) + 1).to_le_bytes()).unwrap();
            }
        }
        process.sync(&file);
        let count: u64 = (0..4)
            .map(|segment| {
                let mut word = [0; 8];
                file.read_at(FileOffset(segment * SEGMENT + 8), &mut word).unwrap();
                u64::from_le_bytes(word)
            })
            .sum();
        assert_eq!(count, 2 * 8 * TURNS);
    });
}

#[test]
fn a_removed_file_is_gone_on_all_nodes_and_others_stay() {
    let (_directory, stores) = stores(2);
    job(&[&stores[0], &stores[1]], 2, |process| {
        drop(process.open("gone", &small_segments()));
        drop(process.open("stays", &small_segments()));
        process.meet();
        if process.cluster.rank() == Rank(1) {
            let gone = FileName::new("gone").unwrap();
            process.cluster.remove(&gone).unwrap();
            assert_eq!(process.cluster.remove(&gone).unwrap_err().kind(), ErrorKind::NoSuchFile);
        }
        process.meet();
        let names = process.cluster.store().files(&svmio_svm::DirectoryName::root()).unwrap();
        assert_eq!(names.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["/stays"]);
    });
}

#[test]
fn long_writes_go_straight_home_and_are_read_as_written() {
    let (_directory, stores) = stores(2);
    let all: Vec<_> = stores.iter().collect();
    let length = 5 * SEGMENT as usize + 77;
    let bytes = |rank: u32| (0..length).map(|at| (at as u32 * 7 + rank) as u8).collect::<Vec<_>>();
    job(&all, 2, |process| {
        let file = process.open("long", &small_segments());
        let rank = process.cluster.rank().0;
        if rank == 0 {
            file.write_at(FileOffset(0), &bytes(0)).unwrap();
        }
        process.sync(&file);
        if rank == 1 {
            assert!(content(&file) == bytes(0));
            // Small pieces in the cache, and then all of it past the cache.
            file.write_at(FileOffset(SEGMENT), &[9; 100]).unwrap();
            file.write_at(FileOffset(0), &bytes(1)).unwrap();
            assert!(content(&file) == bytes(1), "its own writes at once");
            file.write_at(FileOffset(10), b"ten").unwrap();
        }
        process.sync(&file);
        let mut expected = bytes(1);
        expected[10..13].copy_from_slice(b"ten");
        assert!(content(&file) == expected);
        let statistics = process.cluster.statistics();
        if rank == 1 {
            assert!(statistics.requests.get("reserve").is_some_and(|count| *count <= 6), "{statistics}");
        }
    });
}

#[test]
fn small_pieces_cost_few_messages_and_local_ones_none() {
    let (_directory, stores) = stores(2);
    let all: Vec<_> = stores.iter().collect();
    job(&all, 2, |process| {
        let file = process.open("pieces", &small_segments());
        let rank = u64::from(process.cluster.rank().0);
        // Each node has one segment.
        file.write_at(FileOffset(rank * SEGMENT), &[0; SEGMENT as usize]).unwrap();
        process.sync(&file);
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
        process.sync(&file);
        let expected: Vec<u8> = (0..2 * SEGMENT).map(|at| if at % 16 < 8 { 1 } else { 2 }).collect();
        assert!(content(&file) == expected);
    });
}

#[test]
fn opening_and_closing_cost_a_constant_number_of_messages_per_node() {
    let (_directory, stores) = stores(4);
    let all: Vec<_> = stores.iter().collect();
    for ranks in [4, 8] {
        job(&all, ranks, |process| {
            drop(process.open("first", &small_segments()));
            process.meet();
            let before = process.cluster.statistics().requests();
            process.meet();
            let file = process.open("second", &small_segments());
            file.flush().unwrap();
            process.meet();
            if process.cluster.rank() == Rank(0) {
                file.commit(true).unwrap();
            }
            process.meet();
            let sent = process.cluster.statistics().requests() - before;
            // The master's leader looks for the name on the other nodes, and has them put the manifest in place.
            let most = if process.cluster.rank() == Rank(0) { 2 * 3 } else { 0 };
            assert!(sent <= most, "rank {}: {}", process.cluster.rank(), process.cluster.statistics());
        });
    }
}
