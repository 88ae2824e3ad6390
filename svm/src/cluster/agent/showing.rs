//! Telling others by what they read a segment of this node by themselves.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use svmio_transport::Rank;

use crate::cluster::wire::{Reply, Shown};
use crate::error::{Error, Result};
use crate::node::BootId;
use crate::object;
use crate::units::{FileId, SegmentIndex};

use super::Agent;

impl Agent {
    pub(super) fn show(&self, from: Rank, file: FileId, index: SegmentIndex) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let attachment = &served.attachment;
        let Some(segment) = attachment.segment(index)? else { return Ok(Reply::Shown(None)) };
        let row = served.publish(index, &self.context).map_err(|source| Error::Fabric {
            subject: format!("exporting the versions of {}", attachment.name()),
            source,
        })?;
        let Some(row) = row else { return Ok(Reply::Shown(None)) };
        let path = attachment.path().join(object::segment_name(index));
        let failed = |e| Error::io(format!("looking at segment {index} of {}", attachment.name()), &path, e);
        let found = segment.file().metadata().map_err(failed)?;
        let identity = (BootId::current()?.0, found.dev(), found.ino());
        let (path, version) =
            (path.as_os_str().as_bytes().to_vec(), row.word_of(self.context.roster.node_of(from)));
        Ok(Reply::Shown(Some(Shown { path, identity, version })))
    }
}
