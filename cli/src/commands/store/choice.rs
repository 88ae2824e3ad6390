//! Where a user's store lies best who cannot mount: of the file systems in memory that are there.

use std::fs;
use std::os::unix::fs::MetadataExt;
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

/// The best directory for the store of `user`, who calls: `usual`, unless another file system in memory gives large
/// pages more readily, has at least half as much room, and lets the user have a directory there that others leave
/// alone. A store that holds files already stays where it is, be it there. Which pages there are is tried, with a
/// directory that goes again.
///
/// # Errors
/// Where the usual place cannot be looked at.
pub(super) fn best(usual: &Path, user: u32) -> Result<Choice, CommandError> {
    let stays = |path: &Path, reason: &str| Choice { path: path.into(), reason: reason.into() };
    let holds_files = |path: &Path| Content::of(path).is_ok_and(|content| content == Content::Files);
    if usual.exists() && Content::of(usual)? == Content::Files {
        return Ok(stays(usual, "the usual place, which holds files already"));
    }
    let (Some(name), Some(place)) = (usual.file_name(), usual.parent()) else {
        return Ok(stays(usual, "the usual place"));
    };
    let first = tried(place)?;
    let mut best: Option<(PathBuf, Medium)> = None;
    for mount in Mount::all_in_memory()?.into_iter().filter(asks_for_large) {
        let path = mount.point.join(name);
        if mount.point == first.mount.point || !is_for(user, &mount.point) || !is_own_or_free(&path, user) {
            continue;
        }
        if holds_files(&path) {
            return Ok(stays(&path, "the store there holds files already"));
        }
        // What cannot be tried cannot be used either.
        let Ok(medium) = tried(&mount.point) else { continue };
        let is_roomier = best.as_ref().is_none_or(|(_, best)| medium.free > best.free);
        if is_better(&medium, &first) && is_roomier {
            best = Some((path, medium));
        }
    }
    Ok(match best {
        None => stays(usual, "the usual place: no other file system in memory has better pages"),
        Some((path, medium)) => {
            let (point, huge) =
                (medium.mount.point.display(), medium.mount.option("huge").unwrap_or_default());
            let pages = format!("{point} gives pages of {} bytes by itself (huge={huge})", medium.page);
            Choice { path, reason: format!("{pages}; the usual place {} does not", usual.display()) }
        }
    })
}

/// Whether large pages come by themselves where `usual` has none, or has to be asked for each; with room enough.
fn is_better(medium: &Medium, usual: &Medium) -> bool {
    let gives_large = |medium: &Medium| {
        asks_for_large(&medium.mount) && medium.large_page.is_some_and(|large| medium.page >= large)
    };
    medium.free >= usual.free / 2 && gives_large(medium) && !gives_large(usual)
}

/// Whether its files get large pages without being asked for each, if there are any.
fn asks_for_large(mount: &Mount) -> bool {
    mount.option("huge").is_some_and(|huge| huge == "always" || huge == "within_size")
}

/// Whether `user`, who calls, may have a directory in it that others cannot remove.
fn is_for(user: u32, point: &Path) -> bool {
    /// Only who owns an entry, or the directory, may remove it, as in `/dev/shm`.
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let may = rustix::fs::access(point, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    may && fs::metadata(point).is_ok_and(|data| {
        let is_trusted = data.uid() == 0 || data.uid() == user;
        is_trusted && (data.mode() & STICKY != 0 || data.mode() & WRITABLE_BY_OTHERS == 0)
    })
}

/// Whether nobody else has something of this name.
fn is_own_or_free(path: &Path, user: u32) -> bool {
    match fs::symlink_metadata(path) {
        Ok(data) => data.is_dir() && data.uid() == user,
        Err(problem) => problem.kind() == std::io::ErrorKind::NotFound,
    }
}

/// What a store in that directory would lie on.
fn tried(place: &Path) -> Result<Medium, CommandError> {
    let outside =
        |source| CommandError::Outside { action: "making a directory in", path: place.into(), source };
    let directory = tempfile::Builder::new().prefix("svmio-try-").tempdir_in(place).map_err(outside)?;
    Ok(Store::open(directory.path())?.medium()?)
}
