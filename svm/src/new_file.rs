//! A new file in one store, from nothing to a name that stays.
//!
//! Whoever makes a file in several stores takes each step in all of them before the next one. Until a file is confirmed in
//! all, nothing of an older one of its name is destroyed in any; so it can be taken back in all.

use crate::error::Result;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::store::aside::{Aside, Over};
use crate::units::FileId;
use crate::unnamed::UnnamedFile;

/// A file that is being made in a store.
#[derive(Debug)]
pub(crate) struct NewFile {
    store: Store,
    id: FileId,
    name: FileName,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Unnamed(Box<UnnamedFile>),
    /// The store gets no part of it, and is only to know of no older file.
    Absent,
    /// It has its name; what is aside has had it.
    Named(Option<Aside>),
    /// As before, and whoever makes it may have gone on to release what is aside elsewhere.
    Confirmed(Option<Aside>),
    /// It stays, or could not be given its name and is gone.
    Over,
}

impl NewFile {
    /// Makes a file that nobody sees yet, of those that `nodes` share.
    ///
    /// # Errors
    /// As [`Store::create_unnamed`].
    pub(crate) fn create(
        store: &Store,
        id: FileId,
        name: &FileName,
        options: &OpenOptions,
        nodes: &[NodeName],
    ) -> Result<NewFile> {
        let unnamed = store.create_unnamed_as(id, name, options, nodes, 0)?;
        Ok(NewFile { store: store.clone(), id, name: name.clone(), stage: Stage::Unnamed(Box::new(unnamed)) })
    }

    /// The same where the store gets no part of it: an older file loses its name.
    pub(crate) fn absent(store: &Store, id: FileId, name: &FileName) -> NewFile {
        NewFile { store: store.clone(), id, name: name.clone(), stage: Stage::Absent }
    }

    /// The file, as long as it has no name and there is one.
    pub(crate) fn unnamed(&self) -> Option<&UnnamedFile> {
        match &self.stage {
            Stage::Unnamed(unnamed) => Some(unnamed),
            _ => None,
        }
    }

    /// Whether it can be given its name.
    pub(crate) fn is_to_be_named(&self) -> bool {
        matches!(self.stage, Stage::Unnamed(_) | Stage::Absent)
    }

    /// Whether it has its name, and loses it unless that is confirmed.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.stage, Stage::Named(_))
    }

    /// Whether an older file waits for being released.
    pub(crate) fn is_to_be_released(&self) -> bool {
        matches!(self.stage, Stage::Confirmed(Some(_)))
    }

    /// Gives the file its name; what has it is set aside if the file is put over something, and an error otherwise.
    ///
    /// # Errors
    /// As [`UnnamedFile::persist`] and [`Store::set_aside`].
    pub(crate) fn enter_name(&mut self, over: Option<&Over>) -> Result<()> {
        let aside = match (std::mem::replace(&mut self.stage, Stage::Over), over) {
            (Stage::Unnamed(unnamed), Some(over)) => Some(unnamed.set_aside(over)?),
            (Stage::Unnamed(unnamed), None) => unnamed.persist().map(|_| None)?,
            (Stage::Absent, Some(over)) => self.store.clear_name(&self.name, self.id, over)?,
            (stage, _) => {
                self.stage = stage;
                return Ok(());
            }
        };
        self.stage = Stage::Named(aside);
        Ok(())
    }

    /// Gives the file its name for good, where no other store has to do with it.
    ///
    /// # Errors
    /// As [`UnnamedFile::persist`] and [`UnnamedFile::replace`].
    pub(crate) fn enter_name_alone(&mut self, replacing: bool) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Unnamed(unnamed) if replacing => unnamed.replace().map(drop),
            Stage::Unnamed(unnamed) => unnamed.persist().map(drop),
            _ => Ok(()),
        }
    }

    /// Lets the file keep its name: from now on only whoever makes it takes it back.
    pub(crate) fn confirm(&mut self) {
        if let Stage::Named(aside) = &mut self.stage {
            self.stage = Stage::Confirmed(aside.take());
        }
    }

    /// Removes the older file: the new one is confirmed in all stores.
    ///
    /// # Errors
    /// As [`Store::release`].
    pub(crate) fn release(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Confirmed(Some(aside)) => self.store.release(&aside),
            _ => Ok(()),
        }
    }

    /// Removes the file, whatever it has got so far; an older one that was set aside has its name again.
    ///
    /// # Errors
    /// As [`Store::restore`].
    pub(crate) fn take_back(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Named(Some(aside)) | Stage::Confirmed(Some(aside)) => self.store.restore(&aside),
            Stage::Named(None) | Stage::Confirmed(None) => self.store.take_back(&self.name, self.id),
            Stage::Unnamed(_) | Stage::Absent | Stage::Over => Ok(()),
        }
    }
}
