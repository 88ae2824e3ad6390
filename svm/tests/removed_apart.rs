//! Files that are removed while some of their nodes are out of reach: what those have left goes when all come together.

mod job;

use std::fs;
use std::os::unix::net::UnixStream;

use job::{Process, stores};
use svmio_svm::{
    CacheSettings, Connection, DirectoryName, Entry, Error, File, FileName, FileOffset, NodeName,
    OpenOptions, Placement, RemoteStore, SegmentSize, Store, StoreSet, serve,
};

const SEGMENT: u64 = 1 << 16;
const NODES: usize = 4;

/// Runs `body` as each rank of a job, one on each of those nodes.
fn job<const COUNT: usize>(stores: &[Store], nodes: [usize; COUNT], body: impl Fn(&Process<'_>) + Sync) {
    job::run(nodes.map(|node| &stores[node]), &CacheSettings::default(), body);
}

const ALL: [usize; NODES] = [0, 1, 2, 3];

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn creating(placement: Placement) -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN)).placement(placement)
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut bytes).expect("it can be read"), bytes.len());
    bytes
}

/// Has a job on those nodes make a file in which each node has a segment of `byte`, if it is placed so.
fn make<const COUNT: usize>(
    stores: &[Store],
    nodes: [usize; COUNT],
    text: &str,
    placement: &Placement,
    byte: u8,
) {
    job(stores, nodes, |process| {
        let file = process.open(&name(text), &creating(placement.clone())).expect("it can be made");
        let own = FileOffset(u64::from(process.rank()) * SEGMENT);
        file.write_at(own, &[byte; SEGMENT as usize]).expect("there is room");
        process.sync(&file).expect("it can be made durable");
        process.close(file).expect("it can be closed");
    });
}

fn remove<const COUNT: usize>(stores: &[Store], nodes: [usize; COUNT], text: &str) {
    job(stores, nodes, |process| {
        if process.rank() == 0 {
            process.cluster.remove(&name(text)).expect("it can be removed");
        }
        process.meet();
    });
}

/// What all of a job on those nodes read, which opens the file with `options`.
fn open<const COUNT: usize>(
    stores: &[Store],
    nodes: [usize; COUNT],
    text: &str,
    options: &OpenOptions,
) -> Result<Vec<u8>, String> {
    let read = std::sync::Mutex::new(Vec::new());
    job(stores, nodes, |process| {
        let bytes = process.open(&name(text), options).map(|file| {
            let bytes = content(&file);
            process.close(file).expect("it can be closed");
            bytes
        });
        read.lock().expect("nobody has panicked").push(bytes);
    });
    let mut read = read.into_inner().expect("nobody has panicked");
    read.dedup();
    assert_eq!(read.len(), 1, "all ranks see the same");
    read.remove(0)
}

fn set(stores: &[Store], nodes: &[usize]) -> StoreSet {
    let of = |node: &usize| stores[*node].clone();
    StoreSet::new(of(&nodes[0]), nodes[1..].iter().map(of)).expect("they are of different nodes")
}

/// The same stores, each answered for by a thread that stands for the process of another host.
fn served(stores: &[Store], nodes: &[usize]) -> StoreSet {
    let connect = |node: &usize| {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let store = stores[*node].clone();
        let host = format!("host{node}");
        std::thread::spawn(move || {
            let mut questions = far.try_clone().expect("a duplicate");
            serve(Ok(store), &mut questions, &mut &far)
        });
        let answers = Box::new(near.try_clone().expect("a duplicate"));
        let connection = Connection { answers, questions: Box::new(near), last_words: Box::new(|| None) };
        RemoteStore::connect(&host, connection).expect("it is served")
    };
    StoreSet::of_hosts(nodes.iter().map(connect).collect()).expect("they are of different nodes")
}

/// How many objects each node has.
fn objects(stores: &[Store]) -> Vec<usize> {
    let count = |store: &Store| fs::read_dir(store.path().join("objects")).expect("a store").count();
    stores.iter().map(count).collect()
}

