//! What is on the storage device when a call has returned.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

use super::Mounted;
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
        let before = manifest(name);
        file.write_all_at(&[1; 3 << 20], 0).unwrap();
        assert_eq!(manifest(name) != before, is_synced, "{name}");
        let before = manifest(name);
        pwritev2(&file, &[IoSlice::new(b"more")], 3 << 20, ReadWriteFlags::DSYNC).unwrap();
        assert!(manifest(name) != before, "{name}");
    }
    setting.printed(&["verify"]);
}
