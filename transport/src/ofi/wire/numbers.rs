//! Numbers and bytes, one behind the other, little-endian; and what every message begins with, written so.

use super::{Header, MAGIC, VERSION};
use crate::units::Interrupt;

/// Reads from the front, as long as there is something.
pub(in crate::ofi) struct Cursor<'a>(pub(in crate::ofi) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(in crate::ofi) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(in crate::ofi) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(in crate::ofi) fn word32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(in crate::ofi) fn word64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::ofi) fn words<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word64()?;
        }
        Some(words)
    }
}

/// Writes one behind the other; there is room.
pub(super) struct Writer<'a> {
    pub(super) into: &'a mut [u8],
    pub(super) at: usize,
}

impl Writer<'_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.into[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(super) fn interrupt(&mut self, interrupt: Option<Interrupt>) {
        if let Some(Interrupt(number)) = interrupt {
            self.bytes(&number.to_le_bytes());
        }
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        for word in words {
            self.bytes(&word.to_le_bytes());
        }
    }

    pub(super) fn header(&mut self, header: &Header, kind: u8) {
        self.bytes(&MAGIC);
        self.bytes(&[VERSION, kind]);
        self.bytes(&header.sender.0.to_le_bytes());
        self.words(&[header.tag, header.number, header.applied]);
    }
}
