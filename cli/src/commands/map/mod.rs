//! `svmio map`: which parts of a file are where, as a picture.

mod picture;

use clap::Args;
use console::{Term, style};
use serde::Serialize;
use svmio_svm::{FileName, Placement, SizeReason, StoreSet, StoredSegment};

use self::picture::{Glyphs, Layout, Picture};
use super::byte_count::human;
use super::error::CommandError;
use super::output::{Output, counted};
use super::record::{FileRecord, Home, NOT_GIVEN, RecordedPath};
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help};

/// Where the picture's width is not a terminal's.
const DEFAULT_WIDTH: u16 = 80;

const EXAMPLES: &str = after_help!(
    "  svmio map /results/step1.h5
  svmio map /results/step1.h5 | less
  svmio map --hosts n1,n2,n3 /results/step1.h5
  svmio map --store /mnt/a/store --store /mnt/b/store /results/step1.h5
  svmio map --json /results/step1.h5 | jq '.segments[] | select(.state == \"partial\") | .offset'

Each cell of the picture is one segment, or several of a large file. Colours, or letters where there are
none, tell the homes apart. NO_COLOR=1 leaves colours out."
);

const FIELDS: &str = "\
A JSON object instead; it has
  path, path_bytes, id, size, stored, segment_size, segment_size_reason, placement, homes
            as svmio stat --json
  segments  for each that exists, in ascending order:
    index   its number
    offset  where its bytes begin in the file
    home    its node
    stored  bytes that have storage; null where its node's store was not given
    state   \"full\", \"partial\", \"empty\" or \"unknown\"";

/// The arguments of `svmio map`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MapArguments {
    #[arg(long, help = "A JSON object instead", long_help = FIELDS)]
    json: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The file
    #[arg(value_parser = StorePath::parser())]
    path: StorePath,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Map {
    #[serde(flatten)]
    path: RecordedPath,
    id: String,
    size: u64,
    stored: u64,
    segment_size: u64,
    segment_size_reason: Option<SizeReason>,
    placement: Option<Placement>,
    homes: Vec<Home>,
    segments: Vec<MappedSegment>,
}

#[derive(Debug, Serialize)]
struct MappedSegment {
    index: u32,
    offset: u64,
    home: String,
    stored: Option<u64>,
    state: State,
}

/// How much of a segment's bytes has storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Full,
    Partial,
    Empty,
    /// Its node's store was not given.
    Unknown,
}

impl State {
    /// The state of a segment of `extent` bytes of the file, `stored` of which have storage.
    fn new(stored: u64, extent: u64) -> State {
        match stored {
            0 => State::Empty,
            stored if stored >= extent => State::Full,
            _ => State::Partial,
        }
    }
}

/// Prints where the file's parts are.
pub(crate) fn map(arguments: &MapArguments) -> Result<Outcome, CommandError> {
    let stores = arguments.store.open()?;
    let name = match arguments.path.find(&stores)? {
        Found::File(name) => name,
        Found::Directory(name) => {
            let way_out = "svmio ls lists it";
            return Err(CommandError::IsDirectory { name: name.to_string(), way_out });
        }
    };
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&read(&stores, &name)?)?;
    } else {
        draw(&stores, &name, &mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

fn read(stores: &StoreSet, name: &FileName) -> Result<Map, CommandError> {
    let (file, segments) = FileRecord::read(stores, name)?;
    let segment = |segment: StoredSegment| {
        let offset = u64::from(segment.index.0) * file.segment_size;
        let extent = file.size.saturating_sub(offset).min(file.segment_size);
        MappedSegment {
            index: segment.index.0,
            offset,
            home: segment.home.to_string(),
            stored: segment.stored,
            state: segment.stored.map_or(State::Unknown, |stored| State::new(stored, extent)),
        }
    };
    Ok(Map {
        segments: segments.into_iter().map(segment).collect(),
        path: file.path,
        id: file.id,
        size: file.size,
        stored: file.stored,
        segment_size: file.segment_size,
        segment_size_reason: file.segment_size_reason,
        placement: file.placement,
        homes: file.homes,
    })
}

fn draw(stores: &StoreSet, name: &FileName, output: &mut Output) -> Result<(), CommandError> {
    let (file, segments) = FileRecord::read(stores, name)?;
    let width = Term::stdout().size_checked().map_or(DEFAULT_WIDTH, |(_, columns)| columns);
    let layout = Layout {
        width: usize::from(width),
        glyphs: Glyphs::of_locale(),
        coloured: console::colors_enabled(),
    };
    let picture = Picture::new(&file, &segments);

    output.line(format!(
        "{}: {} in {} of {}, {} of them stored ({})",
        file.path,
        human(file.size),
        counted(file.possible_segments(), "segment"),
        human(file.segment_size),
        file.segments,
        human(file.stored)
    ))?;
    let (placement, reason) = (file.placement_in_words(), file.reason_in_words());
    output.line(format!("placement: {placement}; segment size: {reason}"))?;
    output.line("")?;
    for line in picture.lines(&layout) {
        output.line(line)?;
    }
    output.line("")?;
    let width = file.homes.iter().map(|home| home.node.len()).max().unwrap_or(0).max("HOME".len());
    output.line(format!("      {:width$}  {:>10}  {:>15}  {:>11}", "HOME", "SEGMENTS", "BYTES", "STORED"))?;
    for (number, home) in file.homes.iter().enumerate() {
        let mark = if home.missing { "?".to_owned() } else { picture.mark(number, &layout) };
        let node = format!("{:width$}", home.node);
        output.line(format!(
            "   {mark}  {}  {:>10}  {:>15}  {:>11}",
            if layout.coloured { style(node).bold().to_string() } else { node },
            home.segments,
            if home.missing { "?".to_owned() } else { home.stored.to_string() },
            if home.missing { NOT_GIVEN.to_owned() } else { human(home.stored) }
        ))?;
    }
    Ok(())
}
