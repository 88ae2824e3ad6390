//! How a message lies between two others: the lengths of its value and of its data (32 bits each, little-endian), the
//! value in postcard's encoding, the data.
//!
//! Nothing that comes is believed: lengths beyond the limits are refused before there is memory for them, and memory
//! grows with what really arrives.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes of data behind a value: what one question reads or writes.
pub(in crate::remote_store) const LONGEST_DATA: usize = 4 << 20;

/// The longest value: a manifest of a file of a million segments on ever other nodes.
pub(in crate::remote_store) const LONGEST_VALUE: usize = 128 << 20;

const HEADER: usize = 8;

/// Sends a message.
///
/// # Errors
/// What keeps it from being written; a message that is too long is not begun.
pub(in crate::remote_store) fn send(
    to: &mut impl Write,
    what: &impl Serialize,
    data: &[u8],
) -> io::Result<()> {
    let mut bytes = postcard::to_extend(what, vec![0; HEADER]).map_err(io::Error::other)?;
    let value = bytes.len() - HEADER;
    if value > LONGEST_VALUE || data.len() > LONGEST_DATA {
        let length = value + data.len();
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    // Both are far below 2^32, as was just seen.
    bytes[..4].copy_from_slice(&(value as u32).to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&(data.len() as u32).to_le_bytes());
    to.write_all(&bytes)?;
    to.write_all(data)?;
    to.flush()
}

/// Receives a message's value, and says how many bytes of data follow, at most `most`, for the caller to take.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] where nothing more comes; [`io::ErrorKind::InvalidData`] where it is no message.
pub(in crate::remote_store) fn receive<T: DeserializeOwned>(
    from: &mut impl Read,
    most: usize,
) -> io::Result<(T, usize)> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header)?;
    let [a, b, c, d, e, f, g, h] = header;
    let (value, data) =
        (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if value > LONGEST_VALUE || data > most.min(LONGEST_DATA) {
        return Err(senseless());
    }
    let bytes = take(from, value)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((what, [])) => Ok((what, data)),
        _ => Err(senseless()),
    }
}

/// The next `length` bytes.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] where there are fewer.
pub(in crate::remote_store) fn take(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    /// What is taken on trust.
    const AT_ONCE: usize = 64 << 10;
    let mut bytes = Vec::with_capacity(length.min(AT_ONCE));
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what came makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sent_is_received(value: Vec<u32>, data: Vec<u8>) {
            let mut bytes = Vec::new();
            send(&mut bytes, &value, &data).unwrap();
            let mut rest = &bytes[..];
            let (received, length) = receive::<Vec<u32>>(&mut rest, LONGEST_DATA).unwrap();
            prop_assert_eq!((received, length), (value, data.len()));
            prop_assert_eq!(take(&mut rest, length).unwrap(), data);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn half_of_it_is_nothing(value: Vec<u32>, data: Vec<u8>, cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            send(&mut bytes, &value, &data).unwrap();
            let mut rest = &bytes[..cut.index(bytes.len())];
            let received = receive::<Vec<u32>>(&mut rest, LONGEST_DATA)
                .and_then(|(_, length)| take(&mut rest, length));
            prop_assert_eq!(received.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn lengths_beyond_the_limits_are_refused_unread() {
        for (value, data) in [(LONGEST_VALUE as u32 + 1, 0), (u32::MAX, 0), (1, 101), (1, u32::MAX)] {
            let bytes = [value.to_le_bytes(), data.to_le_bytes()].concat();
            let error = receive::<u8>(&mut &bytes[..], 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{value}, {data}");
        }
        assert!(send(&mut Vec::new(), &0u8, &vec![0; LONGEST_DATA + 1]).is_err());
    }
}
