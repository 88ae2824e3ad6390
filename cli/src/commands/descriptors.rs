//! How many descriptors the processes of a job may have open: the soft limit, which a shell sets, is often lower than
//! what a large job takes, and the hard one lets it be raised.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::error::CommandError;

/// What a process has open that has to do with no other one: libraries, the store's files, segments, pipes.
const OWN: u64 = 128;

/// What it has open for each other one, at most: the first is called by all, and a provider of libfabric's has sockets
/// to each.
const FOR_EACH: u64 = 4;

/// Raises this process's soft limit, which the processes inherit that it starts, to what a job of `ranks` takes, as far
/// as the hard one lets it. Not further: there are programs that close whatever number they may have open.
pub(super) fn allow_for(ranks: u32) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = needed_by(ranks);
    // Without a limit there is `None`.
    if current.is_some_and(|current| current < needed) {
        let current = Some(maximum.map_or(needed, |maximum| maximum.min(needed)));
        // Where it is not raised, it may do all the same, and otherwise what fails tells the limit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// The same error, or where a job of `ranks` met the limit, one that tells the way out.
pub(super) fn telling_of_limit(error: CommandError, ranks: u32) -> CommandError {
    let met = match &error {
        CommandError::Fabric(svmio_transport::Error::System { source, .. }) => is_limit(source),
        CommandError::Waiting(source) => is_limit(source),
        _ => false,
    };
    let limit = getrlimit(Resource::Nofile).current.filter(|limit| *limit < needed_by(ranks));
    match limit.filter(|_| met) {
        Some(limit) => CommandError::TooFewDescriptors { ranks, limit, needed: needed_by(ranks) },
        None => error,
    }
}

fn is_limit(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

fn needed_by(ranks: u32) -> u64 {
    OWN + FOR_EACH * u64::from(ranks)
}
