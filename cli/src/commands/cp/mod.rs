//! `svmio cp`: files into the store, out of it, and within it.
//!
//! ```text
//! SRC, DST   Place         place         in the store, outside, a stream; which file a directory means
//! SRC        Source        source        its bytes, and where they are not holes
//! DST        Sink          sink          a file that gets its name when it is whole and durable
//! ```
//!
//! What does not end well leaves no file behind under the name of DST, and an older file there as it was. After a kill in
//! the midst of putting a file over an older one in several stores, it takes `svmio verify` with all of them to find
//! one of both again.

mod place;
mod sink;
mod source;

use std::ffi::OsString;

use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use svmio_svm::{Error, NodeName, Placement};

use self::place::{Destination, Place};
use self::sink::{Manner, Sink};
use self::source::Source;
use super::error::CommandError;
use super::interruption::Interruption;
use super::store_option::StoreOption;
use super::{Outcome, after_help};

/// Large enough that system calls cost nothing, small enough that an interrupt is felt at once.
const BUFFER_BYTES: u64 = 4 << 20;

/// What is said of it beside its options.
pub(crate) const LONG_ABOUT: &str = "\
Copy a file into the store, out of it, or within it. A name that begins with svm: is in the store, any \
other is in the machine's file system, and - is standard input or output.

Holes stay holes. What others append to SRC meanwhile is no part of the copy; if SRC becomes shorter, the \
copy fails. (What a job over several nodes writes meanwhile is copied as the stores hold it.) The copy \
gets its name when it is whole and on the storage device: a copy that fails or is interrupted leaves \
nothing, and leaves alone what it was to overwrite.";

const EXAMPLES: &str = after_help!(
    "  svmio cp mesh.h5 svm:/in/mesh.h5          into the store
  svmio cp mesh.h5 svm:/in/                 the same
  svmio cp svm:/results/step1.h5 .          out of it
  svmio cp -f svm:/a svm:/backup/a          within it, over an older copy
  zcat data.gz | svmio cp - svm:/in/data    from standard input
  svmio cp svm:/in/data - | sha256sum       to standard output
  svmio cp --hosts n1,n2,n3 svm:/results/step1.h5 .
  svmio cp --hosts n1,n2,n3 --placement round_robin mesh.h5 svm:/in/mesh.h5
  svmio cp --store /mnt/a --store /mnt/b --placement round_robin mesh.h5 svm:/in/mesh.h5
  svmio cp ./svm:odd svm:/odd               a file outside whose name begins with svm:"
);

/// The arguments of `svmio cp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CpArguments {
    /// Overwrite DST where it exists
    #[arg(short, long)]
    force: bool,

    /// Which of the stores get the parts of a copy into several: first (all into the one that is given
    /// first), round_robin (segment by segment), block (adjacent parts of about one size), node=NAME
    #[arg(long, value_name = "POLICY", default_value = "first", value_parser = placement)]
    placement: Placement,

    #[command(flatten)]
    store: StoreOption,

    /// What to copy
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    source: OsString,

    /// Where to: a file, or a directory (that exists, or with a / at its end)
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    destination: OsString,
}

fn placement(text: &str) -> Result<Placement, &'static str> {
    match text {
        "first" => Ok(Placement::FirstTouch),
        "round_robin" => Ok(Placement::RoundRobin),
        "block" => Ok(Placement::Block),
        _ => match text.strip_prefix("node=") {
            Some(node) if !node.is_empty() => Ok(Placement::Node(NodeName::new(node))),
            _ => Err("it is one of first, round_robin, block, node=NAME"),
        },
    }
}

/// Copies one file.
pub(crate) fn cp(arguments: &CpArguments) -> Result<Outcome, CommandError> {
    let (from, to) = (Place::new(&arguments.source)?, Place::new(&arguments.destination)?);
    if !from.is_in_store() && !to.is_in_store() {
        return Err(CommandError::NeitherInStore { from: from.to_string(), to: to.to_string() });
    }
    // Only what is put into a store calls for one.
    let stores = if to.is_in_store() { arguments.store.open_or_make()? } else { arguments.store.open()? };
    let mut source = Source::open(&from, &stores)?;
    if arguments.placement == Placement::Block && to.is_in_store() && source.may_be_long() {
        return Err(CommandError::UnknownLength { from: from.to_string() });
    }
    let destination = Destination::choose(&to, &from, &stores, arguments.force)?;
    let manner = Manner { force: arguments.force, placement: arguments.placement.clone() };
    let copied = Sink::open(&destination, &stores, &source, &manner).and_then(|sink| copy(&mut source, sink));
    copied.map_err(|source| CommandError::CopyFailed {
        from: from.to_string(),
        to: destination.to_string(),
        consequence: if destination.is_stream() { "" } else { consequence(&source) },
        source: Box::new(source),
    })?;
    Ok(Outcome::Fine)
}

