//! What opening files may leave to the devices, and what the next sync makes up for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use svmio_svm::{CacheSettings, DirectoryName, Error, FileOffset, OpenOptions, Store, StoreSet};

use super::device::{Device, Event};
use super::{
    NODES, SEGMENT, job, name, node_of, on_device, open, options, place, synced_before_return, write,
};

/// What holds the name of a file in a node's store, and the manifest that it leads to.
fn entry_and_manifest(directory: &Path, node: u32) -> (String, PathBuf) {
    let store = directory.join(format!("n{node}"));
    let entry = std::fs::read_to_string(store.join("names/f")).expect("it has the name");
    let manifest = store.join("objects").join(entry.trim()).join("manifest");
    (entry, manifest)
}

/// That each of `nodes` has the file's name on its device, and then all directories that lead to it and to the object.
fn check_names(events: &[Event], directory: &Path, nodes: impl IntoIterator<Item = u32>) {
    for node in nodes {
        let store = directory.join(format!("n{node}"));
        let entry = entry_and_manifest(directory, node).0.into_bytes();
        let synced: Vec<_> =
            synced_before_return(events).filter(|(path, _)| node_of(path, directory) == node).collect();
        let is_entry = |(path, bytes): &(&PathBuf, Option<&Vec<u8>>)| {
            path.starts_with(store.join("names")) && *bytes == Some(&entry)
        };
        let at = synced.iter().position(is_entry).unwrap_or_else(|| panic!("node {node}: {synced:?}"));
        for directory in ["names", ""] {
            let directory = store.join(directory);
            let is_synced = synced[at..].iter().any(|(path, _)| **path == directory);
            assert!(is_synced, "{} of {synced:?}", directory.display());
        }
        assert!(synced.iter().any(|(path, _)| **path == store.join("objects")), "{synced:?}");
    }
}

#[test]
fn a_files_name_is_on_all_nodes_devices_when_its_first_sync_returns() {
    on_device(|process, device, directory| {
        let own = process.rank();
        let file = open(process, "f");
        device.note_return();
        process.meet();
        if own == 0 {
            check_names(&device.take_events(), directory, 0..NODES);
        }
        process.meet();
        // Once is enough.
        write(&file, own, [0], 1);
        if own == 0 {
            file.write_at(FileOffset(99 * SEGMENT), b"longer").expect("it can be written");
        }
        process.sync(&file).expect("the device takes everything");
        process.meet();
        if own == 0 {
            let is_name = |event: &Event| match event {
                Event::Synced { path, .. } => path.components().any(|part| part.as_os_str() == "names"),
                Event::Returned => false,
            };
            assert!(!device.take_events().iter().any(is_name));
        }
        process.close(file).expect("the file closes");
    });
}

#[test]
fn a_name_that_a_device_refused_is_written_again() {
    on_device(|process, device, directory| {
        let own = process.rank();
        let file = process.open(&name("f"), &options()).expect("the file opens");
        if own == 0 {
            place(&file);
            let refused = directory.join("n1/names/f");
            device.refuse(move |path| path == refused);
        }
        process.meet();
        let error = process.sync(&file).expect_err("the device of node 1 fails");
        assert!(error.contains("node n1") && error.contains("syncing the name of /f"), "{error}");
        process.meet();
        if own == 0 {
            device.refuse_nothing();
            device.take_events();
        }
        process.meet();
        process.sync(&file).expect("the device takes everything");
        device.note_return();
        process.meet();
        if own == 0 {
            let events = device.take_events();
            check_names(&events, directory, [1]);
            let old = directory.join("n1/names/f");
            assert!(synced_before_return(&events).all(|(path, _)| *path != old), "{events:?}");
        }
        process.close(file).expect("the file closes");
    });
}

#[test]
fn a_sync_makes_good_for_a_node_that_has_lost_the_file_since_the_last_one() {
    on_device(|process, device, directory| {
        let own = process.rank();
        // All on node 0.
        let file = process.open(&name("f"), &options()).expect("the file opens");
        if own == 0 {
            file.write_at(FileOffset(0), b"kept").expect("it can be written");
        }
        process.sync(&file).expect("the device takes everything");
        process.close(file).expect("the file closes");
        if own == 0 {
            // As if it had got another store.
            let (_, manifest) = entry_and_manifest(directory, 3);
            std::fs::remove_dir_all(manifest.parent().expect("it lies in a directory")).expect("it goes");
            std::fs::remove_file(directory.join("n3/names/f")).expect("it goes");
            device.take_events();
        }
        process.meet();
        let file = process.open(&name("f"), &options()).expect("the file opens");
        process.sync(&file).expect("the device takes everything");
        device.note_return();
        process.meet();
        if own == 0 {
            let events = device.take_events();
            let manifest = std::fs::read(entry_and_manifest(directory, 3).1).expect("it has one");
            let mut of_node = synced_before_return(&events).filter(|(path, _)| node_of(path, directory) == 3);
            assert!(of_node.any(|(_, bytes)| bytes == Some(&manifest)), "{events:?}");
            check_names(&events, directory, [3]);
        }
        process.close(file).expect("the file closes");
    });
}

