//! `svmio stat`: all that is known of single files.

use clap::Args;

use super::byte_count::exact_and_human;
use super::error::CommandError;
use super::output::{Output, counted};
use super::record::{FIELDS, FileRecord, NOT_GIVEN, Record, RecordedPath};
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, for_each};

const EXAMPLES: &str = after_help!(
    "  svmio stat /results/step1.h5
  svmio stat svm:/results/step1.h5 svm:/results/step2.h5
  svmio stat --json /results/step1.h5 | jq '.[0].size'
  svmio stat --store /mnt/a/store --store /mnt/b/store /results/step1.h5"
);

/// The arguments of `svmio stat`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatArguments {
    #[arg(long, help = "A JSON array instead", long_help = format!("A JSON array instead; its objects have\n{FIELDS}"))]
    json: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The files or directories
    #[arg(required = true, value_name = "PATH", value_parser = StorePath::parser())]
    paths: Vec<StorePath>,
}

/// Prints what is known of each path.
pub(crate) fn stat(arguments: &StatArguments) -> Result<Outcome, CommandError> {
    let stores = arguments.store.open()?;
    let mut output = Output::new()?;
    let mut records = Vec::new();
    let outcome = for_each(&arguments.paths, |path| {
        let name = match path.find(&stores)? {
            Found::File(name) => name,
            Found::Directory(name) => {
                records.push(Record::Directory { path: RecordedPath::of(name.as_path()) });
                return Ok(());
            }
        };
        match FileRecord::read(&stores, &name) {
            Ok((record, _)) => records.push(Record::File(record)),
            Err(error) => {
                records.push(Record::Damaged {
                    path: RecordedPath::of(name.as_path()),
                    error: error.to_string(),
                });
                return Err(error.into());
            }
        }
        Ok(())
    })?;
    if arguments.json {
        output.json(&records)?;
    } else {
        for record in &records {
            print(record, &mut output)?;
        }
    }
    output.finish()?;
    Ok(outcome)
}

fn print(record: &Record, output: &mut Output) -> Result<(), CommandError> {
    let mut field = |name: &str, value: &str| output.line(format!("{name:>12}: {value}"));
    match record {
        Record::Directory { path } => {
            field("Path", &path.to_string())?;
            field("Type", "directory")
        }
        Record::Damaged { path, error } => {
            field("Path", &path.to_string())?;
            field("Type", "damaged file")?;
            field("Error", error)
        }
        Record::File(file) => {
            field("Path", &file.path.to_string())?;
            field("Type", "file")?;
            field("Identity", &file.id)?;
            field("Size", &exact_and_human(file.size))?;
            field("Stored", &exact_and_human(file.stored))?;
            field("Segment size", &exact_and_human(file.segment_size))?;
            field("Size chosen", &file.reason_in_words())?;
            field("Placement", &file.placement_in_words())?;
            field("Segments", &format!("{} of {}", file.segments, file.possible_segments()))?;
            for home in &file.homes {
                let stored = if home.missing { NOT_GIVEN.to_owned() } else { exact_and_human(home.stored) };
                let part = format!("{}: {}, {stored}", home.node, counted(home.segments, "segment"));
                field("Home", &part)?;
            }
            Ok(())
        }
    }
}
