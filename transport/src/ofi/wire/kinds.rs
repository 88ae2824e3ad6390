//! The kinds of messages, as their headers number them.

use super::Message;
use crate::units::Interrupt;

pub(super) const WRITE: u8 = 1;
pub(super) const TRIGGER: u8 = 2;
pub(super) const RING: u8 = 3;
pub(super) const BARRIER: u8 = 4;
pub(super) const APPLIED: u8 = 5;
pub(super) const CONNECT: u8 = 6;
pub(super) const CONNECTED: u8 = 7;
pub(super) const ADD: u8 = 8;
pub(super) const SWAP: u8 = 9;
pub(super) const WAS: u8 = 10;
pub(super) const REFUSED: u8 = 11;
pub(super) const WRITE_AND_TRIGGER: u8 = 12;
pub(super) const READ: u8 = 13;
pub(super) const BYTES: u8 = 14;
pub(super) const STOP: u8 = 15;
pub(super) const STOPPED: u8 = 16;
pub(super) const PARTED: u8 = 17;
pub(super) const INQUIRE: u8 = 18;

impl Message<'_> {
    /// The number of its kind.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Write { interrupt, .. } => kind_of_write(*interrupt),
            Self::Trigger(_) => TRIGGER,
            Self::Ring => RING,
            Self::Barrier => BARRIER,
            Self::Applied { .. } => APPLIED,
            Self::Connect { .. } => CONNECT,
            Self::Connected { .. } => CONNECTED,
            Self::Add { .. } => ADD,
            Self::Swap { .. } => SWAP,
            Self::Was { .. } => WAS,
            Self::Read { .. } => READ,
            Self::Bytes { .. } => BYTES,
            Self::Refused { .. } => REFUSED,
            Self::Stop { .. } => STOP,
            Self::Stopped { .. } => STOPPED,
            Self::Parted => PARTED,
            Self::Inquire { .. } => INQUIRE,
        }
    }
}

/// That of a write that triggers `interrupt`.
pub(super) fn kind_of_write(interrupt: Option<Interrupt>) -> u8 {
    if interrupt.is_some() { WRITE_AND_TRIGGER } else { WRITE }
}
