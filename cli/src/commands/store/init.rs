//! `svmio store init`: a store, as good as can be had at its place.

use std::path::Path;

use clap::{Args, ValueEnum};
use svmio_svm::Store;

use super::choice;
use super::info::{self, Facts};
use super::own_file_system::{self, Wishes};
use super::place::Place;
use crate::commands::Outcome;
use crate::commands::byte_count::ByteCount;
use crate::commands::error::CommandError;
use crate::commands::output::Output;

const EXAMPLES: &str = "\
Examples:
  svmio store init                         this user's store, where its pages are best: usually /dev/shm
  sudo svmio store init --uid 1000         the same for user 1000, with a file system of its own
  svmio store init --size 64G /dev/shm/x   as root: at most 64 GiB
  svmio store init /scratch/store          on a disk: survives a reboot

What is set up already stays as it is: this can be called again and again, from a job's prologue for
example. svmio store unmount takes the file system away again; so does a reboot.

Exit codes: 0 fine; 1 it failed; 2 wrong command line.";

/// Sizes are rounded up to whole pages of the machine, which are no larger than this.
const PAGE: u64 = 64 << 10;

/// The arguments of `svmio store init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InitArguments {
    #[command(flatten)]
    place: Place,

    /// Whether to mount a file system for the store alone, in memory, with large pages
    #[arg(long, value_enum, default_value_t)]
    mount: Mounting,

    /// The most that this file system may hold, like 64G [default: half of the memory]
    #[arg(long, value_name = "BYTES")]
    size: Option<ByteCount>,

    /// Whose store it is: the number of a user [default: who calls]
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Mounting {
    /// As root, where the directory is empty and lies in memory anyway
    #[default]
    Auto,
    /// Always; it is an error where that cannot be
    Always,
    /// Never
    Never,
}

/// Sets the store up, and says what was done.
pub(super) fn init(arguments: &InitArguments) -> Result<Outcome, CommandError> {
    let caller = rustix::process::geteuid().as_raw();
    let user = arguments.uid.unwrap_or(caller);
    let mut path = arguments.place.path(user);
    let wishes = Wishes { user, size: arguments.size.map(|size| size.0) };
    let mut output = Output::new()?;
    // Root mounts what is best, a user takes it where it is.
    let may_choose = caller != 0 && user == caller && arguments.mount == Mounting::Auto;
    if may_choose && arguments.place.asked_for().is_none() && !own_file_system::has_its_own(&path)? {
        let choice = choice::best(&path, user)?;
        output.line(format!("chose {}: {}", choice.path.display(), choice.reason))?;
        path = choice.path;
    }
    let mounted = mounted(&path, arguments.mount, wishes)?;
    output.line(mounted)?;
    if let Some(bytes) = wishes.size {
        warn_unless_limited(&path, bytes)?;
    }
    if user == caller {
        let existed = path.join("store.json").exists();
        let store = arguments.place.open(&path)?;
        output.line(if existed { "the store is there already" } else { "made the store" })?;
        info::print(&Facts::of(&store)?, &mut output)?;
    } else {
        output.line(format!("the store itself is made by the first program of user {user}"))?;
    }
    if path != Store::default_path(user) {
        output.line(format!("use it by: export SVMIO_STORE={}", path.display()))?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

/// Says so where the store's file system is not as large as was asked for: there is none of its own, or it was there
/// already.
fn warn_unless_limited(path: &Path, wanted: u64) -> Result<(), CommandError> {
    let shown = path.display();
    match own_file_system::size_of_its_own(path)? {
        None => tracing::warn!("--size {wanted} has no effect: {shown} has no file system of its own"),
        Some(bytes) if bytes < wanted || bytes - wanted >= PAGE => tracing::warn!(
            "--size {wanted} has no effect: {shown} has a file system of {bytes} bytes already, which root changes by \
             mount -o remount,size={wanted} {shown}"
        ),
        Some(_) => {}
    }
    Ok(())
}

/// Mounts what is to be mounted, and says what became of it.
fn mounted(path: &Path, mounting: Mounting, wishes: Wishes) -> Result<String, CommandError> {
    let lies_on = own_file_system::beneath(path)?;
    if own_file_system::is_at(path, &lies_on) {
        return Ok(format!("{} has its own file system already", path.display()));
    }
    let is_root = rustix::process::geteuid().is_root();
    let reason = match mounting {
        Mounting::Never => Some("as asked".to_owned()),
        Mounting::Always => None,
        Mounting::Auto if !is_root => Some("only root can".to_owned()),
        Mounting::Auto if lies_on.kind != "tmpfs" => Some(format!(
            "the directory is on {}, where files survive a reboot (--mount always does)",
            lies_on.kind
        )),
        Mounting::Auto => None,
    };
    if let Some(reason) = reason {
        return Ok(format!("mounted nothing: {reason}"));
    }
    match own_file_system::mount(path, wishes) {
        Ok(pages) => Ok(format!("mounted a file system on {}, {pages}", path.display())),
        Err(e @ CommandError::NotMounted { .. }) if mounting == Mounting::Auto => Ok(e.to_string()),
        Err(e) => Err(e),
    }
}
