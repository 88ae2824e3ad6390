//! The function by which a program's ranks tell each other things, and what they tell first: who they are.

use std::ffi::{c_int, c_void};

use svmio_svm::team::{Gathering, Team, Tellable};

use crate::failure::{Failure, Result};
use crate::types::{svm_all_gather, svm_exchange};

/// What `svm_init_with` was given, as far as the others can be told of it.
pub(crate) struct Exchange {
    rank: c_int,
    ranks: usize,
    function: Function,
}

impl Exchange {
    /// # Errors
    /// Where there is nothing by which the others can be told of an error.
    ///
    /// # Safety
    /// `exchange` is null or points to one, whose function may be called with its context.
    pub(crate) unsafe fn from_c(exchange: *const svm_exchange) -> Result<Exchange> {
        // SAFETY: the caller's promise.
        let exchange = unsafe { exchange.as_ref() };
        let exchange =
            exchange.ok_or_else(|| Failure::argument("svm_init_with: the exchange is a null pointer"))?;
        let svm_exchange { size, rank, ranks, all_gather, context } = *exchange;
        if size != size_of::<svm_exchange>() {
            let expected = size_of::<svm_exchange>();
            return Err(Failure::argument(format!(
                "svm_init_with: the exchange says that it has {size} bytes, not {expected}: set its size to sizeof(svm_exchange)"
            )));
        }
        if all_gather.is_none() {
            return Err(Failure::argument("svm_init_with: all_gather is a null pointer"));
        }
        match usize::try_from(ranks) {
            Ok(ranks @ 1..) => Ok(Exchange { rank, ranks, function: Function { all_gather, context } }),
            _ => Err(no_such_rank(rank, ranks)),
        }
    }

    /// Tells the others who this one is, and `mine`: how it went until now. All succeed, or none.
    pub(crate) fn introduce(&self, mine: Result) -> Result {
        let ranks = self.ranks as c_int;
        let is_there = (0..ranks).contains(&self.rank);
        let mine = mine.and_then(|()| if is_there { Ok(()) } else { Err(no_such_rank(self.rank, ranks)) });
        if self.ranks == 1 {
            return mine;
        }
        let own = Introduction { rank: self.rank, ranks, failure: mine.clone().err() };
        // Where there are more ranks than this one was told, the function writes as many introductions. Memory that is
        // not written takes none.
        let mut all = vec![0; Introduction::BYTES * (self.ranks.max(MOST_UNTOLD) + 1)];
        let gathered = self.function.call(&own.to_bytes(), &mut all);
        mine?;
        gathered.map_err(|problem| Failure::from(svmio_svm::Error::Disunited { problem }))?;
        let (all, more) = all.split_at(Introduction::BYTES * self.ranks);
        if more[..Introduction::BYTES] != [0; Introduction::BYTES] {
            return Err(Failure::argument(format!(
                "svm_init_with: all_gather is one of more ranks than the {ranks} that the exchange says there are"
            )));
        }
        for (place, bytes) in all.chunks_exact(Introduction::BYTES).enumerate() {
            let Introduction { rank, ranks: told, failure } = Introduction::from_bytes(bytes);
            if let Some(Failure { status, message }) = failure {
                return Err(Failure { status, message: format!("rank {place}: {message}") });
            }
            if (usize::try_from(rank), told) != (Ok(place), ranks) {
                return Err(Failure::argument(format!(
                    "svm_init_with: rank {place} says that it is rank {rank} of {told}; they are {ranks} here"
                )));
            }
        }
        Ok(())
    }

    /// The ranks, who have been introduced.
    pub(crate) fn team(self) -> Team {
        let Exchange { rank, ranks, function } = self;
        let means = Gathering::new(ranks, move |own: &[u8], all: &mut [u8]| function.call(own, all));
        Team::new(rank.unsigned_abs() as usize, ranks, Box::new(means))
    }
}

fn no_such_rank(rank: c_int, ranks: c_int) -> Failure {
    Failure::argument(format!("svm_init_with: there is no rank {rank} of {ranks}"))
}

/// How many ranks there may be where the exchange says that there are fewer, for that to be found out.
const MOST_UNTOLD: usize = 1 << 16;

/// What a rank tells the others before all else. It is never all zeros: there is a rank.
#[derive(Debug, PartialEq, Eq)]
struct Introduction {
    rank: c_int,
    ranks: c_int,
    failure: Option<Failure>,
}

