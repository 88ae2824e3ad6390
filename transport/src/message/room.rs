//! How much memory the buffers of a messenger may take, and what is made of the wishes for their sizes.

use std::io;
use std::sync::Arc;

use super::context::Role;
use super::layout::Sizes;
use super::settings::MessageSettings;
use crate::error::{Error, Result};

/// What there is for the buffers of a process, for all its peers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What the settings allow.
    cap: u64,
    /// What the process may take of its machine's memory.
    memory: u64,
    /// How many processes the job has.
    size: u32,
}

impl Room {
    /// As `settings` allow, in a job of `size`, where the process may take `memory` bytes, if anybody can tell.
    pub(super) fn new(settings: &MessageSettings, memory: Option<u64>, size: u32) -> Self {
        Self { cap: settings.memory_cap, memory: memory.unwrap_or(u64::MAX), size }
    }

    /// The sizes to try to make a segment with, the largest that fit and all smaller ones: the system may refuse what
    /// fits here. Each peer has an equal part, half of it for its inbox. So there is something left for everybody,
    /// whoever comes first. Where memory is too short even for the smallest, few may need theirs: only the cap
    /// forbids those.
    ///
    /// # Errors
    /// `Memory`, where it does.
    pub(super) fn fitting<'a>(
        &self,
        role: Role,
        wanted: Sizes,
        length: &'a dyn Fn(&Sizes) -> u64,
        halved: fn(Sizes) -> Option<Sizes>,
    ) -> Result<impl Iterator<Item = Sizes> + use<'a>> {
        let Self { cap, memory, size } = *self;
        let share = |bytes: u64| bytes / u64::from(size) / if role == Role::Inbox { 2 } else { 4 };
        let (allowed, there) = (share(cap), share(cap.min(memory)));
        let all = move || std::iter::successors(Some(wanted), move |sizes| halved(*sizes));
        let smallest = all().last().unwrap_or(wanted);
        if length(&smallest) > allowed {
            let problem =
                format!("more than a part of the messenger's memory_cap of {cap} bytes for {size} processes");
            return Err(Error::Memory {
                what: "the smallest message buffers of a peer".into(),
                length: length(&smallest),
                source: Arc::new(io::Error::other(problem)),
            });
        }
        Ok(all().filter(move |sizes| *sizes == smallest || length(sizes) <= there))
    }
}
