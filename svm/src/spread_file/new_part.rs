//! What one store gets of a new file: in a store of this machine, or of another host.

use crate::error::Result;
use crate::name::FileName;
use crate::new_file::NewFile;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::remote_store::RemotePart;
use crate::store::aside::Over;
use crate::store_set::Member;
use crate::units::{FileId, FileOffset, SegmentIndex};

/// A part of a new file, or the name of an older one where there is to be none.
#[derive(Debug)]
pub(super) enum NewPart {
    Here(NewFile),
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
        let Whole { id, name, options, nodes } = of;
        Ok(match member {
            Member::Here(store) => NewPart::Here(NewFile::create(store, id, name, options, nodes)?),
            Member::There(store) => NewPart::There(RemotePart::create(store, id, name, options, nodes)?),
        })
    }

    /// Stands for a store that gets no part, and is to know of no older file.
    pub(super) fn absent(member: Member<'_>, of: Whole<'_>) -> Result<NewPart> {
        Ok(match member {
            Member::Here(store) => NewPart::Here(NewFile::absent(store, of.id, of.name)),
            Member::There(store) => NewPart::There(RemotePart::absent(store, of.id, of.name)?),
        })
    }

    /// Writes all of `data` at `offset`; of another host, what goes wrong may be told later.
    pub(super) fn write_at(&mut self, offset: FileOffset, data: &[u8]) -> Result<()> {
        match self {
            NewPart::Here(file) => {
                file.unnamed().map_or(Ok(()), |unnamed| unnamed.file().write_at(offset, data))
            }
            NewPart::There(part) => part.write_at(offset, data),
        }
    }

    /// Makes the file `size` bytes long, with segments at `homes`, and brings it to the storage device.
    pub(super) fn settle(&mut self, homes: &[(SegmentIndex, u32)], size: u64) -> Result<()> {
        match self {
            NewPart::Here(file) => {
                let Some(unnamed) = file.unnamed() else { return Ok(()) };
                unnamed.enter_homes(homes)?;
                unnamed.settle(size)
            }
            NewPart::There(part) => part.settle(homes, size),
        }
    }

    /// Gives the file its name, until it is taken back or confirmed; on another host at most as long as the connection
    /// lasts. What has the name is set aside if the file is put over something.
    pub(super) fn enter_name(&mut self, over: Option<&Over>) -> Result<()> {
        match self {
            NewPart::Here(file) => file.enter_name(over),
            NewPart::There(part) => part.enter_name(over),
        }
    }

    /// Gives the file its name for good if it is in this store alone, and here; tells whether it is.
    pub(super) fn enter_name_alone(&mut self, replacing: bool) -> Result<bool> {
        match self {
            NewPart::Here(file) => file.enter_name_alone(replacing).map(|()| true),
            NewPart::There(_) => Ok(false),
        }
    }

    /// Lets the file keep its name, also when the connection ends.
    pub(super) fn confirm(&mut self) -> Result<()> {
        match self {
            NewPart::Here(file) => {
                file.confirm();
                Ok(())
            }
            NewPart::There(part) => part.confirm(),
        }
    }

    /// Removes the older file.
    pub(super) fn release(&mut self) -> Result<()> {
        match self {
            NewPart::Here(file) => file.release(),
            NewPart::There(part) => part.release(),
        }
    }

    /// Removes the part, whatever it has got so far; an older file has its name again.
    pub(super) fn take_back(&mut self) -> Result<()> {
        match self {
            NewPart::Here(file) => file.take_back(),
            NewPart::There(part) => part.take_back(),
        }
    }
}
