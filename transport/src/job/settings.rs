//! Numbers of start-up and watchdog.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::misfit::at_least;
use crate::settings::{Misfit, duration};

/// The start and the end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StartSettings {
    /// How long processes wait for each other at the start. A batch system may take seconds from the first process
    /// to the last.
    #[serde(with = "duration")]
    pub limit: Duration,
    /// How long a process that has finished waits for the others before it leaves them; `0s`: for as long as it takes.
    /// Others may compute for hours after the first has finished, and one that hangs is lost by the watchdog's timeout,
    /// so no limit is needed against a wait without end; who leaves by a limit is lost to those who still need it.
    #[serde(with = "duration")]
    pub finish_limit: Duration,
    /// Host name or address at which rank 0 listens when the processes find each other by the program's own
    /// exchange; empty: at all interfaces, by IPv6 only where there is no address of IPv4 but the loopback's.
    pub address: String,
}

impl Default for StartSettings {
    fn default() -> Self {
        Self { limit: Duration::from_secs(30), finish_limit: Duration::ZERO, address: String::new() }
    }
}

impl StartSettings {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// Which does not.
    pub fn check(&self) -> Result<(), Misfit> {
        at_least("limit", self.limit, Duration::from_millis(1))?;
        at_least("finish_limit", self.finish_limit, Duration::ZERO)
    }
}

/// How lost processes are noticed, and what signals do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchdogSettings {
    /// After how long without a heartbeat a process counts as hung. Heartbeats come four times as often; a process
    /// whose node is overloaded may be late by a second, so this is not to be much shorter. A process that dies is
    /// noticed at once in any case; one whose program hangs while its threads run, never: heartbeats come from a thread
    /// beside the program.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Whether SIGINT and SIGTERM to this process end the whole job, and SIGHUP where the program neither ignores nor
    /// takes it. For programs of svmio's own; a library in somebody's program leaves signals to that.
    pub signals: bool,
    /// How long the program may take to leave by itself, once such a signal has come to any process, before it is
    /// ended.
    #[serde(with = "duration")]
    pub grace: Duration,
}

impl Default for WatchdogSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), signals: false, grace: Duration::from_secs(2) }
    }
}

impl WatchdogSettings {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// Which does not.
    pub fn check(&self) -> Result<(), Misfit> {
        at_least("timeout", self.timeout, Duration::from_millis(20))?;
        at_least("grace", self.grace, Duration::ZERO)
    }

    /// How often a heartbeat is sent.
    pub(super) fn beat(&self) -> Duration {
        self.timeout / 4
    }
}
