//! Bringing a file's shared state up when nobody has the file open.
//!
//! After a kill the state is still there, with everything that was written; after a reboot it is stale and
//! the manifest tells what was committed. Either way the result is the same kind of file: every segment in
//! the table exists, and no byte beyond the logical size is anything but zero. What was written and never committed
//! does not come through a reboot: that is told.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
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
    /// does not hold, [`Error::NodesMissing`] what is not on this node; no byte of the file has been changed then.
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
        let (mut lost, mut unmade) = (Vec::new(), Vec::new());
        for index in &here {
            let file = open_segment(directory, path, name, manifest, *index)?;
            let found = file.metadata().map_err(failed)?.len();
            // It gets its length before any byte, and a sync brings both to the device: nothing in it was ever synced.
            if found == 0 && !survived {
                unmade.push(*index);
                continue;
            }
            if found != bytes {
                let (name, path) = (name.into(), path.join(object::segment_name(*index)));
                return Err(Error::DamagedSegment { name, segment: *index, found, expected: bytes, path });
            }
            let start = manifest.segment_size.start_of(*index).0;
            // What a replica's state tells of the size may be old; a manifest that has just been put here is true.
            if (alone || !survived) && start + bytes > size {
                // A write that was cut short, or one that no commit tells of.
                let beyond = size.saturating_sub(start)..bytes;
                if !survived && !segment::is_zero(&file, beyond.clone()).map_err(failed)? {
                    lost.push(*index);
                }
                clear(&file, beyond).map_err(failed)?;
            }
        }
        for index in unmade {
            let file = open_segment(directory, path, name, manifest, index)?;
            file.set_len(bytes).map_err(failed)?;
            lost.push(index);
        }
        let removed = remove_unfinished(path, &here).map_err(failed)?;
        if survived {
            state.leave_unsynced_of_dead(own);
            return state.revive().map_err(failed);
        }
        lost.extend(removed);
        if !lost.is_empty() {
            lost.sort_unstable();
            tracing::warn!(
                "{name}: what was written to {} after the last sync or close is gone, as this node went down before \
                 it was committed; {} is as it was then (write it again)",
                listed(&lost),
                path.display()
            );
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

/// Makes the segments that `manifest` promises of `node`, whose store has the file at `path`, as far as the manifest
/// there does not promise them and nothing of them is there. A job claimed them and told others, and it or the node
/// went down before the home heard of it: nothing was synced there, for that is not done before the home has such a
/// manifest.
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
    let mut made = Vec::new();
    for (index, _) in manifest.homes().filter(|(_, home)| Some(*home) == position) {
        if !own.promises(index, node) {
            let segment = path.join(object::segment_name(index));
            let segment =
                fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(segment)?;
            if segment.metadata()?.len() == 0 {
                segment.set_len(manifest.segment_size.bytes())?;
                // Before a manifest promises it.
                segment.sync_all()?;
                made.push(index);
            }
        }
    }
    if !made.is_empty() {
        tracing::warn!(
            "{}: {} in {} are empty: the job that was to write them ended before it synced any of it (write them \
             again)",
            manifest.name,
            listed(&made),
            path.display()
        );
    }
    Ok(())
}

/// Takes what lies in `beyond`, behind the end of what a segment's file holds, and storage that is there for more. Who
/// only looks at the file finds that it was changed when it was: whoever goes by times, as `make` and `rsync` do, would
/// take it for new.
fn clear(segment: &File, beyond: Range<u64>) -> io::Result<()> {
    let modified = segment.metadata()?.modified()?;
    segment::punch(segment, beyond)?;
    match segment.set_modified(modified) {
        // Another user's file, which this one may write to.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        set => set,
    }
}

