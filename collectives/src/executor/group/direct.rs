//! Long data, copied once: straight between the private memories of two members, by the side that can do it in
//! parallel. Who has the memory publishes its key, and leaves it alone until the others have finished.

use svmio_transport::back_end::{MemoryKey, Piece, Place, Remote};
use svmio_transport::{Registration, UserMemory};

use super::Group;
use crate::executor::board::{Awaited, Deed, Whom};
use crate::executor::error::{Error, Result};

impl Group {
    /// The others push, side by side.
    pub(super) fn gather_directly(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        if self.own == root {
            return self.lend(UserMemory::of_mut(into));
        }
        let number = self.begin_silently();
        let remote = self.memory_of(root, number)?;
        let offset = (self.own * own.len()) as u64;
        self.push(number, &remote, Piece { offset, bytes: own })?;
        self.finish(number);
        self.leave();
        Ok(())
    }

    /// The others pull, side by side.
    pub(super) fn scatter_directly(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        if self.own == root {
            return self.lend(UserMemory::of(data));
        }
        let number = self.begin_silently();
        let remote = self.memory_of(root, number)?;
        self.pull(number, &remote, (self.own * into.len()) as u64, into)?;
        self.finish(number);
        self.leave();
        Ok(())
    }

    /// Lets the others at this member's memory, and waits until they have finished.
    fn lend(&mut self, memory: UserMemory) -> Result<()> {
        let number = self.begin()?;
        let registration = self.register(memory)?;
        self.publish(number, &registration.key().0);
        self.finish(number);
        self.await_finished(number)?;
        self.leave();
        Ok(())
    }

    /// Each pulls what is for it.
    pub(super) fn alltoall_directly(&mut self, data: &[u8], into: &mut [u8], length: usize) -> Result<()> {
        let number = self.begin()?;
        let registration = self.register(UserMemory::of(data))?;
        self.publish(number, &registration.key().0);
        for member in self.others() {
            let remote = self.memory_of(member, number)?;
            let into = &mut into[member * length..][..length];
            self.pull(number, &remote, (self.own * length) as u64, into)?;
        }
        self.finish(number);
        self.await_finished(number)?;
        self.leave();
        Ok(())
    }

    /// Memory of the caller, for as long as it waits for the others to finish with it.
    pub(super) fn register(&mut self, memory: UserMemory) -> Result<Registration> {
        // SAFETY: each caller in this crate lends memory that it borrows for the whole call, does not write to it
        // otherwise, nor read where others write, and returns when the others have finished with it, or with an error.
        // After an error a member that has not noticed yet may still copy: the documentation of `Group` has the caller
        // keep such buffers.
        let registered = unsafe { self.fabric.register(memory) }.map_err(Error::from);
        registered.inspect_err(|error| self.refuse(self.number, error))
    }

    /// The memory whose key a member publishes for operation `number`.
    pub(super) fn memory_of(&mut self, member: usize, number: u64) -> Result<Remote> {
        self.await_member(member, number)?;
        let words = self.board.words(member, number);
        // Under loom a card has fewer words than a key, and nothing is moved.
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        Ok(self.remote(member, std::array::from_fn(word)))
    }

    /// Copies into a member's memory, for operation `number`: where that fails, no one goes on waiting for this member
    /// to finish with it. One that is known to have left with an error is not written to.
    pub(super) fn push(&mut self, number: u64, remote: &Remote, piece: Piece<'_>) -> Result<()> {
        self.check_lent(number)?;
        let pushed = self.fabric.write(remote, &[piece]).map_err(Error::from);
        pushed.inspect_err(|error| self.refuse(number, error))
    }

    /// The same from a member's memory. What is there when that member has left with an error is not taken for data.
    pub(super) fn pull(&mut self, number: u64, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_lent(number)?;
        let pulled = self.fabric.read(remote, offset, into).map_err(Error::from);
        pulled.inspect_err(|error| self.refuse(number, error))?;
        self.check_lent(number)
    }

    /// That nothing is known for which a member leaves operation `number` with an error, and its memory to whoever
    /// wants it.
    fn check_lent(&mut self, number: u64) -> Result<()> {
        self.check(Awaited { whom: Whom::All, deed: Deed::Published, number })
    }

    /// The memory of a member with that key.
    pub(super) fn remote(&self, member: usize, key: [u64; 3]) -> Remote {
        Remote { owner: self.members[member], place: Place::Registered(MemoryKey(key)) }
    }
}

/// `memory`, which others copy to or from while an operation goes on, once that has `ended`. After an error it stays for
/// ever: who goes on may still do so.
pub(in crate::executor) fn kept_after_errors(memory: Vec<u8>, ended: Result<()>) -> Result<Vec<u8>> {
    match ended {
        Ok(()) => Ok(memory),
        Err(error) => {
            std::mem::forget(memory);
            Err(error)
        }
    }
}