#[test]
fn a_file_that_some_of_its_nodes_have_removed_is_removed() {
    let (_directory, stores) = stores(NODES);
    for placement in [Placement::FirstTouch, Placement::RoundRobin] {
        make(&stores, ALL, "d/f", &placement, 7);
        remove(&stores, [0, 2], "d/f");
        assert_eq!(objects(&stores), [0, 1, 0, 1]);
        let error = open(&stores, ALL, "d/f", &OpenOptions::reading()).expect_err("it was removed");
        assert!(error.contains("no file /d/f"), "{error}");
        assert_eq!(objects(&stores), [0; NODES]);
    }
    make(&stores, ALL, "d/f", &Placement::FirstTouch, 7);
    remove(&stores, [2, 0], "d/f");
    let exclusive = creating(Placement::FirstTouch).exclusive(true);
    assert_eq!(open(&stores, ALL, "d/f", &exclusive).expect("it is made anew"), b"");
    make(&stores, ALL, "d/f", &Placement::FirstTouch, 8);
    assert!(
        open(&stores, [3, 2, 1, 0], "d/f", &OpenOptions::reading()).expect("it is there").starts_with(&[8])
    );
}

#[test]
fn a_file_that_was_made_in_place_of_the_removed_one_is_read_by_all() {
    let (_directory, stores) = stores(NODES);
    for order in [ALL, [1, 0, 3, 2]] {
        make(&stores, ALL, "f", &Placement::FirstTouch, 7);
        remove(&stores, [0, 2], "f");
        make(&stores, [0, 2], "f", &Placement::FirstTouch, 8);
        let read = open(&stores, order, "f", &OpenOptions::read_write()).expect("there is one of the name");
        assert!(read == [8; 2 * SEGMENT as usize]);
        assert_eq!(set(&stores, &ALL).verify(&DirectoryName::root()).unwrap().damaged.len(), 0);
        remove(&stores, order, "f");
        assert_eq!(objects(&stores), [0; NODES]);
    }
}

#[test]
fn what_is_left_of_a_removed_file_is_not_removed_again() {
    let (_directory, stores) = stores(NODES);
    make(&stores, ALL, "f", &Placement::FirstTouch, 7);
    remove(&stores, [0, 2], "f");
    job(&stores, [3, 0], |process| {
        let removed = process.cluster.remove(&name("f"));
        assert!(removed.unwrap_err().to_string().contains("no file /f"));
        process.meet();
    });
    // The last one hears of it from a node that has heard of it.
    assert_eq!(objects(&stores), [0, 1, 0, 0]);
    assert!(open(&stores, [1, 3], "f", &OpenOptions::reading()).is_err());
    assert_eq!(objects(&stores), [0; NODES]);
}

#[test]
fn a_file_that_one_node_alone_has_removed_is_removed() {
    let (_directory, stores) = stores(NODES);
    make(&stores, ALL, "f", &Placement::FirstTouch, 7);
    stores[1].remove(&name("f")).unwrap();
    assert_eq!(open(&stores, ALL, "f", &creating(Placement::FirstTouch)).expect("it is made anew"), b"");
}

#[test]
fn what_was_written_where_nobody_knew_of_the_removal_is_not_lost() {
    let (_directory, stores) = stores(NODES);
    let placement = Placement::Node(NodeName::new("n1"));
    make(&stores, ALL, "f", &placement, 7);
    remove(&stores, [0, 2], "f");
    job(&stores, [1, 3], |process| {
        let file = process.open(&name("f"), &OpenOptions::read_write()).expect("all of it is here");
        if process.rank() == 1 {
            file.write_at(FileOffset(NODES as u64 * SEGMENT), b"more").expect("there is room");
        }
        process.close(file).expect("it can be closed");
    });
    let mut expected = vec![7; NODES * SEGMENT as usize];
    expected.extend(b"more");
    let all = set(&stores, &ALL);
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean() && report.reclaimed.is_empty(), "{report:?}");
    assert!(all.open(&name("f")).unwrap().check_whole().is_ok());
    assert!(open(&stores, ALL, "f", &OpenOptions::reading()).expect("it is there") == expected);
}

