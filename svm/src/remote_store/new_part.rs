//! A part of a new file in a store of another host.

use std::sync::Arc;

use crate::error::Result;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::aside::Over;
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

use super::RemoteStore;
use super::protocol::{self, AtMost, LONGEST_DATA, MOST_SEGMENTS, Message, PutOver, Question, Step};

/// After so many bytes it is asked whether they have arrived: a full disk there is not noticed later than that.
const ASKED_AFTER: u64 = 64 << 20;

/// A part of a file that is being made. The process that serves the store removes it when the connection ends, unless
/// the part was [confirmed](RemotePart::confirm).
#[derive(Debug)]
pub(crate) struct RemotePart {
    store: Arc<RemoteStore>,
    file: FileId,
    name: FileName,
    /// Bytes that were sent since it was asked what became of them.
    unasked: u64,
}

impl RemotePart {
    /// Begins a file that `nodes` share.
    pub(crate) fn create(
        store: &Arc<RemoteStore>,
        file: FileId,
        name: &FileName,
        options: &OpenOptions,
        nodes: &[NodeName],
    ) -> Result<RemotePart> {
        let (store, of) = (Arc::clone(store), protocol::bytes_of(name.as_path()));
        let part = RemotePart { store, file, name: name.clone(), unasked: 0 };
        let segment_size = options.segment_size.unwrap_or(SegmentSize::DEFAULT);
        let (policies, nodes) = (options.policies(), AtMost(nodes.to_vec()));
        part.take(Step::Create { name: of, segment_size, policies, nodes })?;
        Ok(part)
    }

    /// Stands for the file where the store gets no part of it, and is to know of no older one.
    pub(crate) fn absent(store: &Arc<RemoteStore>, file: FileId, name: &FileName) -> Result<RemotePart> {
        let part = RemotePart { store: Arc::clone(store), file, name: name.clone(), unasked: 0 };
        part.take(Step::Absent { name: protocol::bytes_of(name.as_path()) })?;
        Ok(part)
    }

    /// Writes all of `data` at `offset`; what goes wrong with it may be told later.
    pub(crate) fn write_at(&mut self, offset: FileOffset, data: &[u8]) -> Result<()> {
        let mut at = offset.0;
        for portion in data.chunks(LONGEST_DATA) {
            self.store.tell(&Message::Write { file: self.file, offset: at }, portion)?;
            at += portion.len() as u64;
            self.unasked += portion.len() as u64;
            if self.unasked >= ASKED_AFTER {
                self.ask_for_written()?;
            }
        }
        Ok(())
    }

    fn ask_for_written(&mut self) -> Result<()> {
        self.unasked = 0;
        self.take(Step::Written)
    }

    /// Makes the file `size` bytes long, with segments at `homes`, and brings it to the storage device.
    pub(crate) fn settle(&mut self, homes: &[(SegmentIndex, u32)], size: u64) -> Result<()> {
        self.ask_for_written()?;
        for some in homes.chunks(MOST_SEGMENTS) {
            self.take(Step::Enter { homes: AtMost(some.to_vec()) })?;
        }
        self.take(Step::Settle { size })
    }

    /// Gives the file its name, which it loses again where the connection ends; what has the name is set aside if the
    /// file is put over something.
    pub(crate) fn enter_name(&self, over: Option<&Over>) -> Result<()> {
        self.take(Step::Name { over: over.map(PutOver::new) })
    }

    /// Lets the file keep its name.
    pub(crate) fn confirm(&self) -> Result<()> {
        self.take(Step::Confirm)
    }

    /// Removes the older file.
    pub(crate) fn release(&self) -> Result<()> {
        self.take(Step::Release)
    }

    /// Removes the file, whatever it has got so far; an older one has its name again.
    pub(crate) fn take_back(&self) -> Result<()> {
        let name = protocol::bytes_of(self.name.as_path());
        self.take(Step::TakeBack { name })
    }

    fn take(&self, step: Step) -> Result<()> {
        self.store.demand(Question::Make(self.file, step))
    }
}
