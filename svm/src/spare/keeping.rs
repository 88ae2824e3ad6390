//! Keeping what a removed file had: what of it is worth it, and how much there may be.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FlockOperation, RenameFlags, renameat, renameat_with};

use super::{COMING, Part, Spares, bytes_of_spare, limit, part_in, room};
use crate::mapping_cache;
use crate::segment::{self, Inode, Segment};
use crate::units::SegmentIndex;

/// Of a segment's bytes, all but this part (one in so many) have to have storage.
const HOLES: u64 = 8;
/// Spares take at most this part (one in so many) of what would be free without them.
const SHARE: u64 = 8;
/// More of them would take longer to look for than they save.
const MOST: usize = 1024;

/// What may be kept of a file that was removed from a store, and that nobody has open.
pub(crate) struct Keeping {
    spares: Arc<Spares>,
    /// Looked for when there is something to keep: it takes longer than to remove a small file.
    budget: Option<Budget>,
}

/// What is kept in a store, and what could be.
struct Budget {
    /// How many are kept.
    number: usize,
    /// Bytes that are kept.
    kept: u64,
    /// Bytes that are kept, or free once the segments of before are gone.
    free: u64,
}

impl Keeping {
    /// `None` where nothing is.
    pub(crate) fn of(store: &Path) -> Option<Keeping> {
        match part_in(store) {
            Part::Taken(spares) => Some(Keeping { spares, budget: None }),
            Part::None | Part::Refused => None,
        }
    }

    /// Keeps the storage of the segment at `path`, `index` of the file that `of_file` names. False where it is not
    /// kept, and is there still; after an error it may be gone.
    pub(crate) fn keep(&mut self, path: &Path, of_file: &str, index: SegmentIndex) -> io::Result<bool> {
        let Some(file) = segment::open_sole(CWD, path)? else { return Ok(false) };
        let metadata = file.metadata()?;
        let (bytes, stored) = (metadata.len(), metadata.blocks() * 512);
        let is_full = stored >= bytes - bytes / HOLES;
        let budget = match &mut self.budget {
            Some(budget) => budget,
            None if is_full => self.budget.insert(Budget::of(&self.spares)?),
            None => return Ok(false),
        };
        budget.free = budget.free.saturating_add(stored);
        let most = limit().min(budget.free / SHARE);
        if !is_full || budget.kept + bytes > most || budget.number >= MOST {
            return Ok(false);
        }
        let (name, directory) = (format!("{bytes}-{of_file}-{}", index.0), &self.spares.directory);
        let coming = format!("{COMING}{name}");
        // Held until it has its name. Nobody locks segments that have a file.
        let clearing = file.try_clone()?;
        rustix::fs::flock(&clearing, FlockOperation::NonBlockingLockExclusive)?;
        // It is nobody else's from here on, or has gone before: then it may be another file's, which has it of a spare.
        renameat_with(CWD, path, directory, coming.as_str(), RenameFlags::NOREPLACE)?;
        let cleared = match mapping_cache::of(Inode::of(&metadata)) {
            Some(segment) => segment.clear(0..bytes),
            None => Segment::map(index, file, bytes, true).and_then(|segment| segment.clear(0..bytes)),
        };
        let kept = cleared.and_then(|()| Ok(renameat(directory, coming.as_str(), directory, name)?));
        if let Err(e) = kept {
            self.spares.remove(&coming)?;
            return Err(e);
        }
        budget.kept += bytes;
        budget.number += 1;
        self.spares.listed().at = None;
        Ok(true)
    }
}

impl Budget {
    fn of(spares: &Spares) -> io::Result<Budget> {
        let (fs, names) = (rustix::fs::fstatvfs(&spares.directory)?, spares.names()?);
        let kept: u64 = names.iter().filter_map(|name| bytes_of_spare(name)).sum();
        let free = (fs.f_bavail * fs.f_frsize).min(room::available());
        Ok(Budget { number: names.len(), kept, free: free.saturating_add(kept) })
    }
}

impl Drop for Keeping {
    /// Others may have kept something at the same time: then some of it is too much.
    fn drop(&mut self) {
        if self.budget.is_none() {
            return;
        }
        let trimmed = self.spares.names().and_then(|mut names| {
            let mut kept: u64 = names.iter().filter_map(|name| bytes_of_spare(name)).sum();
            while kept > limit()
                && let Some(name) = names.pop()
            {
                if let Some(bytes) = bytes_of_spare(&name) {
                    kept -= bytes;
                    self.spares.remove(&name)?;
                }
            }
            Ok(())
        });
        if let Err(e) = trimmed {
            tracing::debug!("spare segments may take more than they should: {e}");
        }
    }
}