#[test]
fn what_another_job_has_put_into_the_same_empty_file_is_not_lost() {
    let (_directory, stores) = stores(NODES);
    job(&stores, ALL, |process| {
        let file = process.open(&name("f"), &creating(Placement::FirstTouch)).expect("it can be made");
        process.close(file).expect("it can be closed");
    });
    // More often than the others, whose commits are the older ones then.
    for segment in 0..4 {
        job(&stores, [0, 2], |process| {
            let file =
                process.open(&name("f"), &OpenOptions::read_write()).expect("nothing of it lies elsewhere");
            if process.rank() == 1 {
                let bytes = [segment as u8 + 1; SEGMENT as usize];
                file.write_at(FileOffset(segment * SEGMENT), &bytes).expect("there is room");
            }
            process.close(file).expect("it can be closed");
        });
    }
    make(&stores, [1, 3], "f", &Placement::FirstTouch, 9);
    let all = set(&stores, &ALL);
    let error = all.open(&name("f")).unwrap_err();
    assert!(matches!(error, Error::TwoHomes { .. }), "{error}");
    // One of both is chosen.
    set(&stores, &[0, 2]).remove(&name("f"), false).unwrap();
    assert!(all.verify(&DirectoryName::root()).unwrap().reclaimed.is_empty());
    let read = open(&stores, ALL, "f", &OpenOptions::reading()).expect("the other one is there");
    assert!(read == [9; 2 * SEGMENT as usize]);
}

#[test]
fn what_somebody_has_open_is_left_to_him() {
    let (_directory, stores) = stores(NODES);
    make(&stores, ALL, "f", &Placement::Node(NodeName::new("n1")), 7);
    remove(&stores, [0, 2], "f");
    let reader = stores[1].open_file(&name("f"), &OpenOptions::reading()).expect("all of it is there");
    let error = open(&stores, ALL, "f", &creating(Placement::FirstTouch)).expect_err("it is open");
    assert!(error.contains("is open in another job"), "{error}");
    let all = set(&stores, &ALL);
    let report = all.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.reclaimed.len(), objects(&stores)), (1, vec![0, 1, 0, 0]));
    assert!(content(&reader) == [7; NODES * SEGMENT as usize]);
    drop(reader);
    assert_eq!(all.verify(&DirectoryName::root()).unwrap().reclaimed.len(), 1);
    assert_eq!(objects(&stores), [0; NODES]);
}

#[test]
fn stores_together_do_not_show_what_is_left_of_a_removed_file_and_verifying_reclaims_it() {
    let (_directory, stores) = stores(NODES);
    let (all, root) = (set(&stores, &ALL), DirectoryName::root());
    for text in ["gone", "d/gone", "new"] {
        make(&stores, ALL, text, &Placement::FirstTouch, 7);
    }
    // By a job, and by somebody who takes part in none.
    remove(&stores, [0, 2], "gone");
    for text in ["d/gone", "new"] {
        set(&stores, &[0, 2]).remove(&name(text), true).unwrap();
    }
    make(&stores, [0, 2], "new", &Placement::FirstTouch, 8);
    let new = stores[0].lookup(&name("new")).unwrap();
    assert_eq!(set(&stores, &[1, 3]).files(&root).unwrap().len(), 3, "they are told nothing of the removal");
    // Before what is left is reclaimed, and after it.
    for reclaimed in [6, 0] {
        for text in ["gone", "d/gone"] {
            assert!(matches!(all.lookup(&name(text)), Err(Error::NoSuchFile { .. })), "{text}");
            assert!(matches!(all.open(&name(text)), Err(Error::NoSuchFile { .. })), "{text}");
        }
        assert_eq!(all.files(&root).unwrap(), [(name("new"), Some(new))]);
        let mut list = all.list(&root).unwrap();
        list.retain(|entry| matches!(entry, Entry::File(..)));
        assert_eq!(list, [Entry::File(name("new"), Some(new))]);
        assert_eq!(all.open(&name("new")).unwrap().size(), 2 * SEGMENT);
        let report = all.verify(&root).unwrap();
        assert!(report.is_clean() && report.unseen.is_empty(), "{report:?}");
        assert_eq!((report.reclaimed.len(), &report.files[..]), (reclaimed, &[name("new")][..]));
        assert_eq!(objects(&stores), [1, 0, 1, 0]);
    }
    assert!(all.verify(&DirectoryName::new("d").unwrap()).is_err(), "it went with its last file");
}

