//! Reads of other nodes' segments without asking their agents.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use svmio_transport::Rank;

use super::job::{self, Process};
use super::{PAGE, SEGMENT, job as on_two_nodes, open, read};
use crate::attachment::{self, How};
use crate::cluster::SharedFile;
use crate::cluster::wire::{Reply, Request};
use crate::object;
use crate::units::SegmentIndex;
use crate::{File, FileName, FileOffset, NodeIndex, OpenOptions, SegmentSize, Store};

/// As ranks 0 and 1 see it, whose node is not the home.
fn is_reader(process: &Process<'_>) -> bool {
    process.cluster.own_node() == NodeIndex(0)
}

/// Pages that were read without asking, and requests for pages.
fn counts(process: &Process<'_>) -> (u64, u64) {
    let statistics = process.cluster.statistics();
    (statistics.native_pages, statistics.requests.get("fetch").copied().unwrap_or(0))
}

/// Where the file's only segment is.
fn segment_file(home: &Store, file: &File) -> PathBuf {
    object::path(home.shared_path(), file.id()).join(object::segment_name(SegmentIndex(0)))
}

/// The version of the file's only segment, by its home's agent.
fn version_told(process: &Process<'_>, file: &File) -> u64 {
    let request = Request::Versions { file: file.id(), segments: vec![SegmentIndex(0)] };
    match process.cluster.ask(NodeIndex(1), &request).unwrap() {
        Reply::Versions(versions) => versions[0],
        other => panic!("{other:?}"),
    }
}

/// The same by what is exported.
fn version_in_memory(process: &Process<'_>, stores: &[Store], file: &File) -> u64 {
    let how = How::through(process.cluster.id());
    let attachment = attachment::attach(&stores[0], file.id(), "f", how).ok().unwrap();
    let shared = SharedFile::new(Arc::clone(&process.cluster), attachment);
    let segment = shared.open_segment(NodeIndex(1), SegmentIndex(0)).unwrap();
    segment.version().unwrap()
}

#[test]
fn pages_come_without_a_request_and_count_like_others() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let file = open(process, &FileName::new("f").unwrap());
        process.meet();
        if process.rank() == 0 {
            let misses = process.cluster.statistics().cache.misses;
            for page in [3, 900, 17] {
                assert_eq!(read(&file, page * PAGE + 5), [1; 10]);
            }
            assert_eq!(counts(process), (3, 0));
            assert_eq!(process.cluster.statistics().cache.misses, misses + 3);
            // Here already.
            assert_eq!(read(&file, 17 * PAGE), [1; 10]);
            assert_eq!(counts(process), (3, 0));
        }
        process.meet();
    });
}

#[test]
fn both_ways_are_gone_where_it_is_measured_which_is_faster() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        let file = open(process, &FileName::new("f").unwrap());
        process.meet();
        if process.rank() == 0 {
            // At no one distance, so that nothing is fetched ahead.
            for page in [3, 900, 17, 500, 80, 333, 12, 701, 41, 600, 9, 210] {
                assert_eq!(read(&file, page * PAGE + 5), [1; 10]);
            }
            let (native, asked) = counts(process);
            assert!(native >= 3 && asked >= 3, "{native} {asked}");
        }
        process.meet();
    });
}

#[test]
fn what_others_changed_is_seen_after_a_refresh_and_costs_no_pages_of_unchanged_segments() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let file = open(process, &FileName::new("f").unwrap());
        for turn in 2..20u8 {
            if process.rank() == 0 {
                assert_eq!(read(&file, 0), [turn - 1]);
                assert_eq!(read(&file, PAGE), [1]);
            }
            process.meet();
            // In turn the home itself, and by its agent a process of the readers' node, whose own changes are no news.
            let writer = if turn % 3 == 0 { 1 } else { 2 };
            if process.rank() == writer {
                file.write_at(FileOffset(0), &[turn]).unwrap();
            }
            process.sync(&file).unwrap();
            if process.rank() == 0 {
                assert_eq!(version_in_memory(process, &stores, &file), version_told(process, &file));
            }
        }
        if process.rank() == 0 {
            let (before, _) = counts(process);
            assert_eq!(read(&file, 0), [19]);
            file.refresh().unwrap();
            let (after, _) = counts(process);
            file.refresh().unwrap();
            assert_eq!(read(&file, 0), [19]);
            assert_eq!(counts(process), (after.max(before + 1), 0), "nobody has changed it since");
        }
        process.meet();
    });
}

