//! What killed processes left in a store, and nobody can reach any more.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::name::{DirectoryName, RESERVED_PREFIX};
use crate::object;
use crate::presence::Gate;
use crate::store::Store;
use crate::store::aside::ASIDE;
use crate::units::FileId;

/// Removes objects that no name leads to and no process has open or holds.
pub(crate) fn reclaim(store: &Store) -> Result<Vec<PathBuf>> {
    let mut reclaimed = Vec::new();
    let before = named(store)?;
    reclaim_deleted(store, &before, &mut reclaimed)?;
    reclaim_nameless(store, &before, &mut reclaimed)?;
    reclaim_unfinished(&store.path().join(object::OBJECTS), &mut reclaimed)?;
    reclaim_names(store, &DirectoryName::root(), &mut reclaimed)?;
    reclaim_records(&store.path().join(ASIDE), &mut reclaimed)?;
    Ok(reclaimed)
}

/// Removes what files have left that had lost their name; `before` had one a moment ago.
fn reclaim_deleted(store: &Store, before: &HashSet<FileId>, reclaimed: &mut Vec<PathBuf>) -> Result<()> {
    let path = store.path().join(object::DELETED);
    let failed = |e: io::Error| Error::io("verifying the store", &path, e);
    for entry in fs::read_dir(&path).map_err(failed)? {
        let object = entry.map_err(failed)?.path();
        let Some(name) = object.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with(object::RECLAIMED_PREFIX) {
            // Who was about it may have been killed. Where he is not, both remove it.
            match object::destroy(store.path(), &object) {
                Err(e) if is_not_ours(&e) => {}
                gone => gone.map(|()| reclaimed.push(object)).map_err(failed)?,
            }
            continue;
        }
        let Ok(id) = name.parse::<FileId>() else { continue };
        let Some(state) = state_of(&object) else { continue };
        let gate = Gate::lock(&state).map_err(failed)?;
        if object::is_unlinked(&state).map_err(failed)? || gate.is_anybodys().map_err(failed)? {
            continue;
        }
        // None of these ever gets a name. One that had one yet has lost it now, unless the store is damaged.
        if !before.contains(&id) || !named(store)?.contains(&id) {
            take_away(store, object, reclaimed).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes objects that lie among those of files with a name, and have none; `before` had one a moment ago.
fn reclaim_nameless(store: &Store, before: &HashSet<FileId>, reclaimed: &mut Vec<PathBuf>) -> Result<()> {
    /// So many at once: the names are read for all of them together, and each has a file open.
    const AT_ONCE: usize = 64;
    let path = store.path().join(object::OBJECTS);
    let failed = |e: io::Error| Error::io("verifying the store", &path, e);
    let mut nameless = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let object = entry.map_err(failed)?.path();
        let id = object.file_name().and_then(|name| name.to_str()?.parse::<FileId>().ok());
        // One that loses its name now waits for the next time; who opens files is not held up.
        nameless.extend(id.filter(|id| !before.contains(id)).map(|id| (id, object)));
    }
    for some in nameless.chunks(AT_ONCE) {
        let opened = |(id, object): &(FileId, PathBuf)| Some((*id, object.clone(), state_of(object)?));
        let opened: Vec<_> = some.iter().filter_map(opened).collect();
        let mut left = Vec::new();
        for (id, object, state) in &opened {
            // Whoever is in it is alive, and about this one. Nobody is waited for by who has others' gates.
            let Some(gate) = Gate::try_lock(state).map_err(failed)? else { continue };
            if !object::is_unlinked(state).map_err(failed)? && !gate.is_anybodys().map_err(failed)? {
                left.push((id, object, gate));
            }
        }
        if left.is_empty() {
            continue;
        }
        // Nobody alive means that no maker is about to name them either; so the names are read now.
        let named = named(store)?;
        for (id, object, gate) in left {
            if !named.contains(id) {
                take_away(store, object.clone(), reclaimed).map_err(failed)?;
            }
            drop(gate);
        }
    }
    Ok(())
}

/// The state of an object, made where its maker did not get that far; a maker who is alive finds it gone and makes
/// another. `None` where it was removed meanwhile, or is not ours to remove.
fn state_of(object: &Path) -> Option<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(object.join(object::STATE)).ok()
}

/// Removes an object that nobody has and no name leads to, whose gate the caller holds.
fn take_away(store: &Store, object: PathBuf, reclaimed: &mut Vec<PathBuf>) -> io::Result<()> {
    let going = object::reclaimed_path(store.path())?;
    // A maker finds it whole or gone.
    match fs::rename(&object, &going) {
        // Who was the last to close it is removing it there.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        moved => moved?,
    }
    #[cfg(test)]
    crate::killing::point();
    object::destroy(store.path(), &going)?;
    reclaimed.push(object);
    Ok(())
}

/// What takes milliseconds to make has lost its maker when it is as old as this.
const SURELY_ABANDONED: Duration = Duration::from_secs(60);

/// Whether what is left is not ours to remove.
fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
    matches!(age, Ok(Ok(age)) if age > SURELY_ABANDONED)
}

