//! Which settings of the user's count for messages among agents and those who ask them.

use svmio_transport::message::{MessageSettings, Mode};

use crate::error::Error;

/// How agents and those who ask them exchange messages, where the user wants these to be as `told`.
pub(super) fn for_agents(told: &MessageSettings) -> MessageSettings {
    let default = MessageSettings::default();
    MessageSettings {
        mode: Mode::Automatic,
        short_packet: told.short_packet.max(default.short_packet),
        ring: told.ring.max(default.ring),
        eager_buffer: told.eager_buffer.max(default.eager_buffer),
        eager_buffers: told.eager_buffers.max(default.eager_buffers),
        asynchronous: true,
        ..told.clone()
    }
}

/// The error for a `memory_cap` into which not even the smallest buffers fit.
pub(super) fn too_little(messages: &MessageSettings) -> impl Fn(svmio_transport::Error) -> Error {
    move |source| Error::Fabric {
        subject: format!("messages.memory_cap is {}, too little for so many processes", messages.memory_cap),
        source,
    }
}
