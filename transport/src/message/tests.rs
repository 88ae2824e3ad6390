//! Messengers as programs use them: on threads over shared memory, with and without faults, and in simulated worlds.

mod arriving;
mod backlog;
mod beside;
mod closing;
mod contract;
mod dying;
mod failing;
mod in_use;
mod lending;
mod losses;
mod meeting;
mod oracle;
mod silent;
mod stopping;
mod worlds;

use super::{MessageSettings, Messenger, Mode, Port};
use crate::units::Rank;
