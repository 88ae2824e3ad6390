//! Files that are removed, and what closed ones leave open.

use std::path::{Path, PathBuf};

use svmio_svm::{DirectoryName, ErrorKind};

use super::*;

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
        // Other tests' files may take their places at one time, and leave them at another: three descriptors each, its
        // object's directory and, of two ranks, its state.
        assert!(others_after[1].len() <= others_after[0].len() + 3 * CLOSED, "{others_after:?}");
    });
}
