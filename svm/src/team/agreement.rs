//! Members agreeing on whether something worked: no member goes on alone, and all give the same reason.

use crate::error::{Error, ErrorKind, Result};

use super::{Means, Team};

/// An error that one member tells the others.
pub trait Tellable: Sized + From<Error> {
    /// A number of its kind, not 0, and what a person needs to know.
    fn told(self) -> (u32, String);

    /// What another member [told](Self::told).
    fn heard(number: u32, text: String) -> Self;
}

impl Tellable for Error {
    fn told(self) -> (u32, String) {
        (u32::from(self.kind().code()) + 1, self.to_string())
    }

    fn heard(number: u32, text: String) -> Self {
        let code = u8::try_from(number.saturating_sub(1)).unwrap_or(u8::MAX);
        Error::OfMember { kind: ErrorKind::from_code(code), message: text }
    }
}

/// How a text begins that tells already for whom it happened.
const LOCATED: &str = "rank ";

/// How many numbers can be agreed upon at once.
pub(super) const MOST: usize = 6;

/// Bytes of a length.
const LENGTH: usize = 8;

/// A member's part, of `length` bytes with its own length and what follows it.
fn padded(own: &[u8], length: usize) -> Vec<u8> {
    let mut padded = (own.len() as u64).to_ne_bytes().to_vec();
    padded.extend_from_slice(own);
    padded.resize(length, 0);
    padded
}

fn unpadded(part: &[u8]) -> Vec<u8> {
    let (length, text) = part.split_at(LENGTH);
    let length = u64::from_ne_bytes(std::array::from_fn(|at| length[at])) as usize;
    text[..length.min(text.len())].to_vec()
}

impl Team {
    /// Succeeds on all members, or fails on all with the failure of the first one where it failed. Returns on none
    /// before all have called it.
    ///
    /// # Errors
    /// That failure; [`Error::Disunited`].
    pub fn agree<E: Tellable>(&self, mine: Result<(), E>) -> Result<(), E> {
        self.agree_on(mine, []).map(|[]| ())
    }

