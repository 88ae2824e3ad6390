//! The hosts beside which this runs, if it does: made by `on_hosts` of the workspace's tests, known by its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::promises;

/// How many are made for the stages of the check.
const COUNT: &str = "4";

/// Hosts that ranks can be started on.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Runs commands on them: `SHELL ADDRESS COMMAND...`.
    shell: PathBuf,
    addresses: Vec<String>,
    /// Under which they reach what runs here.
    own_address: String,
}

impl Hosts {
    /// Those that the environment tells of.
    pub(crate) fn from_environment() -> Result<Self> {
        let told = |name: &str| {
            std::env::var(name).context(
                "there are no hosts; run `cargo run -p svmio-tests --bin on_hosts -- 4 cargo xtask ...`",
            )
        };
        Ok(Self {
            shell: told("SVMIO_TESTS_REMOTE_SHELL")?.into(),
            addresses: told("SVMIO_TESTS_ADDRESSES")?.split(',').map(str::to_owned).collect(),
            own_address: told("SVMIO_TESTS_LAUNCHER_ADDRESS")?,
        })
    }

    /// The options of `svmio run` that deal ranks out to them one by one.
    pub(crate) fn options(&self, mpi: Mpi) -> Vec<OsString> {
        let network = format!("{}/24", self.own_address);
        let launcher: &[&str] = if mpi.vendor() == "MPICH" {
            &["-localhost", &self.own_address, "-launcher", "rsh", "-launcher-exec"]
        } else {
            &["--mca", "oob_tcp_if_include", &network, "--mca", "plm_rsh_agent"]
        };
        let mut options: Vec<OsString> = launcher.iter().map(OsString::from).collect();
        options.push(self.shell.clone().into());
        options.extend(["--hosts".into(), self.addresses.join(",").into()]);
        options
    }

    /// The options of the tool, as a shell takes them, for files in such a store of each host on which `ranks` ranks
    /// ran.
    pub(crate) fn options_for_reading(&self, store: &Path, ranks: u32) -> String {
        let used = self.addresses.len().min(ranks as usize);
        let (hosts, shell, store) = (self.addresses[..used].join(","), self.shell.display(), store.display());
        format!("--hosts {hosts} --launcher '{shell}' --store '{store}'")
    }

    /// The first of those on which `ranks` ranks ran that has no such directory.
    pub(crate) fn without(&self, directory: &Path, ranks: u32) -> Option<&str> {
        let used = self.addresses.iter().take(ranks as usize);
        used.map(String::as_str).find(|address| !self.succeeds(address, "test -d", directory))
    }

    /// Removes a directory from all of them: each has it in memory.
    pub(crate) fn remove(&self, directory: &Path) {
        for address in &self.addresses {
            self.succeeds(address, "rm -rf", directory);
        }
    }

    fn succeeds(&self, address: &str, words: &str, directory: &Path) -> bool {
        let mut command = Command::new(&self.shell);
        command.args([address, words]).arg(directory).stdin(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// This very program with these arguments, beside hosts that are there as long as it runs.
pub(crate) fn beside_hosts(paths: &Paths, arguments: &[&str]) -> Result<Command> {
    let own = std::env::current_exe().context("this program has no path")?;
    let mut cargo = promises::cargo(paths);
    cargo.args(["run", "--quiet", "--package", "svmio-tests", "--bin", "on_hosts", "--", COUNT]);
    cargo.arg(own).args(arguments);
    Ok(cargo)
}
