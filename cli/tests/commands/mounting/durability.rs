//! What is on the storage device when a call has returned.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::{Mounted, number};
use crate::setting::Setting;

/// A manifest is written anew when a file is committed, and what it tells has reached the device before.
#[test]
fn a_write_that_is_to_be_synced_is_committed_when_it_returns() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let manifest = |name: &str| fs::read(setting.object(&mounted.name(name)).join("manifest")).unwrap();
    for (name, flags, is_synced) in
        [("plain", OFlags::empty(), false), ("data", OFlags::DSYNC, true), ("all", OFlags::SYNC, true)]
    {
        let flags = flags.bits() as i32;
        let file =
            File::options().write(true).create(true).custom_flags(flags).open(mounted.path(name)).unwrap();
        let is_committed = |_| {
            let before = manifest(name);
            file.write_all_at(&[1; 3 << 20], 0).unwrap();
            manifest(name) != before
        };
        match is_synced {
            true => assert!(is_committed(0), "{name}"),
            // What other tests start meanwhile closes its copy of the descriptor, which commits: not always.
            false => assert!(!(0..100).all(is_committed), "{name}"),
        }
        let before = manifest(name);
        pwritev2(&file, &[IoSlice::new(b"more")], 3 << 20, ReadWriteFlags::DSYNC).unwrap();
        assert!(manifest(name) != before, "{name}");
    }
    setting.printed(&["verify"]);
}

#[test]
fn a_directory_is_synced_in_the_store() {
    let setting = Setting::new();
    let mounted = Mounted::by(&setting, "mounted", &mut setting.svmio(), &["--names", "/"]);
    fs::create_dir_all(mounted.path("a/b")).unwrap();
    let (outer, inner) = (File::open(mounted.path("a")).unwrap(), File::open(mounted.path("a/b")).unwrap());
    for name in ["a/b/file", "a/kept"] {
        fs::write(mounted.path(name), b"x").unwrap();
    }
    inner.sync_all().unwrap();
    // The store has none such any more, when its only file has gone.
    fs::remove_file(mounted.path("a/b/file")).unwrap();
    inner.sync_all().unwrap();
    fs::remove_dir(mounted.path("a/b")).unwrap();
    inner.sync_all().unwrap();
    // What the store says is what the program is told.
    let names = setting.store_path().join("names");
    fs::rename(names.join("a"), names.join("aside")).unwrap();
    symlink("a", names.join("a")).unwrap();
    assert_eq!(number(outer.sync_all()), Errno::LOOP);
    fs::remove_file(names.join("a")).unwrap();
    fs::rename(names.join("aside"), names.join("a")).unwrap();
    outer.sync_all().unwrap();
}
