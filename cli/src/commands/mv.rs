//! `svmio mv`: giving files other names.

use clap::Args;
use svmio_svm::{DirectoryName, Error, FileName, StoreSet};

use super::error::CommandError;
use super::store_option::StoresHere;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, for_each};

const EXAMPLES: &str = after_help!(
    "  svmio mv svm:/results/step1.tmp svm:/results/step1.h5
  svmio mv /results/step1.h5 /kept/          into a directory
  svmio mv -f /results/new /results/latest   in the place of an older file
  svmio mv /results /old                     a directory, with all files below

Both names are in the store: svm: is written before both, or before neither. What is to leave the store, or to
come into it, is copied (svmio cp) and removed.

At every moment one of the two names leads to the file, and with -f the new one to either file. A program that
has one of them open keeps it. No byte is copied. A file that several nodes share keeps its name: copy it, and
remove it, with the stores of all."
);

/// The arguments of `svmio mv`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MvArguments {
    /// Take the place of files that exist: these are removed
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    store: StoresHere,

    /// The file or directory
    #[arg(value_name = "SRC", value_parser = StorePath::parser())]
    source: StorePath,

    /// The new name, or a directory (that exists, or with a / at its end) to put it into
    #[arg(value_name = "DST", value_parser = StorePath::parser())]
    destination: StorePath,
}

/// Gives a file, or all files of a directory, other names.
pub(crate) fn mv(arguments: &MvArguments) -> Result<Outcome, CommandError> {
    let (from, to) = (&arguments.source, &arguments.destination);
    if from.has_prefix() != to.has_prefix() {
        let (prefixed, bare) = if from.has_prefix() { (from, to) } else { (to, from) };
        return Err(CommandError::OnePrefix { prefixed: prefixed.to_string(), bare: bare.to_string() });
    }
    let stores = arguments.store.open()?;
    let found = arguments.source.find(&stores)?;
    let to = arguments.destination.destination(arguments.source.last_part(), &stores)?;
    let renames = match found {
        Found::File(from) => vec![(from, to)],
        Found::Directory(from) => of_all_below(&from, &to, &stores)?,
    };
    for_each(renames, |(from, to)| rename(&stores, &from, &to, arguments.force))
}

/// What the files of a directory are to be called, which is to be called `to`.
fn of_all_below(
    from: &DirectoryName,
    to: &FileName,
    stores: &StoreSet,
) -> Result<Vec<(FileName, FileName)>, CommandError> {
    if to.as_path().starts_with(from.as_path()) {
        return Err(CommandError::IntoItself { from: format!("svm:{from}"), to: format!("svm:{to}") });
    }
    let renames = stores.files(from)?.into_iter().map(|(name, _)| {
        let rest = name.as_path().strip_prefix(from.as_path()).expect("it is below the directory");
        let to = FileName::new(to.as_path().join(rest))?;
        Ok((name, to))
    });
    renames.collect()
}

fn rename(stores: &StoreSet, from: &FileName, to: &FileName, force: bool) -> Result<(), CommandError> {
    let names = || (format!("svm:{from}"), format!("svm:{to}"));
    if from == to {
        return Err(CommandError::SameFile { name: names().0 });
    }
    match stores.rename(from, to, force) {
        Err(Error::Exists { .. }) if force => {
            let (from, to) = names();
            Err(CommandError::TwoNodes { from, to })
        }
        Err(Error::Exists { store, .. }) => Err(CommandError::StoreExists { name: names().1, store }),
        renamed => Ok(renamed?),
    }
}
