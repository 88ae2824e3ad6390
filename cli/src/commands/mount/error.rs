//! Why a directory cannot be mounted.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::mount_point::HELPER;
use super::serving::DEVICE;

/// Why a directory cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    #[error("there is no directory {} to mount on (mkdir makes it)", point.display())]
    NoDirectory { point: PathBuf },

    #[error("{} is no directory, and only on one can be mounted", point.display())]
    NotADirectory { point: PathBuf },

    #[error(
        "{} is not empty, and what is in it could not be seen any more (--nonempty mounts on it all the same)",
        point.display()
    )]
    NotEmpty { point: PathBuf },

    #[error("{} is mounted by svmio already ({} ends that)", point.display(), ending(point))]
    Already { point: PathBuf },

    #[error("what served {} has been killed ({} takes it away)", point.display(), ending(point))]
    Abandoned { point: PathBuf },

    #[error(
        "the store {} is in {} itself: mount on another directory, and give its names by --names",
        store.display(),
        point.display()
    )]
    StoreWithin { point: PathBuf, store: PathBuf },

    #[error(
        "there is no {DEVICE}: load the kernel's module (modprobe fuse), or start the container with it (--device \
         {DEVICE} --cap-add SYS_ADMIN)"
    )]
    NoFuse,

    #[error("{DEVICE}: {source} (chmod 666 {DEVICE}, by root, gives it the mode that most systems have)")]
    Device { source: io::Error },

    #[error(
        "mounting {}: that takes the capability SYS_ADMIN, which root mostly has, or {HELPER} (apt-get install fuse3)",
        point.display()
    )]
    NoHelper { point: PathBuf },

    #[error("mounting {}: {source}", point.display())]
    Refused { point: PathBuf, source: io::Error },

    #[error("the process that was to serve {} ended with {status} before it was mounted", point.display())]
    Ended { point: PathBuf, status: ExitStatus },

    #[error("serving {}: {source}", point.display())]
    Serving { point: PathBuf, source: io::Error },
}

/// How a mount is ended by hand.
fn ending(point: &Path) -> String {
    let command = if rustix::process::geteuid().is_root() { "umount" } else { "fusermount3 -u" };
    format!("{command} {}", point.display())
}
