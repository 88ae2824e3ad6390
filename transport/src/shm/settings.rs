//! The numbers of this back end.

use serde::{Deserialize, Serialize};

use crate::settings::Misfit;
use crate::settings::misfit::within;

/// Settings of the back end for shared memory. Times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShmSettings {
    /// How long a waiter polls without giving its core away, where each process has one: 50 µs, about what falling
    /// asleep and being woken costs, so that waiting costs at most twice what the best choice would.
    pub spin_microseconds: u32,
    /// How long a waiter then polls and gives its core away after each look, from the beginning of the wait on:
    /// 1 ms. Where each process has a core that disturbs nobody, and being woken would cost tens of microseconds.
    pub yield_microseconds: u32,
    /// The same where there are more processes than cores: 100 µs. There the core is given away from the beginning,
    /// and what is not there after so many turns of the others is better slept for.
    pub crowded_yield_microseconds: u32,
    /// Whether data may be copied straight between the private memories of two processes, where the kernel
    /// allows it. For that a process lets others of its user in, which is what a debugger needs, too.
    pub copy_between_processes: bool,
}

impl Default for ShmSettings {
    fn default() -> Self {
        Self {
            spin_microseconds: 50,
            yield_microseconds: 1000,
            crowded_yield_microseconds: 100,
            copy_between_processes: true,
        }
    }
}

impl ShmSettings {
    /// Whether the numbers work.
    ///
    /// # Errors
    /// Which one does not, and which would.
    pub fn check(&self) -> Result<(), Misfit> {
        // A second is a thousand times what any of these is for.
        let time = |key, value| within(key, value, 0..=1_000_000, "microseconds");
        time("spin_microseconds", self.spin_microseconds)?;
        time("yield_microseconds", self.yield_microseconds)?;
        time("crowded_yield_microseconds", self.crowded_yield_microseconds)
    }
}
