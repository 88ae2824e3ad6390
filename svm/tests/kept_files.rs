//! Files that nodes share, opened again after all have closed them: by what the nodes' processes have kept of them.
//! Here and not beside others, because a process keeps only a few.

mod job;

use std::os::unix::fs::MetadataExt;

use job::{Process, stores};
use svmio_svm::{
    CacheSettings, File, FileName, FileOffset, NodeName, OpenOptions, Placement, SegmentSize, Store,
};

const SEGMENT: u64 = 1 << 16;

/// Runs `body` as each rank of a job, rank r on node `r % stores`.
fn job(stores: &[Store], ranks: usize, body: impl Fn(&Process<'_>) + Sync) {
    job::run(stores.iter().cycle().take(ranks), &CacheSettings::default(), body);
}

fn open(process: &Process<'_>, text: &str) -> File {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    process.open(&name(text), &options).expect("the file opens")
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

/// Opens `text` again and closes it; returns how many requests of each of some kinds this rank sent meanwhile.
fn asked_for<const KINDS: usize>(process: &Process<'_>, text: &str, kinds: [&str; KINDS]) -> [u64; KINDS] {
    let count = || {
        let asked = process.cluster.statistics().requests;
        kinds.map(|kind| asked.get(kind).copied().unwrap_or(0))
    };
    let before = count();
    process.meet();
    process.close(open(process, text)).expect("the file closes");
    let after = count();
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn a_file_that_was_closed_is_opened_again_without_being_looked_for() {
    let (_directory, stores) = stores(3);
    let manifests = || {
        let of = |store: &Store| std::fs::read_dir(store.path().join("objects")).unwrap().next().unwrap();
        let number = |store| std::fs::metadata(of(store).unwrap().path().join("manifest")).unwrap().ino();
        stores.iter().map(number).collect::<Vec<_>>()
    };
    for ranks in [3, 6] {
        job(&stores, ranks, |process| {
            let text = format!("f{ranks}");
            let own = FileOffset(u64::from(process.rank()) * SEGMENT);
            let file = open(process, &text);
            file.write_at(own, &[1; SEGMENT as usize]).unwrap();
            process.close(file).unwrap();
            let before = (ranks == 3).then(manifests);
            process.meet();
            for round in 2..5 {
                let file = open(process, &text);
                let expected = vec![round - 1; (u64::from(process.cluster.size()) * SEGMENT) as usize];
                assert!(content(&file) == expected, "round {round}");
                process.meet();
                file.write_at(own, &[round; SEGMENT as usize]).unwrap();
                if round == 3 {
                    process.sync(&file).unwrap();
                }
                process.close(file).unwrap();
            }
            let asked = asked_for(process, &text, ["reopen", "find", "install", "adopt"]);
            assert_eq!(asked, if process.rank() == 0 { [2, 0, 0, 0] } else { [0; 4] });
            assert_eq!(before, (ranks == 3).then(manifests), "manifests that are true are left alone");
        });
    }
}

#[test]
fn a_file_that_changed_on_one_node_is_looked_for_on_all() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        let file = open(process, "f");
        if process.rank() == 0 {
            file.write_at(FileOffset(0), b"of the cluster").unwrap();
        }
        process.close(file).unwrap();
        // By somebody who has the file for himself: all of it is on that node.
        if process.rank() == 0 {
            let alone = stores[0].open_file(&name("f"), &OpenOptions::read_write()).unwrap();
            alone.write_at(FileOffset(SEGMENT), b"of one").unwrap();
            alone.commit(true).unwrap();
        }
        process.meet();
        let file = open(process, "f");
        let content = content(&file);
        assert_eq!((content.len() as u64, &content[SEGMENT as usize..]), (SEGMENT + 6, &b"of one"[..]));
        process.close(file).unwrap();
        let asked = asked_for(process, "f", ["reopen", "find"]);
        assert_eq!(asked, if process.rank() == 0 { [1, 0] } else { [0; 2] });
    });
}

#[test]
fn a_file_that_could_not_be_opened_is_left_to_others() {
    let (_directory, stores) = stores(2);
    for _ in 0..2 {
        job(&stores, 2, |process| {
            // By what the nodes have kept of it, and by looking for it.
            for is_kept in [true, false] {
                let file = is_kept.then(|| open(process, "f"));
                file.into_iter().for_each(|file| process.close(file).unwrap());
                let exclusive = OpenOptions::read_write().create(true).exclusive(true);
                assert!(process.open(&name("f"), &exclusive).unwrap_err().contains("exists already"));
                process.meet();
                let store = &stores[process.rank() as usize];
                let alone = store.open_file(&name("f"), &OpenOptions::read_write());
                alone.expect("no job has it open").commit(true).unwrap();
                process.meet();
            }
        });
    }
}

