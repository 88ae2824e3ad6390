//! Where a copy is written, and how it gets its name only when it is whole.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use svmio_svm::{FileOffset, Placement, SpreadFile, StoreSet};
use tempfile::NamedTempFile;

use super::super::error::CommandError;
use super::super::output;
use super::place::Destination;
use super::source::Source;

/// An open destination. Dropped without [`Sink::finish`], it leaves nothing.
pub(super) enum Sink {
    InStore(Box<SpreadFile>),
    Outside { file: NamedTempFile, path: PathBuf, force: bool },
    Stream { file: File, target: Target, position: u64 },
}

/// How a copy is made.
#[derive(Debug)]
pub(super) struct Manner {
    /// What has the name of the copy is overwritten.
    pub(super) force: bool,
    /// Where the segments go that are put into stores.
    pub(super) placement: Placement,
}

/// What a stream is written to.
#[derive(Debug, Clone)]
pub(super) enum Target {
    StandardOutput,
    /// A device or a pipe.
    Path(PathBuf),
}

impl Sink {
    /// Makes a destination for what comes from `source`, without a name yet.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub(super) fn open(
        destination: &Destination,
        stores: &StoreSet,
        source: &Source,
        manner: &Manner,
    ) -> Result<Sink, CommandError> {
        match destination {
            Destination::Stream => {
                Ok(Sink::Stream { file: output::raw()?, target: Target::StandardOutput, position: 0 })
            }
            Destination::InStore(name) => {
                let options = svmio_svm::OpenOptions::read_write()
                    .segment_size(source.segment_size())
                    .placement(manner.placement.clone());
                let file = stores.create(name, &options, source.size(), manner.force)?;
                Ok(Sink::InStore(Box::new(file)))
            }
            Destination::Outside(path) => Sink::open_outside(path, manner.force),
        }
    }

    fn open_outside(path: &Path, force: bool) -> Result<Sink, CommandError> {
        let failed = |e| writing(path, e);
        // What a link points to is replaced, not the link; one that points to nothing is what has the name itself.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(failed(e)),
        };
        let old = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Some(metadata),
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
                return Ok(Sink::Stream { file, target: Target::Path(path), position: 0 });
            }
            Err(_) => None,
        };
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            // Not as the store's own names begin: the directory may be one of its own that is mounted.
            .prefix(".cp-svmio-")
            // Less the umask.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(failed)?;
        if let Some(old) = old {
            take_after(file.as_file(), &old).map_err(failed)?;
        }
        Ok(Sink::Outside { file, path, force })
    }

    /// Whether it takes bytes one after the other only, and has no name to be given.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Sink::Stream { .. })
    }

    /// Writes `data` at `offset`, which lies behind all that was written before.
    ///
    /// # Errors
    /// What the destination says.
    pub(super) fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), CommandError> {
        match self {
            Sink::InStore(file) => Ok(file.write_at(FileOffset(offset), data)?),
            Sink::Outside { file, path, .. } => {
                file.as_file().write_all_at(data, offset).map_err(|e| writing(path, e))
            }
            Sink::Stream { file, target, position } => {
                write_zeros(file, offset - *position)
                    .and_then(|()| file.write_all(data))
                    .map_err(|e| target.failed(e))?;
                *position = offset + data.len() as u64;
                Ok(())
            }
        }
    }

    /// Makes the file `size` bytes long, brings it to the storage device and gives it its name.
    ///
    /// # Errors
    /// What the destination says; nothing is left then.
    pub(super) fn finish(self, size: u64) -> Result<(), CommandError> {
        match self {
            Sink::InStore(file) => Ok(file.finish(size)?),
            Sink::Outside { file, path, force } => finish_outside(file, &path, size, force),
            Sink::Stream { mut file, target, position } => {
                write_zeros(&mut file, size.saturating_sub(position)).map_err(|e| target.failed(e))
            }
        }
    }
}

impl Target {
    fn failed(&self, error: io::Error) -> CommandError {
        match self {
            Target::StandardOutput => CommandError::Output(error),
            Target::Path(path) => writing(path, error),
        }
    }
}

/// Gives a new file the owner, the group and the permissions of the one that it replaces.
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    let is_of_both = |new: &Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
    let mut is_alike = is_of_both(&file.metadata()?);
    if !is_alike {
        if let Err(e) = fchown(file, Some(old.uid()), Some(old.gid())) {
            match e.kind() {
                // Only root may give files away, within a user namespace only to those who are known there, and on some
                // file systems nobody.
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::Unsupported => {}
                _ => return Err(e),
            }
        }
        is_alike = is_of_both(&file.metadata()?);
    }
    // Set-user-ID and set-group-ID would otherwise hand out the rights of somebody else.
    let kept = if is_alike { 0o7777 } else { 0o777 };
    file.set_permissions(Permissions::from_mode(old.mode() & kept))
}

fn finish_outside(file: NamedTempFile, path: &Path, size: u64, force: bool) -> Result<(), CommandError> {
    let failed = |e| writing(path, e);
    file.as_file().set_len(size).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    // Before it has its name: one that may not be opened could not be synced afterwards.
    let directory = file.path().parent().map(File::open).transpose().map_err(failed)?;
    let named = if force { file.persist(path) } else { file.persist_noclobber(path) };
    named.map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => CommandError::OutsideExists { path: path.into() },
        _ => failed(e.error),
    })?;
    // The name, too, survives a power cut.
    let synced = directory.map_or(Ok(()), |directory| directory.sync_all());
    synced.map_err(|source| CommandError::NameUnsynced { path: path.into(), source })
}

fn write_zeros(file: &mut File, count: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), count), file).map(drop)
}

fn writing(path: &Path, source: io::Error) -> CommandError {
    CommandError::Outside { action: "writing", path: path.into(), source }
}
