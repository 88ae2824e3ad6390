//! Files that are being made in the served store, each until it keeps its name.

use crate::name::FileName;
use crate::new_file::NewFile;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::units::{FileId, FileOffset, SegmentIndex};
use crate::unnamed::UnnamedFile;

use super::super::protocol::{self, Failure, PutOver, Step};

type Outcome<T = ()> = std::result::Result<T, Failure>;

/// More than anybody makes at a time.
const MOST: usize = 16;

/// Files that are being made. What is not confirmed when this is dropped is taken back.
pub(super) struct Making {
    store: Store,
    files: Vec<InMaking>,
}

struct InMaking {
    id: FileId,
    /// How many nodes share it.
    nodes: usize,
    file: NewFile,
    /// Why a piece of it could not be written: the first one.
    failure: Option<Failure>,
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
            Step::Absent { name } => {
                let file = NewFile::absent(&self.store, id, &protocol::file_name(&name)?);
                self.begin(InMaking { id, nodes: 0, file, failure: None })
            }
            Step::Written => self.file(id)?.failure.take().map_or(Ok(()), Err),
            Step::Enter { homes } => self.file(id)?.enter(&homes.0),
            Step::Settle { size } => self.file(id)?.settle(size),
            Step::Name { over } => {
                let over = over.map(PutOver::over);
                Ok(self.file_if(id, NewFile::is_to_be_named)?.file.enter_name(over.as_ref())?)
            }
            Step::Confirm => {
                let making = self.file_if(id, NewFile::is_named)?;
                making.file.confirm();
                if !making.file.is_to_be_released() && making.nodes > 0 {
                    self.files.retain(|making| making.id != id);
                }
                Ok(())
            }
            Step::Release => {
                let is_over = |file: &NewFile| !file.is_to_be_named() && !file.is_named();
                let released = self.file_if(id, is_over)?.file.release();
                self.files.retain(|making| making.id != id);
                Ok(released?)
            }
            Step::TakeBack { name } => {
                if let Some(at) = self.files.iter().position(|making| making.id == id) {
                    return Ok(self.files.remove(at).file.take_back()?);
                }
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
        if !nodes.contains(self.store.node()) {
            return Err(Failure::senseless("a file that has no part here"));
        }
        self.check_room()?;
        let file = NewFile::create(&self.store, id, name, options, nodes)?;
        self.begin(InMaking { id, nodes: nodes.len(), file, failure: None })
    }

    fn begin(&mut self, making: InMaking) -> Outcome {
        self.check_room()?;
        self.files.push(making);
        Ok(())
    }

    fn check_room(&self) -> Outcome {
        if self.files.len() >= MOST {
            return Err(Failure::senseless("more new files than anybody makes at a time"));
        }
        Ok(())
    }

    fn file(&mut self, id: FileId) -> Outcome<&mut InMaking> {
        self.files.iter_mut().find(|making| making.id == id).ok_or_else(out_of_turn)
    }

    fn file_if(&mut self, id: FileId, is_due: impl Fn(&NewFile) -> bool) -> Outcome<&mut InMaking> {
        self.file(id).and_then(|making| if is_due(&making.file) { Ok(making) } else { Err(out_of_turn()) })
    }
}

impl InMaking {
    fn enter(&self, homes: &[(SegmentIndex, u32)]) -> Outcome {
        if self.nodes > 0 && homes.iter().any(|(_, home)| *home as usize >= self.nodes) {
            return Err(Failure::senseless("a home that is none of the file's nodes"));
        }
        Ok(self.unnamed()?.enter_homes(homes)?)
    }

    fn settle(&self, size: u64) -> Outcome {
        Ok(self.unnamed()?.settle(size)?)
    }

    fn unnamed(&self) -> Outcome<&UnnamedFile> {
        self.file.unnamed().ok_or_else(out_of_turn)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        for InMaking { file, .. } in &mut self.files {
            // What is confirmed may be so everywhere: `verify` decides about what is set aside for it.
            if file.is_named()
                && let Err(error) = file.take_back()
            {
                // Whoever made it cannot be told any more.
                tracing::warn!("what is left of a copy that failed stays until svmio verify: {error}");
            }
        }
    }
}

fn out_of_turn() -> Failure {
    Failure::senseless("a file that is not being made")
}
