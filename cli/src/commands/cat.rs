//! `svmio cat`: files' bytes to standard output.

use std::io::Write;

use clap::Args;
use svmio_svm::{FileOffset, StoreSet};

use super::byte_count::ByteCount;
use super::error::CommandError;
use super::output;
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help, for_each};

const BUFFER_BYTES: u64 = 4 << 20;

const EXAMPLES: &str = after_help!(
    "  svmio cat /results/log.txt
  svmio cat svm:/results/step1.dat | cmp - reference.dat
  svmio cat /results/step1.dat --offset 1M --length 64 | xxd
  svmio cat /parts/a /parts/b > whole"
);

/// The arguments of `svmio cat`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CatArguments {
    /// Skip the first N bytes of each file (4096, 4K, 1M, 2G, 1T)
    #[arg(long, value_name = "N", default_value = "0")]
    offset: ByteCount,

    /// Print at most N bytes of each file
    #[arg(long, value_name = "N")]
    length: Option<ByteCount>,

    #[command(flatten)]
    store: StoreOption,

    /// The files
    #[arg(required = true, value_name = "PATH", value_parser = StorePath::parser())]
    paths: Vec<StorePath>,
}

/// Writes the files' bytes to standard output, one file after the other.
pub(crate) fn cat(arguments: &CatArguments) -> Result<Outcome, CommandError> {
    let stores = arguments.store.open()?;
    let mut output = output::raw()?;
    let mut buffer = vec![0; BUFFER_BYTES as usize];
    for_each(&arguments.paths, |path| {
        let start = arguments.offset.0;
        let end = arguments.length.map_or(u64::MAX, |length| start.saturating_add(length.0));
        write_range(&stores, path, start..end, &mut buffer, &mut output)
    })
}

fn write_range(
    stores: &StoreSet,
    path: &StorePath,
    range: std::ops::Range<u64>,
    buffer: &mut [u8],
    output: &mut impl Write,
) -> Result<(), CommandError> {
    let name = match path.find(stores)? {
        Found::File(name) => name,
        Found::Directory(name) => {
            let way_out = "svmio ls lists it";
            return Err(CommandError::IsDirectory { name: name.to_string(), way_out });
        }
    };
    let file = stores.open(&name)?;
    // Before anything is written: what is not there should not be missed in the middle.
    file.check_range(FileOffset(range.start)..FileOffset(range.end))?;
    let mut at = range.start;
    while at < range.end {
        let wanted = (range.end - at).min(BUFFER_BYTES) as usize;
        let bytes = file.read_at(FileOffset(at), &mut buffer[..wanted])?;
        if bytes == 0 {
            break;
        }
        output.write_all(&buffer[..bytes]).map_err(CommandError::Output)?;
        at += bytes as u64;
    }
    Ok(())
}
