//! Addresses of processes, as they are exchanged before anybody joins.

use super::wire::{Cursor, MAGIC, Malformed, VERSION};

/// How a process is reached, as its peers are told before they join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessAddress {
    /// The provider; all of a job use one.
    pub provider: String,
    /// Of which kind the name is, in libfabric's numbers.
    pub format: u32,
    /// The longest message, in bytes, for which it has room.
    pub message_bytes: u32,
    /// The key of its anchor, memory that others may write zeros to.
    pub anchor: u64,
    /// Where the anchor begins, as its registration counts.
    pub anchor_base: u64,
    /// The endpoint's name.
    pub name: Vec<u8>,
}

impl ProcessAddress {
    /// As bytes, for the exchange.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let provider = self.provider.as_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, provider.len() as u8]);
        bytes.extend(provider);
        bytes.extend(self.format.to_le_bytes());
        bytes.extend(self.message_bytes.to_le_bytes());
        bytes.extend(self.anchor.to_le_bytes());
        bytes.extend(self.anchor_base.to_le_bytes());
        bytes.extend(&self.name);
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor(bytes);
        let [magic @ .., version, length] = cursor.array::<4>().ok_or(Malformed::Length)?;
        if magic != MAGIC || version != VERSION {
            return Err(Malformed::Foreign);
        }
        let provider = cursor.bytes(usize::from(length)).ok_or(Malformed::Length)?;
        let provider = str::from_utf8(provider).map_err(|_| Malformed::Kind)?.to_owned();
        let format = cursor.word32().ok_or(Malformed::Length)?;
        let message_bytes = cursor.word32().ok_or(Malformed::Length)?;
        let [anchor, anchor_base] = cursor.words().ok_or(Malformed::Length)?;
        Ok(Self { provider, format, message_bytes, anchor, anchor_base, name: cursor.0.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProcessAddress;

    proptest! {
        #[test]
        fn addresses_survive_the_exchange(
            provider in "[a-z;_]{0,20}",
            format: u32,
            message_bytes: u32,
            anchor: u64,
            anchor_base: u64,
            name: Vec<u8>,
        ) {
            let address = ProcessAddress { provider, format, message_bytes, anchor, anchor_base, name };
            prop_assert_eq!(ProcessAddress::decode(&address.encode()), Ok(address));
        }

        #[test]
        fn any_bytes_are_an_address_or_refused(bytes: Vec<u8>) {
            let _ = ProcessAddress::decode(&bytes);
        }
    }
}
