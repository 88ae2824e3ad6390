//! What file systems do when bytes that have storage are stored into a mapping.

use std::fs::File;
use std::io;

use super::sharing;

/// Of tmpfs, from `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;
/// Of ext4, from there, too.
const EXT4: u64 = 0xef53;
/// Of XFS, likewise.
const XFS: u64 = 0x5846_5342;

/// What a file system does when bytes that have storage are stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overwriting {
    /// It lets them be, and a page that was mapped for reading can be written: tmpfs. The kernel maps sixteen such
    /// pages at a fault, so that populating for reading costs a quarter of a fault for writing per page.
    AfterReading,
    /// It lets them be, but wants to hear of the first write to each page: ext4.
    Directly,
    /// It lets them be as long as no other file has a part in their storage, and does as below where one has: XFS.
    UnlessShared,
    /// It may write a copy, need space for that, and answer with SIGBUS when it is full: btrfs, and all that are
    /// not known.
    ByCopying,
}

impl Overwriting {
    pub(super) fn of(file: &File) -> io::Result<Overwriting> {
        Ok(match kind(file)? {
            TMPFS => Overwriting::AfterReading,
            EXT4 => Overwriting::Directly,
            XFS if !sharing::is_realtime(file)? => Overwriting::UnlessShared,
            _ => Overwriting::ByCopying,
        })
    }

    /// Whether the file system keeps files in large pages where a mapping asks for them, and gives storage to all of a
    /// page when something is stored into it.
    pub(super) fn is_by_page_of_disk(self) -> bool {
        matches!(self, Overwriting::Directly | Overwriting::UnlessShared)
    }
}

/// Whether small pieces of a strided write can be stored into a mapping of a file; where not, each is a system call.
pub(crate) fn takes_pieces(file: &File) -> io::Result<bool> {
    Ok(Overwriting::of(file)? != Overwriting::ByCopying)
}

/// Whether a file lies in memory, so that reading it waits for no device.
pub(crate) fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(kind(file)? == TMPFS)
}

fn kind(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64)
}
