//! What file systems do when bytes that have storage are stored into a mapping.

use std::fs::File;
use std::io;

/// Of tmpfs, from `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;
/// Of ext4, from there, too.
const EXT4: u64 = 0xef53;

/// What a file system does when bytes that have storage are stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overwriting {
    /// It lets them be, and a page that was mapped for reading can be written: tmpfs. The kernel maps sixteen such
    /// pages at a fault, so that populating for reading costs a quarter of a fault for writing per page.
    AfterReading,
    /// It lets them be, but wants to hear of the first write to each page: ext4.
    Directly,
    /// It may write a copy, need space for that, and answer with SIGBUS when it is full: btrfs, and all that are
    /// not known.
    ByCopying,
}

impl Overwriting {
    pub(super) fn of(file: &File) -> io::Result<Overwriting> {
        Ok(match kind(file)? {
            TMPFS => Overwriting::AfterReading,
            EXT4 => Overwriting::Directly,
            _ => Overwriting::ByCopying,
        })
    }
}

/// Whether a file lies in memory, so that reading it waits for no device.
pub(crate) fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(kind(file)? == TMPFS)
}

fn kind(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64)
}
