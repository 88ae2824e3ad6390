//! Members telling each other things by a single function of the program's: MPI's allgather, say.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

use super::Means;

/// Means that rest on a function that gathers bytes.
///
/// The function is given what this member has to tell, and room for what all have, one behind the other by their
/// numbers. All call it with as many bytes, and it returns on none before all have called it. Who reports an error
/// takes part no more.
pub struct Gathering<F> {
    gather: Mutex<F>,
    size: usize,
}

impl<F: FnMut(&[u8], &mut [u8]) -> Result<(), String> + Send> Gathering<F> {
    /// For a team of `size` members.
    pub fn new(size: usize, gather: F) -> Gathering<F> {
        Gathering { gather: Mutex::new(gather), size }
    }

    fn everywhere(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        let mut gather = self.gather.lock().unwrap_or_else(PoisonError::into_inner);
        gather(own, all).map_err(|problem| Error::Disunited { problem })
    }
}

impl<F: FnMut(&[u8], &mut [u8]) -> Result<(), String> + Send> Means for Gathering<F> {
    fn maxima(&self, numbers: &mut [i64]) -> Result<()> {
        let own: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let mut all = vec![0; own.len() * self.size];
        self.everywhere(&own, &mut all)?;
        for (at, bytes) in all.chunks_exact(size_of::<i64>()).enumerate() {
            let number = i64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte]));
            let largest = &mut numbers[at % (own.len() / size_of::<i64>())];
            *largest = number.max(*largest);
        }
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let mut all = vec![0; bytes.len() * self.size];
        self.everywhere(bytes, &mut all)?;
        let length = bytes.len();
        bytes.copy_from_slice(&all[root * length..(root + 1) * length]);
        Ok(())
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.everywhere(own, all)
    }

    fn gather(&self, _root: usize, own: &[u8], all: &mut [u8]) -> Result<()> {
        if !all.is_empty() {
            return self.everywhere(own, all);
        }
        self.everywhere(own, &mut vec![0; own.len() * self.size])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use crate::error::ErrorKind;
    use crate::team::Team;

    use super::*;

    /// What members give lies here, between two meetings.
    struct Table {
        given: Mutex<Vec<u8>>,
        meeting: Barrier,
    }

    fn team(table: &Arc<Table>, member: usize, size: usize) -> Team {
        let table = Arc::clone(table);
        let gather = move |own: &[u8], all: &mut [u8]| {
            table.given.lock().unwrap().resize(all.len(), 0);
            table.meeting.wait();
            let at = member * own.len();
            table.given.lock().unwrap()[at..at + own.len()].copy_from_slice(own);
            table.meeting.wait();
            all.copy_from_slice(&table.given.lock().unwrap());
            table.meeting.wait();
            Ok(())
        };
        Team::new(member, size, Box::new(Gathering::new(size, gather)))
    }

    #[test]
    fn members_agree_by_what_they_gather() {
        const SIZE: usize = 3;
        let table = Arc::new(Table { given: Mutex::default(), meeting: Barrier::new(SIZE) });
        std::thread::scope(|scope| {
            for member in 0..SIZE {
                let team = team(&table, member, SIZE);
                scope.spawn(move || {
                    let own = member as i64;
                    assert_eq!(team.maxima([own, -own, 7]).unwrap(), [2, 0, 7]);
                    let told = team.told::<Error>(1, Ok(vec![member as u8; 500])).unwrap();
                    assert_eq!(told, [1; 500]);
                    let all: Vec<_> = (0..SIZE).map(|member| vec![member as u8; member * 20]).collect();
                    assert_eq!(team.all_gather(&all[member]).unwrap(), all);
                    let gathered =
                        team.gather(1, &all[member], usize::MAX).unwrap().expect("that is no limit");
                    assert_eq!(gathered, if member == 1 { all.clone() } else { Vec::new() });
                    let lengths: u64 =
                        team.gather(0, &all[member], 3 * 48).unwrap().map_or(0, |all| all.len() as u64);
                    assert_eq!(lengths, if member == 0 { 3 } else { 0 });
                    assert!(team.gather(0, &all[member], 3 * 48 - 1).unwrap().is_none());
                    let full = || Error::OfMember { kind: ErrorKind::NoSpace, message: "full".into() };
                    let failed = team.agree(if member == 0 { Ok(()) } else { Err(full()) }).unwrap_err();
                    assert_eq!(
                        (failed.kind(), failed.to_string()),
                        (ErrorKind::NoSpace, "rank 1: full".into())
                    );
                });
            }
        });
    }

    #[test]
    fn what_the_function_reports_is_told() {
        let team =
            Team::new(0, 2, Box::new(Gathering::new(2, |_: &[u8], _: &mut [u8]| Err("cut off".into()))));
        assert!(team.agree::<Error>(Ok(())).unwrap_err().to_string().contains("cut off"));
    }
}
