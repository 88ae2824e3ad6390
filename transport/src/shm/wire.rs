//! What the processes of a machine tell each other to find their memory: addresses, greetings, answers.
//!
//! All of it comes from outside, so decoding never panics and refuses whatever is not exactly right.

use crate::secret::JobSecret;
use crate::units::{Rank, SegmentId};

use super::machine::Machine;

/// The version of what is below; peers of another version are refused.
const VERSION: u16 = 3;

const ADDRESS_MARK: [u8; 6] = *b"svmadr";
const GREETING_MARK: [u8; 6] = *b"svmask";
const ANSWER_MARK: [u8; 6] = *b"svmans";

/// The longest processor set that an address may carry, in bytes: 8192 processors, the kernel's own limit.
const LONGEST_PROCESSOR_SET: usize = 1024;

/// Bytes of a greeting.
pub const GREETING_LENGTH: usize = 61;

/// Bytes of an answer.
pub const ANSWER_LENGTH: usize = 25;

/// Bytes that are not what a peer of this version sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// How a process is reached by the others of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The random part of the name of its socket, in the abstract name space.
    pub name: [u8; 16],
    /// Where it is.
    pub machine: Machine,
    /// Its number.
    pub process: u32,
    /// Its user.
    pub user: u32,
    /// Inode numbers of its user and process name spaces: process numbers mean something only within one.
    pub name_spaces: [u64; 2],
    /// Whether it lets the others copy from and to its memory, as far as it can tell.
    pub opens_memory: bool,
    /// Where in its memory the cookie is.
    pub cookie_at: u64,
    /// A random number that tells it from a later process of the same number.
    pub cookie: [u8; 16],
    /// On which processors it may run, a bit each, lowest first.
    pub processors: Vec<u8>,
}

impl Address {
    /// As bytes, to be exchanged.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let processors = &self.processors[..self.processors.len().min(LONGEST_PROCESSOR_SET)];
        let mut bytes = Vec::with_capacity(108 + processors.len());
        bytes.extend(ADDRESS_MARK);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.name);
        bytes.extend(self.machine.boot);
        bytes.extend(self.machine.network.to_le_bytes());
        bytes.extend(self.process.to_le_bytes());
        bytes.extend(self.user.to_le_bytes());
        for name_space in self.name_spaces {
            bytes.extend(name_space.to_le_bytes());
        }
        bytes.push(self.opens_memory.into());
        bytes.extend(self.cookie_at.to_le_bytes());
        bytes.extend(self.cookie);
        bytes.extend((processors.len() as u16).to_le_bytes());
        bytes.extend(processors);
        bytes
    }

    /// Of bytes.
    ///
    /// # Errors
    /// Where they are no address.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        rest.expect_head(ADDRESS_MARK, "not the address of a process on shared memory")?;
        let address = Self {
            name: rest.take()?,
            machine: Machine { boot: rest.take()?, network: u64::from_le_bytes(rest.take()?) },
            process: u32::from_le_bytes(rest.take()?),
            user: u32::from_le_bytes(rest.take()?),
            name_spaces: [u64::from_le_bytes(rest.take()?), u64::from_le_bytes(rest.take()?)],
            opens_memory: rest.take_flag()?,
            cookie_at: u64::from_le_bytes(rest.take()?),
            cookie: rest.take()?,
            processors: {
                let length = usize::from(u16::from_le_bytes(rest.take()?));
                if length > LONGEST_PROCESSOR_SET {
                    return Err(Malformed("a processor set that is too long"));
                }
                rest.take_slice(length)?.to_vec()
            },
        };
        rest.expect_end()?;
        Ok(address)
    }
}

/// What an asker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The control segment: bell and interrupts.
    Control,
    /// An exported segment.
    Segment(SegmentId),
    /// An answer of its respondent.
    Answer([u64; 2]),
}

/// With what an asker begins, and all it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// The job's secret, as the asker knows it.
    pub secret: [u8; 32],
    /// Who asks.
    pub asker: Rank,
    /// For what.
    pub wanted: Wanted,
}

impl Greeting {
    /// The greeting of a process that knows `secret`.
    #[must_use]
    pub fn new(secret: &JobSecret, asker: Rank, wanted: Wanted) -> Self {
        Self { secret: *secret.as_bytes(), asker, wanted }
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GREETING_LENGTH);
        bytes.extend(GREETING_MARK);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.secret);
        bytes.extend(self.asker.0.to_le_bytes());
        let (kind, words) = match self.wanted {
            Wanted::Control => (0, [0, 0]),
            Wanted::Segment(id) => (1, [u64::from(id.space) | u64::from(id.number) << 32, 0]),
            Wanted::Answer(question) => (2, question),
        };
        bytes.push(kind);
        bytes.extend(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// Of bytes.
    ///
    /// # Errors
    /// Where they are no greeting.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        rest.expect_head(GREETING_MARK, "not a greeting")?;
        let secret = rest.take()?;
        let asker = Rank(u32::from_le_bytes(rest.take()?));
        let [kind] = rest.take()?;
        let words = [u64::from_le_bytes(rest.take()?), u64::from_le_bytes(rest.take()?)];
        rest.expect_end()?;
        let wanted = match (kind, words) {
            (0, [0, 0]) => Wanted::Control,
            (1, [id, 0]) => Wanted::Segment(SegmentId::new(id as u32, (id >> 32) as u32)),
            (2, question) => Wanted::Answer(question),
            _ => return Err(Malformed("a wish that does not exist")),
        };
        Ok(Self { secret, asker, wanted })
    }
}

