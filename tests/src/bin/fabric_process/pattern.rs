//! The bytes of a message: other ones for each message and each place in it.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The message of `key`, `length` bytes.
pub(crate) fn message(key: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (part, word) in bytes.chunks_mut(8).zip(words(key)) {
        part.copy_from_slice(&word[..part.len()]);
    }
    bytes
}

/// The place of the first eight bytes that are not all as in the message of `key`.
pub(crate) fn first_wrong(key: u64, bytes: &[u8]) -> Option<usize> {
    let mut parts = bytes.chunks(8).zip(words(key));
    parts.position(|(part, word)| part != &word[..part.len()]).map(|part| 8 * part)
}

fn words(key: u64) -> impl Iterator<Item = [u8; 8]> {
    (1..).map(move |number: u64| key.wrapping_add(STEP.wrapping_mul(number)).to_ne_bytes())
}
