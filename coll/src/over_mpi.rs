//! A group's messages by the program's own MPI: for members on several nodes, where the user wants no fabric between
//! them.
//!
//! They are on a communicator of their own, so that they meet none of the program's. A member that leaves sends each of
//! the others a last message without bytes, whose tag is not that of all others: it says who was the first to leave.
//! Who receives from it hears so, and leaves, too. Who sends to it waits where MPI has a send wait for its receiver, as
//! with MPI's own collectives.

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;

use svmio_adio::abi::Comm;
use svmio_collectives::executor::{Error, PointToPoint, Result};

use crate::family::Family;
use crate::stock::{Came, Stock};

/// Of all messages but the last of a member that leaves.
const DATA: c_int = 0;

/// Of the last one, where that of the first who left is no number that every MPI has a tag for.
const SOMEBODY: c_int = 32_767;

/// Bytes of a message at most, as MPI counts them: longer data has several.
const PIECE: usize = 1 << 30;

/// The members of a communicator.
pub(crate) struct OverMpi<A: Family> {
    stock: &'static Stock<A>,
    comm: Comm<A>,
    members: usize,
    own: usize,
    has_left: Cell<bool>,
}

impl<A: Family> OverMpi<A> {
    /// The members of `comm`, who all call this.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn new(stock: &'static Stock<A>, comm: Comm<A>) -> Result<Self> {
        let (members, own) = (stock.mpi.size(comm), stock.mpi.rank(comm));
        let comm = stock.twin(comm)?;
        let number = |number: c_int| number.unsigned_abs() as usize;
        Ok(Self { stock, comm, members: number(members), own: number(own), has_left: Cell::new(false) })
    }
}

impl<A: Family> fmt::Debug for OverMpi<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OverMpi").field("comm", &self.comm.0).field("own", &self.own).finish()
    }
}

impl<A: Family> PointToPoint for OverMpi<A> {
    fn members(&self) -> usize {
        self.members
    }

    fn member(&self) -> usize {
        self.own
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        pieces(bytes, PIECE).try_for_each(|piece| self.stock.send(self.comm, to as c_int, DATA, piece))
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<usize> {
        let mut length = 0;
        loop {
            let room = room(into, length);
            let came = length_of(self.stock.receive(self.comm, from as c_int, room)?, from)?;
            length += came;
            if came < PIECE {
                return Ok(length);
            }
        }
    }

    fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<usize> {
        let (mut sent, mut length, mut has_come) = (pieces(bytes, PIECE), 0, false);
        loop {
            let came = match (sent.next(), has_come) {
                (None, true) => return Ok(length),
                (Some(piece), true) => {
                    self.stock.send(self.comm, to as c_int, DATA, piece)?;
                    continue;
                }
                (Some(piece), false) => {
                    let sent = (to as c_int, DATA, piece);
                    self.stock.exchange(self.comm, sent, (from as c_int, room(into, length)))?
                }
                (None, false) => self.stock.receive(self.comm, from as c_int, room(into, length))?,
            };
            let came = length_of(came, from)?;
            length += came;
            has_come = came < PIECE;
        }
    }

    fn leave(&self, error: &Error) {
        self.has_left.set(true);
        let first = if let Error::Refused { member, .. } = error { *member } else { self.own };
        for member in (0..self.members).filter(|&member| member != self.own) {
            // Whom MPI cannot send to hears of that by MPI itself.
            let _ = self.stock.notify(self.comm, member as c_int, tag_of(first));
        }
    }
}

impl<A: Family> Drop for OverMpi<A> {
    fn drop(&mut self) {
        // Who has left may have messages on their way, which would come to another communicator of the same number.
        if !self.has_left.get() {
            self.stock.free_twin(self.comm);
        }
    }
}

/// The messages that data is sent by: all but the last have so many bytes, and the last one less.
fn pieces(bytes: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    (0..=bytes.len() / size).map(move |piece| &bytes[piece * size..bytes.len().min((piece + 1) * size)])
}

/// Where the next of them goes, behind so many bytes.
fn room(into: &mut [u8], behind: usize) -> &mut [u8] {
    let end = into.len().min(behind + PIECE);
    &mut into[behind..end]
}

/// The length of a message, unless it says that somebody has left.
fn length_of(came: Came, from: usize) -> Result<usize> {
    let member = match came.tag {
        DATA => return Ok(came.length),
        SOMEBODY => from,
        tag => tag.unsigned_abs() as usize - 1,
    };
    Err(Error::Refused { member, reason: "it has left the group".to_owned() })
}

/// The tag of a last message, by who was the first to leave.
fn tag_of(first: usize) -> c_int {
    if first + 1 < SOMEBODY as usize { first as c_int + 1 } else { SOMEBODY }
}

#[cfg(test)]
mod tests {
    use super::{Came, DATA, Error, length_of, pieces, tag_of};

    #[test]
    fn the_last_piece_is_the_one_that_is_shorter() {
        let lengths = |length: usize| pieces(&vec![7; length], 4).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!([lengths(0), lengths(3)], [vec![0], vec![3]]);
        assert_eq!([lengths(4), lengths(9)], [vec![4, 0], vec![4, 4, 1]]);
    }

    #[test]
    fn a_last_message_names_who_has_left_first() {
        assert_eq!(length_of(Came { length: 9, tag: DATA }, 1).unwrap(), 9);
        for (first, named) in [(0, 0), (5, 5), (32_765, 32_765), (32_766, 3), (100_000, 3)] {
            let told = length_of(Came { length: 0, tag: tag_of(first) }, 3).unwrap_err();
            assert!(matches!(told, Error::Refused { member, .. } if member == named), "{first}: {told}");
        }
    }
}
