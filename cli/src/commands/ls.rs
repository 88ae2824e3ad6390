//! `svmio ls`: what is in a store.

use std::path::PathBuf;

use clap::Args;
use svmio_svm::{DirectoryName, Entry, FileName, StoreSet};

use super::byte_count::human;
use super::error::CommandError;
use super::output::Output;
use super::record::{FIELDS, FileRecord, Record, RecordedPath};
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, complain};

const EXAMPLES: &str = after_help!(
    "  svmio ls                       what is in the store
  svmio ls -l /results           with sizes
  svmio ls -R                    every file, with its whole path
  svmio ls --store /local/me     another store
  svmio ls -l --store /mnt/a --store /mnt/b   files that two nodes share
  svmio ls -R --json | jq -r '.[] | select(.size > 1e9) | .path'

>= before what is stored: parts of the file are on nodes whose stores were not given."
);

/// The arguments of `svmio ls`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsArguments {
    /// Also the size, the bytes that have storage, and the segments (existing of possible)
    #[arg(short, long)]
    long: bool,

    /// All files below, with their whole paths
    #[arg(short = 'R', long)]
    recursive: bool,

    #[arg(long, help = "A JSON array instead", long_help = format!("A JSON array instead; its objects have\n{FIELDS}"))]
    json: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The directory or file [default: /]
    #[arg(value_parser = StorePath::parser())]
    path: Option<StorePath>,
}

/// One line of the list.
enum Line {
    Directory(DirectoryName),
    File(FileName),
}

/// Prints what is in the store.
pub(crate) fn ls(arguments: &LsArguments) -> Result<Outcome, CommandError> {
    let stores = arguments.store.open()?;
    let path = arguments.path.clone().unwrap_or_else(StorePath::root);
    let lines = lines(&stores, &path, arguments.recursive)?;
    let mut output = Output::new()?;
    let mut outcome = Outcome::Fine;
    let mut look = |name: &FileName| {
        FileRecord::read(&stores, name).map(|(record, _)| record).map_err(|error| {
            complain(&error);
            outcome = Outcome::Troubled;
            error.to_string()
        })
    };
    if arguments.json {
        let records: Vec<Record> = lines
            .into_iter()
            .map(|line| match line {
                Line::Directory(name) => Record::Directory { path: RecordedPath::of(name.as_path()) },
                Line::File(name) => match look(&name) {
                    Ok(record) => Record::File(record),
                    Err(error) => Record::Damaged { path: RecordedPath::of(name.as_path()), error },
                },
            })
            .collect();
        output.json(&records)?;
    } else {
        if arguments.long && !lines.is_empty() {
            output.line(columns("BYTES", "SIZE", "STORED", "SEGMENTS", b"NAME".to_vec()))?;
        }
        for line in lines {
            let name = printed(&line, &path, arguments.recursive, &output);
            if !arguments.long {
                output.line(name)?;
                continue;
            }
            output.line(match &line {
                Line::Directory(_) => columns("-", "-", "-", "-", name),
                Line::File(file) => match look(file) {
                    Ok(record) => columns(
                        &record.size.to_string(),
                        &human(record.size),
                        &at_least(&record),
                        &format!("{}/{}", record.segments, record.possible_segments()),
                        name,
                    ),
                    Err(_) => columns("?", "?", "?", "?", name),
                },
            })?;
        }
    }
    output.finish()?;
    Ok(outcome)
}

fn lines(stores: &StoreSet, path: &StorePath, recursive: bool) -> Result<Vec<Line>, CommandError> {
    let directory = match path.find(stores)? {
        Found::File(name) => return Ok(vec![Line::File(name)]),
        Found::Directory(directory) => directory,
    };
    if recursive {
        return Ok(stores.files(&directory)?.into_iter().map(|(name, _)| Line::File(name)).collect());
    }
    let line = |entry| match entry {
        Entry::Directory(name) => Line::Directory(name),
        Entry::File(name, _) => Line::File(name),
    };
    Ok(stores.list(&directory)?.into_iter().map(line).collect())
}

/// The last part of the name; all of it where the list goes deeper, or was asked for a single file.
fn printed(line: &Line, asked: &StorePath, recursive: bool, output: &Output) -> Vec<u8> {
    let path = match line {
        Line::Directory(name) => name.as_path(),
        Line::File(name) => name.as_path(),
    };
    let is_asked_for = asked.as_file().is_some_and(|asked| asked.as_path() == path);
    let shown = match path.file_name() {
        Some(last) if !recursive && !is_asked_for => PathBuf::from(last),
        _ => PathBuf::from("/").join(path),
    };
    let mut bytes = output.path(&shown);
    if matches!(line, Line::Directory(_)) {
        bytes.push(b'/');
    }
    bytes
}

/// What is stored; where parts are out of sight, there may be more.
fn at_least(record: &FileRecord) -> String {
    format!("{}{}", if record.is_incomplete() { ">=" } else { "" }, human(record.stored))
}

fn columns(bytes: &str, size: &str, stored: &str, segments: &str, name: Vec<u8>) -> Vec<u8> {
    let mut line = format!("{bytes:>15}  {size:>11}  {stored:>11}  {segments:>11}  ").into_bytes();
    line.extend(name);
    line
}
