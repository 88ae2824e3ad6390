//! Settings: what numbers are in force, and where they come from.
//!
//! Every number has a default that is argued where it is defined: in the settings of the module that uses it. A file
//! (TOML, named by `SVMIO_CONFIG`) changes some; the environment changes what the file says:
//!
//! ```toml
//! fabric = "ofi"                    # or SVMIO_FABRIC=ofi
//!
//! [messages]
//! eager_buffer = "32KiB"            # or SVMIO_MESSAGES_EAGER_BUFFER=32KiB
//!
//! [watchdog]
//! timeout = "500ms"                 # or SVMIO_WATCHDOG_TIMEOUT=500ms
//! ```
//!
//! A key that does not exist and a value that makes no sense are errors that name the line or the variable and what
//! would be right. Each section checks its own numbers; [`Settings::check`] finds where a wrong one stands.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::back_end::Prepared;
use crate::error::{Error, Result};
use crate::job::{StartSettings, WatchdogSettings};
use crate::message::MessageSettings;
use crate::ofi::{self, OfiSettings};
use crate::secret::JobSecret;
use crate::shm::{self, ShmSettings};

mod assignment;
mod byte_size;
pub mod duration;
mod environment;
mod fields;
mod file;
pub(crate) mod misfit;

use assignment::Assignment;
pub use byte_size::byte_size;
pub use environment::{has_variable, is_setting, variables};
pub use misfit::Misfit;

/// Names the file.
const CONFIG: &str = "SVMIO_CONFIG";

/// Which fabric a job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricChoice {
    /// Shared memory: all processes on one machine.
    #[default]
    Shm,
    /// libfabric: processes on any machines.
    Ofi,
}

impl fmt::Display for FabricChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shm => "shm",
            Self::Ofi => "ofi",
        })
    }
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which fabric.
    pub fabric: FabricChoice,
    /// Of shared memory.
    pub shm: ShmSettings,
    /// Of libfabric.
    pub ofi: OfiSettings,
    /// Of messages.
    pub messages: MessageSettings,
    /// Of the start and the end of a job.
    pub start: StartSettings,
    /// Of the watchdog.
    pub watchdog: WatchdogSettings,
    /// Of what was set by file or environment: by section and key.
    #[serde(skip)]
    origins: BTreeMap<(String, String), Origin>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It is the default.
    Default,
    /// A file says so.
    File {
        /// Which.
        path: PathBuf,
        /// Where, counted from 1.
        line: usize,
    },
    /// The environment says so.
    Environment {
        /// The variable.
        variable: String,
    },
    /// The program says so.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::Environment { variable } => formatter.write_str(variable),
            Self::Program => formatter.write_str("the program"),
        }
    }
}

/// A value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// The section; empty for what belongs to none.
    pub section: String,
    /// The key.
    pub key: String,
    /// The value, as it would be written in the environment; empty where there is none.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, changed by the file that `SVMIO_CONFIG` names, changed by the environment.
    ///
    /// # Errors
    /// [`Error::Setting`] that names the file and line, or the variable.
    pub fn load() -> Result<Self> {
        let file = std::env::var_os(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        Self::from_sources(file.as_deref(), variables)
    }

    /// The same from a file and variables that are given.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn from_sources(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let mut assignments = Vec::new();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path).map_err(|problem| Error::Setting {
                place: path.display().to_string(),
                problem: format!("the file that {CONFIG} names cannot be read: {problem}"),
            })?;
            assignments.extend(file::read(path, &text)?);
        }
        assignments.extend(environment::read(variables)?);
        let mut settings = Self::default();
        for assignment in assignments {
            settings = settings.assign(assignment)?;
        }
        settings.check()?;
        Ok(settings)
    }

    fn assign(self, assignment: Assignment) -> Result<Self> {
        let Self { mut origins, .. } = self.clone();
        let mut changed = assignment.apply(&self)?;
        origins.insert((assignment.section.into(), assignment.key.into()), assignment.origin);
        changed.origins = origins;
        Ok(changed)
    }

    /// Whether the values make sense, whoever set them.
    ///
    /// # Errors
    /// [`Error::Setting`] that names the file and line or the variable, the value, and what would be right.
    pub fn check(&self) -> Result<()> {
        let misfits = [
            ("shm", self.shm.check()),
            ("ofi", self.ofi.check()),
            ("messages", self.messages.check()),
            ("start", self.start.check()),
            ("watchdog", self.watchdog.check()),
        ];
        for (section, checked) in misfits {
            checked.map_err(|misfit| {
                let place = (section.to_owned(), misfit.key.to_owned());
                match self.origins.get(&place) {
                    Some(origin) => misfit.at(origin),
                    None => misfit.at(format!("{section}.{}, as {} set it", misfit.key, Origin::Program)),
                }
            })?;
        }
        Ok(())
    }

    /// All values in force.
    #[must_use]
    pub fn effective(&self) -> Vec<Effective> {
        let (ours, defaults) = (assignment::table(self), assignment::table(&Self::default()));
        let mut rows = Vec::new();
        for &(section, keys) in fields::all() {
            for &key in keys {
                let value = assignment::value(&ours, section, key);
                let origin = match self.origins.get(&(section.to_owned(), key.to_owned())) {
                    Some(origin) => origin.clone(),
                    None if value == assignment::value(&defaults, section, key) => Origin::Default,
                    None => Origin::Program,
                };
                let value = value.map(assignment::show).unwrap_or_default();
                rows.push(Effective { section: section.into(), key: key.into(), value, origin });
            }
        }
        rows
    }

    /// Prepares the fabric that was chosen, for a process that others reach at `address`. Settings of the fabric that
    /// name an address go before.
    ///
    /// # Errors
    /// What the back end says.
    pub fn prepare_at(&self, secret: &JobSecret, address: IpAddr) -> Result<Box<dyn Prepared>> {
        match self.fabric {
            FabricChoice::Shm => self.prepare(secret),
            FabricChoice::Ofi => ofi::prepare_at(&self.ofi, secret, address),
        }
    }

    /// Prepares the fabric that was chosen.
    ///
    /// # Errors
    /// What the back end says.
    pub fn prepare(&self, secret: &JobSecret) -> Result<Box<dyn Prepared>> {
        match self.fabric {
            FabricChoice::Shm => shm::prepare(&self.shm, secret),
            FabricChoice::Ofi => ofi::prepare(&self.ofi, secret),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
