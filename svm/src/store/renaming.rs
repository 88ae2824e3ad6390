//! How a file gets another name.
//!
//! The entry of the name space moves, by one `rename`: at every moment one of the two names leads to the file. Its
//! manifest is not touched: the name there is only told, and follows when it is next committed by somebody who opened
//! it by its new one. Whoever has the file open goes on with it.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::attachment;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::object;
use crate::state::State;
use crate::units::FileId;

use super::Store;
use super::name_space::leads_through_file;
use super::removal::Held;

/// What became of an attempt.
enum Attempt {
    /// With the older file, if it was taken away.
    Done(Option<FileId>),
    /// Somebody else was faster with one of the names.
    Changed,
}

impl Store {
    /// Gives the file `from`, which is on this node alone, the name `to`. With `replacing`, it takes the place of the
    /// file that has it, which is removed then: `to` leads to one of the two at every moment.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::NotAFile`], [`Error::NameTooLong`]; without `replacing`, [`Error::Exists`];
    /// [`Error::SharedByNodes`], [`Error::OpenInAnotherJob`]; [`Error::BeingReplaced`] where other stores may have
    /// something set aside for the file; [`Error::Access`] and the like.
    pub fn rename(&self, from: &FileName, to: &FileName, replacing: bool) -> Result<()> {
        loop {
            let id = self.lookup(from)?;
            if from == to {
                return Ok(());
            }
            let older = match self.lookup(to) {
                Ok(_) if !replacing => {
                    return Err(Error::Exists { name: to.to_string(), store: self.root.to_path_buf() });
                }
                Ok(older) => Some(older),
                Err(Error::NoSuchFile { .. }) => None,
                Err(e) => return Err(e),
            };
            // They look here for the file by its name, and would take it for one that has not come to have it.
            if self.is_aside_elsewhere(id)? {
                return Err(Error::BeingReplaced { name: from.to_string(), store: self.root.to_path_buf() });
            }
            self.release_aside(id)?;
            if let Some(older) = older {
                self.release_aside_of_removed(to, older)?;
            }
            if let Attempt::Done(gone) = self.rename_held(id, from, older, to)? {
                // Only here, where no gate is held any more.
                attachment::forget(&self.root, id);
                if let Some(gone) = gone {
                    self.let_go(gone);
                }
                return Ok(());
            }
        }
    }

    /// The same with the gates of both files held, those who take names from files being kept out.
    fn rename_held(
        &self,
        id: FileId,
        from: &FileName,
        older: Option<FileId>,
        to: &FileName,
    ) -> Result<Attempt> {
        let failed = |e: io::Error| Error::io(format!("renaming {from}"), &self.root, e);
        let turn = |held: &Held<'_>, older: Option<Held<'_>>| self.rename_alone(held, from, older, to);
        let attempt = match older {
            None => self.with_object(id, |held| Ok(turn(&held, None))),
            // Its gate is taken once: a second time would wait for the first.
            Some(older) if older == id => self.with_object(id, |held| Ok(self.drop_alias(&held, from, to))),
            // In one order, whoever renames which to which.
            Some(older) if older < id => self
                .with_object(older, |older| self.with_object(id, |held| Ok(turn(&held, Some(older)))))
                .map(Option::flatten),
            Some(older) => self
                .with_object(id, |held| self.with_object(older, |older| Ok(turn(&held, Some(older)))))
                .map(Option::flatten),
        };
        match attempt.map_err(failed)? {
            Some(attempt) => attempt,
            None if self.is_dangling(from)? => Err(self.lost_object(from)),
            None if older.is_some() && self.is_dangling(to)? => Err(self.lost_object(to)),
            None => Ok(Attempt::Changed),
        }
    }