#[test]
fn no_manifest_is_replaced_by_one_whose_bytes_the_device_has_not() {
    let device = Device::default();
    device.under(|| {
        let (directory, stores) = job::stores(3);
        let use_on = |stores: &[Store], used: &(dyn Fn(&job::Process<'_>, svmio_svm::File) + Sync)| {
            job::run(stores, &CacheSettings::default(), |process| {
                let file = process.open(&name("f"), &options()).expect("the file opens");
                used(process, file);
            });
        };
        let manifests = |nodes| -> BTreeMap<u32, Vec<u8>> {
            let read = |node| std::fs::read(entry_and_manifest(directory.path(), node).1);
            (0..nodes).map(|node| (node, read(node).expect("it has a manifest"))).collect()
        };
        use_on(&stores[..2], &|process, file| {
            let own = u64::from(process.rank());
            file.write_at(FileOffset(own * SEGMENT), b"synced").expect("it can be written");
            process.sync(&file).expect("the device takes everything");
            process.close(file).expect("the file closes");
        });
        let before = manifests(2);
        device.take_events();
        // Another node takes part, which all manifests tell of from then on.
        use_on(&stores, &|process, file| {
            process.meet();
            if process.rank() == 0 {
                let events = device.take_events();
                let now = manifests(2);
                for (node, manifest) in &now {
                    assert_ne!(manifest, &before[node], "it was replaced");
                    let is_manifest = |event: &Event| match event {
                        Event::Synced { path, bytes } => {
                            node_of(path, directory.path()) == *node && bytes.as_ref() == Some(manifest)
                        }
                        Event::Returned => false,
                    };
                    assert!(events.iter().any(is_manifest), "node {node}: {events:?}");
                }
            }
            process.close(file).expect("the file closes");
        });
    });
}

#[test]
fn a_manifest_that_the_device_refused_is_written_again() {
    let device = Device::default();
    device.under(|| {
        let directory = tempfile::tempdir_in("/dev/shm").expect("directories can be made in /dev/shm");
        let store = Store::open(directory.path()).expect("a new store opens");
        let file = store.open_file(&name("f"), &options()).expect("the file opens");
        file.write_at(FileOffset(0), b"here").expect("it can be written");
        file.commit(false).expect("it can be committed");
        device.refuse(|path| path.ends_with("manifest"));
        file.commit(true).expect_err("the device fails");
        device.refuse_nothing();
        device.take_events();
        // The system takes the old one's bytes for written now.
        file.commit(true).expect("the device takes everything");
        let object = directory.path().join("objects").join(file.id().to_string());
        let manifest = std::fs::read(object.join("manifest")).expect("it is in place");
        let is_new = |event: &Event| match event {
            Event::Synced { path, bytes } => !path.ends_with("manifest") && bytes.as_ref() == Some(&manifest),
            Event::Returned => false,
        };
        let events = device.take_events();
        assert!(events.iter().any(is_new), "{events:?}");
        file.commit(true).expect("nothing is to be done");
        assert!(device.take_events().is_empty());
    });
}

/// Which segments the device got.
fn segments(events: &[Event]) -> Vec<u32> {
    let segment = |event: &Event| match event {
        Event::Synced { path, .. } => super::segment_of(path),
        Event::Returned => None,
    };
    events.iter().filter_map(segment).collect()
}

#[test]
fn a_sync_brings_what_others_wrote_before_they_closed_the_file() {
    let device = Device::default();
    device.under(|| {
        let (_directory, stores) = job::stores(1);
        let open = || stores[0].open_file(&name("f"), &options()).expect("the file opens");
        let write = |file: &svmio_svm::File, segments: &[u32]| {
            for segment in segments {
                let offset = FileOffset(u64::from(*segment) * SEGMENT);
                file.write_at(offset, b"some").expect("it can be written");
            }
        };
        {
            let file = open();
            write(&file, &[0, 1, 2]);
            file.sync_data().expect("the device takes everything");
            write(&file, &[0, 1]);
            file.commit(true).expect("it can be committed");
        }
        // Not kept, as after many other files were closed, or by another process.
        job::run(&stores, &CacheSettings::default(), |process| {
            let file = process.open(&name("f"), &options()).expect("the file opens");
            write(&file, &[1]);
            device.take_events();
            process.sync(&file).expect("the device takes everything");
            assert_eq!(segments(&device.take_events()), [0, 1]);
            write(&file, &[2]);
            process.sync(&file).expect("the device takes everything");
            assert_eq!(segments(&device.take_events()), [2]);
            write(&file, &[0]);
            process.close(file).expect("the file closes");
        });
        // Kept, and looked at by somebody who changes nothing.
        let file = open();
        write(&file, &[2]);
        file.keep();
        device.take_events();
        let file = stores[0].open_file(&name("f"), &OpenOptions::reading()).expect("the file opens");
        device.refuse(|path| super::segment_of(path) == Some(2));
        file.sync_left().expect_err("the device fails");
        device.refuse_nothing();
        drop(file);
        device.take_events();
        let file = open();
        file.sync_left().expect("the device takes everything");
        // What was not noted to be there is tried again.
        assert!(segments(&device.take_events()).ends_with(&[2]));
        file.sync_left().expect("the device takes everything");
        assert!(segments(&device.take_events()).is_empty());
    });
}

/// Takes the content of a file, as a file system may that has not written it when its node goes down.
fn empty(path: &Path) {
    std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(0)).expect("it is there");
}

