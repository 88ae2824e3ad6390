//! Peers that die while their messages are met: in simulated worlds, where it happens at the same moment in every run.

use std::time::Duration;

use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::sim::{Model, SimOptions, World};
use crate::units::Time;

/// When the peer dies: all that it sends has arrived long before.
const DEATH: Duration = Duration::from_millis(5);

/// Until when the survivor computes: its next call finds messages of a peer of whose death it is not told yet.
const BUSY: Duration = Duration::from_millis(6);

/// What rank 1 sends first. To take either, rank 0 has to write to it for the first time: that it is ready, or that
/// half the ring is free again. So it connects to it, and waits there until it is told of the death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Rendezvous,
    HalfTheRing,
}

/// Rank 1 sends something of 40 bytes and then what is `second`, and dies; rank 0 does `survive`.
fn survive_a_death(
    first: First,
    second: Option<&[u8]>,
    survive: impl Fn(&Fabric, &Messenger) -> Result<()> + Sync,
) {
    let settings =
        MessageSettings { asynchronous: false, short_packet: 64, ring: 128, ..MessageSettings::default() };
    let mut options = SimOptions::new(2, Model::named("sci-ring").unwrap());
    options.faults.kill = vec![(Rank(1), Time(0).after(DEATH))];
    let body = |fabric: Fabric| {
        let messenger = Messenger::open(&fabric, Port::FIRST, &settings).unwrap();
        if fabric.rank() == Rank(0) {
            return survive(&fabric, &messenger).unwrap();
        }
        let mode = if first == First::Rendezvous { Mode::RendezvousStores } else { Mode::Short };
        let sent = messenger.scope(|scope| {
            scope.send_by(mode, Rank(0), &[1; 40])?;
            if let Some(bytes) = second {
                scope.send_by(Mode::Short, Rank(0), bytes)?;
            }
            fabric.back_end().sleep(2 * DEATH);
            Ok(())
        });
        unreachable!("it is dead: {sent:?}");
    };
    let run = || World::new(options).run(body).map(drop);
    std::thread::scope(|scope| scope.spawn(run).join().unwrap()).unwrap();
}

fn assert_lost(ended: Result<usize>) {
    assert_eq!(ended.unwrap_err().lost_peer(), Some(Rank(1)));
}

/// How the receive of the first message ends.
fn assert_met(first: First, ended: Result<usize>) {
    match first {
        First::Rendezvous => assert_lost(ended),
        First::HalfTheRing => assert_eq!(ended.unwrap(), 40),
    }
}

#[test]
fn a_receive_that_is_posted_as_one_before_it_ends_the_pair_ends_as_well() {
    for first in [First::Rendezvous, First::HalfTheRing] {
        survive_a_death(first, None, |fabric, messenger| {
            let (mut met, mut posted) = ([0; 40], [0; 40]);
            messenger.scope(|scope| {
                let met = scope.receive(Rank(1), &mut met)?;
                fabric.back_end().compute(BUSY);
                let posted = scope.receive(Rank(1), &mut posted);
                assert_met(first, met.wait());
                assert_lost(posted.and_then(|posted| posted.wait()));
                Ok(())
            })
        });
    }
}

#[test]
fn a_receive_does_not_get_the_message_of_one_before_it_that_was_lost() {
    for first in [First::Rendezvous, First::HalfTheRing] {
        survive_a_death(first, Some(b"second"), |fabric, messenger| {
            let (mut met, mut lost, mut third) = ([0; 40], [0; 40], [0; 40]);
            messenger.scope(|scope| {
                let met = scope.receive(Rank(1), &mut met)?;
                let lost = scope.receive(Rank(1), &mut lost)?;
                fabric.back_end().compute(BUSY);
                assert_lost(messenger.receive(Rank(1), &mut third));
                assert_met(first, met.wait());
                assert_lost(lost.wait());
                Ok(())
            })
        });
    }
}
