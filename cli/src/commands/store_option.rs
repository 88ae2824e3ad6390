//! Which stores a command works on.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_svm::{Store, StoreSet};

use super::error::CommandError;
use super::remote;

/// Which stores a command works on, here or on other hosts.
#[derive(Debug, Args)]
pub(crate) struct StoreOption {
    #[command(flatten)]
    here: StoresHere,

    /// The hosts whose stores these are, with `,` between them: svmio is started there, from the same path as here;
    /// --store, or else SVMIO_STORE, is the store's directory on each; SVMIO_STORES means nothing then
    #[arg(long, value_name = "HOST,..", value_delimiter = ',', value_hint = ValueHint::Hostname)]
    hosts: Vec<String>,

    /// The program that starts commands on --hosts, with options if need be, quoted as for a shell: PROGRAM HOST
    /// COMMAND [default: SVMIO_RSH, else ssh]
    ///
    /// By default ssh has -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3: it
    /// asks nobody for a password, and gives up a host that does not answer. What is named here, or by SVMIO_RSH, gets
    /// none of these.
    #[arg(long, value_name = "PROGRAM", requires = "hosts", value_hint = ValueHint::CommandName)]
    launcher: Option<String>,
}

/// Which stores of this machine a command works on.
#[derive(Debug, Args)]
pub(crate) struct StoresHere {
    /// The store; once for each node's store, for files that several nodes share
    /// [default: SVMIO_STORES (A:B:..), else SVMIO_STORE, else /dev/shm/svmio-UID, or /dev/shm/svmio-UID-NODE where
    /// SVMIO_NODE says which node this is]
    #[arg(long = "store", value_name = "DIR", value_hint = ValueHint::DirPath)]
    stores: Vec<PathBuf>,
}

impl StoreOption {
    /// The stores, for commands that put something into them: a single one is made where there is none. Of several,
    /// nobody could tell which node a new one were of.
    ///
    /// # Errors
    /// As [`StoreOption::open`].
    pub(crate) fn open_or_make(&self) -> Result<StoreSet, CommandError> {
        if self.is_of_hosts() {
            return self.open_hosts(false);
        }
        match &self.here.named()?[..] {
            [] => Ok(Store::from_environment()?.into()),
            [single] => Ok(Store::open(single)?.into()),
            several => open_all(several),
        }
    }

    /// The stores, where they are.
    ///
    /// # Errors
    /// As [`StoresHere::open`]; of hosts, as [`remote::open`].
    pub(crate) fn open(&self) -> Result<StoreSet, CommandError> {
        if self.hosts.is_empty() { self.here.open() } else { self.open_hosts(false) }
    }

    /// The same, but for those stores of this machine that are not there; `None` where none is.
    ///
    /// # Errors
    /// As [`StoreOption::open`].
    pub(crate) fn open_existing(&self) -> Result<Option<StoreSet>, CommandError> {
        if self.is_of_hosts() {
            return self.open_hosts(false).map(Some);
        }
        let named = self.here.named()?;
        let there: Vec<_> = named.iter().filter(|path| !is_absent(path)).cloned().collect();
        if there.is_empty() && !named.is_empty() {
            return Ok(None);
        }
        open_all(&there).map(Some)
    }

    /// Whether they are those of other hosts.
    pub(crate) fn is_of_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The stores of other hosts, for a process that may go on without the command that was typed.
    ///
    /// # Errors
    /// As [`remote::open`].
    pub(crate) fn open_hosts(&self, in_background: bool) -> Result<StoreSet, CommandError> {
        let directory = match &self.here.stores[..] {
            [] => None,
            [single] => Some(single.clone()),
            _ => return Err(CommandError::SeveralDirectories),
        };
        let inherited =
            || std::env::var_os("SVMIO_STORE").filter(|value| !value.is_empty()).map(PathBuf::from);
        remote::open(
            &self.hosts,
            self.launcher.as_deref(),
            directory.or_else(inherited).as_deref(),
            in_background,
        )
    }
}

impl StoresHere {
    /// The stores, where they are. The default one may be made: it can hold nothing else.
    ///
    /// # Errors
    /// [`CommandError::NoStore`], [`CommandError::NoStoresNamed`]; otherwise as [`Store::open`] and [`StoreSet::new`].
    pub(crate) fn open(&self) -> Result<StoreSet, CommandError> {
        open_all(&self.named()?)
    }

    fn named(&self) -> Result<Vec<PathBuf>, CommandError> {
        if !self.stores.is_empty() {
            return Ok(self.stores.clone());
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(list) = variable("SVMIO_STORES") else {
            return Ok(variable("SVMIO_STORE").map(PathBuf::from).into_iter().collect());
        };
        let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
        let paths: Vec<_> = paths.collect();
        // Who sets a list does not mean the default store.
        if paths.is_empty() { Err(CommandError::NoStoresNamed { list }) } else { Ok(paths) }
    }
}

fn is_absent(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// The stores at `paths`; the default one where there are none.
fn open_all(paths: &[PathBuf]) -> Result<StoreSet, CommandError> {
    // A mistyped directory should not come into being.
    let open = |path: &PathBuf| match is_absent(path) {
        true => Err(CommandError::NoStore { path: path.clone() }),
        false => Ok(Store::open(path)?),
    };
    let mut stores = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?.into_iter();
    match stores.next() {
        Some(first) => Ok(StoreSet::new(first, stores)?),
        None => Ok(Store::from_environment()?.into()),
    }
}
