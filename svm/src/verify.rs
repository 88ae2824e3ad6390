//! Looking stores over: is every file whole, and does anything lie there that belongs to none?

pub(crate) mod agreement;
mod replacements;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::File;
use crate::name::{DirectoryName, FileName, RESERVED_PREFIX};
use crate::object;
use crate::open_options::OpenOptions;
use crate::presence::Gate;
use crate::store::Store;
use crate::store::aside::ASIDE;
use crate::store_set::{Removed, StoreSet};
use crate::stored_file::sole_member;
use crate::units::{FileId, FileOffset};

/// What [`verify`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Files that were looked at.
    pub files: Vec<FileName>,
    /// Files that are not whole, each with what is wrong.
    pub damaged: Vec<(FileName, Error)>,
    /// Files that have parts on nodes whose stores were not given, each with what these parts are. The rest of them was
    /// looked at.
    pub unseen: Vec<(FileName, Error)>,
    /// What one node's store lacked or had in an older form, and has now from another node's; and where older files were
    /// restored that killed processes were replacing.
    pub repaired: Vec<PathBuf>,
    /// Segments that the newest manifest of their file does not tell of, where the store has an older one, each with
    /// the file. They were left as they are; the next job of all the file's nodes takes them up or drops them.
    pub put_aside: Vec<(FileName, PathBuf)>,
    /// Records of older files that were being replaced, which cannot be read. Which files they keep is not known, so that
    /// leftovers were left as they are until these records are removed.
    pub damaged_records: Vec<PathBuf>,
    /// Directories that may not be read, each with what is wrong. What is below them was not looked at, and leftovers
    /// were left as they are, as its objects look like some.
    pub unread: Vec<(DirectoryName, Error)>,
    /// A file whose name is damaged: what it led to looks like a leftover, so that leftovers were left as they are.
    pub unreclaimed: Option<FileName>,
    /// What killed processes left behind and nobody can reach any more, and what other nodes had left of files that were
    /// removed without them. It has been removed.
    pub reclaimed: Vec<PathBuf>,
}

impl Report {
    /// Whether every file is whole, as far as its parts were given, and every record and directory can be read.
    pub fn is_clean(&self) -> bool {
        self.damaged.is_empty() && self.damaged_records.is_empty() && self.unread.is_empty()
    }
}

/// [`StoreSet::verify`] of a single store.
///
/// # Errors
/// As [`StoreSet::verify`].
pub fn verify(store: &Store, directory: &DirectoryName) -> Result<Report> {
    StoreSet::from(store.clone()).verify(directory)
}

/// Looks at one file: its manifest, each of its segments here, and that nothing lies beyond its end.
///
/// # Errors
/// What is wrong with it.
pub fn verify_file(store: &Store, name: &FileName) -> Result<()> {
    let mut report = Report::default();
    StoreSet::from(store.clone()).look_over(name, &mut report)
}

impl StoreSet {
    /// Looks at every file below `directory` in any of the stores, and that the stores agree about it; an older or
    /// damaged manifest of a file that several nodes share is replaced by the newest, where nobody has the file open. What
    /// is left of a file that was removed from some of its nodes' stores only is removed.
    /// Where `directory` is the root, no name is damaged, and all directories can be read, also removes what belongs
    /// to no file.
    ///
    /// # Errors
    /// What keeps it from looking at the stores at all; what is wrong with files is in the report.
    pub fn verify(&self, directory: &DirectoryName) -> Result<Report> {
        let mut report = Report::default();
        self.settle_replacements(|name| name.as_path().starts_with(directory.as_path()), &mut report)?;
        let removed = self.removed()?;
        if !removed.is_empty() {
            let all = self.readable_files_without(directory, &Removed::default(), &mut Vec::new())?;
            for (name, _) in all {
                report.reclaimed.extend(self.remove_leftovers(&name, &removed)?);
            }
        }
        let files = match self.readable_files_without(directory, &removed, &mut report.unread) {
            // It went with its last file.
            Err(Error::NoSuchFile { .. }) if !report.reclaimed.is_empty() => Vec::new(),
            files => files?,
        };
        for (name, _) in &files {
            self.verify_into(name, &mut report);
        }
        if directory.as_path().as_os_str().is_empty() {
            // What a damaged name led to looks like a leftover, and is all that is left of a file.
            let is_damaged =
                |(name, id): &(FileName, Option<FileId>)| id.is_none() && !self.is_whole_name(name);
            report.unreclaimed = files.into_iter().find(is_damaged).map(|(name, _)| name);
            let is_all_known = report.damaged_records.is_empty() && report.unread.is_empty();
            if report.unreclaimed.is_none() && is_all_known {
                for member in self.members() {
                    report.reclaimed.extend(member.reclaim()?);
                }
            }
        }
        Ok(report)
    }

    /// The same for the single file `name`.
    pub fn verify_file(&self, name: &FileName) -> Report {
        let mut report = Report::default();
        if let Err(error) = self.settle_replacements(|other| other == name, &mut report) {
            report.damaged.push((name.clone(), error));
        }
        match self.removed().and_then(|removed| self.remove_leftovers(name, &removed)) {
            Ok(paths) => report.reclaimed.extend(paths),
            Err(error) => report.damaged.push((name.clone(), error)),
        }
        self.verify_into(name, &mut report);
        report
    }

