//! Which names are svmio's.
//!
//! Always those that begin with `svm:`. With `SVMIO_CLAIM=/scratch/ckpt:/svm` also every file below one of
//! these directories, and with `SVMIO_CLAIM='*'` every file; a relative name is then one below the current
//! directory. A name that names another file system (`ufs:/scratch/ckpt/x`) is never claimed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The directories that `SVMIO_CLAIM` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    everything: bool,
    directories: Vec<PathBuf>,
}

impl Claims {
    /// What the environment claims.
    pub fn from_environment() -> Claims {
        Claims::new(&std::env::var_os("SVMIO_CLAIM").unwrap_or_default())
    }

    /// What a list, separated by colons, claims.
    pub fn new(list: &OsStr) -> Claims {
        let entries = || list.as_bytes().split(|byte| *byte == b':').filter(|entry| !entry.is_empty());
        Claims {
            everything: entries().any(|entry| entry == b"*"),
            directories: entries()
                .filter(|entry| *entry != b"*")
                .map(|entry| absolute(Path::new(OsStr::from_bytes(entry))))
                .collect(),
        }
    }

    /// The name within svmio of the file that a program calls `name`; `None` where it is not svmio's.
    pub fn claimed(&self, name: &OsStr) -> Option<OsString> {
        if let Some(rest) = svmio_adio::strip_prefix(name) {
            return Some(rest.to_owned());
        }
        if *self == Claims::default() || has_prefix(name) || name.is_empty() {
            return None;
        }
        let path = absolute(Path::new(name));
        let claimed = self.everything || self.directories.iter().any(|directory| path.starts_with(directory));
        claimed.then(|| path.into_os_string())
    }
}

/// Whether ROMIO would look for a file system's name in `name`: before a colon that is not its second character.
fn has_prefix(name: &OsStr) -> bool {
    name.as_bytes().iter().position(|byte| *byte == b':').is_some_and(|colon| colon > 1)
}

/// `path` from the root, without `.` and `..`; files need not exist, so that links are not followed.
fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(list: &str, name: &str) -> Option<String> {
        Claims::new(OsStr::new(list)).claimed(OsStr::new(name)).map(|name| name.into_string().unwrap())
    }

    #[test]
    fn the_prefix_is_always_ours() {
        assert_eq!(claimed("", "svm:/a/b").as_deref(), Some("/a/b"));
        assert_eq!(claimed("", "SVM:x:y").as_deref(), Some("x:y"));
        assert_eq!(claimed("", "svm:").as_deref(), Some(""));
        assert_eq!(claimed("", "/a/svm:b"), None);
        assert_eq!(claimed("", "/a/b"), None);
    }

    #[test]
    fn directories_claim_what_is_below_them() {
        let list = "/scratch/ckpt:/svm/";
        assert_eq!(claimed(list, "/scratch/ckpt/a").as_deref(), Some("/scratch/ckpt/a"));
        assert_eq!(claimed(list, "/scratch/./x/../ckpt/a").as_deref(), Some("/scratch/ckpt/a"));
        assert_eq!(claimed(list, "/svm/a/b").as_deref(), Some("/svm/a/b"));
        assert_eq!(claimed(list, "/scratch/ckpt2/a"), None);
        assert_eq!(claimed(list, "/scratch/ckpt/../a"), None);
        assert_eq!(claimed(list, "ufs:/svm/a"), None);
    }

    #[test]
    fn a_star_claims_everything_but_other_file_systems() {
        assert_eq!(claimed("*", "/a/b").as_deref(), Some("/a/b"));
        let here = std::env::current_dir().unwrap().join("out.dat");
        assert_eq!(claimed("*", "out.dat").as_deref(), here.to_str());
        assert_eq!(claimed("*", "nfs:/a"), None);
        assert_eq!(claimed("*", ""), None);
    }
}
