//! How a file loses its name: because it is removed, or because another one takes its place.
//!
//! Whoever takes a name from a file holds the file's gate meanwhile, so that a name is taken from the very file that was
//! found under it, and by one process.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::attachment;
use crate::error::{Error, Result};
use crate::name::FileName;
use crate::node::BootId;
use crate::object;
use crate::presence::{Gate, GateGuard};
use crate::state::State;
use crate::units::FileId;

use super::Store;
use super::traces::Removal;

/// A file whose gate is held.
pub(super) struct Held<'s> {
    pub(super) id: FileId,
    pub(super) state: &'s fs::File,
    gate: GateGuard<'s>,
}

impl Held<'_> {
    /// Whether anybody has the file open.
    pub(super) fn is_open(&self) -> io::Result<bool> {
        self.gate.anybody_present()
    }

    /// Its shared state, if that counts.
    pub(super) fn known_state(&self, failed: impl Fn(io::Error) -> Error) -> Result<Option<State>> {
        let opened = || self.state.try_clone();
        let known = opened().and_then(State::map_for_reading).map_err(&failed)?;
        let boot = BootId::current()?;
        if !known.is_some_and(|state| state.is_valid(boot, self.id)) {
            return Ok(None);
        }
        opened().and_then(State::map).map(Some).map_err(failed)
    }

    /// Has those who have the file open, or keep it, find it by its name no more: before it loses that, so that nobody who
    /// is killed in between leaves them with it.
    pub(super) fn void_names(&self, failed: impl Fn(io::Error) -> Error) -> Result<()> {
        if let Some(state) = self.known_state(failed)? {
            state.void_names();
        }
        Ok(())
    }
}

/// Which file is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// The one that has the name, or the name alone where it leads nowhere.
    Whichever,
    /// This one, or the name alone where that is all that is left of it.
    This(FileId),
    /// This one, unless somebody has it open.
    Unused(FileId),
}

impl Meant {
    /// Whether it can be the file `id`.
    fn may_be(self, id: FileId) -> bool {
        match self {
            Meant::Whichever => true,
            Meant::This(meant) | Meant::Unused(meant) => meant == id,
        }
    }

    /// Whether it is what the name leads to: `held`, or nothing, by the number `told`, if that can be read.
    fn is(self, held: Option<&Held<'_>>, told: impl FnOnce() -> Option<FileId>) -> io::Result<bool> {
        match (self, held) {
            (Meant::Whichever, _) => Ok(true),
            (Meant::This(meant), None) => Ok(told() == Some(meant)),
            (Meant::Unused(_), None) => Ok(false),
            (Meant::This(meant), Some(held)) => Ok(held.id == meant),
            (Meant::Unused(meant), Some(held)) => Ok(held.id == meant && !held.is_open()?),
        }
    }
}

impl Store {
    /// Removes the file `name`. Whoever has it open, or [holds](crate::Hold) it, keeps it until closing it. What
    /// other nodes have of it is removed when they are next looked at together with this one.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::NotAFile`], [`Error::Access`], [`Error::ReadOnly`].
    pub fn remove(&self, name: &FileName) -> Result<()> {
        self.remove_if(name, Meant::Whichever, |file| self.removal_here_to_tell(file)).map(drop)
    }

