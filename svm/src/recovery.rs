//! Bringing a file's shared state up when nobody has the file open.
//!
//! After a kill the state is still there, with everything that was written; after a reboot it is stale and
//! the manifest tells what was committed. Either way the result is the same kind of file: every segment in
//! the table exists, and no byte beyond the logical size is anything but zero.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest, TEMPORARY_PREFIX};
use crate::node::{BootId, NodeName};
use crate::object;
use crate::segment;
use crate::state::State;
use crate::units::SegmentIndex;

/// A file that nobody has open.
pub(crate) struct Recovery<'a> {
    pub(crate) directory: &'a OwnedFd,
    pub(crate) path: &'a Path,
    /// For messages.
    pub(crate) name: &'a str,
    pub(crate) boot: BootId,
}

impl Recovery<'_> {
    /// Makes `state` true for the file. The caller holds the gate and nobody else has the file open on this node,
    /// which is `node`. With `alone`, no other node takes part.
    ///
    /// # Errors
    /// [`Error::MissingSegment`] and [`Error::DamagedSegment`] name what the manifest promises and the store
    /// does not hold, [`Error::NodesMissing`] what is not on this node; nothing has been changed then.
    pub(crate) fn run(&self, manifest: &Manifest, node: &NodeName, state: &State, alone: bool) -> Result<()> {
        let &Recovery { directory, path, name, boot } = self;
        let failed = |e: io::Error| Error::io(format!("opening {name}"), path, e);
        let survived = state.is_valid(boot, manifest.id);
        let (size, promised) = if survived {
            (state.size(), state.homes().collect::<Vec<_>>())
        } else {
            (manifest.size, manifest.homes().collect())
        };
        if alone {
            let known = Manifest { segments: manifest::runs(promised.iter().copied()), ..manifest.clone() };
            if let Some(parts) = known.parts_on(|home| home != node) {
                return Err(Error::NodesMissing { name: name.into(), parts });
            }
        }
        let own = manifest.position_of(node);
        let here: Vec<_> = promised.iter().filter(|(_, home)| Some(*home) == own).map(|(i, _)| *i).collect();
        let bytes = manifest.segment_size.bytes();
        for index in &here {
            let file = open_segment(directory, path, name, manifest, *index)?;
            let found = file.metadata().map_err(failed)?.len();
            if found != bytes {
                let (name, path) = (name.into(), path.join(object::segment_name(*index)));
                return Err(Error::DamagedSegment { name, segment: *index, found, expected: bytes, path });
            }
            let start = manifest.segment_size.start_of(*index).0;
            // What a replica's state tells of the size may be old; a manifest that has just been put here is true.
            if (alone || !survived) && start + bytes > size {
                // A write that was cut short, or one that no commit tells of.
                segment::punch(&file, size.saturating_sub(start)..bytes).map_err(failed)?;
            }
        }
        remove_unfinished(path, &here).map_err(failed)?;
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
}

/// Makes the segments that `manifest` promises of `node`, whose store has the file at `path`, as far as the manifest there
/// does not promise them and nothing of them is there. A job claimed them and told others, and it or the node went down
/// before the home heard of it: nothing was synced there, for that is not done before the home has such a manifest.
///
/// # Errors
/// What the operating system says.
pub(crate) fn make_claimed(
    path: &Path,
    own: &Manifest,
    manifest: &Manifest,
    node: &NodeName,
) -> io::Result<()> {
    let position = manifest.position_of(node);
    for (index, _) in manifest.homes().filter(|(_, home)| Some(*home) == position) {
        if !own.promises(index, node) {
            let segment = path.join(object::segment_name(index));
            let made =
                fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(segment)?;
            if made.metadata()?.len() == 0 {
                made.set_len(manifest.segment_size.bytes())?;
                // Before a manifest promises it.
                made.sync_all()?;
            }
        }
    }
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
fn remove_unfinished(path: &Path, promised: &[SegmentIndex]) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else { continue };
        let unentered =
            object::segment_of(file_name).is_some_and(|index| promised.binary_search(&index).is_err());
        if unentered || file_name.starts_with(TEMPORARY_PREFIX) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
