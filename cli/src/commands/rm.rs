//! `svmio rm`: removing files.

use clap::Args;
use svmio_svm::{Error, FileName, StoreSet};

use super::error::CommandError;
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, for_each};

const EXAMPLES: &str = after_help!(
    "  svmio rm /results/step1.h5
  svmio rm -r /results           all files below
  svmio rm -r /                  all files of the store, which is written so and in no other way
  svmio rm -f /scratch/tmp       no failure where there is none

A program that has a file open keeps it until it closes it, unless it is one of several nodes that is only looked at
(by svmio cat, or at a mounted directory). A directory goes with its last file. A file that several nodes share is
removed from all their stores: give them all, by a --store for each or by --hosts. What is left of it elsewhere goes
when those stores are next used or verified together with these."
);

/// The arguments of `svmio rm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RmArguments {
    /// Directories too, with all files below
    #[arg(short, long)]
    recursive: bool,

    /// What is not there is no failure; of a file with parts on other nodes, remove those that are here
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The files or directories
    #[arg(required = true, value_name = "PATH", value_parser = StorePath::parser_for_removal())]
    paths: Vec<StorePath>,
}

/// Removes the paths.
pub(crate) fn rm(arguments: &RmArguments) -> Result<Outcome, CommandError> {
    let stores = match arguments.force {
        true => arguments.store.open_existing()?,
        false => Some(arguments.store.open()?),
    };
    // In a store that is not there nothing is there.
    let Some(stores) = stores else { return Ok(Outcome::Fine) };
    let mut outcome = Outcome::Fine;
    let overall = for_each(&arguments.paths, |path| match path.find(&stores) {
        Ok(Found::File(name)) => remove(&stores, &name, Missing::of(arguments.force)),
        Ok(Found::Directory(name)) if !arguments.recursive => {
            Err(CommandError::IsDirectory { name: name.to_string(), way_out: "-r removes all that is in it" })
        }
        Ok(Found::Directory(name)) => {
            let files = stores.files(&name)?;
            // What somebody else removed meanwhile is gone as wanted.
            let missing = Missing { file: true, ..Missing::of(arguments.force) };
            if for_each(files, |(name, _)| remove(&stores, &name, missing))? == Outcome::Troubled {
                outcome = Outcome::Troubled;
            }
            Ok(())
        }
        Err(Error::NoSuchFile { .. }) if arguments.force => Ok(()),
        Err(error) => Err(error.into()),
    })?;
    Ok(if overall == Outcome::Fine { outcome } else { overall })
}

/// What is no failure.
#[derive(Debug, Clone, Copy)]
struct Missing {
    /// That there is no such file.
    file: bool,
    /// That parts of it lie on nodes whose stores were not given.
    stores: bool,
}

impl Missing {
    fn of(force: bool) -> Missing {
        Missing { file: force, stores: force }
    }
}

fn remove(stores: &StoreSet, name: &FileName, missing: Missing) -> Result<(), CommandError> {
    match stores.remove(name, missing.stores) {
        Err(Error::NoSuchFile { .. }) if missing.file => Ok(()),
        Err(error @ Error::StoresMissing { .. }) => Err(CommandError::PartsElsewhere(error)),
        removed => Ok(removed?),
    }
}