#[test]
fn what_a_node_that_went_down_has_empty_is_written_again_from_what_others_have() {
    let (directory, stores) = job::stores(3);
    let entry = |node: u32| directory.path().join(format!("n{node}/names/f"));
    let in_a_job = |body: &(dyn Fn(&job::Process<'_>) + Sync)| {
        job::run(&stores, &CacheSettings::default(), body);
    };
    let reads_all = |process: &job::Process<'_>| {
        let file = process.open(&name("f"), &OpenOptions::reading()).expect("the file opens");
        for node in 0..3 {
            let mut bytes = [0; 4];
            file.read_at(FileOffset(node * SEGMENT), &mut bytes).expect("it can be read");
            assert_eq!(&bytes, b"kept");
        }
        process.close(file).expect("the file closes");
    };
    in_a_job(&|process| {
        let file = process.open(&name("f"), &options()).expect("the file opens");
        file.write_at(FileOffset(u64::from(process.rank()) * SEGMENT), b"kept").expect("it can be written");
        process.sync(&file).expect("the device takes everything");
        process.close(file).expect("the file closes");
    });
    let (text, _) = entry_and_manifest(directory.path(), 0);
    for emptied in [&[1][..], &[0, 2]] {
        emptied.iter().for_each(|node| empty(&entry(*node)));
        if emptied == [1] {
            empty(&entry_and_manifest(directory.path(), 2).1);
        }
        in_a_job(&reads_all);
        for node in 0..3 {
            assert_eq!(std::fs::read_to_string(entry(node)).expect("it is there"), text, "node {node}");
        }
    }
    // By the tool.
    let set = StoreSet::new(stores[0].clone(), stores[1..].iter().cloned()).expect("they are different ones");
    let root = DirectoryName::root();
    [0, 2].iter().for_each(|node| empty(&entry(*node)));
    let report = set.verify(&root).expect("it can be verified");
    assert!(report.is_clean() && report.unreclaimed.is_none(), "{report:?}");
    assert_eq!(report.repaired, [entry(0), entry(2)]);
    assert!(set.verify(&root).expect("it can be verified").repaired.is_empty());
    in_a_job(&reads_all);
    // Who is alone with it is told, and nothing is lost.
    empty(&entry(1));
    let report = svmio_svm::verify(&stores[1], &root).expect("it can be verified");
    let [(_, error @ Error::Unwritten { .. })] = &report.damaged[..] else { panic!("{report:?}") };
    assert!(error.to_string().contains("svmio verify with the stores of all"), "{error}");
    assert!(report.reclaimed.is_empty() && report.unreclaimed.is_some(), "{report:?}");
    // Nor is another file of that name made beside it.
    [0, 2].iter().for_each(|node| empty(&entry(*node)));
    in_a_job(&|process| {
        let error = process.open(&name("f"), &options()).expect_err("nobody knows what it is");
        assert!(error.contains("is empty") && error.contains("/names/f"), "{error}");
    });
    // A name that leads nowhere does not keep the file from being removed.
    std::fs::write(entry(0), &text).expect("it can be written");
    in_a_job(&|process| {
        if process.rank() == 0 {
            process.cluster.remove(&name("f")).expect("it goes");
        }
        process.meet();
    });
    assert!((0..3).all(|node| !entry(node).exists()));
}
