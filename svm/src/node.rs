//! Which node this is.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The name of a node: one machine, or one emulated machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(String);

impl NodeName {
    /// This process's node: `SVMIO_NODE` where it is set, else the host's name.
    pub fn current() -> NodeName {
        let name = std::env::var("SVMIO_NODE").ok().filter(|name| !name.is_empty());
        NodeName(name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()))
    }

    /// The node that is called `name`.
    pub fn new(name: impl Into<String>) -> NodeName {
        NodeName(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kernel's identity of its current run. What lies in memory only is worth nothing under another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootId(pub [u8; 16]);

impl BootId {
    /// The running kernel's identity.
    ///
    /// # Errors
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn current() -> Result<BootId> {
        static CURRENT: OnceLock<BootId> = OnceLock::new();
        if let Some(boot) = CURRENT.get() {
            return Ok(*boot);
        }
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        let text = fs::read_to_string(path)
            .map_err(|e| Error::io("reading the kernel's boot identity (is /proc mounted?)", path, e))?;
        let mut bytes = [0u8; 16];
        let digits = text.bytes().filter_map(|c| (c as char).to_digit(16));
        for (i, digit) in digits.take(32).enumerate() {
            bytes[i / 2] = bytes[i / 2] << 4 | digit as u8;
        }
        Ok(*CURRENT.get_or_init(|| BootId(bytes)))
    }
}