#[test]
fn a_part_that_went_while_the_file_was_closed_is_missed() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        let file = open(process, "f");
        let own = FileOffset(u64::from(process.rank()) * SEGMENT);
        file.write_at(own, &[1; SEGMENT as usize]).unwrap();
        process.close(file).unwrap();
        if process.rank() == 1 {
            let id = stores[1].lookup(&name("f")).unwrap();
            std::fs::remove_file(stores[1].path().join("names/f")).unwrap();
            std::fs::remove_dir_all(stores[1].path().join("objects").join(id.to_string())).unwrap();
        }
        process.meet();
        let error = process.open(&name("f"), &OpenOptions::read_write()).unwrap_err();
        assert!(error.contains("segment 1"), "{error}");
    });
}

#[test]
fn a_file_that_one_node_removed_while_it_was_closed_is_removed() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        for own in 0..2 {
            let file = open(process, "f");
            assert_eq!(file.size(), 0, "it is a new one");
            process.meet();
            file.write_at(FileOffset(u64::from(process.rank()) * SEGMENT), &[1; SEGMENT as usize]).unwrap();
            process.close(file).unwrap();
            if process.rank() == own {
                stores[own as usize].remove(&name("f")).unwrap();
            }
            process.meet();
        }
    });
}

#[test]
fn pages_of_another_node_stay_over_closing_and_opening_until_somebody_changes_them() {
    let (_directory, stores) = stores(2);
    job(&stores, 2, |process| {
        let is_home = process.rank() == 0;
        // Opens the file, has its home write it or the other one read it, closes it; how many pages were fetched.
        let fetched_in = |write: Option<u8>, read: Option<u8>| {
            let fetched = || process.cluster.statistics().cache.misses;
            let before = fetched();
            let file = open(process, "f");
            if let Some(byte) = write.filter(|_| is_home) {
                file.write_at(FileOffset(0), &[byte; SEGMENT as usize]).unwrap();
            }
            if let Some(byte) = read.filter(|_| !is_home) {
                assert!(content(&file) == [byte; SEGMENT as usize], "it is not all {byte}");
            }
            process.close(file).unwrap();
            fetched() - before
        };
        let are_fetched = |pages: u64| if is_home { pages == 0 } else { pages > 0 };
        fetched_in(Some(1), None);
        assert!(are_fetched(fetched_in(None, Some(1))));
        for _ in 0..3 {
            assert_eq!(fetched_in(None, Some(1)), 0);
        }
        // By the home, while nobody reads.
        fetched_in(Some(2), None);
        assert!(are_fetched(fetched_in(None, Some(2))));
        assert_eq!(fetched_in(None, Some(2)), 0);
        // By somebody who has the file for himself, for all of it is on that node.
        if is_home {
            let alone = stores[0].open_file(&name("f"), &OpenOptions::read_write()).unwrap();
            alone.write_at(FileOffset(0), &[3; SEGMENT as usize]).unwrap();
            alone.commit(true).unwrap();
        }
        process.meet();
        assert!(are_fetched(fetched_in(None, Some(3))));
        assert_eq!(fetched_in(None, Some(3)), 0);
    });
}

#[test]
fn a_node_that_has_all_of_a_file_knows_how_long_it_is_once_it_is_closed() {
    let (_directory, stores) = stores(2);
    let placed = Placement::Node(NodeName::new(stores[1].node().as_str()));
    for text in ["synced", "closed"] {
        job(&stores, 2, |process| {
            let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
            let file = process.open(&name(text), &options.placement(placed.clone())).unwrap();
            let own = FileOffset(u64::from(1 - process.rank()) * SEGMENT / 2);
            file.write_at(own, &[7; SEGMENT as usize / 2]).unwrap();
            if text == "synced" {
                process.sync(&file).unwrap();
            }
            process.close(file).unwrap();
        });
        // By what the node's shared state has kept.
        let file = stores[1].open_file(&name(text), &OpenOptions::reading()).unwrap();
        assert!(content(&file) == [7; SEGMENT as usize], "{text}: {} bytes", file.size());
    }
}
