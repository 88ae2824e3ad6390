//! Numbers of bytes, as people write and read them.

use std::str::FromStr;

use indicatif::HumanBytes;
use svmio_transport::settings::byte_size;

use super::output::counted;

/// A number of bytes on the command line: `4096`, `4K`, `1MiB`, `2G`, `1T` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteCount(pub(crate) u64);

/// A text that is no number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of bytes is written like 4096, 4K, 1M, 2G or 1T")]
pub(crate) struct InvalidByteCount;

impl FromStr for ByteCount {
    type Err = InvalidByteCount;

    fn from_str(text: &str) -> Result<ByteCount, InvalidByteCount> {
        byte_size(text).map(ByteCount).ok_or(InvalidByteCount)
    }
}

/// `bytes` for a reader in a hurry: `1.50 MiB`.
pub(crate) fn human(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// `bytes` exactly, and for a reader in a hurry.
pub(crate) fn exact_and_human(bytes: u64) -> String {
    let exact = counted(bytes, "byte");
    if bytes < 1024 { exact } else { format!("{exact} ({})", human(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("4k", 4096), ("2G", 2 << 30), ("1T", 1 << 40)] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for bad in ["", "K", "-1", "1.5M", "1KB", "18446744073709551616", "99999999T"] {
            assert_eq!(bad.parse::<ByteCount>(), Err(InvalidByteCount), "{bad}");
        }
    }

    #[test]
    fn sizes_are_exact_and_short() {
        assert_eq!(exact_and_human(1), "1 byte");
        assert_eq!(exact_and_human(1536), "1536 bytes (1.50 KiB)");
    }
}
