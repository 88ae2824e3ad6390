//! Sequences whose length the other side says, and which nobody believes beyond a limit.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// A sequence of at most `MOST` elements: a longer one is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::remote_store) struct AtMost<const MOST: usize, T>(pub(in crate::remote_store) Vec<T>);

impl<const MOST: usize, T> From<Vec<T>> for AtMost<MOST, T> {
    fn from(elements: Vec<T>) -> Self {
        AtMost(elements)
    }
}

impl<const MOST: usize, T> FromIterator<T> for AtMost<MOST, T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        AtMost(elements.into_iter().collect())
    }
}

impl<const MOST: usize, T: Serialize> Serialize for AtMost<MOST, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MOST: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<MOST, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements::<MOST, T>(PhantomData))
    }
}

struct Elements<const MOST: usize, T>(PhantomData<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for Elements<MOST, T> {
    type Value = AtMost<MOST, T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        if let Some(told) = sequence.size_hint().filter(|told| *told > MOST) {
            return Err(A::Error::invalid_length(told, &self));
        }
        // Grows with what is really there: no room is made for what is only told.
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            elements.push(element);
        }
        Ok(AtMost(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_refused() {
        let encode = |count: usize| postcard::to_stdvec(&vec![7u32; count]).unwrap();
        assert_eq!(postcard::from_bytes::<AtMost<3, u32>>(&encode(3)).unwrap().0, [7; 3]);
        assert!(postcard::from_bytes::<AtMost<3, u32>>(&encode(4)).is_err());
        // It tells of more than there could be.
        assert!(postcard::from_bytes::<AtMost<{ usize::MAX }, u32>>(&[0xff, 0xff, 0xff, 0x7f, 1]).is_err());
    }
}