/// Segments, in ascending order, for people.
fn listed(segments: &[SegmentIndex]) -> String {
    let runs = manifest::runs(segments.iter().map(|index| (*index, 0)));
    let run = |run: &manifest::SegmentRun| match run.count {
        1 => format!("segment {}", run.first),
        n => format!("segments {} to {}", run.first, run.first.0 + n - 1),
    };
    let more = runs.len().saturating_sub(8);
    let listed = runs.iter().take(8).map(run).collect::<Vec<_>>().join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more such runs") }
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
/// were not entered in the table (nobody can have mapped those). Returns those of the segments that have bytes.
fn remove_unfinished(path: &Path, promised: &[SegmentIndex]) -> io::Result<Vec<SegmentIndex>> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else { continue };
        let unentered = object::segment_of(file_name).filter(|index| promised.binary_search(index).is_err());
        if let Some(index) = unentered {
            let file = File::open(entry.path())?;
            let length = file.metadata()?.len();
            removed.extend((!segment::is_zero(&file, 0..length)?).then_some(index));
        }
        if unentered.is_some() || file_name.starts_with(TEMPORARY_PREFIX) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, SystemTime};

    use crate::warnings::told_by;
    use crate::{FileName, FileOffset, OpenOptions, Store};

    /// What is told, and comes of it, when a file is opened after its node went down with `committed` bytes that a close
    /// committed and `more` that nobody did, and with a segment as `damage` has it then.
    fn open_after_going_down(
        committed: usize,
        more: usize,
        damage: impl FnOnce(&std::fs::File),
    ) -> (Vec<String>, crate::Result<Vec<u8>>, crate::Report) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let (name, options) = (FileName::new("f").unwrap(), OpenOptions::read_write().create(true));
        let file = store.open_file(&name, &options).unwrap();
        file.write_at(FileOffset(0), &vec![1; committed]).unwrap();
        file.commit(true).unwrap();
        file.write_at(FileOffset(committed as u64), &vec![1; more]).unwrap();
        let id = file.id();
        let object = crate::object::path(store.path(), id);
        drop(file);
        crate::attachment::forget(store.path(), id);
        let segment = object.join(crate::object::segment_name(crate::SegmentIndex(0)));
        damage(&std::fs::File::options().write(true).open(segment).unwrap());
        // Memory of the kernel's run before.
        std::fs::remove_file(object.join(crate::object::STATE)).unwrap();
        let mut found = Ok(Vec::new());
        let told = told_by(|| {
            found = store.open_file(&name, &options).map(|file| {
                let mut bytes = vec![9; file.size() as usize];
                file.read_at(FileOffset(0), &mut bytes).unwrap();
                bytes
            });
        });
        (told, found, crate::verify(&store, &crate::DirectoryName::root()).unwrap())
    }

    fn told_after_going_down(committed: usize, more: usize) -> Vec<String> {
        let (told, found, report) = open_after_going_down(committed, more, |_| {});
        assert_eq!(found.unwrap(), vec![1; committed]);
        assert!(report.is_clean(), "{report:?}");
        told
    }

    #[test]
    fn a_segment_that_has_not_even_its_length_was_never_synced() {
        let (told, found, report) = open_after_going_down(5000, 0, |segment| segment.set_len(0).unwrap());
        assert!(told.len() == 1 && told[0].contains("segment 0"), "{told:?}");
        assert_eq!(found.unwrap(), [0; 5000]);
        assert!(report.is_clean(), "{report:?}");
        // What has another length was not left so by svmio.
        for length in [100, 1 << 30] {
            let (_, found, report) =
                open_after_going_down(5000, 0, |segment| segment.set_len(length).unwrap());
            assert!(matches!(found, Err(crate::Error::DamagedSegment { .. })), "{length}");
            assert!(!report.is_clean(), "{length}");
        }
    }

    /// When a file has changed, as it tells before and after somebody looked into it.
    fn times_around_a_look(size: usize, beyond: &[u8]) -> [Option<SystemTime>; 2] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("f").unwrap();
        let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        file.write_at(FileOffset(0), &vec![1; size]).unwrap();
        file.commit(true).unwrap();
        let object = crate::object::path(store.path(), file.id());
        drop(file);
        let segment = object.join(crate::object::segment_name(crate::SegmentIndex(0)));
        let segment = std::fs::File::options().read(true).write(true).open(segment).unwrap();
        segment.write_all_at(beyond, size as u64).unwrap();
        crate::object::set_modified(&object, SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        let told = || crate::object::storage(&object).unwrap().modified;
        let before = told();
        let file = store.open_file(&name, &OpenOptions::reading()).unwrap();
        let mut bytes = vec![9; size + beyond.len()];
        let length = file.read_at(FileOffset(0), &mut bytes).unwrap();
        assert_eq!(bytes[..length], vec![1; size]);
        let mut left = vec![9; beyond.len()];
        segment.read_exact_at(&mut left, size as u64).unwrap();
        assert!(left.iter().all(|byte| *byte == 0));
        [before, told()]
    }

    #[test]
    fn looking_into_a_file_does_not_change_it() {
        for size in [1, 4096, 100_000] {
            for beyond in [&b""[..], b"cut short", &[0; 300_000], &[7; 3 << 20]] {
                let [before, after] = times_around_a_look(size, beyond);
                assert_eq!(before, after, "{size} bytes, {} beyond", beyond.len());
            }
        }
    }

    #[test]
    fn only_what_was_not_committed_is_told_to_be_gone() {
        // Sizes that end in a page, too, with the storage of all of it.
        for committed in [100, 4096, 5000] {
            assert_eq!(told_after_going_down(committed, 0), [""; 0], "{committed} bytes");
            let told = told_after_going_down(committed, 1);
            assert!(told.len() == 1 && told[0].contains("segment 0"), "{committed} bytes: {told:?}");
        }
    }
}