    /// The same if it is the file `file` still. False where another one has its name by now.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn remove_this(&self, name: &FileName, file: FileId) -> Result<bool> {
        self.remove_if(name, Meant::This(file), |file| self.removal_here_to_tell(file))
    }

    /// The same for somebody who removes it on other nodes, too, as [`Store::remove_tracing`] has it.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn remove_this_tracing(
        &self,
        name: &FileName,
        file: FileId,
        trace: Option<&Removal>,
    ) -> Result<bool> {
        self.remove_if(name, Meant::This(file), |_| trace.cloned())
    }

    /// The same as [`Store::remove_this`] if nobody has it open. It was to go with its last user, who died.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn remove_abandoned(&self, name: &FileName, file: FileId) -> Result<bool> {
        self.remove_if(name, Meant::Unused(file), |file| self.removal_here_to_tell(file))
    }

    /// The same as [`Store::remove`] for somebody who removes it on other nodes, too: it leaves a
    /// [trace](super::traces), if one is given, where he does not reach all of them.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn remove_tracing(&self, name: &FileName, trace: Option<&Removal>) -> Result<()> {
        self.remove_if(name, Meant::Whichever, |_| trace.cloned()).map(drop)
    }

    /// Removes what is left here of the file `file`, which was removed on other nodes, unless somebody has it open; says
    /// where it was.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn remove_leftover(
        &self,
        name: &FileName,
        file: FileId,
        trace: Option<&Removal>,
    ) -> Result<Option<PathBuf>> {
        match self.remove_if(name, Meant::Unused(file), |_| trace.cloned()) {
            Ok(is_removed) => Ok(is_removed.then(|| object::path(&self.root, file))),
            Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes the file `name`, if it is meant, which is seen in its gate; with the trace that `trace` says, if any.
    fn remove_if(
        &self,
        name: &FileName,
        meant: Meant,
        trace: impl Fn(FileId) -> Option<Removal>,
    ) -> Result<bool> {
        let failed = |e: io::Error| Error::io(format!("removing {name}"), &self.root, e);
        if let Ok(id) = self.lookup(name)
            && meant.may_be(id)
        {
            self.release_aside_of_removed(name, id)?;
        }
        self.with_holder(name, |held| {
            if !meant.is(held.as_ref(), || self.lookup(name).ok()).map_err(failed)? {
                return Ok(false);
            }
            if let Some(held) = &held {
                if let Some(removal) = trace(held.id) {
                    self.leave_trace(name, held.id, &removal);
                }
                held.void_names(failed)?;
            }
            fs::remove_file(self.entry(name)).map_err(failed)?;
            #[cfg(test)]
            crate::killing::point();
            self.prune(name);
            held.map_or(Ok(()), |held| self.discard(held).map_err(failed)).map(|()| true)
        })
    }

    /// Gives the file `id` its name, in place of the file that has it, which is removed then. At every moment the name
    /// leads to one of the two.
    ///
    /// # Errors
    /// As [`Store::remove`] and [`Store::enter_name`]; the older file has its name then.
    pub(crate) fn replace_name(&self, name: &FileName, id: FileId, durable: bool) -> Result<()> {
        let failed = |e: io::Error| Error::io(format!("replacing {name}"), &self.root, e);
        while !self.enter_name(name, id, durable)? {
            let replaced = self.with_holder(name, |held| {
                if let Some(held) = &held {
                    if let Some(removal) = self.removal_here_to_tell(held.id) {
                        self.leave_trace(name, held.id, &removal);
                    }
                    held.void_names(failed)?;
                }
                self.turn_name(name, held.as_ref().map(|held| held.id), id, durable)?;
                if let Some(held) = held
                    && let Err(e) = self.discard(held)
                {
                    tracing::warn!("what is left of the older {name} stays until svmio verify: {e}");
                }
                Ok(())
            });
            match replaced {
                // It was removed just now.
                Err(Error::NoSuchFile { .. }) => {}
                replaced => return replaced,
            }
        }
        Ok(())
    }

    /// Calls `act` with the file that has the name `name`, or with nothing where the name leads nowhere.
    ///
    /// # Errors
    /// As [`Store::lookup`]; [`Error::Access`] and the like where the file cannot be changed.
    pub(super) fn with_holder<T>(
        &self,
        name: &FileName,
        act: impl FnOnce(Option<Held<'_>>) -> Result<T>,
    ) -> Result<T> {
        let failed = |e: io::Error| Error::io(format!("removing {name}"), &self.root, e);
        loop {
            let id = match self.lookup(name) {
                // Nothing tells whose name it was: what is left of the file waits for `verify`.
                Err(Error::CorruptManifest { .. } | Error::Unwritten { .. }) => return act(None),
                id => id?,
            };
            let state = match self.state_of(id).map_err(failed)? {
                Some(state) => state,
                None if self.is_dangling(name)? => return act(None),
                None => continue,
            };
            let gate = Gate::lock(&state).map_err(failed)?;
            if !object::is_unlinked(&state).map_err(failed)? && self.lookup(name)? == id {
                return act(Some(Held { id, state: &state, gate }));
            }
        }
    }

    /// Calls `act` with a file, by whatever name; `None` where it is gone.
    ///
    /// # Errors
    /// Those of `act`; what keeps it from changing the file.
    pub(super) fn with_object<T>(
        &self,
        id: FileId,
        act: impl FnOnce(Held<'_>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let Some(state) = self.state_of(id)? else { return Ok(None) };
        let gate = Gate::lock(&state)?;
        if object::is_unlinked(&state)? || !object::path(&self.root, id).exists() {
            return Ok(None);
        }
        act(Held { id, state: &state, gate }).map(Some)
    }

    /// The file's state, made where there is none; `None` where its object is gone.
    fn state_of(&self, id: FileId) -> io::Result<Option<fs::File>> {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(object::path(&self.root, id).join(object::STATE)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            state => state.map(Some),
        }
    }

    /// Removes the object of a file that has lost its name. Whoever has it open or holds it keeps it until closing it.
    ///
    /// The caller holds no other file's gate: that is what [`Store::take_away`] is for.
    pub(super) fn discard(&self, held: Held<'_>) -> io::Result<()> {
        let id = held.id;
        if self.take_away(held)? {
            self.let_go(id);
        }
        Ok(())
    }

    /// The same for somebody who holds another file's gate, and lets go of this one once he holds none: who opens a file
    /// waits for its gate while nobody else of the process can open or close one. False where somebody has it open or
    /// holds it.
    pub(super) fn take_away(&self, held: Held<'_>) -> io::Result<bool> {
        let Held { id, state, gate } = held;
        let deleted = object::deleted_path(&self.root, id);
        fs::rename(object::path(&self.root, id), &deleted)?;
        #[cfg(test)]
        crate::killing::point();
        // First the mark and then the look: who leaves looks after he has left, without the gate.
        let in_use = gate.is_anybodys()? && {
            State::map(state.try_clone()?)?.set_deleted();
            gate.is_anybodys()?
        };
        if !in_use {
            object::destroy(&self.root, &deleted)?;
        }
        Ok(!in_use)
    }

    /// Keeps nothing more of a file that was taken away. The caller holds no gate: this process may have kept the file,
    /// and takes the gate itself to let go of one that is marked.
    pub(crate) fn let_go(&self, id: FileId) {
        attachment::forget(&self.root, id);
        crate::mapping_cache::forget(&self.root, id);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
