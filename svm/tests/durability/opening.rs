//! What opening files may leave to the devices, and what the next sync makes up for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use svmio_svm::{CacheSettings, FileOffset, Store};

use super::device::{Device, Event};
use super::{SEGMENT, job, name, node_of, open, options};

/// What holds the name of a file in a node's store, and the manifest that it leads to.
fn entry_and_manifest(directory: &Path, node: u32) -> (String, PathBuf) {
    let store = directory.join(format!("n{node}"));
    let entry = std::fs::read_to_string(store.join("names/f")).expect("it has the name");
    let manifest = store.join("objects").join(entry.trim()).join("manifest");
    (entry, manifest)
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
