//! Messengers as programs use them: on threads over shared memory, with and without faults, and in simulated worlds.

mod contract;
mod losses;
mod oracle;
mod worlds;

use super::{MessageSettings, Messenger, Mode, Port};
use crate::units::Rank;
