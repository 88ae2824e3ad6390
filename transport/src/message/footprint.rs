//! How large buffers come out, told before there are any.

use std::io;
use std::sync::Arc;

use serde::Serialize;

use super::context::Role;
use super::layout::{Layout, Sizes};
use super::outbox::staging_offset;
use super::settings::MessageSettings;
use crate::capabilities::Capabilities;
use crate::error::{Error, Result};

/// The buffers that a process has for each peer that it exchanges messages of all kinds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Bytes of the longest short message.
    pub longest_short: u64,
    /// Bytes of the ring of short packets.
    pub ring: u64,
    /// Bytes of the longest eager message.
    pub eager_buffer: u32,
    /// How many of them there is room for.
    pub eager_buffers: u32,
    /// Bytes of a staging buffer.
    pub staging_buffer: u32,
    /// How many there are for each direction, once one is needed.
    pub staging_buffers: u32,
    /// Bytes of all.
    pub bytes: u64,
}

impl Footprint {
    /// What comes of `settings` in a job of `size` processes, on a fabric with these `capabilities`,
    /// where each process may take `memory` bytes, and no more than the settings allow.
    ///
    /// # Errors
    /// [`Error::Memory`], when not even the smallest buffers fit.
    pub fn expected(
        settings: &MessageSettings,
        capabilities: &Capabilities,
        size: u32,
        memory: u64,
    ) -> Result<Self> {
        let share = |role: Role| role.share(settings.memory_cap.min(memory), size);
        let staging_length =
            |sizes: &Sizes| staging_offset(u64::from(sizes.staging_buffer), sizes.staging_buffers);
        let wanted = Sizes::wanted(settings, capabilities);
        let inbox = |sizes: &Sizes| Layout::of(sizes).length;
        let sizes = fitting(share(Role::Inbox), wanted, inbox, Sizes::halved)?;
        let sizes = fitting(share(Role::Staging), sizes, staging_length, Sizes::staging_halved)?;
        Ok(Self {
            longest_short: sizes.longest_short() as u64,
            ring: u64::from(sizes.ring_parts) * u64::from(sizes.part),
            eager_buffer: sizes.eager_buffer,
            eager_buffers: sizes.eager_buffers,
            staging_buffer: sizes.staging_buffer,
            staging_buffers: sizes.staging_buffers,
            bytes: inbox(&sizes) + 2 * staging_length(&sizes),
        })
    }
}

/// What fits into `share`, halved as often as that takes.
fn fitting(
    share: u64,
    mut sizes: Sizes,
    length: impl Fn(&Sizes) -> u64,
    halved: impl Fn(Sizes) -> Option<Sizes>,
) -> Result<Sizes> {
    loop {
        let bytes = length(&sizes);
        if bytes <= share {
            return Ok(sizes);
        }
        sizes = halved(sizes).ok_or_else(|| Error::Memory {
            what: "the smallest message buffers of a peer".into(),
            length: bytes,
            source: Arc::new(io::Error::other(format!("its part of the memory has {share} bytes"))),
        })?;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Footprint;
    use crate::message::{MessageSettings, Messenger, Port};
    use crate::shm;
    use crate::units::Rank;

    #[test]
    fn buffers_come_out_as_expected_and_for_everybody() {
        const SIZE: u32 = 9;
        for memory_cap in [64 << 20, 4 << 20, 600 << 10] {
            let settings = MessageSettings { memory_cap, ..MessageSettings::default() };
            let fabrics = shm::within_process(SIZE);
            let capabilities = fabrics[0].capabilities();
            let expected = Footprint::expected(&settings, capabilities, SIZE, u64::MAX).unwrap();
            assert!(expected.bytes * u64::from(SIZE) <= memory_cap, "{expected:?}");
            let messengers: Vec<_> = fabrics
                .iter()
                .map(|fabric| Messenger::open(fabric, Port::FIRST, &settings).unwrap())
                .collect();
            for rank in (1..SIZE).map(Rank) {
                messengers[0].send(rank, b"short").unwrap();
                let mut into = [0; 8];
                assert_eq!(messengers[rank.index()].receive(Rank(0), &mut into).unwrap(), 5);
            }
            let buffers = messengers[0].buffers();
            assert_eq!(buffers.len(), SIZE as usize - 1);
            for buffers in buffers {
                let made =
                    (buffers.short_message as u64, buffers.ring, buffers.eager_buffer, buffers.eager_buffers);
                let Footprint { longest_short, ring, eager_buffer, eager_buffers, .. } = expected;
                assert_eq!(made, (longest_short, ring, eager_buffer, eager_buffers));
            }
        }
        let settings = MessageSettings { memory_cap: 4 << 10, ..MessageSettings::default() };
        let problem =
            Footprint::expected(&settings, shm::within_process(1)[0].capabilities(), SIZE, u64::MAX)
                .unwrap_err()
                .to_string();
        assert!(problem.contains("smallest message buffers"), "{problem}");
    }
}
