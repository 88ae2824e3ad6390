//! What the user has set, for the clusters that teams form: looked at by every process that opens files, also where one
//! node needs none of it. Else a wrong value would do nothing until a job gets a second node.

use std::sync::OnceLock;

use svmio_transport::settings::{FabricChoice, Origin, Settings};

use crate::cache::CacheSettings;
use crate::error::{Error, Result};

/// What is in force in this process.
pub(crate) struct InForce {
    settings: Settings,
    is_fabric_chosen: bool,
    cache: CacheSettings,
}

impl InForce {
    /// As file and environment say. They are read once in a process, as files are opened often; a wrong value stays an
    /// error until it is put right.
    ///
    /// # Errors
    /// [`Error::Settings`]: which one, and what would be right.
    pub(crate) fn get() -> Result<&'static InForce> {
        static IN_FORCE: OnceLock<InForce> = OnceLock::new();
        if let Some(known) = IN_FORCE.get() {
            return Ok(known);
        }
        let read = InForce::read().map_err(|problem| Error::Settings { problem })?;
        Ok(IN_FORCE.get_or_init(|| read))
    }

    fn read() -> Result<InForce, String> {
        let settings = Settings::load().map_err(|error| error.to_string())?;
        let is_fabric_chosen = settings.effective().iter().any(|setting| {
            setting.section.is_empty() && setting.key == "fabric" && setting.origin != Origin::Default
        });
        let cache = CacheSettings::from_environment().map_err(|error| error.to_string())?;
        Ok(InForce { settings, is_fabric_chosen, cache })
    }

    /// The settings of a new job, on `fabric` unless the user chose another.
    pub(super) fn for_job(&self, fabric: FabricChoice) -> Settings {
        let mut settings = self.settings.clone();
        if !self.is_fabric_chosen {
            settings.fabric = fabric;
        }
        settings
    }

    /// The page cache of a new cluster.
    pub(super) fn cache(&self) -> &CacheSettings {
        &self.cache
    }
}
