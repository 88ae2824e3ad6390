//! What a store lies on: its file system, the room there, and the pages that its files get.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::segment::{self, Segment};
use crate::units::SegmentIndex;

use super::Store;

/// The mounts that a thread sees.
const LIST: &str = "/proc/thread-self/mountinfo";

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its kind, `tmpfs` for example.
    pub kind: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// What was mounted: a device, or a mere name.
    pub source: OsString,
    /// The options of the file system, `size=…,huge=…` for example.
    pub options: String,
}

/// What a store lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Medium {
    /// The file system.
    pub mount: Mount,
    /// Bytes that the user can still fill.
    pub free: u64,
    /// Bytes of the whole file system.
    pub total: u64,
    /// Bytes of the page in which a large write into a new file was found: tried, not guessed.
    pub page: u64,
    /// Bytes of the system's large pages; `None` where it has none.
    pub large_page: Option<u64>,
    /// Whether small pieces of a strided write are stored without system calls; on file systems that may write copies of
    /// what has storage, each is one.
    pub takes_pieces: bool,
}

impl Mount {
    /// The file system that `path`, which exists, lies on.
    ///
    /// # Errors
    /// What the operating system says of `path` or of its list of mounts.
    pub fn of(path: &Path) -> Result<Mount> {
        let failed = |e: io::Error| Error::io("looking for the file system", path, e);
        let path = path.canonicalize().map_err(failed)?;
        let device = fs::metadata(&path).map_err(failed)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let list = fs::read(LIST).map_err(failed)?;
        let mounts = list.split(|byte| *byte == b'\n').filter_map(Mount::parse);
        let device = format!("{major}:{minor}");
        mounts
            .filter(|(_, mount)| path.starts_with(&mount.point))
            // Parts of a btrfs have devices that are not in the list. The last one of a place is the one that is seen.
            .max_by_key(|(listed, mount)| (*listed == device, mount.point.as_os_str().len()))
            .map(|(_, mount)| mount)
            .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// The file systems in memory (tmpfs) that can be reached.
    ///
    /// # Errors
    /// What the operating system says of its list of mounts.
    pub fn all_in_memory() -> Result<Vec<Mount>> {
        let list = fs::read(LIST).map_err(|e| Error::io("reading", Path::new(LIST), e))?;
        Ok(Mount::seen(&list, "tmpfs", |point| fs::metadata(point).ok().map(|data| data.dev())))
    }

    /// Those of a `kind` of which something is seen where they are mounted, as `device_at` such a place tells.
    fn seen(list: &[u8], kind: &str, device_at: impl Fn(&Path) -> Option<u64>) -> Vec<Mount> {
        let mut seen: Vec<Mount> = Vec::new();
        // Only these are asked for: others may be on hosts that do not answer.
        for (device, mount) in list.split(|byte| *byte == b'\n').filter_map(Mount::parse) {
            let is_seen = || {
                let at = device_at(&mount.point)?;
                Some(device == format!("{}:{}", rustix::fs::major(at), rustix::fs::minor(at)))
            };
            if mount.kind == kind && is_seen() == Some(true) {
                // One that was mounted twice at one place.
                seen.retain(|earlier| earlier.point != mount.point);
                seen.push(mount);
            }
        }
        seen
    }

    /// An option's value, or nothing where there is no such option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// A line of `mountinfo`, see proc_pid_mountinfo(5): its device, and the mount.
    fn parse(line: &[u8]) -> Option<(String, Mount)> {
        let mut fields = line.split(|byte| *byte == b' ');
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let device = text(fields.nth(2)?);
        let point = PathBuf::from(unescaped(fields.nth(1)?));
        let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, source) = (text(rest.next()?), unescaped(rest.next()?));
        Some((device, Mount { kind, point, source, options: text(rest.next()?) }))
    }
}

impl Store {
    /// What the store lies on. Writes a small file into it, which has no name, to see what becomes of it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Access`], [`Error::ReadOnly`] and the like.
    pub fn medium(&self) -> Result<Medium> {
        let failed = |e: io::Error| Error::io("looking at what the store lies on", self.path(), e);
        let room = rustix::fs::statvfs(self.path()).map_err(|e| failed(e.into()))?;
        let large_page = segment::large_page();
        Ok(Medium {
            mount: Mount::of(self.path())?,
            free: room.f_bavail * room.f_frsize,
            total: room.f_blocks * room.f_frsize,
            page: self.page_of_a_new_file(large_page).map_err(failed)?,
            large_page,
            takes_pieces: tempfile::tempfile_in(self.path())
                .and_then(|file| segment::takes_pieces(&file))
                .map_err(failed)?,
        })
    }

    fn page_of_a_new_file(&self, large_page: Option<u64>) -> io::Result<u64> {
        let small = rustix::param::page_size() as u64;
        let Some(bytes) = large_page else { return Ok(small) };
        let file = tempfile::tempfile_in(self.path())?;
        file.set_len(bytes)?;
        let segment = Segment::map(SegmentIndex(0), file, bytes, true)?;
        let content = vec![1u8; bytes as usize];
        // The second time through the mapping, so that the pages are mapped afterwards.
        for _ in 0..2 {
            // SAFETY: the vector has as many bytes as the segment.
            unsafe { segment.write(0, content.as_ptr(), content.len(), 0) }.map_err(|(_, e)| e)?;
        }
        Ok(if segment.has_large_page()? { bytes } else { small })
    }
}

/// `text` with its `\NNN` resolved, octal numbers of bytes.
fn unescaped(text: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\');
        let number = octal.and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_odd_names() {
        let line =
            br"42 24 0:31 / /mnt/a\040b\134 rw,nosuid shared:7 - tmpfs svmio rw,size=8192k,huge=always";
        let (device, mount) = Mount::parse(line).unwrap();
        assert_eq!(device, "0:31");
        assert_eq!((mount.kind.as_str(), mount.point.as_path()), ("tmpfs", Path::new(r"/mnt/a b\")));
        assert_eq!((mount.source.to_str(), mount.option("huge")), (Some("svmio"), Some("always")));
        assert_eq!(mount.option("hug"), None);
        assert!(Mount::parse(b"").is_none());
    }

    #[test]
    fn mounts_are_seen_where_nothing_else_hides_them() {
        // The root may come late, and what it was mounted over stays in the list.
        let list = b"30 1 0:5 / /a rw - tmpfs one rw\n31 1 0:6 / /b rw - tmpfs two rw\n\
            32 1 8:1 / / rw - ext4 /dev/disk rw\n33 32 0:7 / /b rw - tmpfs three rw\n34 32 0:8 / /c rw - proc p rw\n";
        let device = |number| Some(rustix::fs::makedev(0, number));
        let at = |point: &Path| match point.to_str().unwrap() {
            "/a" => device(5),
            "/b" => device(7),
            _ => device(8),
        };
        let sources: Vec<_> = Mount::seen(list, "tmpfs", at).into_iter().map(|mount| mount.source).collect();
        assert_eq!(sources, ["one", "three"]);
        assert!(Mount::all_in_memory().unwrap().contains(&Mount::of(Path::new("/dev/shm")).unwrap()));
    }

    #[test]
    fn the_medium_is_where_the_store_is() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let names = || fs::read_dir(directory.path()).unwrap().count();
        let before = names();
        let medium = store.medium().unwrap();
        assert!(directory.path().canonicalize().unwrap().starts_with(&medium.mount.point));
        assert!(medium.free <= medium.total && medium.page >= rustix::param::page_size() as u64);
        // Nothing is left of the file that was tried.
        assert_eq!(names(), before);
    }
}
