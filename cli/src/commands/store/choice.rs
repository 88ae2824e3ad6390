//! Where a user's store lies best who cannot mount: of the file systems in memory that are there.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use svmio_svm::{Medium, Mount, Store};

use super::place::Content;
use crate::commands::error::CommandError;

/// Where the store is going to be, and why, in words.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) path: PathBuf,
    pub(super) reason: String,
}

/// The best directory for the store of `user`, who calls: `usual`, unless another file system in memory has better
/// pages, at least half as much room, and lets the user make a directory there. A store that holds files already stays
/// where it is. Tries what pages each of them gives; the directories that are not taken are removed again.
///
/// # Errors
/// Where the usual place cannot be looked at.
pub(super) fn best(usual: &Path, user: u32) -> Result<Choice, CommandError> {
    let stays = |reason: &str| Choice { path: usual.into(), reason: reason.into() };
    if usual.exists() && Content::of(usual)? == Content::Files {
        return Ok(stays("the usual place, which holds files already"));
    }
    let was_there = usual.exists();
    let first = Store::open(usual)?.medium()?;
    let mut best: Option<(PathBuf, Medium)> = None;
    for mount in Mount::all()?.into_iter().filter(|mount| mount.kind == "tmpfs" && asks_for_large(mount)) {
        let Some(name) = usual.file_name() else { continue };
        let path = mount.point.join(name);
        if mount.point == first.mount.point || !is_for_all_or(user, &mount.point) {
            continue;
        }
        let is_new = !path.exists();
        // What cannot be used is passed by.
        let Some(medium) = tried(&path, user) else { continue };
        let is_better = best.as_ref().map_or(&first, |(_, medium)| medium).is_worse_than(&medium, first.free);
        let loser = if is_better { best.replace((path, medium)).map(|(path, _)| path) } else { Some(path) };
        if let Some(path) = loser.filter(|_| is_new) {
            remove_empty(&path);
        }
    }
    let Some((path, medium)) = best else {
        return Ok(stays("the usual place: no other file system in memory has better pages"));
    };
    if !was_there {
        remove_empty(usual);
    }
    let reason = format!(
        "{} gives pages of {} bytes by itself (huge={}); the usual place {} does not",
        medium.mount.point.display(),
        medium.page,
        medium.mount.option("huge").unwrap_or_default(),
        usual.display()
    );
    Ok(Choice { path, reason })
}

trait Better {
    /// Whether `other` has better pages, and room enough beside the `free` bytes of the usual place.
    fn is_worse_than(&self, other: &Medium, free: u64) -> bool;
}

impl Better for Medium {
    fn is_worse_than(&self, other: &Medium, free: u64) -> bool {
        let worth = |medium: &Medium| (medium.page, asks_for_large(&medium.mount), medium.free);
        other.free >= free / 2 && worth(other) > worth(self)
    }
}

/// Whether its files get large pages without being asked for each.
fn asks_for_large(mount: &Mount) -> bool {
    mount.option("huge").is_some_and(|huge| huge == "always" || huge == "within_size")
}

/// Whether `user`, who calls, may make a directory in it that others leave alone.
fn is_for_all_or(user: u32, point: &Path) -> bool {
    /// Only who owns an entry may remove it, as in `/dev/shm`.
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let may = rustix::fs::access(point, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    may && fs::metadata(point).is_ok_and(|data| {
        data.mode() & STICKY != 0 || (data.uid() == user && data.mode() & WRITABLE_BY_OTHERS == 0)
    })
}

/// What a store there lies on, if it is the user's own.
fn tried(path: &Path, user: u32) -> Option<Medium> {
    // It may be there already, and then it is looked at whose.
    let _ = DirBuilder::new().mode(0o700).create(path);
    let owner = fs::symlink_metadata(path).ok()?;
    if owner.uid() != user || !owner.is_dir() {
        return None;
    }
    Store::open(path).and_then(|store| store.medium()).ok()
}

/// Removes a store without files that was made to be tried.
fn remove_empty(path: &Path) {
    if Content::of(path).is_ok_and(|content| content == Content::Nothing) {
        // What stays does no harm: a store without files.
        let _ = fs::remove_dir_all(path);
    }
}