#[test]
fn stores_of_other_hosts_tell_of_what_was_removed_as_those_that_are_here() {
    let (_directory, stores) = stores(NODES);
    for (removing, looking) in
        [(served as fn(&_, &_) -> _, served as fn(&_, &_) -> _), (set, served), (served, set)]
    {
        make(&stores, ALL, "f", &Placement::FirstTouch, 7);
        let some: StoreSet = removing(&stores, &[0, 2]);
        some.remove(&name("f"), true).unwrap();
        let all: StoreSet = looking(&stores, &ALL);
        assert_eq!(all.files(&DirectoryName::root()).unwrap(), []);
        assert!(matches!(all.lookup(&name("f")), Err(Error::NoSuchFile { .. })));
        let report = all.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean() && report.reclaimed.len() == 2, "{report:?}");
        assert_eq!(objects(&stores), [0; NODES]);
    }
}

#[test]
fn a_name_whose_file_others_have_removed_can_be_given_and_is_not_removed_again() {
    let (_directory, stores) = stores(NODES);
    let all = set(&stores, &ALL);
    let make_removed = || {
        make(&stores, ALL, "f", &Placement::FirstTouch, 7);
        remove(&stores, [0, 2], "f");
    };
    for replacing in [false, true] {
        make_removed();
        let mut file = all.create(&name("f"), &creating(Placement::RoundRobin), None, replacing).unwrap();
        file.write_at(FileOffset(0), b"new").unwrap();
        file.finish(3).unwrap();
        assert_eq!(open(&stores, ALL, "f", &OpenOptions::reading()).expect("it is there"), b"new");
        all.remove(&name("f"), false).unwrap();
        assert_eq!(objects(&stores), [0; NODES]);
    }
    make_removed();
    assert!(matches!(all.remove(&name("f"), false), Err(Error::NoSuchFile { .. })));
    assert_eq!(objects(&stores), [0; NODES]);
    make_removed();
    let report = all.verify_file(&name("f"));
    assert!(report.is_clean() && report.reclaimed.len() == 2, "{report:?}");
}

#[test]
fn a_file_that_one_store_alone_has_put_another_one_over_is_removed() {
    let (_directory, stores) = stores(NODES);
    make(&stores, ALL, "f", &Placement::Node(NodeName::new("n2")), 7);
    for nodes in [&[2][..], &[2, 0]] {
        let some = set(&stores, nodes);
        let mut file = some.create(&name("f"), &creating(Placement::RoundRobin), None, true).unwrap();
        file.write_at(FileOffset(0), &[9; 2 * SEGMENT as usize]).unwrap();
        file.finish(2 * SEGMENT).unwrap();
        assert!(
            open(&stores, ALL, "f", &OpenOptions::reading()).expect("it is there")
                == [9; 2 * SEGMENT as usize]
        );
    }
}

#[test]
fn a_part_that_was_lost_is_missed() {
    let (_directory, stores) = stores(NODES);
    make(&stores, ALL, "f", &Placement::FirstTouch, 7);
    let id = stores[2].lookup(&name("f")).unwrap().to_string();
    fs::remove_dir_all(stores[2].path().join("objects").join(&id)).unwrap();
    fs::remove_file(stores[2].path().join("names/f")).unwrap();
    for _ in 0..2 {
        let error = open(&stores, ALL, "f", &creating(Placement::FirstTouch)).expect_err("it is lost");
        assert!(error.contains("segment 2 of /f is missing"), "{error}");
    }
    let report = set(&stores, &ALL).verify(&DirectoryName::root()).unwrap();
    assert!(matches!(report.damaged[..], [(_, Error::MissingSegment { .. })]), "{report:?}");
}
