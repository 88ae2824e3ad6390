//! What messages cost.
//!
//! A message of *n* bytes costs α + *n*β (R. W. Hockney), a byte that is copied within memory κ. Many networks take
//! short messages otherwise than long ones, so the first bytes of each have a β of their own.

/// How many bytes a message has that is short.
pub(crate) const SHORT: usize = 16 << 10;

/// What messages between members cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MessageCosts {
    /// α, nanoseconds.
    pub latency: f64,
    /// β of the first bytes of a message, nanoseconds for each byte.
    pub per_short_byte: f64,
    /// β of all further ones.
    pub per_byte: f64,
    /// κ, nanoseconds for each byte that is copied within a member's memory.
    pub per_copied_byte: f64,
}

impl Default for MessageCosts {
    /// 1 Gbit/s with 20 µs.
    fn default() -> Self {
        Self { latency: 20_000.0, per_short_byte: 8.0, per_byte: 8.0, per_copied_byte: 0.1 }
    }
}

impl MessageCosts {
    /// What a message of so many bytes takes.
    pub(crate) fn message(&self, bytes: f64) -> f64 {
        let short = bytes.min(SHORT as f64);
        self.latency + short * self.per_short_byte + (bytes - short) * self.per_byte
    }

    /// What a message adds that goes side by side with others of one sender, or to one receiver: these have only a part
    /// of α to do for each.
    pub(crate) fn further_message(&self, bytes: f64) -> f64 {
        self.message(bytes) - 0.75 * self.latency
    }

    /// What copying so many bytes takes.
    pub(crate) fn copy(&self, bytes: f64) -> f64 {
        bytes * self.per_copied_byte
    }
}
