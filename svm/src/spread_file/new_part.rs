//! What one store gets of a new file: in a store of this machine, or of another host.

use crate::error::Result;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::remote_store::RemotePart;
use crate::store::Store;
use crate::store_set::Member;
use crate::units::{FileId, FileOffset, SegmentIndex};
use crate::unnamed::UnnamedFile;

/// A part of a new file.
#[derive(Debug)]
pub(super) enum NewPart {
    /// `unnamed` until it is given its name, or could not be given it and is gone.
    Here {
        store: Store,
        unnamed: Option<Box<UnnamedFile>>,
    },
    There(RemotePart),
}

/// Which file a part belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole<'w> {
    pub(super) id: FileId,
    pub(super) name: &'w FileName,
    pub(super) options: &'w OpenOptions,
    pub(super) nodes: &'w [NodeName],
}

impl NewPart {
    /// Makes a part that nobody sees yet in a store.
    pub(super) fn create(member: Member<'_>, of: Whole<'_>) -> Result<NewPart> {
        Ok(match member {
            Member::Here(store) => {
                let unnamed = store.create_unnamed_as(of.id, of.name, of.options, of.nodes, 0)?;
                NewPart::Here { store: store.clone(), unnamed: Some(Box::new(unnamed)) }
            }
            Member::There(store) => {
                NewPart::There(RemotePart::create(store, of.id, of.name, of.options, of.nodes)?)
            }
        })
    }

    /// Writes all of `data` at `offset`; of another host, what goes wrong may be told later.
    pub(super) fn write_at(&mut self, offset: FileOffset, data: &[u8]) -> Result<()> {
        match self {
            NewPart::Here { unnamed, .. } => {
                unnamed.as_ref().map_or(Ok(()), |unnamed| unnamed.file().write_at(offset, data))
            }
            NewPart::There(part) => part.write_at(offset, data),
        }
    }

    /// Makes the file `size` bytes long, with segments at `homes`, and brings it to the storage device.
    pub(super) fn settle(&mut self, homes: &[(SegmentIndex, u32)], size: u64) -> Result<()> {
        match self {
            NewPart::Here { unnamed: Some(unnamed), .. } => {
                unnamed.enter_homes(homes)?;
                unnamed.settle(size)
            }
            NewPart::Here { unnamed: None, .. } => Ok(()),
            NewPart::There(part) => part.settle(homes, size),
        }
    }

    /// Gives the file its name; on another host as long as the connection lasts, until it is confirmed.
    pub(super) fn enter_name(&mut self, replacing: bool) -> Result<()> {
        match self {
            NewPart::Here { unnamed, .. } => {
                let Some(unnamed) = unnamed.take() else { return Ok(()) };
                if replacing {
                    unnamed.replace()?
                } else {
                    unnamed.persist()?
                };
                Ok(())
            }
            NewPart::There(part) => part.enter_name(replacing),
        }
    }

    /// Lets the file keep its name.
    pub(super) fn confirm(&mut self) -> Result<()> {
        match self {
            NewPart::Here { .. } => Ok(()),
            NewPart::There(part) => part.confirm(),
        }
    }

    /// Removes the part, whatever it has got so far.
    pub(super) fn take_back(&mut self, of: Whole<'_>) -> Result<()> {
        match self {
            NewPart::Here { store, unnamed } => {
                drop(unnamed.take());
                store.take_back(of.name, of.id)
            }
            NewPart::There(part) => part.take_back(),
        }
    }
}
