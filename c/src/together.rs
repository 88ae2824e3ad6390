//! What all processes make together begins here: each gives its part, right or wrong, and none waits for one who will
//! not come.
//!
//! A call is a *step* of all processes. In each step every process tells the others one outcome, that of its own
//! arguments, and which call of what it makes, as a number drawn from the text that says so. Where one's outcome is a
//! failure, or the numbers differ, the call ends there, on all of them. All first steps are the same collective, so
//! that processes whose calls differ meet, too, and find that out.
//!
//! Where processes cannot tell each other anything any more, what ends something (`svm_unmap`, `svm_close`,
//! `svm_finalize`) ends it on each of them by itself: nobody could ever end it together.

use svmio_svm::Error;
use svmio_svm::team::{Team, Tellable};

use crate::failure::{Failure, Result};
use crate::types::*;

/// A call that processes make together.
pub(crate) struct Call {
    function: &'static str,
    /// Of what: the same on all of them.
    subject: String,
}

/// Why processes do not go on with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disagreement {
    /// One of them cannot, or their calls differ. All know, and it is as if there had been no call.
    Refused(Failure),
    /// They cannot tell each other anything: one is lost, above all. Each is by itself from now on.
    Severed(Failure),
}

impl From<Disagreement> for Failure {
    fn from(disagreement: Disagreement) -> Failure {
        match disagreement {
            Disagreement::Refused(failure) | Disagreement::Severed(failure) => failure,
        }
    }
}

/// What keeps a team from telling its members anything is the only error of its own that it has here.
impl From<Error> for Disagreement {
    fn from(error: Error) -> Disagreement {
        Disagreement::Severed(error.into())
    }
}

impl Tellable for Disagreement {
    fn told(self) -> (u32, String) {
        Failure::from(self).told()
    }

    fn heard(number: u32, message: String) -> Disagreement {
        Disagreement::Refused(Failure::heard(number, message))
    }
}

/// Between the two parts of what processes tell each other of their calls.
const BETWEEN: char = '\0';

impl Call {
    /// The call of a function of `svmio.h`.
    pub(crate) fn new(function: &'static str) -> Call {
        Call { function, subject: String::new() }
    }

    /// The same, of something that has to be the same on all processes.
    pub(crate) fn of(function: &'static str, subject: impl Into<String>) -> Call {
        Call { function, subject: subject.into() }
    }

    /// Tells the others how it went until now; all succeed, or none. Whoever has failed gets its own failure, the
    /// others that of the first who has.
    pub(crate) fn agree(&self, team: &Team, mine: Result) -> Result {
        Ok(self.step(team, mine)?)
    }

    /// The same, where it matters whether the others know.
    pub(crate) fn step(&self, team: &Team, mine: Result) -> std::result::Result<(), Disagreement> {
        let told = mine.clone().map_err(|failure| Disagreement::Refused(self.named(failure)));
        // Nobody looks at the number of one who has failed.
        let own = self.number();
        let agreed = team.agree_on(told, [own, !own]);
        // One's own is about arguments that oneself knows.
        mine.map_err(Disagreement::Refused)?;
        match agreed? {
            // The largest is the smallest, too, where all are the same.
            [largest, inverse] if largest == !inverse => Ok(()),
            _ => Err(self.of_different_calls(team)),
        }
    }

    /// The same of something that each has made, or has not been able to; returns it.
    pub(crate) fn agree_with<T>(&self, team: &Team, made: Result<T>) -> Result<T> {
        self.agree(team, made.as_ref().map(|_| ()).map_err(Failure::clone))?;
        made
    }

    /// A failure as others need it.
    fn named(&self, failure: Failure) -> Failure {
        let Failure { status, message } = failure;
        let is_named = message.starts_with(self.function);
        Failure { status, message: if is_named { message } else { format!("{}: {message}", self.function) } }
    }

    /// The number that stands for this call: FNV-1a, by Fowler, Noll and Vo, of 64 bits.
    fn number(&self) -> i64 {
        let hash = self.told().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.cast_signed()
    }

    fn told(&self) -> String {
        format!("{}{BETWEEN}{}", self.function, self.subject)
    }

