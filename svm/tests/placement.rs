//! On which nodes segments get their homes: by each policy, with locks and without.

mod job;

use std::sync::{Mutex, PoisonError};

use job::{Process, stores};
use svmio_svm::{
    CacheSettings, File, FileName, FileOffset, LockMode, NodeIndex, NodeName, OpenOptions, Placement,
    SegmentIndex, SegmentSize,
};

const SEGMENT: u64 = 1 << 16;
const NODES: usize = 4;

/// Runs `body` as each rank of a job, rank r on node `r % NODES`, with a file that all have open.
fn with_file(placement: &Placement, ranks: usize, body: impl Fn(&Process<'_>, &File) + Sync) {
    let (_directory, stores) = stores(NODES);
    job::run(stores.iter().cycle().take(ranks), &CacheSettings::default(), |process| {
        let file = process.open(&name(), &options().placement(placement.clone())).expect("the file opens");
        body(process, &file);
        process.meet();
        process.close(file).expect("the file closes");
    });
}

fn name() -> FileName {
    FileName::new("f").expect("it is a name")
}

fn options() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

/// The homes of a file's segments as digits, a dot where there is none.
fn homes(file: &File) -> String {
    let mut homes = String::new();
    for segment in file.segments().expect("they can be looked at") {
        while homes.len() < segment.index.0 as usize {
            homes.push('.');
        }
        homes.push_str(segment.home.as_str().trim_start_matches('n'));
    }
    homes
}

/// Under what a rank writes.
#[derive(Debug, Clone, Copy)]
enum Under {
    Nothing,
    Lock,
    LockToWrite,
}

/// Writes some bytes of `segments` in one access from the first byte of the first to the end of the last.
fn write(file: &File, segments: &[u32], under: Under, value: u8) {
    let (first, last) = (u64::from(segments[0]), u64::from(*segments.last().expect("there is one")));
    let range = FileOffset(first * SEGMENT)..FileOffset((last + 1) * SEGMENT);
    let written = |size: SegmentSize| {
        assert_eq!(size, SegmentSize::MIN);
        segments.iter().copied().map(SegmentIndex).collect()
    };
    let lock = match under {
        Under::Nothing => None,
        Under::Lock => Some(file.lock(range.clone(), LockMode::Exclusive).expect("it can be had")),
        Under::LockToWrite => Some(file.lock_to_write(range.clone(), &written).expect("it can be had")),
    };
    let mut access = file.write_strided(range, segments.len() as u64 * SEGMENT).expect("it can be written");
    for segment in segments {
        let bytes = vec![value; SEGMENT as usize];
        let blocks = svmio_svm::Blocks {
            start: u64::from(*segment) * SEGMENT,
            length: SEGMENT,
            stride: SEGMENT,
            count: 1,
        };
        // SAFETY: there are as many bytes.
        unsafe { access.put(&blocks, bytes.as_ptr(), 0) }.expect("it can be written");
    }
    access.finish().expect("it can be written");
    lock.into_iter().for_each(|lock| lock.release().expect("what was written is home"));
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

/// The homes of the segments of a file of which one rank, on node 2, has written some.
fn homes_of(placement: &Placement, segments: &[u32], under: Under) -> String {
    let told = Mutex::new(Vec::new());
    with_file(placement, NODES, |process, file| {
        if process.rank() == 2 {
            write(file, segments, under, 7);
        }
        process.sync(file).expect("all see it");
        let is_written = |at: u64| segments.contains(&((at / SEGMENT) as u32));
        let expected: Vec<u8> = (0..file.size()).map(|at| 7 * u8::from(is_written(at))).collect();
        assert!(content(file) == expected, "rank {}", process.rank());
        told.lock().unwrap_or_else(PoisonError::into_inner).push(homes(file));
    });
    let mut told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    told.dedup();
    assert_eq!(told.len(), 1, "all nodes know the same: {told:?}");
    told.remove(0)
}

#[test]
fn what_one_rank_writes_lies_where_the_policy_says_also_under_a_lock() {
    let on = |node: &str| Placement::Node(NodeName::new(node));
    for under in [Under::Nothing, Under::Lock, Under::LockToWrite] {
        for (placement, expected) in [
            (Placement::FirstTouch, "22222222"),
            (Placement::RoundRobin, "01230123"),
            (Placement::Block, "00112233"),
            (on("n3"), "33333333"),
        ] {
            let found = homes_of(&placement, &[0, 1, 2, 3, 4, 5, 6, 7], under);
            assert_eq!(found, expected, "{placement:?} {under:?}");
        }
    }
}

#[test]
fn segments_between_those_that_are_written_get_no_home() {
    for under in [Under::Nothing, Under::LockToWrite] {
        for (placement, expected) in [
            (Placement::FirstTouch, "2..2...2"),
            (Placement::RoundRobin, "0..3...3"),
            (Placement::Block, "0..1...3"),
        ] {
            assert_eq!(homes_of(&placement, &[0, 3, 7], under), expected, "{placement:?} {under:?}");
        }
    }
    // Whoever does not say what he writes may write everywhere.
    assert_eq!(homes_of(&Placement::RoundRobin, &[0, 3, 7], Under::Lock), "01230123");
}

#[test]
fn preallocated_segments_are_spread_over_the_nodes() {
    let over = |placement: &Placement, nodes: &[u32], written: Option<u32>| {
        let told = Mutex::new(String::new());
        with_file(placement, NODES, |process, file| {
            if let (2, Some(segment)) = (process.rank(), written) {
                write(file, &[segment], Under::Nothing, 7);
            }
            process.sync(file).expect("all see it");
            if process.rank() == 1 {
                let nodes: Vec<_> = nodes.iter().copied().map(NodeIndex).collect();
                file.preallocate_over(9 * SEGMENT + 1, &nodes).expect("there is room");
            }
            process.sync(file).expect("all see it");
            assert_eq!(file.size(), 9 * SEGMENT + 1);
            let expected =
                |at: u64| 7 * u8::from(written.is_some_and(|segment| at / SEGMENT == u64::from(segment)));
            assert!(content(file).into_iter().zip(0..).all(|(byte, at)| byte == expected(at)));
            *told.lock().unwrap() = homes(file);
        });
        told.into_inner().unwrap()
    };
    assert_eq!(over(&Placement::FirstTouch, &[0, 1, 2, 3], None), "0001122233");
    assert_eq!(over(&Placement::FirstTouch, &[1, 3], None), "1111133333");
    assert_eq!(over(&Placement::FirstTouch, &[0, 1, 2, 3], Some(0)), "2001122233", "what is there stays");
    assert_eq!(over(&Placement::FirstTouch, &[], None), "1111111111", "on the node that preallocates");
    assert_eq!(over(&Placement::RoundRobin, &[0, 1], None), "0123012301");
    assert_eq!(over(&Placement::Block, &[0, 1], None), "0001112223");
    assert_eq!(over(&Placement::Node(NodeName::new("n3")), &[0, 1], None), "3333333333");
}

/// Ranks of all nodes write values of their own to segments that overlap those of others, with others between: whoever
/// looks, under a lock, sees those of one rank in all of the segments that it writes, or of a later one.
#[test]
fn overlapping_writes_with_gaps_are_one_after_the_other() {
    const ROUNDS: u32 = 12;
    for placement in [Placement::FirstTouch, Placement::RoundRobin] {
        with_file(&placement, 2 * NODES, |process, file| {
            for round in 0..ROUNDS {
                // New segments each time; even and odd ranks write different ones, all overlap.
                let first = round * 5;
                let mine = if process.rank() % 2 == 0 { [0, 2, 4] } else { [1, 2, 3] };
                let segments = mine.map(|segment| first + segment);
                write(file, &segments, Under::LockToWrite, process.rank() as u8 + 1);
                let at = |segment: u32| FileOffset(u64::from(segment) * SEGMENT);
                let lock = file.lock(at(first)..at(first + 5), LockMode::Shared).expect("it can be had");
                let byte = |segment: u32, within: u64| {
                    // Nothing is there yet where the file ends before.
                    let mut byte = [0];
                    file.read_at(FileOffset(at(first + segment).0 + within), &mut byte).expect("it is read");
                    byte[0]
                };
                let ends = |segment| {
                    let [start, end] = [byte(segment, 0), byte(segment, SEGMENT - 1)];
                    assert_eq!(start, end, "round {round}, segment {segment}: a mix");
                    start
                };
                let found = [0, 1, 2, 3, 4].map(ends);
                assert_eq!(found[1], found[3], "round {round}: {found:?}");
                assert_eq!(found[0], found[4], "round {round}: {found:?}");
                assert!(found[2] == found[0] || found[2] == found[1], "round {round}: {found:?}");
                lock.release().expect("it was held");
            }
        });
    }
}

#[test]
fn a_job_on_fewer_nodes_is_told_of_all_that_are_missing() {
    let (_directory, stores) = stores(NODES);
    let cache = CacheSettings::default();
    job::run(&stores, &cache, |process| {
        let file = process.open(&name(), &options().placement(Placement::RoundRobin)).expect("it opens");
        if process.rank() == 0 {
            write(&file, &[0, 1, 2, 3, 4, 5, 6, 7], Under::Nothing, 7);
        }
        process.sync(&file).expect("all see it");
        process.close(file).expect("the file closes");
    });
    for (present, missing) in [
        ([0, 2], "segments 1 and 5 lie on node n1, segments 3 and 7 lie on node n3, which are"),
        ([3, 1], "segments 0 and 4 lie on node n0, segments 2 and 6 lie on node n2, which are"),
    ] {
        job::run(present.map(|store| &stores[store]), &cache, |process| {
            for options in [OpenOptions::reading(), options()] {
                let error = process.open(&name(), &options).expect_err("half of it is missing");
                assert!(error.contains(missing), "rank {}: {error}", process.rank());
            }
        });
    }
    // Nothing has become of it.
    job::run(&stores, &cache, |process| {
        let file = process.open(&name(), &OpenOptions::reading()).expect("it opens");
        assert!(content(&file) == [7; 8 * SEGMENT as usize]);
        process.close(file).expect("the file closes");
    });
}
