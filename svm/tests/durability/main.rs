//! What a sync promises of the storage devices of all nodes: each has what was written before any rank returns, and
//! where one fails, all ranks are told of which node.

mod device;
#[path = "../job/mod.rs"]
mod job;
mod mapped;
mod opening;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use device::{Device, Event};
use job::Process;
use svmio_svm::team::{LocalRank, Team};
use svmio_svm::{
    CacheSettings, File, FileName, FileOffset, NodeIndex, OpenOptions, SegmentIndex, SegmentSize,
};

const NODES: u32 = 4;
/// The node of each rank.
const RANKS: [usize; 6] = [0, 0, 1, 2, 3, 3];
const SEGMENTS: u32 = 8;
const SEGMENT: u64 = 1 << 16;
/// Bytes that a rank has to itself in each segment. Not a multiple of a page.
const SLOT: u64 = 5000;

/// The node that has a segment.
fn home(segment: u32) -> u32 {
    segment % NODES
}

/// Where a rank writes in a segment.
fn slot(segment: u32, rank: u32) -> u64 {
    u64::from(segment) * SEGMENT + u64::from(rank) * SLOT
}

/// Runs `body` as each rank of a job on a device, whose nodes' stores lie in `n0`, `n1` … of the directory that it is
/// given.
fn on_device(body: impl Fn(&Process<'_>, &Device, &Path) + Sync) {
    let device = Device::default();
    device.under(|| {
        let (directory, stores) = job::stores(NODES as usize);
        let stores = RANKS.map(|node| &stores[node]);
        job::run(stores, &CacheSettings::default(), |process| body(process, &device, directory.path()));
    });
}

/// A file of all ranks, whose segments lie on the nodes in turn and are on the device.
fn open(process: &Process<'_>, text: &str) -> File {
    let file = process.open(&name(text), &options()).expect("the file opens");
    if process.rank() == 0 {
        place(&file);
    }
    process.sync(&file).expect("the device takes everything");
    file
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn options() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

fn place(file: &File) {
    let homes: Vec<_> = (0..SEGMENTS).map(|index| (SegmentIndex(index), NodeIndex(home(index)))).collect();
    file.place(&homes, 1).expect("it can be placed");
}

/// Writes into a rank's slots.
fn write(file: &File, rank: u32, segments: impl IntoIterator<Item = u32>, byte: u8) {
    for segment in segments {
        file.write_at(FileOffset(slot(segment, rank)), &[byte; SLOT as usize]).expect("it can be written");
    }
}

/// The segments that the device has, by node and index, as they were when it got them last before any rank returned.
fn segments_before_return(events: &[Event], directory: &Path) -> BTreeMap<(u32, u32), Vec<u8>> {
    let mut segments = BTreeMap::new();
    for (path, bytes) in synced_before_return(events) {
        if let (Some(segment), Some(bytes)) = (segment_of(path), bytes) {
            segments.insert((node_of(path, directory), segment), bytes.clone());
        }
    }
    segments
}

fn synced_before_return(events: &[Event]) -> impl Iterator<Item = (&PathBuf, Option<&Vec<u8>>)> {
    assert!(events.iter().any(|event| matches!(event, Event::Returned)), "somebody has returned");
    let before = events.iter().take_while(|event| !matches!(event, Event::Returned));
    before.filter_map(|event| match event {
        Event::Synced { path, bytes } => Some((path, bytes.as_ref())),
        Event::Returned => None,
    })
}

fn node_of(path: &Path, directory: &Path) -> u32 {
    let inside = path.strip_prefix(directory).expect("all stores are there");
    let node = inside.iter().next().and_then(|node| node.to_str()).and_then(|node| node.strip_prefix('n'));
    node.and_then(|number| number.parse().ok()).expect("stores have the names of nodes")
}

fn segment_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix("segment-")?.parse().ok()
}

/// That each node's device had, before any rank returned, the manifest that is in place there, and then its name.
fn check_manifests(events: &[Event], directory: &Path) {
    for node in 0..NODES {
        let of_node = || synced_before_return(events).filter(|(path, _)| node_of(path, directory) == node);
        let (_, manifest) = of_node()
            .filter(|(path, bytes)| bytes.is_some() && segment_of(path).is_none())
            .last()
            .unwrap_or_else(|| panic!("a manifest of node {node}: {events:?}"));
        let (last, is_file) =
            of_node().last().map(|(path, bytes)| (path, bytes.is_some())).expect("there is one");
        assert!(!is_file, "the names in a directory come last, not {last:?}");
        assert_eq!(&std::fs::read(last.join("manifest")).expect("it is in place"), manifest.expect("a file"));
    }
}

#[test]
fn when_a_sync_returns_on_any_rank_all_nodes_devices_have_what_was_written() {
    on_device(|process, device, directory| {
        let own = process.rank();
        let file = open(process, "f");
        let check = |changed: &[u32], ranks: &[u32], byte: u8| {
            process.meet();
            if own == 0 {
                device.take_events();
            }
            process.meet();
            if ranks.contains(&own) {
                write(&file, own, changed.iter().copied(), byte);
            }
            process.sync(&file).expect("the device takes everything");
            device.note_return();
            process.meet();
            if own != 0 {
                return;
            }
            let events = device.take_events();
            let there = segments_before_return(&events, directory);
            let expected: Vec<_> = changed.iter().map(|segment| (home(*segment), *segment)).collect();
            for place in &expected {
                let bytes = there.get(place).unwrap_or_else(|| panic!("{place:?} of {:?}", there.keys()));
                for rank in ranks {
                    let from = (slot(place.1, *rank) % SEGMENT) as usize;
                    assert_eq!(bytes[from..from + SLOT as usize], [byte; SLOT as usize], "{place:?}, {rank}");
                }
            }
            assert_eq!(there.len(), expected.len(), "no other is brought there: {:?}", there.keys());
            if byte == 1 {
                // The size is a new one.
                check_manifests(&events, directory);
            }
        };
        let all_segments: Vec<_> = (0..SEGMENTS).collect();
        let all_ranks: Vec<_> = (0..RANKS.len() as u32).collect();
        check(&all_segments, &all_ranks, 1);
        check(&all_segments, &all_ranks, 2);
        // For other nodes, by one rank; and nothing.
        check(&[1], &[4], 3);
        check(&[2, 7], &[1], 4);
        check(&[], &[], 5);
        process.close(file).expect("the file closes");
    });
}

#[test]
fn a_sync_of_one_rank_brings_what_it_wrote_to_the_devices_of_nodes_that_have_not_opened_the_file() {
    on_device(|process, device, directory| {
        let file = open(process, "f");
        process.close(file).expect("the file closes");
        if process.rank() == 1 {
            let (cluster, own) = (&process.cluster, process.cluster.own_node());
            let alone = Team::alone().on_node(cluster.nodes()[own.0 as usize].clone(), LocalRank::ALONE);
            let open_alone = || {
                let introduction = cluster.open(&name("f"), &options(), &[own]).expect("it is there");
                cluster.attach(&introduction, &options()).expect("the file opens")
            };
            let file = open_alone();
            write(&file, 1, 0..SEGMENTS, 6);
            device.take_events();
            alone.sync(&file).expect("the device takes everything");
            device.note_return();
            let events = device.take_events();
            let there = segments_before_return(&events, directory);
            for segment in 0..SEGMENTS {
                let from = (slot(segment, 1) % SEGMENT) as usize;
                assert_eq!(there[&(home(segment), segment)][from..from + SLOT as usize], [6; SLOT as usize]);
            }
            check_manifests(&events, directory);
            write(&file, 1, [2, 3], 7);
            device.refuse(|path| segment_of(path) == Some(3));
            let error = alone.sync(&file).expect_err("the device of node 3 fails").to_string();
            assert!(error.contains("node n3") && error.contains("Input/output error"), "{error}");
            device.refuse_nothing();
            let error = alone.sync(&file).expect_err("the system has told it once").to_string();
            assert!(error.contains("segment 3 could not be brought"), "{error}");
            alone.close(&file, false).expect("the file closes");
            drop(file);
            let file = open_alone();
            write(&file, 1, [2, 3], 7);
            device.take_events();
            alone.sync(&file).expect("the device takes everything");
            device.note_return();
            let there = segments_before_return(&device.take_events(), directory);
            assert_eq!(there[&(3, 3)][SLOT as usize..2 * SLOT as usize], [7; SLOT as usize]);
            alone.close(&file, false).expect("the file closes");
        }
        process.meet();
    });
}

#[test]
fn where_one_nodes_device_fails_the_sync_fails_on_all_ranks_and_names_the_node() {
    let errors = Mutex::new(Vec::new());
    on_device(|process, device, directory| {
        let own = process.rank();
        let mut file = open(process, "f");
        let mut byte = 0;
        // The data, written by all or by a rank of another node, and the manifest.
        for (what, writers) in
            [("segment-", &[0, 1, 2, 3, 4, 5][..]), ("segment-", &[2][..]), ("manifest", &[3][..])]
        {
            for node in 0..NODES {
                byte += 1;
                process.meet();
                if own == 0 {
                    let store = directory.join(format!("n{node}"));
                    device.refuse(move |path| {
                        let is_meant = |name: &str| name.trim_start_matches('.').starts_with(what);
                        path.starts_with(&store)
                            && path.file_name().and_then(|name| name.to_str()).is_some_and(is_meant)
                    });
                }
                process.meet();
                if writers.contains(&own) {
                    write(&file, own, 0..SEGMENTS, byte);
                }
                if what == "manifest" && own == 0 {
                    // Whatever the size was: there is something to tell.
                    let more = FileOffset(u64::from(SEGMENTS + u32::from(byte)) * SEGMENT);
                    file.write_at(more, &[byte]).expect("it can be written");
                }
                let outcome = process.sync(&file);
                errors.lock().expect("nobody panics with it").push(outcome);
                process.meet();
                if own == 0 {
                    let errors = std::mem::take(&mut *errors.lock().expect("nobody panics with it"));
                    assert_eq!(errors.len(), RANKS.len());
                    for error in &errors {
                        let told = format!("{what} on n{node}: {errors:?}");
                        let error = error.as_ref().expect_err(&told);
                        // Who asked the failing node is told before it.
                        let (_, last) = error.rsplit_once("node n").expect(&told);
                        assert!(last.starts_with(&format!("{node}: ")), "{told}");
                        assert!(error.contains("Input/output error"), "{told}");
                    }
                    device.refuse_nothing();
                }
                process.meet();
                // A manifest comes with the next sync. Of data the system does not tell a second time what it was.
                if what != "manifest" {
                    process.sync(&file).expect_err("what was refused once is not known to be there");
                    process.close(file).expect("the file closes");
                    file = open(process, "f");
                    if writers.contains(&own) {
                        write(&file, own, 0..SEGMENTS, byte);
                    }
                }
                // Nobody has returned from a sync that was one.
                process.sync(&file).expect("the device takes everything");
                device.note_return();
                process.meet();
                if own == 0 {
                    let events = device.take_events();
                    let there = segments_before_return(&events, directory);
                    if what == "manifest" {
                        check_manifests(&events, directory);
                    } else {
                        for segment in (0..SEGMENTS).filter(|segment| home(*segment) == node) {
                            for rank in writers {
                                let from = (slot(segment, *rank) % SEGMENT) as usize;
                                let bytes = &there[&(node, segment)][from..from + SLOT as usize];
                                assert_eq!(bytes, [byte; SLOT as usize]);
                            }
                        }
                    }
                }
            }
        }
        process.close(file).expect("the file closes");
    });
}