impl Introduction {
    /// Bytes of the text, which is cut off where it is longer.
    const TEXT: usize = 240;
    /// Rank, ranks, status, the text's length, the text.
    const BYTES: usize = 4 * size_of::<u32>() + Self::TEXT;

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let (status, text) = self.failure.clone().map_or((0, String::new()), Failure::told);
        let most = text.len().min(Self::TEXT);
        let length = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let mut bytes = [0; Self::BYTES];
        let words = [
            self.rank.to_ne_bytes(),
            self.ranks.to_ne_bytes(),
            status.to_ne_bytes(),
            (length as u32).to_ne_bytes(),
        ];
        bytes[..size_of_val(&words)].copy_from_slice(words.as_flattened());
        bytes[size_of_val(&words)..][..length].copy_from_slice(&text.as_bytes()[..length]);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Introduction {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * at + byte]));
        let text = &bytes[4 * size_of::<u32>()..];
        let text = String::from_utf8_lossy(&text[..text.len().min(word(3) as usize)]).into_owned();
        let failure = (word(2) != 0).then(|| Failure::heard(word(2), text));
        Introduction { rank: word(0).cast_signed(), ranks: word(1).cast_signed(), failure }
    }
}

/// The program's function.
struct Function {
    all_gather: svm_all_gather,
    context: *mut c_void,
}

// SAFETY: the program has said that whatever thread calls svmio may call it, one at a time.
unsafe impl Send for Function {}

impl Function {
    fn call(&self, own: &[u8], all: &mut [u8]) -> std::result::Result<(), String> {
        let Some(all_gather) = self.all_gather else { return Err("there is no all_gather".into()) };
        // SAFETY: as the function's type says: `all` has room for as many bytes as `own` has, of each rank.
        match unsafe { all_gather(self.context, own.as_ptr().cast(), own.len(), all.as_mut_ptr().cast()) } {
            0 => Ok(()),
            number => Err(format!("the program's all_gather has returned {number}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SVM_ERR_ARGUMENT;

    /// Ranks that all tell the same as the one that calls, but for their number: as many as the context says.
    unsafe extern "C" fn all_the_same(
        context: *mut c_void,
        own: *const c_void,
        length: usize,
        all: *mut c_void,
    ) -> c_int {
        for rank in 0..context.addr() {
            // SAFETY: as the function's type says.
            unsafe {
                let to = all.cast::<u8>().add(rank * length);
                std::ptr::copy_nonoverlapping(own.cast::<u8>(), to, length);
                std::ptr::copy_nonoverlapping((rank as u32).to_ne_bytes().as_ptr(), to, 4);
            }
        }
        0
    }

    #[test]
    fn who_is_told_of_other_ranks_than_there_are_hears_so() {
        let introduce = |there: usize, ranks: c_int| {
            let context = std::ptr::without_provenance_mut(there);
            let size = size_of::<svm_exchange>();
            let exchange = svm_exchange { size, rank: 0, ranks, all_gather: Some(all_the_same), context };
            // SAFETY: it is one, and its function takes this context.
            unsafe { Exchange::from_c(&raw const exchange) }.and_then(|exchange| exchange.introduce(Ok(())))
        };
        for (there, ranks) in [(1, 1), (4, 4)] {
            assert_eq!(introduce(there, ranks), Ok(()));
        }
        for (there, ranks) in [(3, 2), (5, 2), (MOST_UNTOLD, 3)] {
            let failure = introduce(there, ranks).unwrap_err();
            let expected = format!("more ranks than the {ranks} that");
            assert!(failure.status == SVM_ERR_ARGUMENT && failure.message.contains(&expected), "{failure:?}");
        }
        assert!(introduce(2, 4).unwrap_err().message.contains("rank 2 says that it is rank 0 of 0"));
    }

    #[test]
    fn introductions_arrive_and_long_texts_are_cut() {
        let there = Introduction { rank: 3, ranks: 7, failure: None };
        assert_eq!(Introduction::from_bytes(&there.to_bytes()), there);
        let text = "ä".repeat(Introduction::TEXT);
        let failed = Introduction { rank: -1, ranks: 2, failure: Some(Failure::state(format!("x{text}"))) };
        let heard = Introduction::from_bytes(&failed.to_bytes());
        assert_eq!((heard.rank, heard.ranks), (-1, 2));
        let expected = format!("x{}", "ä".repeat(Introduction::TEXT / 2 - 1));
        assert_eq!(heard.failure, Some(Failure::state(expected)));
    }
}