    fn rename_alone(
        &self,
        held: &Held<'_>,
        from: &FileName,
        older: Option<Held<'_>>,
        to: &FileName,
    ) -> Result<Attempt> {
        let leads_to = |name: &FileName| match self.lookup(name) {
            Ok(id) => Ok(Some(id)),
            Err(Error::NoSuchFile { .. }) => Ok(None),
            Err(e) => Err(e),
        };
        let state = self.check_alone(held, from)?;
        if leads_to(from)? != Some(held.id) || leads_to(to)? != older.as_ref().map(|older| older.id) {
            return Ok(Attempt::Changed);
        }
        if let Some(older) = &older {
            if let Some(removal) = self.removal_here_to_tell(older.id) {
                self.leave_trace(to, older.id, &removal);
            }
            older.void_names(|e| Error::io(format!("replacing {to}"), &self.root, e))?;
        }
        if let Some(state) = state {
            state.void_names();
        }
        if !self.move_entry(from, to, older.is_some())? {
            return Ok(Attempt::Changed);
        }
        #[cfg(test)]
        crate::killing::point();
        // Before the older one goes: a name that survives a power cut must lead to something.
        self.sync_directories(to)?;
        self.prune(from);
        let Some(older) = older else { return Ok(Attempt::Done(None)) };
        let id = older.id;
        let is_gone = self.take_away(older).unwrap_or_else(|e| {
            tracing::warn!("what is left of the older {to} stays until svmio verify: {e}");
            false
        });
        Ok(Attempt::Done(is_gone.then_some(id)))
    }

    /// Takes the name `from` from the file that has `to`, too. By damage it has both; or it got `to` just now, from
    /// somebody else.
    fn drop_alias(&self, held: &Held<'_>, from: &FileName, to: &FileName) -> Result<Attempt> {
        let state = self.check_alone(held, from)?;
        for name in [from, to] {
            match self.lookup(name) {
                Ok(id) if id == held.id => {}
                Ok(_) | Err(Error::NoSuchFile { .. }) => return Ok(Attempt::Changed),
                Err(e) => return Err(e),
            }
        }
        if let Some(state) = state {
            state.void_names();
        }
        fs::remove_file(self.entry(from)).map_err(|e| self.name_error(from, e))?;
        self.prune(from);
        Ok(Attempt::Done(None))
    }

    /// That the file is this node's alone; returns its shared state, if that counts.
    fn check_alone(&self, held: &Held<'_>, name: &FileName) -> Result<Option<State>> {
        let path = object::path(&self.root, held.id);
        let failed = |e: io::Error| Error::io(format!("renaming {name}"), &path, e);
        let manifest = Manifest::read(&path, &name.to_string())?;
        if manifest.nodes.iter().any(|node| node != self.node()) {
            let (subject, name) = (format!("renaming {name}"), name.to_string());
            return Err(Error::SharedByNodes { subject, name });
        }
        let state = held.known_state(failed)?;
        let is_in_cluster = state.as_ref().is_some_and(|state| state.cluster() != 0);
        if is_in_cluster && held.is_open().map_err(failed)? {
            return Err(Error::OpenInAnotherJob { name: name.to_string() });
        }
        Ok(state)
    }

    /// Lets `to` lead to where `from` does, which leads nowhere then. False where `to` is taken and is not to be.
    fn move_entry(&self, from: &FileName, to: &FileName, replacing: bool) -> Result<bool> {
        let (old, new) = (self.entry(from), self.entry(to));
        let parent = new.parent().expect("an entry lies below the names' directory");
        let flags = if replacing { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        loop {
            match DirBuilder::new().recursive(true).mode(0o700).create(parent) {
                // A directory went just now, with its last file.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) if e.kind() == ErrorKind::AlreadyExists && !leads_through_file(parent) => continue,
                made => made.map_err(|e| self.name_error(to, e))?,
            }
            let moved = renameat_with(CWD, &old, CWD, &new, flags).map_err(io::Error::from);
            match moved {
                Ok(()) => return Ok(true),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    // As above; or the name was damaged by something other than svmio.
                    fs::symlink_metadata(&old).map_err(|e| self.name_error(from, e))?;
                }
                Err(e) => {
                    self.prune(to);
                    return Err(self.name_error(to, e));
                }
            }
        }
    }
}