/// Removes objects that were being made for another node's file when their maker was killed.
fn reclaim_unfinished(objects: &Path, reclaimed: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e: io::Error| Error::io("verifying the store", objects, e);
    for entry in fs::read_dir(objects).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_unfinished = entry.file_name().to_string_lossy().starts_with(object::UNFINISHED_PREFIX);
        if is_unfinished && is_abandoned(&entry) {
            match fs::remove_dir_all(entry.path()) {
                Ok(()) => reclaimed.push(entry.path()),
                Err(e) if e.kind() == io::ErrorKind::NotFound || is_not_ours(&e) => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
    Ok(())
}

/// Removes names that were being made when their maker was killed.
fn reclaim_names(store: &Store, directory: &DirectoryName, reclaimed: &mut Vec<PathBuf>) -> Result<()> {
    let path = store.names().join(directory.as_path());
    let failed = |e: io::Error| Error::io("verifying the store", &path, e);
    let entries = match fs::read_dir(&path) {
        // Its last file went meanwhile, or it became a file.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if entry.path().is_dir() {
            reclaim_names(store, &DirectoryName::new(directory.as_path().join(name))?, reclaimed)?;
        } else if name.to_string_lossy().starts_with(RESERVED_PREFIX) && is_abandoned(&entry) {
            remove_unless_gone(&entry, reclaimed).map_err(failed)?;
        }
    }
    // Its last file may just have gone; most often it is not empty.
    if *directory != DirectoryName::root() {
        let _ = fs::remove_dir(&path);
    }
    Ok(())
}

/// Removes records of what is set aside that were being made when their maker was killed.
fn reclaim_records(directory: &Path, reclaimed: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e: io::Error| Error::io("verifying the store", directory, e);
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(RESERVED_PREFIX) && is_abandoned(&entry) {
            remove_unless_gone(&entry, reclaimed).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes a file that somebody else may remove as well.
fn remove_unless_gone(entry: &fs::DirEntry, reclaimed: &mut Vec<PathBuf>) -> io::Result<()> {
    match fs::remove_file(entry.path()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        removed => {
            removed?;
            reclaimed.push(entry.path());
        }
    }
    Ok(())
}

/// Files that have a name, or had it and are set aside.
fn named(store: &Store) -> Result<HashSet<FileId>> {
    let mut named: HashSet<_> =
        store.files(&DirectoryName::root())?.into_iter().filter_map(|(_, id)| id).collect();
    // What is set aside has no name, and may get it again. Who gives or takes it has the file's gate.
    let asides = store.asides()?;
    if let Some(path) = asides.damaged.first() {
        let damaged = io::Error::new(io::ErrorKind::InvalidData, "it is damaged, and may keep a file");
        return Err(Error::io("verifying the store", path, damaged));
    }
    named.extend(asides.recorded.into_iter().filter_map(|recorded| recorded.over.older));
    Ok(named)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::name::FileName;
    use crate::open_options::OpenOptions;

    #[test]
    fn all_that_nobody_has_goes_at_once_and_nothing_else() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open(directory.path()).unwrap();
        let options = OpenOptions::read_write().create(true);
        let name = |text: String| FileName::new(&text).unwrap();
        let named: Vec<_> = (0..3).map(|number| name(format!("/d/{number}"))).collect();
        named.iter().for_each(|name| drop(store.open_file(name, &options).unwrap()));
        let open = store.create_unnamed(&name("/open".into()), &options).unwrap();
        // More than are looked at together, in both places.
        let mut left: Vec<_> = (0..300)
            .map(|number| {
                let id = FileId::random().unwrap();
                let path =
                    if number % 3 == 0 { object::deleted_path } else { object::path }(store.path(), id);
                fs::create_dir(&path).unwrap();
                path
            })
            .collect();
        // A process is opening this one.
        let state = state_of(left.last().unwrap()).unwrap();
        let gate = Gate::lock(&state).unwrap();
        let opening = left.pop().unwrap();
        let mut reclaimed = reclaim(&store).unwrap();
        reclaimed.sort_unstable();
        left.sort_unstable();
        assert_eq!(reclaimed, left);
        // It was killed.
        drop(gate);
        assert_eq!(reclaim(&store).unwrap(), [opening]);
        assert_eq!(fs::read_dir(store.path().join(object::OBJECTS)).unwrap().count(), named.len() + 1);
        assert_eq!(fs::read_dir(store.path().join(object::DELETED)).unwrap().count(), 0);
        drop(open.persist().unwrap());
        assert!(crate::verify(&store, &DirectoryName::root()).unwrap().is_clean());
    }
}
