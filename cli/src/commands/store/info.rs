//! `svmio store info`: what a store lies on, and what would be faster.

use clap::Args;
use serde::Serialize;
use svmio_svm::{Medium, Store};

use super::own_file_system;
use super::place::Place;
use crate::commands::Outcome;
use crate::commands::byte_count::{exact_and_human, human};
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

const EXAMPLES: &str = "\
Examples:
  svmio store info
  svmio store info --json | jq .page

Writes a small file without a name into the store to see which pages it gets.

Exit codes: 0 fine; 1 it failed; 2 wrong command line.";

const FIELDS: &str = "\
A JSON object instead; it has
  path         the store's directory
  node         the node that it belongs to
  file_system  the kind of file system that it lies on
  mount_point  where this is mounted
  huge         if any: its mount option of this name, which asks for large pages
  free, total  bytes
  page         bytes of the pages that a new file gets for a large write: tried
  large_page   bytes of the system's large pages; null where it has none
  faster       what would make the store faster; null where nothing would";

/// The arguments of `svmio store info`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InfoArguments {
    #[command(flatten)]
    place: Place,

    #[arg(long, help = "A JSON object instead", long_help = FIELDS)]
    json: bool,
}

/// What there is to tell of a store. The fields are stable: new ones may come, none goes or changes.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    path: String,
    node: String,
    file_system: String,
    mount_point: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    huge: Option<String>,
    free: u64,
    total: u64,
    page: u64,
    large_page: Option<u64>,
    faster: Option<String>,
}

/// Tells what the store lies on.
pub(super) fn info(arguments: &InfoArguments) -> Result<Outcome, CommandError> {
    let path = arguments.place.path(rustix::process::geteuid().as_raw());
    // Where one may not look, opening it tells why.
    if matches!(path.join("store.json").try_exists(), Ok(false)) {
        return Err(CommandError::NoStore { path });
    }
    let facts = Facts::of(&arguments.place.open(&path)?)?;
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&facts)?;
    } else {
        print(&facts, &mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

/// Prints `facts` for people.
pub(super) fn print(facts: &Facts, output: &mut Output) -> Result<(), CommandError> {
    let huge = facts.huge.as_ref().map(|huge| format!(", huge={huge}")).unwrap_or_default();
    let mut table = Table::of_words(["store", &facts.path]);
    table.row(["node", &facts.node]);
    table
        .row(["file system".into(), format!("{} mounted on {}{huge}", facts.file_system, facts.mount_point)]);
    table.row(["free".into(), format!("{} of {}", human(facts.free), human(facts.total))]);
    table.row(["pages".into(), exact_and_human(facts.page)]);
    table.row(["faster", facts.faster.as_deref().unwrap_or("nothing that could be set up")]);
    table.print(output)
}

impl Facts {
    /// Those of `store`.
    ///
    /// # Errors
    /// As [`Store::medium`].
    pub(super) fn of(store: &Store) -> Result<Facts, CommandError> {
        let medium = store.medium()?;
        Ok(Facts {
            path: store.path().display().to_string(),
            node: store.node().to_string(),
            file_system: medium.mount.kind.clone(),
            mount_point: medium.mount.point.display().to_string(),
            huge: medium.mount.option("huge").map(str::to_owned),
            free: medium.free,
            total: medium.total,
            page: medium.page,
            large_page: medium.large_page,
            faster: faster(store, &medium),
        })
    }
}

/// The system's setting for large pages in file systems in memory, and the word of it by which there are none.
const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const DENIED: &str = "[deny]";

/// What would be faster than `medium`, and how to get it.
fn faster(store: &Store, medium: &Medium) -> Option<String> {
    if medium.mount.kind != "tmpfs" {
        let memory =
            "a store in memory (svmio store init /dev/shm/NAME), for files that need not survive a reboot";
        return Some(if medium.takes_pieces {
            memory.into()
        } else {
            let kind = &medium.mount.kind;
            format!(
                "small pieces, which are a system call each on {kind}: a store on ext4 or XFS; all: {memory}"
            )
        });
    }
    let has_asked = |huge: &str| huge == "always" || huge == "within_size";
    let pages = Pages {
        got: medium.page,
        large: medium.large_page,
        are_denied: std::fs::read_to_string(SETTING).is_ok_and(|words| words.contains(DENIED)),
        are_unwanted: std::env::var_os("SVMIO_LARGE_PAGES").is_some_and(|word| word == "never"),
        asks_for_large: medium.mount.option("huge").is_some_and(has_asked),
        has_own_file_system: own_file_system::is_at(store.path(), &medium.mount),
    };
    let (user, path) = (rustix::process::geteuid().as_raw(), store.path().display());
    Some(match pages.better()? {
        Better::Setting => {
            format!("first writes, with large pages: {SETTING} says deny; root can write advise into it")
        }
        Better::Variable => "large pages: unset SVMIO_LARGE_PAGES".into(),
        Better::FileSystem(gain) => {
            format!("{gain}: sudo svmio store init --uid {user} {path}, where no files are yet")
        }
    })
}

/// What pages a store in memory has, and why.
#[derive(Debug, Clone, Copy)]
struct Pages {
    /// Bytes of those that a new file got.
    got: u64,
    /// Bytes of the system's large ones, if it has some.
    large: Option<u64>,
    are_denied: bool,
    are_unwanted: bool,
    /// The file system asks for large ones.
    asks_for_large: bool,
    /// It was set up for the store.
    has_own_file_system: bool,
}

/// What can be changed for the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Setting,
    Variable,
    FileSystem(&'static str),
}

impl Pages {
    fn better(self) -> Option<Better> {
        // A system without large pages has nothing better; one that mounts them has given what there is.
        let has_large = self.got >= self.large?;
        if has_large && self.asks_for_large {
            return None;
        }
        if self.are_denied {
            return Some(Better::Setting);
        }
        if self.are_unwanted {
            return Some(Better::Variable);
        }
        // What it was set up with is all that can be: memory is in pieces, perhaps.
        if self.has_own_file_system && self.asks_for_large {
            return None;
        }
        Some(Better::FileSystem(if has_large {
            "first writes, by a half, with large pages that the file system gives by itself"
        } else {
            "first writes, by five times, and first reads, with large pages"
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Pages = Pages {
        got: 4096,
        large: Some(2 << 20),
        are_denied: false,
        are_unwanted: false,
        asks_for_large: false,
        has_own_file_system: false,
    };

    #[test]
    fn what_is_advised_helps() {
        assert!(matches!(SMALL.better(), Some(Better::FileSystem(gain)) if gain.contains("five times")));
        let large = Pages { got: 2 << 20, ..SMALL };
        assert!(matches!(large.better(), Some(Better::FileSystem(gain)) if gain.contains("by a half")));
        assert_eq!(Pages { asks_for_large: true, ..large }.better(), None);
        assert_eq!(Pages { large: None, ..SMALL }.better(), None);
        assert_eq!(Pages { are_unwanted: true, ..SMALL }.better(), Some(Better::Variable));
        // A file system of its own cannot give what the system denies, nor more than it has given.
        let own = Pages { asks_for_large: true, has_own_file_system: true, ..SMALL };
        assert_eq!(Pages { are_denied: true, ..own }.better(), Some(Better::Setting));
        assert_eq!(Pages { are_denied: true, ..SMALL }.better(), Some(Better::Setting));
        assert_eq!(own.better(), None);
    }
}
