//! Bringing a file's shared state up when nobody has the file open.
//!
//! After a kill the state is still there, with everything that was written; after a reboot it is stale and
//! the manifest tells what was committed. Either way the result is the same kind of file: every segment in
//! the table exists, and no byte beyond the logical size is anything but zero.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::manifest::{Manifest, TEMPORARY_PREFIX};
use crate::node::BootId;
use crate::object;
use crate::segment;
use crate::state::State;
use crate::units::SegmentIndex;

/// Makes `state` true for the file in `directory` (at `path`). The caller holds the gate and nobody else has
/// the file open.
///
/// # Errors
/// [`Error::MissingSegment`] and [`Error::DamagedSegment`] name what the manifest promises and the store
/// does not hold; nothing has been changed then.
pub(crate) fn recover(
    directory: &OwnedFd,
    path: &Path,
    name: &str,
    manifest: &Manifest,
    state: &State,
    boot: BootId,
) -> Result<()> {
    let failed = |e: io::Error| Error::io(format!("opening {name}"), path, e);
    let survived = state.is_valid(boot, manifest.id);
    let (size, promised) = if survived {
        (state.size(), state.homes().collect::<Vec<_>>())
    } else {
        (manifest.size, manifest.homes().collect())
    };
    let bytes = manifest.segment_size.bytes();
    for (index, _) in &promised {
        let file = open_segment(directory, path, name, manifest, *index)?;
        let found = file.metadata().map_err(failed)?.len();
        if found != bytes {
            let (name, path) = (name.into(), path.join(object::segment_name(*index)));
            return Err(Error::DamagedSegment { name, segment: *index, found, expected: bytes, path });
        }
        let start = manifest.segment_size.start_of(*index).0;
        if start + bytes > size {
            // A write that was cut short, or one that no commit tells of.
            segment::punch(&file, size.saturating_sub(start)..bytes).map_err(failed)?;
        }
    }
    remove_unfinished(path, &promised).map_err(failed)?;
    if survived {
        return state.revive().map_err(failed);
    }
    state.reset(boot, manifest.id, size, manifest.epoch).map_err(failed)?;
    for (index, home) in &promised {
        state.add_segment(*index, *home).map_err(failed)?;
    }
    state.set_committed(size, promised.len() as u64, manifest.epoch);
    state.publish();
    Ok(())
}

fn open_segment(
    directory: &OwnedFd,
    path: &Path,
    name: &str,
    manifest: &Manifest,
    segment: SegmentIndex,
) -> Result<File> {
    let file_name = object::segment_name(segment);
    rustix::fs::openat(directory, &file_name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(|e| match e {
            rustix::io::Errno::NOENT => Error::MissingSegment {
                name: name.into(),
                segment,
                offset: manifest.segment_size.start_of(segment),
                path: path.join(&file_name),
            },
            e => Error::io(format!("opening {name}"), &path.join(&file_name), e),
        })
}

/// Removes what a killed process left half-made: manifests that were not put in place, and segments that
/// were not entered in the table (nobody can have mapped those).
fn remove_unfinished(path: &Path, promised: &[(SegmentIndex, u32)]) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else { continue };
        let unentered = object::segment_of(file_name)
            .is_some_and(|index| promised.binary_search_by_key(&index, |(i, _)| *i).is_err());
        if unentered || file_name.starts_with(TEMPORARY_PREFIX) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