/// What is left of a copy that failed.
fn consequence(error: &CommandError) -> &'static str {
    match error {
        CommandError::Svm(Error::LeftBehind { .. }) | CommandError::NameUnsynced { .. } => "",
        CommandError::Svm(Error::HostLost { .. }) => {
            " (the other stores keep nothing of the copy, and an older file as it was; that host's svmio undoes what it \
             did when it notices, and after a crash svmio verify with the stores of all does)"
        }
        CommandError::InterruptedAmid { source, .. } => consequence(source),
        // Also what was there before is as it was.
        _ => " (nothing of the copy was left there)",
    }
}

/// Copies all of `source`; `sink` is durable under its name on return.
fn copy(source: &mut Source, mut sink: Sink) -> Result<(), CommandError> {
    // A stream has nothing to be cleaned up: there a signal may do what it does.
    let interruption = if sink.is_stream() { None } else { Some(Interruption::watch()?) };
    let check = || interruption.as_ref().map_or(Ok(()), Interruption::check);
    let progress = progress(source.size(), &sink);
    // A terminal's signal ends remote shells, too: what that leads to is not why the copy ended.
    let copied = copy_bytes(source, &mut sink, interruption.as_ref(), &progress);
    let end = match copied.and_then(|end| check().map(|()| end)) {
        Ok(end) => end,
        Err(error) => {
            // The signal may come a moment later than what it leads to.
            drop(sink);
            return check().and(Err(error));
        }
    };
    sink.finish(end).map_err(|error| match check() {
        Ok(()) => error,
        Err(cause) => amid(cause, error),
    })?;
    progress.finish_and_clear();
    Ok(())
}

/// Why a copy ended that was interrupted by `cause` when it was about to get its name, and failed with `error`.
fn amid(cause: CommandError, error: CommandError) -> CommandError {
    match (cause, error) {
        // However it came to that: something is left, or may be.
        (
            CommandError::Interrupted { signal },
            error @ (CommandError::Svm(Error::LeftBehind { .. } | Error::HostLost { .. })
            | CommandError::NameUnsynced { .. }),
        ) => CommandError::InterruptedAmid { signal, source: Box::new(error) },
        (cause, _) => cause,
    }
}

/// Copies the bytes, and says how long the copy is to be.
fn copy_bytes(
    source: &mut Source,
    sink: &mut Sink,
    interruption: Option<&Interruption>,
    progress: &ProgressBar,
) -> Result<u64, CommandError> {
    let mut buffer = vec![0; BUFFER_BYTES as usize];
    let (mut at, mut ended) = (0, false);
    while let Some(data) = source.next_data(at)? {
        at = data.start;
        while at < data.end {
            if let Some(interruption) = interruption {
                source.wait(interruption)?;
            }
            let wanted = (data.end - at).min(BUFFER_BYTES) as usize;
            let bytes = source.read_at(at, &mut buffer[..wanted])?;
            if bytes == 0 {
                break;
            }
            sink.write_at(at, &buffer[..bytes])?;
            at += bytes as u64;
            progress.set_position(at);
        }
        if at < data.end {
            ended = true;
            break;
        }
    }
    source.end(at, ended)
}

/// A bar on standard error, where that is a terminal and does not show the bytes themselves.
fn progress(size: Option<u64>, sink: &Sink) -> ProgressBar {
    if sink.is_stream() {
        return ProgressBar::hidden();
    }
    let template = match size {
        Some(_) => "{bytes} of {total_bytes} [{bar:30}] {bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates above are well-formed");
    ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr()).with_style(style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_left_is_told_also_where_a_signal_came() {
        let lost = || Error::HostLost { host: "b".to_owned(), reason: "the connection ended".to_owned() };
        let left = Error::LeftBehind {
            name: "/f".to_owned(),
            places: "b:/store".to_owned(),
            replacing: true,
            source: Box::new(lost()),
        };
        let unsynced = CommandError::NameUnsynced {
            path: "out".into(),
            source: std::io::Error::from(std::io::ErrorKind::StorageFull),
        };
        let told = |error| {
            let error = amid(CommandError::Interrupted { signal: 2 }, error);
            let consequence = consequence(&error);
            assert!(
                matches!(
                    error,
                    CommandError::Interrupted { signal: 2 } | CommandError::InterruptedAmid { signal: 2, .. }
                ),
                "{error:?}"
            );
            format!("{error}{consequence}")
        };
        let words = told(CommandError::Svm(left));
        assert!(
            words.starts_with("interrupted; ") && words.contains("may have kept it in b:/store"),
            "{words}"
        );
        assert!(words.ends_with("brings the older file back"), "{words}");
        let words = told(CommandError::Svm(lost()));
        assert!(words.ends_with("svmio verify with the stores of all does)"), "{words}");
        let words = told(unsynced);
        assert!(words.contains("the copy is there") && !words.contains("nothing"), "{words}");
        let words = told(CommandError::OutsideExists { path: "out".into() });
        assert_eq!(words, "interrupted (nothing of the copy was left there)");
    }
}
