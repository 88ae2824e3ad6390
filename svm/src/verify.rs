//! Looking stores over: is every file whole, and does anything lie there that belongs to none?

pub(crate) mod agreement;
mod leftovers;
mod replacements;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::file::File;
use crate::name::{DirectoryName, FileName};
use crate::object;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::store_set::{Removed, StoreSet};
use crate::stored_file::sole_member;
use crate::units::{FileId, FileOffset};

pub(crate) use leftovers::reclaim;

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
