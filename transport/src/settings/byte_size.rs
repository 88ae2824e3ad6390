//! Numbers of bytes, as people write them.

/// The bytes that `65536`, `64K`, `64KiB` or `64 KiB` mean; so with `M`, `G` and `T`, all powers of 1024, in any case.
/// `None` for any other text, `KB` and `MB` among them, of which nobody knows whether they are powers of 1000; and for
/// more than 64 bits hold.
///
/// ```
/// use svmio_transport::settings::byte_size;
///
/// assert_eq!(byte_size("16M"), byte_size("16 MiB"));
/// assert_eq!(byte_size("16MB"), None);
/// ```
pub fn byte_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("7B", 7),
            ("4k", 4096),
            (" 4 KiB ", 4096),
            ("256M", 256 << 20),
            ("2GiB", 2 << 30),
            ("1t", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(byte_size(text), Some(bytes), "{text}");
        }
        for bad in
            ["", " ", "K", "-1", "+1", "1.5M", "1KB", "1 MB", "1Kib x", "18446744073709551616", "99999999T"]
        {
            assert_eq!(byte_size(bad), None, "{bad}");
        }
    }
}