/// What the owner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The file descriptor that comes along holds the memory.
    Here {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// There is no such segment, or no respondent.
    Unknown,
    /// What the respondent answers.
    Said(u64),
}

impl Answer {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ANSWER_LENGTH);
        bytes.extend(ANSWER_MARK);
        bytes.extend(VERSION.to_le_bytes());
        let (kind, offset, length) = match *self {
            Self::Here { offset, length } => (0, offset, length),
            Self::Unknown => (1, 0, 0),
            Self::Said(word) => (2, word, 0),
        };
        bytes.push(kind);
        bytes.extend(offset.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes
    }

    /// Of bytes.
    ///
    /// # Errors
    /// Where they are no answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        rest.expect_head(ANSWER_MARK, "not an answer")?;
        let [kind] = rest.take()?;
        let offset = u64::from_le_bytes(rest.take()?);
        let length = u64::from_le_bytes(rest.take()?);
        rest.expect_end()?;
        match kind {
            // Files end before i64::MAX, so a sum beyond it can only be a mistake.
            0 if offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok()) => {
                Ok(Self::Here { offset, length })
            }
            1 if offset == 0 && length == 0 => Ok(Self::Unknown),
            2 if length == 0 => Ok(Self::Said(offset)),
            _ => Err(Malformed("an answer that does not exist")),
        }
    }
}

/// What is still to be decoded.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take_slice(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn take_flag(&mut self) -> Result<bool, Malformed> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed("a flag that is neither 0 nor 1")),
        }
    }

    fn expect_head(&mut self, mark: [u8; 6], otherwise: &'static str) -> Result<(), Malformed> {
        if self.take::<6>().ok() != Some(mark) {
            return Err(Malformed(otherwise));
        }
        if u16::from_le_bytes(self.take()?) != VERSION {
            return Err(Malformed("it is of another version of svmio"));
        }
        Ok(())
    }

    fn expect_end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("it is too long")) }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::{ANSWER_LENGTH, Address, Answer, GREETING_LENGTH, Greeting, Wanted};
    use crate::shm::machine::Machine;
    use crate::units::{Rank, SegmentId};

    fn addresses() -> impl Strategy<Value = Address> {
        let numbers = (any::<u32>(), any::<u32>(), any::<[u64; 2]>(), any::<bool>(), any::<u64>());
        let machine = (any::<[u8; 16]>(), any::<u64>()).prop_map(|(boot, network)| Machine { boot, network });
        let bytes = (any::<[u8; 16]>(), any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..=1024));
        (numbers, bytes, machine).prop_map(
            |((process, user, name_spaces, opens_memory, cookie_at), (name, cookie, processors), machine)| {
                Address {
                    name,
                    machine,
                    process,
                    user,
                    name_spaces,
                    opens_memory,
                    cookie_at,
                    cookie,
                    processors,
                }
            },
        )
    }

    fn greetings() -> impl Strategy<Value = Greeting> {
        let wanted = prop_oneof![
            Just(Wanted::Control),
            any::<(u32, u32)>().prop_map(|(space, number)| Wanted::Segment(SegmentId::new(space, number))),
        ];
        (any::<[u8; 32]>(), any::<u32>(), wanted).prop_map(|(secret, asker, wanted)| Greeting {
            secret,
            asker: Rank(asker),
            wanted,
        })
    }

    proptest! {
        #[test]
        fn addresses_survive_the_way(address in addresses()) {
            prop_assert_eq!(Address::decode(&address.encode()), Ok(address));
        }

        #[test]
        fn greetings_survive_the_way(greeting in greetings()) {
            let bytes = greeting.encode();
            prop_assert_eq!(bytes.len(), GREETING_LENGTH);
            prop_assert_eq!(Greeting::decode(&bytes), Ok(greeting));
        }

        #[test]
        fn answers_survive_the_way(offset in 0..=i64::MAX as u64, length in 0..=i64::MAX as u64) {
            let answer = Answer::Here { offset, length };
            let bytes = answer.encode();
            prop_assert_eq!(bytes.len(), ANSWER_LENGTH);
            if offset.checked_add(length).is_some_and(|end| end <= i64::MAX as u64) {
                prop_assert_eq!(Answer::decode(&bytes), Ok(answer));
            } else {
                prop_assert!(Answer::decode(&bytes).is_err());
            }
        }

        /// One byte more, one less, one changed in the head: refused. Any change at all: no panic.
        #[test]
        fn what_is_not_exactly_right_is_refused(
            address in addresses(), at in any::<prop::sample::Index>(), flip in 1..=255_u8,
        ) {
            let mut bytes = address.encode();
            bytes.push(0);
            prop_assert!(Address::decode(&bytes).is_err());
            bytes.truncate(bytes.len() - 2);
            prop_assert!(Address::decode(&bytes).is_err());
            let mut bytes = address.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let decoded = Address::decode(&bytes);
            prop_assert!(at >= 8 || decoded.is_err());
            // What is still understood means just these bytes.
            if let Ok(decoded) = decoded {
                prop_assert_eq!(decoded.encode(), bytes);
            }
        }

        #[test]
        fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Address::decode(&bytes).is_err());
            prop_assert!(Greeting::decode(&bytes).is_err());
            prop_assert!(Answer::decode(&bytes).is_err());
        }
    }
}
