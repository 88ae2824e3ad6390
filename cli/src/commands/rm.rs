//! `svmio rm`: removing files.

use clap::Args;
use svmio_svm::{Error, FileName, Store};

use super::error::CommandError;
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, for_each};

const EXAMPLES: &str = after_help!(
    "  svmio rm /results/step1.h5
  svmio rm -r /results           all files below
  svmio rm -r /                  all files of the store
  svmio rm -f /scratch/tmp       no failure where there is none

A program that has a file open keeps it until it closes it. A directory goes with its last file."
);

/// The arguments of `svmio rm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RmArguments {
    /// Directories too, with all files below
    #[arg(short, long)]
    recursive: bool,

    /// What is not there is no failure
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The files or directories
    #[arg(required = true, value_name = "PATH", value_parser = StorePath::parser())]
    paths: Vec<StorePath>,
}

/// Removes the paths.
pub(crate) fn rm(arguments: &RmArguments) -> Result<Outcome, CommandError> {
    let store = arguments.store.open()?;
    let mut outcome = Outcome::Fine;
    let overall = for_each(&arguments.paths, |path| match path.find(&store) {
        Ok(Found::File(name)) => remove(&store, &name, arguments.force),
        Ok(Found::Directory(name)) if !arguments.recursive => {
            Err(CommandError::IsDirectory { name: name.to_string(), way_out: "-r removes all that is in it" })
        }
        Ok(Found::Directory(name)) => {
            let files = store.files(&name)?;
            // What somebody else removed meanwhile is gone as wanted.
            if for_each(files, |(name, _)| remove(&store, &name, true))? == Outcome::Troubled {
                outcome = Outcome::Troubled;
            }
            Ok(())
        }
        Err(Error::NoSuchFile { .. }) if arguments.force => Ok(()),
        Err(error) => Err(error.into()),
    })?;
    Ok(if overall == Outcome::Fine { outcome } else { overall })
}

fn remove(store: &Store, name: &FileName, force: bool) -> Result<(), CommandError> {
    match store.remove(name) {
        Err(Error::NoSuchFile { .. }) if force => Ok(()),
        removed => Ok(removed?),
    }
}
