//! Where writes to peers begin, as the provider wants to know it.

use std::sync::Arc;

use super::adapter::Adapter;
use super::domain::{Descriptor, Registration, Use};
use super::sys;
use crate::error::Result;
use crate::memory::{SharedMemory, UserMemory};

/// Memory from which is written. Kept until the provider has let go of it: with its registration the provider's word
/// for it is gone.
pub(super) enum Source {
    /// The provider asks for nothing.
    Plain,
    /// A part of an exported segment, whose registration serves, and stays until this is dropped, with the memory.
    Exported {
        /// The segment's. Before the memory: dropped before it.
        registration: Arc<Registration>,
        _memory: SharedMemory,
    },
    /// It is registered for this.
    Registered(Registration),
    /// It cannot be registered: memory is short, so much may not be locked, or the adapter wants to be allowed to write
    /// where nobody may, as `efa` and the cache of `verbs` do. What is written leaves by other memory.
    Unregistered,
}

impl Source {
    /// A part of this segment.
    pub(super) fn exported(registration: Arc<Registration>, memory: SharedMemory) -> Self {
        Self::Exported { registration, _memory: memory }
    }

    /// What a transfer gives along; none where no transfer may begin there.
    pub(super) fn descriptor(&self) -> Option<Descriptor> {
        match self {
            Self::Plain => Some(Descriptor::NONE),
            Self::Exported { registration, .. } => Some(registration.descriptor()),
            Self::Registered(registration) => Some(registration.descriptor()),
            Self::Unregistered => None,
        }
    }
}

impl Adapter {
    /// What the provider wants to know of memory from which is written.
    ///
    /// # Errors
    /// `Ending`.
    pub(super) fn source(&self, memory: UserMemory) -> Result<Source> {
        self.with_endpoint(|endpoint| {
            if !endpoint.domain().offer().registers(sys::FI_MR_LOCAL) {
                return Ok(Source::Plain);
            }
            if let Some(source) = self.exports.source(memory) {
                return Ok(source);
            }
            // SAFETY: whoever posts transfers of this memory keeps the registration no longer than the memory, and
            // nobody else learns its key.
            let registered = unsafe { endpoint.register(memory, Use::Source) };
            // Whatever the reason: it says nothing of the bytes, which are there to be read.
            Ok(registered.map_or_else(
                |error| {
                    tracing::debug!(%error, "what is written is copied first");
                    Source::Unregistered
                },
                Source::Registered,
            ))
        })
    }
}