    /// What keeps processes from going on whose calls are not the same; all of them come here.
    fn of_different_calls(&self, team: &Team) -> Disagreement {
        match team.all_gather(self.told().as_bytes()) {
            Ok(all) => Disagreement::Refused(Call::told_apart(&all)),
            Err(error) => error.into(),
        }
    }

    /// How the calls that processes have told differ.
    fn told_apart(all: &[Vec<u8>]) -> Failure {
        let all: Vec<_> = all.iter().map(|told| String::from_utf8_lossy(told)).collect();
        let parts = |told: &str| -> (String, String) {
            let (function, subject) = told.split_once(BETWEEN).unwrap_or((told, ""));
            (function.into(), subject.into())
        };
        let Some(other) = all.iter().position(|told| *told != all[0]) else {
            let message = "the processes make different calls, and say that they are the same".into();
            return Failure { status: SVM_ERR_INTERNAL, message };
        };
        let ((first, of_first), (second, of_second)) = (parts(&all[0]), parts(&all[other]));
        if first != second {
            let calls = format!("rank 0 {first}, rank {other} {second}");
            return Failure::state(format!("the processes make different calls at the same time: {calls}"));
        }
        Failure::argument(format!(
            "{first} is called with different arguments: by rank 0 for {of_first}, by rank {other} for {of_second}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, Mutex};

    use svmio_svm::team::Gathering;

    use super::*;

    /// What each of several processes, played by threads, gets of a step.
    fn step(parts: Vec<(Call, Result)>) -> Vec<Result> {
        let size = parts.len();
        let place = Arc::new((Barrier::new(size), Mutex::new(vec![Vec::new(); size])));
        let members: Vec<_> = parts
            .into_iter()
            .enumerate()
            .map(|(member, (call, mine))| {
                let place = Arc::clone(&place);
                std::thread::spawn(move || {
                    let means = Gathering::new(size, move |own: &[u8], all: &mut [u8]| {
                        let (barrier, told) = &*place;
                        told.lock().unwrap()[member] = own.to_vec();
                        barrier.wait();
                        all.copy_from_slice(&told.lock().unwrap().concat());
                        barrier.wait();
                        Ok(())
                    });
                    call.agree(&Team::new(member, size, Box::new(means)), mine)
                })
            })
            .collect();
        members.into_iter().map(|member| member.join().unwrap()).collect()
    }

    #[test]
    fn who_has_failed_hears_that_and_the_others_hear_who_has() {
        let call = || Call::of("svm_open", "/a");
        let outcomes = step(vec![
            (call(), Ok(())),
            (call(), Err(Failure::argument("a null pointer"))),
            (Call::new("svm_open"), Err(Failure::state("svm_open: busy"))),
        ]);
        assert_eq!(outcomes[0], Err(Failure::argument("rank 1: svm_open: a null pointer")));
        assert_eq!(outcomes[1], Err(Failure::argument("a null pointer")));
        assert_eq!(outcomes[2], Err(Failure::state("svm_open: busy")));
        assert_eq!(step(vec![(call(), Ok(())), (call(), Ok(()))]), [Ok(()), Ok(())]);
    }

    #[test]
    fn different_calls_end_on_all_and_each_is_named() {
        let outcomes =
            step(vec![(Call::of("svm_map", "/a"), Ok(())), (Call::of("svm_map", "/longer"), Ok(()))]);
        for outcome in outcomes {
            let failure = outcome.expect_err("the names differ");
            assert_eq!(failure.status, SVM_ERR_ARGUMENT);
            assert!(failure.message.contains("rank 0 for /a, by rank 1 for /longer"), "{}", failure.message);
        }
        let outcomes = step(vec![
            (Call::new("svm_finalize"), Ok(())),
            (Call::new("svm_finalize"), Ok(())),
            (Call::of("svm_open", "/a"), Ok(())),
        ]);
        for outcome in outcomes {
            let failure = outcome.expect_err("the functions differ");
            assert_eq!(failure.status, SVM_ERR_STATE);
            assert!(failure.message.contains("rank 0 svm_finalize, rank 2 svm_open"), "{}", failure.message);
        }
    }
}
