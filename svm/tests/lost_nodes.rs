//! A node that is lost takes with it what lies there, and nothing else.

mod job;

use job::{Process, stores};
use svmio_svm::team::Team;
use svmio_svm::{
    CacheSettings, Cluster, Error, ErrorKind, File, FileName, FileOffset, LockMode, OpenOptions, Result,
    SegmentSize,
};
use svmio_transport::Rank;

const SEGMENT: u64 = 1 << 16;

/// Who is lost, on a node of its own.
const LOST: u32 = 3;

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

fn creating() -> OpenOptions {
    OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN))
}

/// Opens a file for one process.
fn open_alone(process: &Process<'_>, text: &str, options: &OpenOptions) -> Result<File> {
    let cluster = &process.cluster;
    let introduction = cluster.open(&name(text), options, &[cluster.own_node()])?;
    Cluster::attach(cluster, &introduction, options)
}

fn first_byte(file: &File, at: u64) -> u8 {
    let mut byte = [0];
    file.read_at(FileOffset(at), &mut byte).expect("it can be read");
    byte[0]
}

/// Has all processes make a file in which those of `writers` have a segment each.
fn make(process: &Process<'_>, text: &str, writers: &[u32]) {
    let file = process.open(&name(text), &creating()).expect("it opens");
    if let Some(place) = writers.iter().position(|writer| *writer == process.rank()) {
        file.write_at(FileOffset(place as u64 * SEGMENT), &[process.rank() as u8 + 1; SEGMENT as usize])
            .expect("nobody is lost yet");
    }
    process.sync(&file).expect("nobody is lost yet");
    process.close(file).expect("nobody is lost yet");
}

fn names_the_lost_node(error: &Error) -> bool {
    error.to_string().contains("node n3")
}

#[test]
fn files_that_have_nothing_on_a_lost_node_are_opened_written_made_durable_and_removed() {
    let (_directory, stores) = stores(4);
    // What an earlier job has made is looked for on all nodes; what this one has made, they serve again.
    job::run(stores.iter(), &CacheSettings::default(), |process| {
        make(process, "before", &[0, 1, 2]);
        make(process, "there-before", &[0, LOST]);
    });
    job::run(stores.iter(), &CacheSettings::default(), |process| {
        make(process, "here", &[0, 1, 2]);
        make(process, "there", &[0, LOST]);
        process.meet();
        if process.rank() == LOST {
            process.job.declare_lost(Rank(LOST), "the test says so");
        }
        process.meet();
        if process.rank() == 1 {
            for text in ["before", "here"] {
                let file = open_alone(process, text, &OpenOptions::read_write()).expect(text);
                assert_eq!([0, 1, 2].map(|place| first_byte(&file, place * SEGMENT)), [1, 2, 3], "{text}");
                file.write_at(FileOffset(2 * SEGMENT), &[9; 100]).unwrap();
                // A new segment, too.
                file.write_at(FileOffset(3 * SEGMENT), &[7; 100]).unwrap();
                // Many more than there are: only where there are some, somebody has to be asked.
                let all = file.lock(FileOffset(0)..FileOffset(5000 * SEGMENT), LockMode::Exclusive);
                file.write_at(FileOffset(3 * SEGMENT + 50), &[7; 100]).unwrap();
                all.expect("nobody has a part of it who is lost").release().unwrap();
                Team::alone().sync(&file).expect("what is left of the nodes makes it durable");
                Team::alone().close(&file, false).expect("it can be closed");
            }
            for text in ["there-before", "there"] {
                let error = open_alone(process, text, &OpenOptions::reading()).expect_err(text);
                assert!(error.to_string().contains("segment 1 lies on node n3"), "{error}");
                let error = process.cluster.remove(&name(text)).expect_err(text);
                assert!(error.to_string().contains("segment 1 lies on node n3"), "{error}");
            }
            for options in [OpenOptions::reading(), creating(), creating().exclusive(true)] {
                let error = open_alone(process, "nowhere", &options).expect_err("nobody knows it");
                assert!(names_the_lost_node(&error), "{error}");
                assert_ne!(error.kind(), ErrorKind::NoSuchFile, "it may be there");
            }
            assert!(names_the_lost_node(&process.cluster.remove(&name("nowhere")).unwrap_err()));
            let temporary = open_alone(process, "nowhere", &creating().temporary(true));
            temporary.expect("one that goes with its users is no second file of a name for long");
        }
        process.meet();
        if process.rank() == 2 {
            for text in ["before", "here"] {
                let file = open_alone(process, text, &OpenOptions::reading()).expect(text);
                assert_eq!([0, 2, 3].map(|place| first_byte(&file, place * SEGMENT)), [1, 9, 7], "{text}");
                drop(file);
                process.cluster.remove(&name(text)).expect(text);
                assert!(names_the_lost_node(
                    &open_alone(process, text, &OpenOptions::reading()).unwrap_err()
                ));
            }
        }
        process.meet();
    });
    // The node is back: what could not be removed is whole.
    job::run(stores.iter(), &CacheSettings::default(), |process| {
        for text in ["there-before", "there"] {
            let file = process.open(&name(text), &OpenOptions::reading()).unwrap();
            assert_eq!([0, 1].map(|place| first_byte(&file, place * SEGMENT)), [1, 4], "{text}");
            process.close(file).unwrap();
        }
        for text in ["before", "here"] {
            let error = process.open(&name(text), &OpenOptions::reading()).unwrap_err();
            assert!(
                error.contains(&format!("no file /{text}")),
                "what it has left of a removed file goes: {error}"
            );
        }
    });
}
