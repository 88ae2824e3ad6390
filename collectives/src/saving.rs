//! Values in files of JSON.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

/// Who may do what with a file, as far as the process's mask has it.
const MODE: u32 = 0o666;

/// Writes a value to a file, which is there whole or as it was: the one that a link points to. What is no file, as a
/// device or a pipe, is written into, and so is a file whose directory does not let it be replaced.
pub(crate) fn save(value: &impl Serialize, path: &Path) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        found => found.unwrap_or_else(|_| path.to_owned()),
    };
    let is_other = |metadata: fs::Metadata| !metadata.is_file();
    // Of what is still a link nothing is lost: it points to nothing, or to what has no path, as a pipe.
    if path.is_symlink() || fs::metadata(&path).is_ok_and(is_other) {
        return write(value, fs::File::create(&path)?);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match replace(value, &path, folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.exists() => {
            write(value, fs::File::create(&path)?)
        }
        outcome => outcome,
    }
}

fn replace(value: &impl Serialize, path: &Path, folder: &Path) -> io::Result<()> {
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
    write(value, &mut file)?;
    // Before it takes the other one's place, which a crash would leave with a part of it.
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn write(value: &impl Serialize, file: impl Write) -> io::Result<()> {
    let mut writer = io::BufWriter::new(file);
    serde_json::to_writer(&mut writer, value)?;
    // Dropped, it would keep to itself what becomes of the last bytes.
    writer.flush()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_cannot_be_written_is_told() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let error = super::write(&[1, 2], full).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }
}
