//! `svmio mount`: the files of stores as a directory, for programs that know nothing of svmio.
//!
//! ```text
//! the command      mount          here         what is typed, what is looked at before
//!                  MountPoint     mount_point  the directory, and how it is left again
//!                  background     background   a process of its own that goes on, and what it tells the one in front
//!                  serving        serving      the session with the kernel, until it or a signal ends it
//!                  bring_in       mapped_pages what was stored into mapped memory, before a signal ends it
//! what it asks     Face           face         the kernel's requests, each answered by one of these:
//!                  Files          files        what is where: names, attributes, lists
//!                                 changes      what comes, goes and gets other names
//! what is known    Names          names        which file of the stores a path below the mount point is
//!                  Tree           tree         which number stands for which path
//!                  Directories    directories  those without a file, which stores know nothing of
//!                  Rights, Facts  attributes   what a file looks like from outside
//! what is open     Opener         opener       one open file for all who have it open here
//!                  OwnFile        own_file     as the node's programs have it open
//!                  OwnHandle      own_handle   what each of them got, as long as it is not closed
//!                  SeenFile       seen_file    a file of several nodes, or of others: as it was when it was opened
//!                  Handles        handles      numbers that the kernel gives back with each access
//! what goes wrong  MountError     error        before it is mounted
//!                  Refused        refused      afterwards: the system's number of an error
//! ```
//!
//! The kernel keeps nothing: neither bytes (accesses are direct) nor attributes (they are true for no time). So whoever
//! writes to a file of this node, by whatever way, is seen by the next access that comes this way, and the other way
//! round. Only what is mapped as memory lies in pages of the kernel's.

mod attributes;
mod background;
mod changes;
mod directories;
mod error;
mod face;
mod files;
mod handles;
mod mapped_pages;
mod mount_point;
mod names;
mod opener;
mod own_file;
mod own_handle;
mod refused;
mod seen_file;
mod serving;
mod tree;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_svm::StoreSet;

use super::error::CommandError;
use super::interruption::Interruption;
use super::store_option::StoreOption;
use super::{Outcome, after_help};
use attributes::Rights;
use face::Face;
use files::Files;
use mount_point::MountPoint;
use names::Names;

pub(crate) use error::MountError;

const EXAMPLES: &str = after_help!(
    "  svmio mount /scratch/results          svm:/scratch/results/step1 is /scratch/results/step1
  svmio mount --names / /mnt/svm        svm:/scratch/results/step1 is /mnt/svm/scratch/results/step1
  svmio mount --read-only /scratch/in   for looking only
  svmio mount --hosts a,b,c /results    files of several nodes, for reading
  umount /scratch/results               ends it; fusermount3 -u /scratch/results where one is not root

Once the directory is mounted, a process in the background serves it, and this command ends. It takes /dev/fuse, and to
be root or to have fusermount3 (Debian: fuse3). A file that is on this node alone can be read and written, removed and
renamed, also while programs have it open; one of several nodes, or of other hosts, can be read and removed."
);

/// The arguments of `svmio mount`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MountArguments {
    /// Show the files whose names begin with PREFIX [default: the directory's own path]
    #[arg(long, value_name = "PREFIX")]
    names: Option<PathBuf>,

    /// Change nothing
    #[arg(long)]
    read_only: bool,

    /// Let other users in, too: they can read, and do what the mode of the store's directory lets them
    ///
    /// One who is not root needs user_allow_other in /etc/fuse.conf for it.
    #[arg(long)]
    allow_other: bool,

    /// Also on a directory that is not empty, whose files cannot be seen then
    #[arg(long)]
    nonempty: bool,

    /// Stay in the foreground; end by SIGINT, SIGTERM or umount
    #[arg(long)]
    foreground: bool,

    /// Append to FILE what the process in the background has to complain of; programs only see the system's errors
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "foreground")]
    log: Option<PathBuf>,

    /// It is the process in the background
    #[arg(long, hide = true, conflicts_with = "foreground")]
    in_background: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The directory
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

impl MountArguments {
    /// Whether another process is started that does it all, and tells all there is to tell.
    pub(crate) fn starts_another(&self) -> bool {
        !self.foreground && !self.in_background
    }
}

/// Mounts the directory, and serves it or has it served.
///
/// # Errors
/// What keeps the directory from being mounted, and the stores from being opened.
pub(crate) fn mount(arguments: &MountArguments) -> Result<Outcome, CommandError> {
    if arguments.starts_another() {
        return background::start(&arguments.directory);
    }
    // From here on a signal ends it cleanly.
    let interruption = Interruption::watch()?;
    let stores = if arguments.store.is_of_hosts() {
        arguments.store.open_hosts(arguments.in_background)?
    } else if arguments.read_only {
        arguments.store.open()?
    } else {
        arguments.store.open_or_make()?
    };
    // What was asked of other hosts may not have ended by it, and the command in front is gone then.
    interruption.check()?;
    let point = MountPoint::check(&arguments.directory, arguments.nonempty, &stores)?;
    let face = Face::new(files(arguments, stores, &point)?);
    let background = arguments.in_background.then(|| background::Ready::prepare(arguments.log.as_deref()));
    let background = background.transpose()?;
    let served = serving::Served::mount(face, point, arguments.read_only, arguments.allow_other)?;
    if let Some(ready) = background {
        ready.tell()?;
    }
    served.until_it_ends(&interruption)?;
    Ok(Outcome::Fine)
}

fn files(arguments: &MountArguments, stores: StoreSet, point: &MountPoint) -> Result<Files, CommandError> {
    let names = match &arguments.names {
        Some(prefix) => Names::below(prefix.as_os_str())?,
        None => Names::below(point.as_typed().as_os_str())?,
    };
    let rights = Rights::of(&stores, arguments.allow_other)?;
    Ok(Files::new(stores, names, rights, arguments.read_only))
}
