//! Hosts that may be asked for files.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::remote_store::{LaunchError, StoreLauncher, can_be_host, inherited, inherited_directory};
use crate::store_set::StoreSet;

/// Where nothing does: it is among the programs there.
const DEFAULT_PROGRAM: &str = "svmio";

/// Hosts beside a job, whose stores may be asked for files that the job does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Servers(Vec<String>);

/// Something that is no list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be the name of a host (they are told like n1,n2)")]
pub struct NoHost(String);

impl FromStr for Servers {
    type Err = NoHost;

    /// From a list of hosts with `,` between them; of none, where it is empty.
    fn from_str(text: &str) -> Result<Servers, NoHost> {
        let words = text.split(',').map(str::trim);
        let hosts: Vec<String> = words.map(str::to_owned).collect();
        match &hosts[..] {
            [nothing] if nothing.is_empty() => Ok(Servers(Vec::new())),
            _ => match hosts.iter().find(|host| !can_be_host(host)) {
                Some(host) => Err(NoHost(host.clone())),
                None => Ok(Servers(hosts)),
            },
        }
    }
}

impl Servers {
    /// The variable of the environment that names them.
    pub const VARIABLE: &str = "SVMIO_SERVERS";
    /// The one that names svmio's tool, as it is called on them.
    pub const PROGRAM_VARIABLE: &str = "SVMIO_PROGRAM";

    /// Those that `SVMIO_SERVERS` names.
    ///
    /// # Errors
    /// [`Error::Settings`] where it names something else.
    pub fn from_environment() -> Result<Servers> {
        let named = inherited(Self::VARIABLE).unwrap_or_default().to_string_lossy().into_owned();
        named
            .parse()
            .map_err(|problem| Error::Settings { problem: format!("{}={named}: {problem}", Self::VARIABLE) })
    }

    /// Whether there is nobody to be asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their stores: of each in the directory that `SVMIO_STORE` names, or where svmio has it by itself.
    ///
    /// # Errors
    /// What keeps one from being asked, with its name.
    pub(super) fn connect(&self) -> Result<StoreSet> {
        let program = inherited(Self::PROGRAM_VARIABLE).unwrap_or_else(|| OsString::from(DEFAULT_PROGRAM));
        let pass_on = |host: &str, line: &str| tracing::info!("host {host} says: {line}");
        let launcher = StoreLauncher::new(&program, None, inherited_directory().as_deref(), pass_on);
        let stores = launcher.and_then(|launcher| launcher.without_preloads().connect(&self.0));
        StoreSet::of_hosts(stores.map_err(LaunchError::into_error)?)
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_as_a_list() {
        let list = |text: &str| text.parse::<Servers>().map(|servers| servers.to_string());
        assert_eq!(list("n1, n2,user@n3").as_deref(), Ok("n1,n2,user@n3"));
        assert_eq!(list(" ").as_deref(), Ok(""));
        assert!("".parse::<Servers>().unwrap().is_empty());
        for wrong in ["n1,,n2", "n1,", "n1,-oProxyCommand=x"] {
            assert!(list(wrong).unwrap_err().to_string().contains("cannot be the name of a host"), "{wrong}");
        }
    }
}
