//! How large buffers come out, told before there are any.

use serde::Serialize;

use super::context::Role;
use super::layout::{Layout, Sizes};
use super::outbox::staging_offset;
use super::room::Room;
use super::settings::MessageSettings;
use crate::capabilities::Capabilities;
use crate::error::Result;

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
    /// What comes of `settings` in a job of `size` processes, on a fabric with these `capabilities`, where each process
    /// may take `memory` bytes ([`memory_share`](crate::shm::memory_share) on real machines; `None` where nobody can
    /// tell), and no more than the settings allow. A messenger goes by the same, with what there is when it is opened;
    /// what the system has lost until it makes a buffer makes that one smaller still. Where memory is too short for
    /// everybody's smallest buffers, these are what comes of it: few programs talk with everybody.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), when the settings do not allow even the smallest buffers.
    pub fn expected(
        settings: &MessageSettings,
        capabilities: &Capabilities,
        size: u32,
        memory: Option<u64>,
    ) -> Result<Self> {
        let room = Room::new(settings, memory, size);
        let wanted = Sizes::wanted(settings, capabilities);
        let inbox = |sizes: &Sizes| Layout::of(sizes).length;
        let staging = |sizes: &Sizes| staging_offset(u64::from(sizes.staging_buffer), sizes.staging_buffers);
        let sizes = room.fitting(Role::Inbox, wanted, &inbox, Sizes::halved)?.next().unwrap_or(wanted);
        let staged = room.fitting(Role::Staging, sizes, &staging, Sizes::staging_halved)?.next();
        let sizes = staged.unwrap_or(sizes);
        Ok(Self {
            longest_short: sizes.longest_short() as u64,
            ring: u64::from(sizes.ring_parts) * u64::from(sizes.part),
            eager_buffer: sizes.eager_buffer,
            eager_buffers: sizes.eager_buffers,
            staging_buffer: sizes.staging_buffer,
            staging_buffers: sizes.staging_buffers,
            bytes: inbox(&sizes) + 2 * staging(&sizes),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::Footprint;
    use crate::message::{Buffers, MessageSettings, Messenger, Mode, Port};
    use crate::shm;
    use crate::sim::{Model, SimOptions, World};
    use crate::units::Rank;

    /// What a messenger says of its buffers for a peer, of which staging buffers are only made when needed.
    fn assert_in_force(buffers: &Buffers, expected: &Footprint) {
        let made = (buffers.short_message as u64, buffers.ring, buffers.eager_buffer, buffers.eager_buffers);
        let Footprint { longest_short, ring, eager_buffer, eager_buffers, .. } = *expected;
        assert_eq!(made, (longest_short, ring, eager_buffer, eager_buffers));
        let staged = (buffers.staging_buffer, buffers.staging_buffers);
        assert!(
            staged == (0, 0) || staged == (expected.staging_buffer, expected.staging_buffers),
            "{staged:?}"
        );
    }

    #[test]
    fn where_memory_is_short_buffers_are_as_small_as_told_and_every_protocol_works() {
        const SIZE: u32 = 3;
        const LENGTHS: [usize; 3] = [40, 3000, 300_000];
        let modes = [
            Mode::Automatic,
            Mode::Short,
            Mode::Eager,
            Mode::RendezvousStores,
            Mode::RendezvousStaged,
            Mode::RendezvousHalfStaged,
            Mode::RendezvousDirect,
        ];
        let settings = MessageSettings::default();
        for name in ["sci-switch", "infiniband-hdr"] {
            let mut before: Option<Footprint> = None;
            for memory in [16 << 20, 1 << 20, 200 << 10] {
                let mut model = Model::clone(&Model::named(name).unwrap());
                model.setup.segment_memory = Some(memory);
                let in_world = World::new(SimOptions::new(SIZE, Arc::new(model))).run(|fabric| {
                    let messenger = Messenger::open(&fabric, Port::FIRST, &settings).unwrap();
                    let expected =
                        Footprint::expected(&settings, fabric.capabilities(), SIZE, Some(memory)).unwrap();
                    let me = fabric.rank().0;
                    let registers = fabric.capabilities().registers_user_memory;
                    let is_open = |mode: Mode| {
                        registers || !matches!(mode, Mode::RendezvousHalfStaged | Mode::RendezvousDirect)
                    };
                    let modes = modes.iter().filter(|mode| is_open(**mode));
                    for (mode, length) in modes.flat_map(|mode| LENGTHS.map(|length| (*mode, length))) {
                        let bytes: Vec<u8> = (0..length).map(|byte| (byte * 7 + 3) as u8).collect();
                        for to in (0..SIZE).filter(|to| *to != me) {
                            let mut place = vec![0; length];
                            let (one, other) = (Rank(me.min(to)), Rank(me.max(to)));
                            if fabric.rank() == one {
                                messenger.send_by(mode, other, &bytes).unwrap();
                                messenger.receive(other, &mut place).unwrap();
                            } else {
                                messenger.receive(one, &mut place).unwrap();
                                messenger.send_by(mode, one, &bytes).unwrap();
                            }
                            assert!(place == bytes, "{mode:?}, {length}");
                        }
                    }
                    let buffers = messenger.buffers();
                    assert_eq!(buffers.len(), SIZE as usize - 1);
                    assert!(buffers.iter().any(|buffers| buffers.staging_buffers > 0), "{buffers:?}");
                    buffers.iter().for_each(|buffers| assert_in_force(buffers, &expected));
                    assert!(expected.bytes * u64::from(SIZE - 1) <= memory, "{expected:?}");
                    expected
                });
                let told: Vec<Footprint> =
                    in_world.unwrap().results.into_iter().map(Option::unwrap).collect();
                if let Some(before) = before.replace(told[0]) {
                    let smaller = |now: u32, before: u32| assert!(now < before, "{told:?}");
                    smaller(
                        told[0].eager_buffer * told[0].eager_buffers,
                        before.eager_buffer * before.eager_buffers,
                    );
                    smaller(told[0].staging_buffer, before.staging_buffer);
                }
            }
        }
    }

    #[test]
    fn only_the_settings_forbid_the_smallest_buffers() {
        let fabric = shm::within_process(1).remove(0);
        let settings = MessageSettings::default();
        let of = |memory| Footprint::expected(&settings, fabric.capabilities(), 8, Some(memory)).unwrap();
        assert_eq!(of(0), of(1 << 10));
        assert!(of(0).bytes < of(1 << 20).bytes);
        let wanted = Footprint::expected(&settings, fabric.capabilities(), 8, None).unwrap();
        assert_eq!(of(1 << 40), wanted);
    }

    #[test]
    fn buffers_come_out_as_expected_and_for_everybody() {
        const SIZE: u32 = 9;
        for memory_cap in [64 << 20, 4 << 20, 600 << 10] {
            let settings = MessageSettings { memory_cap, ..MessageSettings::default() };
            let fabrics = shm::within_process(SIZE);
            let capabilities = fabrics[0].capabilities();
            let expected = Footprint::expected(&settings, capabilities, SIZE, None).unwrap();
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
            buffers.iter().for_each(|buffers| assert_in_force(buffers, &expected));
        }
        let settings = MessageSettings { memory_cap: 4 << 10, ..MessageSettings::default() };
        let problem = Footprint::expected(&settings, shm::within_process(1)[0].capabilities(), SIZE, None)
            .unwrap_err()
            .to_string();
        assert!(problem.contains("smallest message buffers"), "{problem}");
    }
}