    /// The same; where all succeed, returns the largest of each number.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    pub fn agree_on<E: Tellable, const N: usize>(
        &self,
        mine: Result<(), E>,
        mut numbers: [i64; N],
    ) -> Result<[i64; N], E> {
        const { assert!(N <= MOST) };
        self.agree_over(mine, &mut numbers).map(|()| numbers)
    }

    /// The same for at most [`MOST`] numbers, in place.
    ///
    /// # Errors
    /// As [`agree`](Self::agree); the numbers are as they were then.
    pub(super) fn agree_over<E: Tellable>(&self, mine: Result<(), E>, numbers: &mut [i64]) -> Result<(), E> {
        let mut all = [0; MOST + 1];
        let all = &mut all[..=numbers.len()];
        // The largest is of the first who failed.
        all[0] = if mine.is_err() { (self.size() - self.member()) as i64 } else { 0 };
        all[1..].copy_from_slice(numbers);
        self.tell(|means| means.maxima(all))?;
        if all[0] != 0 {
            let first = self.size().saturating_sub(all[0].unsigned_abs() as usize);
            let located = mine.map_err(|failure| self.located(failure));
            self.outcome_of(first, located)?;
            return Err(E::heard(1, "a member failed, and did not say so".into()));
        }
        numbers.copy_from_slice(&all[1..]);
        Ok(())
    }

    /// The largest of each number.
    ///
    /// # Errors
    /// [`Error::Disunited`].
    pub fn maxima<const N: usize>(&self, numbers: [i64; N]) -> Result<[i64; N]> {
        let mut all = numbers;
        self.tell(|means| means.maxima(&mut all)).map(|()| all)
    }

    /// The outcome of member `root`, on all members. What the others give is not looked at.
    ///
    /// # Errors
    /// The root's; [`Error::Disunited`].
    pub fn outcome_of<E: Tellable>(&self, root: usize, mine: Result<(), E>) -> Result<(), E> {
        self.told(root, mine.map(|()| Vec::new())).map(|_| ())
    }

    /// What member `root` has to tell, or its failure, on all members. What the others give is not looked at. Few
    /// bytes, and no failure, are told at once.
    ///
    /// # Errors
    /// As [`outcome_of`](Self::outcome_of).
    pub fn told<E: Tellable>(&self, root: usize, mine: Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        /// Bytes of the number of the failure's kind, 0 for none, and of the text's length.
        const NUMBERS: usize = 8;
        /// Bytes of the text that come at once: what the engine sends in one cache line.
        const AT_ONCE: usize = 48;
        let (number, mut text) = match mine {
            Ok(text) => (0, text),
            Err(failure) => {
                let (number, text) = failure.told();
                (number, text.into_bytes())
            }
        };
        if self.means.is_some() {
            let mut first = [0; NUMBERS + AT_ONCE];
            first[..4].copy_from_slice(&number.to_ne_bytes());
            first[4..NUMBERS].copy_from_slice(&(text.len() as u32).to_ne_bytes());
            let at_once = text.len().min(AT_ONCE);
            first[NUMBERS..NUMBERS + at_once].copy_from_slice(&text[..at_once]);
            self.tell(|means| means.broadcast(root, &mut first))?;
            let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| first[at + byte]));
            let length = word(4) as usize;
            if length > AT_ONCE {
                text.resize(length, 0);
                if let Err(error) = self.tell(|means| means.broadcast(root, &mut text)) {
                    // Who has not noticed yet may still write into it.
                    std::mem::forget(text);
                    return Err(error.into());
                }
            } else {
                text = first[NUMBERS..NUMBERS + length].to_vec();
            }
            if word(0) != 0 {
                return Err(E::heard(word(0), String::from_utf8_lossy(&text).into_owned()));
            }
            return Ok(text);
        }
        match number {
            0 => Ok(text),
            _ => Err(E::heard(number, String::from_utf8_lossy(&text).into_owned())),
        }
    }

    /// What all members have to tell, in their order.
    ///
    /// # Errors
    /// [`Error::Disunited`].
    pub fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.means.is_none() {
            return Ok(vec![own.to_vec()]);
        }
        let [longest, inverse] = self.maxima([own.len() as i64, !(own.len() as i64)])?;
        let longest = longest.unsigned_abs() as usize;
        // The largest is the smallest, too, where all are the same.
        if inverse == !(longest as i64) {
            return self.all_gather_equal(own);
        }
        let padded = padded(own, LENGTH + longest);
        let mut all = vec![0; padded.len() * self.size()];
        self.tell(|means| means.all_gather(&padded, &mut all))?;
        Ok(all.chunks_exact(padded.len()).map(unpadded).collect())
    }

    /// The same, where all have the same length.
    ///
    /// # Errors
    /// [`Error::Disunited`].
    pub fn all_gather_equal(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        match &self.means {
            Some(_) if !own.is_empty() => {
                let mut all = vec![0; own.len() * self.size()];
                self.tell(|means| means.all_gather(own, &mut all))?;
                Ok(all.chunks_exact(own.len()).map(<[u8]>::to_vec).collect())
            }
            _ => Ok(vec![own.to_vec(); self.size()]),
        }
    }

    /// What all members have to tell, in their order, to member `root`; the others get none. Nobody gets any, and `None`
    /// tells all of it, where it takes more than `most` bytes: each part takes as many as the longest one.
    ///
    /// # Errors
    /// [`Error::Disunited`].
    pub fn gather(&self, root: usize, own: &[u8], most: usize) -> Result<Option<Vec<Vec<u8>>>> {
        if self.means.is_none() {
            return Ok((own.len() <= most).then(|| vec![own.to_vec()]));
        }
        let [longest] = self.maxima([own.len() as i64])?;
        let length = LENGTH + longest.unsigned_abs() as usize;
        let Some(all) = length.checked_mul(self.size()).filter(|all| *all <= most) else { return Ok(None) };
        let padded = padded(own, length);
        let mut all = vec![0; if self.member() == root { all } else { 0 }];
        if let Err(error) = self.tell(|means| means.gather(root, &padded, &mut all)) {
            // Who has not noticed yet may still write into it.
            std::mem::forget(all);
            return Err(error);
        }
        Ok(Some(all.chunks_exact(length).map(unpadded).collect()))
    }

    /// Tells the other members something, if there are any. What keeps it from that names the file, if the team is for
    /// one.
    fn tell(&self, tell: impl FnOnce(&dyn Means) -> Result<()>) -> Result<()> {
        let told = self.means.as_deref().map_or(Ok(()), tell);
        told.map_err(|error| match &self.file {
            Some(name) => error.over(name, self.member()),
            None => error,
        })
    }

    /// `failure` with the member for which it happened.
    pub(super) fn located<E: Tellable>(&self, failure: E) -> E {
        let (number, text) = failure.told();
        let text = if text.starts_with(LOCATED) { text } else { format!("rank {}: {text}", self.member()) };
        E::heard(number, text)
    }

    /// `error` with the member for which it happened, and its node.
    pub(crate) fn located_on_node(&self, error: Error) -> Error {
        let (number, text) = error.told();
        let text = match text.starts_with(LOCATED) {
            true => text,
            false => format!("rank {} on node {}: {text}", self.member(), self.node),
        };
        Error::heard(number, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Gathering;
    use crate::{FileName, OpenOptions, Store};

    /// The second of two members, to whom nothing can be told.
    fn apart() -> Team {
        Team::new(1, 2, Box::new(Gathering::new(2, |_: &[u8], _: &mut [u8]| Err("the line is cut".into()))))
    }

    const APART: &str =
        "rank 1: /f: the processes that have it open cannot come to an agreement: the line is cut";

    #[test]
    fn members_of_a_file_who_cannot_tell_each_other_anything_name_it() {
        let team = apart().for_file("/f");
        let outcomes = [
            team.agree::<Error>(Ok(())),
            team.maxima([1]).map(|_| ()),
            team.told::<Error>(0, Ok(vec![])).map(|_| ()),
            team.all_gather(b"own").map(|_| ()),
            team.all_gather_equal(b"own").map(|_| ()),
            team.gather(0, b"own", usize::MAX).map(|_| ()),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().to_string(), APART);
        }
    }

    #[test]
    fn what_members_of_all_files_do_to_one_names_it_where_they_cannot_agree() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/f").unwrap();
        let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        let team = apart();
        for outcome in [team.sync(&file), team.set_size(&file, 1), team.close(&file, false)] {
            assert_eq!(outcome.unwrap_err().to_string(), APART);
        }
        assert!(!team.agree::<Error>(Ok(())).unwrap_err().to_string().contains("/f"));
    }

    #[test]
    fn alone_one_agrees_with_oneself() {
        let team = Team::alone();
        assert_eq!(team.agree_on::<Error, 2>(Ok(()), [3, -4]).expect("nothing failed"), [3, -4]);
        let failure = Error::heard(u32::from(ErrorKind::NoSpace.code()) + 1, "full".into());
        let failure = team.agree(Err(failure)).expect_err("it failed");
        assert_eq!((failure.kind(), failure.to_string()), (ErrorKind::NoSpace, "rank 0: full".into()));
        assert_eq!(team.all_gather(b"own").expect("nobody is missing"), [b"own"]);
        assert_eq!(team.gather(0, b"own", 3).expect("nobody is missing"), Some(vec![b"own".to_vec()]));
        assert_eq!(team.gather(0, b"own", 2).expect("nobody is missing"), None);
        assert_eq!(team.told::<Error>(0, Ok(vec![7; 99])).expect("nothing failed"), [7; 99]);
    }
}
