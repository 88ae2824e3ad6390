//! Files that are being made in the served store, each until it keeps its name.

use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::units::{FileId, FileOffset, SegmentIndex};
use crate::unnamed::UnnamedFile;

use super::super::protocol::{self, Failure, Step};

type Outcome<T = ()> = std::result::Result<T, Failure>;

/// More than anybody makes at a time.
const MOST: usize = 16;

/// Files that are being made. What is not confirmed when this is dropped is removed.
pub(super) struct Making {
    store: Store,
    files: Vec<NewFile>,
}

struct NewFile {
    id: FileId,
    name: FileName,
    /// How many nodes share it.
    nodes: usize,
    stage: Stage,
    /// Why a piece of it could not be written: the first one.
    failure: Option<Failure>,
}

enum Stage {
    Unnamed(Box<UnnamedFile>),
    /// It has its name, and loses it unless that is confirmed.
    Named,
    /// It could not be given its name, and is gone.
    Gone,
}

impl Making {
    pub(super) fn new(store: &Store) -> Making {
        Making { store: store.clone(), files: Vec::new() }
    }

    /// Takes a step towards the file `id`.
    pub(super) fn take_step(&mut self, id: FileId, step: Step) -> Outcome {
        match step {
            Step::Create { name, segment_size, policies, nodes } => {
                let options =
                    OpenOptions::read_write().segment_size(Some(segment_size)).policies_of(policies);
                self.create(id, &protocol::file_name(&name)?, &options, &nodes.0)
            }
            Step::Written => self.file(id)?.failure.take().map_or(Ok(()), Err),
            Step::Enter { homes } => self.file(id)?.enter(&homes.0),
            Step::Settle { size } => Ok(self.file(id)?.unnamed()?.settle(size)?),
            Step::Name { replacing } => self.file(id)?.name(replacing),
            Step::Confirm => self.confirm(id),
            Step::TakeBack { name } => {
                self.files.retain(|file| file.id != id);
                // It may have been confirmed before.
                Ok(self.store.take_back(&protocol::file_name(&name)?, id)?)
            }
        }
    }

    /// Writes `data`; what goes wrong with it is told when it is asked for.
    pub(super) fn write(&mut self, id: FileId, offset: u64, data: &[u8]) {
        let Ok(file) = self.file(id) else { return };
        if file.failure.is_none() {
            let outcome = protocol::check_extent(offset, data.len())
                .and_then(|()| Ok(file.unnamed()?.file().write_at(FileOffset(offset), data)?));
            file.failure = outcome.err();
        }
    }

    fn create(&mut self, id: FileId, name: &FileName, options: &OpenOptions, nodes: &[NodeName]) -> Outcome {
        if self.files.len() >= MOST {
            return Err(Failure::senseless("more new files than anybody makes at a time"));
        }
        if !nodes.contains(self.store.node()) {
            return Err(Failure::senseless("a file that has no part here"));
        }
        let stage = Stage::Unnamed(Box::new(self.store.create_unnamed_as(id, name, options, nodes, 0)?));
        self.files.push(NewFile { id, name: name.clone(), nodes: nodes.len(), stage, failure: None });
        Ok(())
    }

    fn confirm(&mut self, id: FileId) -> Outcome {
        match self.files.iter().position(|file| file.id == id) {
            Some(at) if matches!(self.files[at].stage, Stage::Named) => {
                self.files.remove(at);
                Ok(())
            }
            _ => Err(out_of_turn()),
        }
    }

    fn file(&mut self, id: FileId) -> Outcome<&mut NewFile> {
        self.files.iter_mut().find(|file| file.id == id).ok_or_else(out_of_turn)
    }
}

impl NewFile {
    fn enter(&self, homes: &[(SegmentIndex, u32)]) -> Outcome {
        if homes.iter().any(|(_, home)| *home as usize >= self.nodes) {
            return Err(Failure::senseless("a home that is none of the file's nodes"));
        }
        Ok(self.unnamed()?.enter_homes(homes)?)
    }

    fn name(&mut self, replacing: bool) -> Outcome {
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Unnamed(unnamed) => {
                if replacing {
                    unnamed.replace()?
                } else {
                    unnamed.persist()?
                };
                self.stage = Stage::Named;
                Ok(())
            }
            stage => {
                self.stage = stage;
                Err(out_of_turn())
            }
        }
    }

    fn unnamed(&self) -> Outcome<&UnnamedFile> {
        match &self.stage {
            Stage::Unnamed(unnamed) => Ok(unnamed),
            Stage::Named | Stage::Gone => Err(out_of_turn()),
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        for file in &self.files {
            if let Stage::Named = file.stage
                && let Err(error) = self.store.take_back(&file.name, file.id)
            {
                // Whoever made it cannot be told any more.
                tracing::warn!("{} stays, though its copy failed (svmio rm removes it): {error}", file.name);
            }
        }
    }
}

fn out_of_turn() -> Failure {
    Failure::senseless("a file that is not being made")
}
