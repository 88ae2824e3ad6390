//! What rank 0 tells the other ranks of a file that it has opened for all of them.
//!
//! Each rank has an info object of its own, and MPI allows these to differ. Ranks that place new segments together have
//! to go by the same placement, though, or some would wait for others that do not ask them anything: it is that of rank 0.

use svmio_svm::Placement;

use crate::failure::{ErrorClass, Failure};

/// What rank 0 tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The placement that rank 0 asks for, if it asks for any: the file's own one from then on.
    pub(crate) wish: Option<Placement>,
    /// The one in force there.
    pub(crate) in_force: Placement,
    /// How to find the file: for [`open_introduced`](crate::venue::Venue::open_introduced).
    pub(crate) place: Vec<u8>,
}

/// Stands behind each of the texts.
const END: u8 = 0;

impl Introduction {
    /// As bytes, for a message.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let wish = self.wish.as_ref().map(Placement::to_string).unwrap_or_default();
        let in_force = self.in_force.to_string();
        [wish.as_bytes(), &[END], in_force.as_bytes(), &[END], &self.place].concat()
    }

    /// From the bytes of [`Introduction::to_bytes`].
    ///
    /// # Errors
    /// Where they are something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Introduction, Failure> {
        let nonsense = || Failure::new(ErrorClass::Other, "what rank 0 tells of a file makes no sense");
        let mut parts = bytes.splitn(3, |byte| *byte == END);
        let (Some(wish), Some(in_force), Some(place)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(nonsense());
        };
        let placement = |text: &[u8]| {
            let text = std::str::from_utf8(text).map_err(|_| nonsense())?;
            text.parse::<Placement>().map_err(|_| nonsense())
        };
        let wish = if wish.is_empty() { None } else { Some(placement(wish)?) };
        Ok(Introduction { wish, in_force: placement(in_force)?, place: place.to_vec() })
    }

    /// Whether a rank that asks for `own` does not get it, and has not been told so as rank 0 was.
    pub(crate) fn overrules(&self, own: &Placement) -> bool {
        *own != self.in_force && self.wish.as_ref() != Some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(text: &str) -> Placement {
        text.parse().expect("it is one")
    }

    #[test]
    fn introductions_survive_the_wire() {
        for (wish, in_force) in [(None, "block"), (Some("node=n9"), "first_touch"), (Some("block"), "block")]
        {
            let place = vec![0, 1, 0, 255];
            let told = Introduction { wish: wish.map(placement), in_force: placement(in_force), place };
            assert_eq!(Introduction::from_bytes(&told.to_bytes()), Ok(told));
        }
        for nonsense in [&b""[..], b"block\0", b"block\0\0", b"\0\0", b"some\0block\0"] {
            assert!(Introduction::from_bytes(nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn who_asks_for_something_else_than_rank_0_is_overruled() {
        let (wish, in_force) = (Some(placement("node=n9")), placement("first_touch"));
        let told = Introduction { wish, in_force, place: Vec::new() };
        assert!(told.overrules(&placement("block")));
        assert!(!told.overrules(&placement("first_touch")) && !told.overrules(&placement("node=n9")));
    }
}
