//! Files that several nodes share, by processes that are threads here, each with a fabric of its own.

#[path = "../job/mod.rs"]
mod job;

mod messages;
mod removal;
mod writing;

use job::{Process, stores};
use svmio_svm::{
    CacheSettings, File, FileName, FileOffset, LockMode, NodeIndex, OpenOptions, SegmentSize, Store,
};

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
#[should_panic(expected = "the reason")]
fn a_rank_that_panics_is_not_waited_for() {
    let (_directory, stores) = stores(2);
    job(&stores, 4, |process| {
        let file = open(process, "f", &small_segments());
        assert_ne!(process.rank(), 2, "the reason");
        process.close(file).unwrap();
    });
}