#[test]
fn parts_without_storage_read_as_zero_and_get_none_by_that() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let options =
            OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::new(SEGMENT).unwrap()));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 2 {
            file.write_at(FileOffset(SEGMENT - 1), &[7]).unwrap();
        }
        process.sync(&file).unwrap();
        let stored = || fs::metadata(segment_file(&stores[1], &file)).unwrap().blocks() * 512;
        let before = stored();
        assert!(before <= PAGE, "{before}");
        process.meet();
        let all = |file: &File| {
            let mut bytes = vec![9; SEGMENT as usize];
            assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), bytes.len());
            bytes
        };
        if process.rank() == 1 {
            let bytes = all(&file);
            assert!(bytes[..SEGMENT as usize - 1].iter().all(|byte| *byte == 0) && bytes.ends_with(&[7]));
            assert_eq!(counts(process), (SEGMENT / PAGE, 0));
        }
        process.meet();
        assert_eq!(stored(), before);
        // What is cut off is zero when the file grows again, and has no storage.
        for size in [PAGE, SEGMENT] {
            process.team.set_size(&file, size).unwrap();
        }
        if process.rank() == 1 {
            assert!(all(&file).iter().all(|byte| *byte == 0));
        }
        process.meet();
        assert_eq!(stored(), 0);
        process.meet();
    });
}

#[test]
fn whoever_cannot_find_the_segment_s_file_asks() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let file = open(process, &FileName::new("f").unwrap());
        let (path, away) = (segment_file(&stores[1], &file), stores[1].path().join("away"));
        if process.rank() == 2 {
            // As on another host, or in another container: there is something else at that place.
            fs::rename(&path, &away).unwrap();
            fs::write(&path, vec![5; SEGMENT as usize]).unwrap();
        }
        process.meet();
        if process.rank() == 0 {
            assert_eq!(read(&file, 0), [1]);
            assert_eq!(counts(process), (0, 1));
        }
        process.meet();
        if process.rank() == 2 {
            fs::rename(&away, &path).unwrap();
        }
        process.meet();
    });
}

#[test]
fn a_lost_home_is_an_error_although_its_memory_is_there() {
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let file = open(process, &FileName::new("f").unwrap());
        process.meet();
        if is_reader(process) {
            assert_eq!(read(&file, 0), [1]);
        }
        process.meet();
        if process.rank() == 0 {
            process.job.declare_lost(Rank(2), "the test says so");
            let error = file.read_at(FileOffset(100 * PAGE), &mut [0]).unwrap_err().to_string();
            assert!(error.contains("n1"), "{error}");
            // What was read stays.
            assert_eq!(read(&file, 0), [1]);
        }
        process.meet();
    });
}

#[test]
fn a_file_whose_segments_are_all_read_natively_leaves_room_for_others() {
    // More than a process has open.
    const SEGMENTS: u64 = 70;
    let (_directory, stores) = job::stores(2);
    on_two_nodes(&stores, 64, |process| {
        process.cluster.force_native_reads(Some(true));
        let size = SegmentSize::MIN.bytes();
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let names = ["one", "other"].map(|name| FileName::new(name).unwrap());
        let files = names.each_ref().map(|name| process.open(name, &options).unwrap());
        for file in &files {
            if process.rank() == 2 {
                file.write_at(FileOffset(0), &vec![1; (SEGMENTS * size) as usize]).unwrap();
            }
            process.sync(file).unwrap();
        }
        if process.rank() == 0 {
            for (file, before) in files.iter().zip([0, SEGMENTS]) {
                // At no one distance, so that nothing is fetched ahead.
                for number in 0..SEGMENTS {
                    let index = number * number % 71 * 13 % SEGMENTS;
                    let page = (before + number) % (size / PAGE);
                    assert_eq!(read(file, index * size + page * PAGE), [1]);
                }
                assert_eq!(counts(process).1, 0, "pages are asked for");
            }
        }
        process.meet();
    });
}
