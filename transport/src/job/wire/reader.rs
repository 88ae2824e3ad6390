//! Fields out of bytes that anybody may have sent.

use super::WireProblem;

/// What is left of a frame.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], WireProblem> {
        let (array, rest) = self.0.split_first_chunk().ok_or(WireProblem::Length)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireProblem> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes, little-endian.
    pub(super) fn half(&mut self) -> Result<u16, WireProblem> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub(super) fn word(&mut self) -> Result<u32, WireProblem> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireProblem> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireProblem::Field("flag")),
        }
    }

    /// A length (four bytes) of at most `limit`, and as many bytes.
    pub(super) fn bytes(&mut self, limit: usize) -> Result<&'a [u8], WireProblem> {
        let length = self.word()? as usize;
        if length > limit {
            return Err(WireProblem::TooLong { length, limit });
        }
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(WireProblem::Length)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self, limit: usize) -> Result<String, WireProblem> {
        let bytes = self.bytes(limit)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireProblem::Field("text"))
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), WireProblem> {
        if self.0.is_empty() { Ok(()) } else { Err(WireProblem::Length) }
    }
}
