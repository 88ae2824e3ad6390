//! Files that several nodes share, by processes that are threads here, each with a fabric of its own.

mod job;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use job::{Process, stores};
use svmio_svm::{
    Blocks, CacheSettings, ClusterStatistics, DirectoryName, ErrorKind, File, FileName, FileOffset, LockMode,
    NodeIndex, OpenOptions, SegmentSize, Store,
};
use svmio_transport::message::{MessageSettings, Mode};

/// Runs `body` as each rank of a job, rank r on node `r % stores`.
fn job(stores: &[Store], ranks: usize, body: impl Fn(&Process<'_>) + Sync) {
    job::run(stores.iter().cycle().take(ranks), &CacheSettings::default(), body);
}

fn open(process: &Process<'_>, text: &str, options: &OpenOptions) -> File {
    process.open(&name(text), options).expect("the file opens")
}

fn set_size(process: &Process<'_>, file: &File, size: u64) {
    process.team.set_size(file, size).expect("sizes can be set");
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn small_segments() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

const SEGMENT: u64 = 1 << 16;

#[test]
fn what_each_wrote_is_read_by_all_after_a_sync_and_by_later_jobs() {
    let (_directory, stores) = stores(4);
    let expected: Vec<u8> = (0..8 * SEGMENT).map(|at| (at / (SEGMENT / 2)) as u8).collect();
    job(&stores, 8, |process| {
        let file = open(process, "/a/b", &small_segments());
        let rank = u64::from(process.rank());
        let half = SEGMENT / 2;
        for turn in 0..2 {
            let at = (turn * 8 + rank) * half;
            file.write_at(FileOffset(at), &vec![(at / half) as u8; half as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        assert_eq!(file.size(), 8 * SEGMENT);
        assert!(content(&file) == expected);
    });
    // Fewer ranks, and the nodes in another order.
    let turned: Vec<_> = stores.iter().rev().cloned().collect();
    job(&turned, 4, |process| {
        let file = open(process, "a/b", &OpenOptions::reading());
        assert!(content(&file) == expected);
    });
}

#[test]
fn what_was_written_at_home_before_a_close_replaces_what_others_have_read() {
    let (_directory, stores) = stores(2);
    job(&stores, 4, |process| {
        let is_home = process.cluster.own_node() == NodeIndex(1);
        let mut file = open(process, "f", &small_segments());
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &[9; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let first = |file: &File| content(file)[0];
        assert_eq!(first(&file), 9);
        process.meet();
        for turn in 1..=3 {
            // Each writes the same.
            if is_home {
                file.write_at(FileOffset(0), &[turn; 100]).unwrap();
            }
            process.close(file).unwrap();
            file = open(process, "f", &small_segments());
            // In between somebody opens, writes and closes, and nobody asks what is new.
            if turn != 2 {
                process.sync(&file).unwrap();
                assert_eq!(first(&file), turn);
                process.meet();
            }
        }
    });
}

#[test]
fn a_file_that_was_made_shorter_reads_as_zero_where_it_grows_again() {
    let (_directory, stores) = stores(3);
    job(&stores, 3, |process| {
        let file = open(process, "f", &small_segments());
        let rank = u64::from(process.rank());
        file.write_at(FileOffset(rank * SEGMENT), &[7; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        assert_eq!(content(&file), vec![7; 3 * SEGMENT as usize]);
        set_size(process, &file, 100);
        assert_eq!(content(&file), [7; 100]);
        set_size(process, &file, 3 * SEGMENT);
        let mut shorter = vec![0; 3 * SEGMENT as usize];
        shorter[..100].fill(7);
        assert_eq!(content(&file), shorter);
    });
}

#[test]
fn parts_on_nodes_that_are_not_there_are_named() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        let file = open(process, "f", &small_segments());
        file.write_at(FileOffset(u64::from(process.rank()) * SEGMENT), &[1; 10]).unwrap();
        process.sync(&file).unwrap();
    });
    let alone = stores[1].open_file(&name("f"), &OpenOptions::reading()).unwrap_err();
    assert!(alone.to_string().contains("segment 0 lies on node n0, which is not served"), "{alone}");
}

#[test]
fn adding_under_a_lock_loses_nothing() {
    let (_directory, stores) = stores(4);
    const TURNS: u64 = 25;
    job(&stores, 8, |process| {
        let file = open(process, "counters", &small_segments());
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
        process.sync(&file).unwrap();
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
    job(&stores, 2, |process| {
        for name in ["gone", "stays"] {
            process.close(open(process, name, &small_segments())).unwrap();
        }
        if process.rank() == 1 {
            let gone = name("gone");
            process.cluster.remove(&gone).unwrap();
            assert_eq!(process.cluster.remove(&gone).unwrap_err().kind(), ErrorKind::NoSuchFile);
        }
        process.meet();
        let names = process.cluster.store().files(&DirectoryName::root()).unwrap();
        assert_eq!(names.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["/stays"]);
    });
}

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
fn long_writes_go_straight_home_and_are_read_as_written() {
    let (_directory, stores) = stores(2);
    let length = 5 * SEGMENT as usize + 77;
    let bytes = |rank: u32| (0..length).map(|at| (at as u32 * 7 + rank) as u8).collect::<Vec<_>>();
    job(&stores, 2, |process| {
        let file = open(process, "long", &small_segments());
        let rank = process.rank();
        if rank == 0 {
            file.write_at(FileOffset(0), &bytes(0)).unwrap();
        }
        process.sync(&file).unwrap();
        if rank == 1 {
            assert!(content(&file) == bytes(0));
            // Small pieces in the cache, and then all of it past the cache.
            file.write_at(FileOffset(SEGMENT), &[9; 100]).unwrap();
            file.write_at(FileOffset(0), &bytes(1)).unwrap();
            assert!(content(&file) == bytes(1), "its own writes at once");
            file.write_at(FileOffset(10), b"ten").unwrap();
        }
        process.sync(&file).unwrap();
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
fn writes_below_at_and_above_the_measured_bound_are_read_as_written() {
    const LENGTH: usize = 2 << 20;
    let (_directory, stores) = stores(2);
    let expected = Mutex::new(vec![0; LENGTH]);
    job(&stores, 2, |process| {
        let size = SegmentSize::new(LENGTH as u64).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = open(process, "bound", &options);
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[0; LENGTH]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let mut expected = expected.lock().unwrap();
            let mut value = 0_u8;
            for turn in 0..6 {
                // From the longest on: the others know of their storage then. Each turn ends with the other way round.
                for power in if turn % 2 == 0 { [20, 16, 12, 11, 9] } else { [9, 11, 12, 16, 20] } {
                    let bound = process.cluster.long_write();
                    assert!(bound.is_power_of_two() && (2 << 10..=512 << 10).contains(&bound), "{bound}");
                    for length in [1 << power, bound - 1, bound, bound + 1] {
                        value = value.wrapping_add(1);
                        let (at, length) = (4321 * usize::from(value), length as usize);
                        file.write_at(FileOffset(at as u64), &vec![value; length]).unwrap();
                        expected[at..at + length].fill(value);
                    }
                }
                assert!(content(&file) == *expected, "its own writes at once");
            }
            let requests = process.cluster.statistics().requests;
            assert!(requests.contains_key("reserve"), "the longest went straight: {requests:?}");
        }
        process.sync(&file).unwrap();
        assert!(content(&file) == *expected.lock().unwrap());
    });
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
            // The master's leader looks for the name on the other nodes, has them put the manifest in place, and tells
            // them that nobody has the file open any more.
            let most = if process.rank() == 0 { 3 * (nodes as u64 - 1) * ROUNDS } else { 0 };
            assert!(requests <= most, "rank {}: {}", process.rank(), process.cluster.statistics());
            process.meet();
            on_the_wire.add(process, &before);
            by_memory.store(process.cluster.shares_memory(), Ordering::Relaxed);
        });
        // To the nearest whole number: an answer may be counted just after it was received.
        let others = ROUNDS * (nodes as u64 - 1);
        (on_the_wire.messages.into_inner() + others / 2) / others
    });
    if by_memory.into_inner() {
        assert!(per_node.iter().all(|messages| messages.abs_diff(per_node[0]) <= 1), "{per_node:?}");
        // A request and an answer for each of three.
        assert!((2..=6).contains(&per_node[0]), "{per_node:?}");
    } else {
        // What ranks tell each other, as MPI would for its programs, goes by messages, too: each agreement in as many
        // rounds as the number of nodes has bits.
        assert!(per_node.iter().all(|messages| (2..=24).contains(messages)), "{per_node:?}");
    }
}

#[test]
fn a_removed_file_stays_usable_until_it_is_closed_and_then_is_gone_on_all_nodes() {
    let (directory, stores) = stores(3);
    let entries = |path: PathBuf| std::fs::read_dir(path).unwrap().count();
    let stored = |store: &Store| ["objects", "deleted"].map(|kind| entries(store.path().join(kind)));
    job(&stores, 6, |process| {
        let file = open(process, "f", &small_segments());
        let own = FileOffset(u64::from(process.rank()) * SEGMENT);
        file.write_at(own, &[1; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            process.cluster.remove(&name("f")).unwrap();
        }
        process.meet();
        assert!(process.cluster.store().files(&DirectoryName::root()).unwrap().is_empty());
        // What was there, what replaces it on another node, and what is new.
        assert!(content(&file) == [1; 6 * SEGMENT as usize]);
        process.meet();
        let next = FileOffset(u64::from((process.rank() + 1) % 6) * SEGMENT);
        file.write_at(next, &[2; 100]).unwrap();
        file.write_at(FileOffset(own.0 + 6 * SEGMENT), &[3; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        let expected = |at| {
            if at >= 6 * SEGMENT {
                3
            } else if at % SEGMENT < 100 {
                2
            } else {
                1
            }
        };
        assert!(content(&file) == (0..12 * SEGMENT).map(expected).collect::<Vec<_>>());
        assert_eq!(stores.iter().map(stored).collect::<Vec<_>>(), [[0, 1]; 3]);
        process.meet();
        process.close(file).unwrap();
        assert_eq!(stores.iter().map(stored).collect::<Vec<_>>(), [[0, 0]; 3]);
        process.meet();
        let nameless = |file: &PathBuf| file.display().to_string().ends_with(" (deleted)");
        assert_eq!(
            open_in(directory.path()).into_iter().find(nameless),
            None,
            "its bytes have no other users"
        );
    });
}

/// The files in `directory` that this process has open.
fn open_in(directory: &Path) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let files = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    files.filter(|file| file.starts_with(directory)).collect()
}

#[test]
fn files_that_are_opened_and_closed_one_after_the_other_leave_only_some_mapped_segments_open() {
    // A process keeps as many mappings, if the environment does not say otherwise, and as many closed files.
    const MAPPINGS: usize = 256;
    const CLOSED: usize = 16;
    let (directory, stores) = stores(2);
    job(&stores, 4, |process| {
        let mut others_after = Vec::new();
        for number in 0..300 {
            let file = open(process, &format!("f{number}"), &small_segments());
            let own = FileOffset(u64::from(process.rank()) * SEGMENT);
            file.write_at(own, &[1; 10]).unwrap();
            process.close(file).unwrap();
            if number == 9 || number == 299 {
                let files = open_in(directory.path()).into_iter();
                let is_segment = |file: &PathBuf| file.display().to_string().contains("/segment-");
                let (segments, others): (Vec<_>, Vec<_>) = files.partition(is_segment);
                assert!(segments.len() <= MAPPINGS, "{}", segments.len());
                others_after.push(others);
                process.meet();
            }
        }
        // Other tests' files may take their places at one time, and leave them at another: two descriptors each.
        assert!(others_after[1].len() <= others_after[0].len() + 2 * CLOSED, "{others_after:?}");
    });
}

#[test]
#[should_panic(expected = "the reason")]
fn a_rank_that_panics_is_not_waited_for() {
    let (_directory, stores) = stores(2);
    job(&stores, 4, |process| {
        let file = open(process, "f", &small_segments());
        assert_ne!(process.rank(), 2, "the reason");
        process.close(file).unwrap();
    });
}

#[test]
fn strided_accesses_leave_pages_alone_that_lie_between_their_pieces() {
    const PAGE: u64 = 4096;
    const STRIDE: u64 = 8 * PAGE;
    const LENGTH: u64 = 1000;
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: PAGE, capacity: 4096 * PAGE };
    job::run([&stores[0], &stores[0], &stores[1]], &cache, |process| {
        let size = SegmentSize::new(8 << 20).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name("f"), &options).unwrap();
        if process.rank() == 2 {
            file.write_at(FileOffset(0), &[1; 8 << 20]).unwrap();
        }
        process.sync(&file).unwrap();
        let byte = |at| {
            let mut byte = [99];
            file.read_at(FileOffset(at), &mut byte).unwrap();
            byte[0]
        };
        let cached = || process.cluster.statistics().cache;
        if process.rank() == 1 {
            // Between the pieces: clean, and dirty. Where pieces are: clean, and dirty beside them.
            assert_eq!([byte(PAGE), byte(STRIDE)], [1; 2]);
            file.write_at(FileOffset(3 * PAGE), &[2; 10]).unwrap();
            file.write_at(FileOffset(2 * STRIDE + LENGTH), &[3; 10]).unwrap();
        }
        process.meet();
        let before = cached();
        process.meet();
        let blocks = Blocks { start: 0, length: LENGTH, stride: STRIDE, count: 200 };
        let (bounds, mut bytes) = (FileOffset(0)..FileOffset(blocks.end()), vec![7_u8; 200 * 1000]);
        if process.rank() == 0 {
            let mut access = file.write_strided(bounds.clone(), blocks.bytes()).unwrap();
            // SAFETY: there are as many bytes.
            unsafe { access.put(&blocks, bytes.as_ptr(), LENGTH as isize) }.unwrap();
            access.finish().unwrap();
            assert_eq!(
                cached().write_backs,
                before.write_backs + 1,
                "only the page that pieces touch went home"
            );
            bytes.fill(0);
            let mut access = file.read_strided(bounds, blocks.bytes()).unwrap();
            // SAFETY: likewise, until it is finished.
            unsafe { access.get(&blocks, bytes.as_mut_ptr(), LENGTH as isize) }.unwrap();
            access.finish().unwrap();
            assert!(bytes.iter().all(|byte| *byte == 7));
            assert_eq!(cached().write_backs, before.write_backs + 1, "likewise");
        }
        process.meet();
        if process.rank() == 1 {
            assert_eq!([byte(PAGE), byte(3 * PAGE)], [1, 2]);
            assert_eq!(cached().misses, before.misses, "they were here still");
            assert_eq!([byte(STRIDE), byte(2 * STRIDE)], [7; 2]);
            assert_eq!([byte(STRIDE + LENGTH), byte(2 * STRIDE + LENGTH)], [1, 3]);
        }
        process.sync(&file).unwrap();
        assert_eq!([3 * PAGE, 2 * STRIDE, 2 * STRIDE + LENGTH].map(byte), [2, 7, 3]);
    });
}

#[test]
fn pieces_that_fill_several_long_questions_and_answers_come_from_one_node() {
    const LENGTH: u64 = 64;
    const PIECES: u64 = 64 << 10;
    let (_directory, stores) = job::stores(2);
    job(&stores, 2, |process| {
        let size = SegmentSize::new(32 << 20).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        let file = process.open(&name("f"), &options).unwrap();
        // At no common stride, so that each is asked for by itself.
        let start = |piece: u64| piece * 400 + piece * piece % 331;
        let expected = |at: u64| (at % 251) as u8;
        if process.rank() == 0 {
            let bytes: Vec<_> = (0..start(PIECES)).map(expected).collect();
            file.write_at(FileOffset(0), &bytes).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let mut bytes = vec![255; (PIECES * LENGTH) as usize];
            let bounds = FileOffset(0)..FileOffset(start(PIECES));
            let mut access = file.read_strided(bounds, PIECES * LENGTH).unwrap();
            for (piece, to) in (0..).zip(bytes.chunks_mut(LENGTH as usize)) {
                let blocks = Blocks { start: start(piece), length: LENGTH, stride: LENGTH, count: 1 };
                // SAFETY: there is room for a piece, until it is finished.
                unsafe { access.get(&blocks, to.as_mut_ptr(), LENGTH as isize) }.unwrap();
            }
            access.finish().unwrap();
            for (piece, found) in (0..).zip(bytes.chunks(LENGTH as usize)) {
                assert!(
                    (start(piece)..).map(expected).zip(found).all(|(one, other)| one == *other),
                    "{piece}"
                );
            }
        }
        process.sync(&file).unwrap();
    });
}