    fn verify_into(&self, name: &FileName, report: &mut Report) {
        report.files.push(name.clone());
        if let Err(error) = self.look_over(name, report)
            && !matches!(error, Error::NoSuchFile { .. })
        {
            report.damaged.push((name.clone(), error));
        }
    }

    fn look_over(&self, name: &FileName, report: &mut Report) -> Result<()> {
        let id = self.lookup(name)?;
        self.write_names_again(name, id, report)?;
        let known = self.known(id, name);
        if let Ok(known) = &known
            && let Some(member) = sole_member(known)
        {
            match member.look_over_alone(name) {
                // By a job that it is to be shared by: it is looked at like its other files.
                Err(Error::OpenInAnotherJob { .. }) => {}
                outcome => return outcome,
            }
        } else if known.map_or(true, |known| known.is_empty())
            && let (Some(member), None) = (self.members().next(), self.members().nth(1))
        {
            // It is damaged, and nobody else is here who would know better.
            return member.look_over_alone(name);
        }
        self.check_agreement(name, id, report)?;
        self.look_over_parts(name, report)
    }
}

/// Looks at a file that is on one node alone.
pub(crate) fn look_over_alone(store: &Store, name: &FileName) -> Result<()> {
    check_object(store, name)?;
    let file = store.open_file(name, &OpenOptions::reading())?;
    let segments = file.segments()?;
    let size = file.size();
    for segment in segments {
        let start = file.segment_size().start_of(segment.index).0;
        let end = start + file.segment_size().bytes();
        if end > size {
            check_zero(&file, size.max(start)..end)?;
        }
    }
    Ok(())
}

/// That the name leads somewhere: opening it would take it for one that is being removed.
fn check_object(store: &Store, name: &FileName) -> Result<()> {
    let id = store.lookup(name)?;
    let path = object::path(store.path(), id);
    // A file's name goes before its object: if the name is still there, nobody is removing it.
    if matches!(path.try_exists(), Ok(false)) && store.lookup(name)? == id {
        let (name, reason) = (name.to_string(), "its directory is missing".into());
        return Err(Error::CorruptManifest { name, path, reason });
    }
    Ok(())
}

/// That the bytes `range`, which lie beyond the end, are zero: they would appear if the file grew.
fn check_zero(file: &File, range: std::ops::Range<u64>) -> Result<()> {
    let mut buffer = vec![0u8; 1 << 16];
    let mut at = range.start;
    while at < range.end {
        let length = buffer.len().min((range.end - at) as usize);
        let bytes = file.peek(FileOffset(at), &mut buffer[..length])?;
        // A writer puts its bytes first and grows the file then.
        if buffer[..bytes].iter().any(|b| *b != 0) && file.size() <= at && !file.has_others()? {
            return Err(Error::CorruptManifest {
                name: file.name().into(),
                path: file.directory(),
                reason: format!("bytes beyond its size of {} are not zero", file.size()),
            });
        }
        at += bytes as u64;
    }
    Ok(())
}

/// Removes objects that no name leads to and no process has open or holds.
pub(crate) fn reclaim(store: &Store) -> Result<Vec<PathBuf>> {
    let mut reclaimed = Vec::new();
    let before = named(store)?;
    for directory in [object::DELETED, object::OBJECTS] {
        let path = store.path().join(directory);
        let failed = |e: io::Error| Error::io("verifying the store", &path, e);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let object = entry.map_err(failed)?.path();
            let Some(name) = object.file_name().and_then(|name| name.to_str()) else { continue };
            if directory == object::DELETED && name.starts_with(object::RECLAIMED_PREFIX) {
                // Who was about it may have been killed. Where he is not, both remove it.
                match object::destroy(store.path(), &object) {
                    Err(e) if is_not_ours(&e) => {}
                    gone => gone.map(|()| reclaimed.push(object)).map_err(failed)?,
                }
                continue;
            }
            let Ok(id) = name.parse::<FileId>() else { continue };
            // One that loses its name now waits for the next time; who opens files is not held up.
            if directory == object::OBJECTS && before.contains(&id) {
                continue;
            }
            // Made where its maker did not get that far; a maker who is alive finds it gone and makes another.
            let mut options = fs::OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let state = match options.open(object.join(object::STATE)) {
                Ok(state) => state,
                // Removed meanwhile, or not ours to remove.
                Err(_) => continue,
            };
            let gate = Gate::lock(&state).map_err(failed)?;
            if object::is_unlinked(&state).map_err(failed)? {
                continue;
            }
            // Nobody alive means that no maker is about to name it either; so the names are read now.
            let alive = gate.is_anybodys().map_err(failed)?;
            if !alive && !named(store)?.contains(&id) {
                let going = object::reclaimed_path(store.path()).map_err(failed)?;
                // A maker finds it whole or gone.
                match fs::rename(&object, &going) {
                    // Who was the last to close it is removing it there.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    moved => moved.map_err(failed)?,
                }
                #[cfg(test)]
                crate::killing::point();
                object::destroy(store.path(), &going).map_err(failed)?;
                reclaimed.push(object);
            }
            drop(gate);
        }
    }
    reclaim_unfinished(&store.path().join(object::OBJECTS), &mut reclaimed)?;
    reclaim_names(store, &DirectoryName::root(), &mut reclaimed)?;
    reclaim_records(&store.path().join(ASIDE), &mut reclaimed)?;
    Ok(reclaimed)
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
