//! Pairs that fail on one side only: the other is told, though both messengers stay open.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::worlds::{self, Ground, bad_plan};
use super::{MessageSettings, Messenger, Mode, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::mapping::{self, Pages};
use crate::membership::Membership;
use crate::memory::UserMemory;
use crate::message::credits::FIRST;
use crate::message::wire::Packet;

const LENGTH: usize = 20_000;

/// After how long the other side counts as hanging, by the fabric's time.
const LIMIT: Duration = Duration::from_secs(20);

fn grounds() -> [Ground; 5] {
    let simulated = |model| Ground::Simulated { model, seed: 1, faults: false };
    let [threads, faulty] = [Ground::Threads, Ground::FaultyThreads(bad_plan(5))];
    [threads, faulty, Ground::Tcp, simulated("sci-ring"), simulated("infiniband-hdr")]
}

/// With which there is room for an inbox of each of two peers, and not for staging buffers.
fn without_staging() -> MessageSettings {
    let small = MessageSettings { short_packet: 56, ring: 64, eager_buffer: 64, ..Default::default() };
    MessageSettings { memory_cap: 40 << 10, ..small }
}

/// Has both ranks end `body` with an error, and returns what they say. No messenger is closed before.
fn both_fail(
    ground: &Ground,
    settings: &MessageSettings,
    body: impl Fn(&Fabric, &Messenger) -> Result<(), Error> + Sync,
) -> [String; 2] {
    let errors = [OnceLock::new(), OnceLock::new()];
    let memberships = [OnceLock::<Arc<Membership>>::new(), OnceLock::new()];
    let ended = AtomicU32::new(0);
    worlds::run(ground, 2, settings, |fabric, messenger| {
        let own = fabric.rank().index();
        memberships[own].get_or_init(|| Arc::clone(fabric.membership()));
        let error = body(fabric, &messenger).unwrap_err();
        errors[own].get_or_init(|| error.to_string());
        ended.fetch_add(1, Ordering::Relaxed);
        let began = fabric.now();
        while ended.load(Ordering::Relaxed) < 2 {
            messenger.progress();
            fabric.back_end().sleep(Duration::from_millis(1));
            if fabric.now().since(began) > LIMIT {
                memberships[1 - own].get().unwrap().declare_ending("the other side hangs");
            }
        }
    });
    errors.map(|error| error.into_inner().unwrap())
}

/// That rank `by` has given up is what the other one was told.
fn assert_told(errors: &[String; 2], by: usize, what: impl std::fmt::Debug) {
    let told = &errors[1 - by];
    let names_it =
        told.contains(&format!("rank {by} on node ")) && told.contains("has given up its messages");
    assert!(names_it, "{what:?}: {errors:?}");
}

#[test]
fn who_lacks_staging_buffers_for_a_message_is_told_by_a_sender_that_gives_up() {
    for ground in grounds() {
        for mode in [Mode::RendezvousStores, Mode::RendezvousStaged] {
            let errors = both_fail(&ground, &without_staging(), |fabric, messenger| {
                if fabric.rank() == Rank(0) {
                    messenger.send_by(mode, Rank(1), &[7; LENGTH])
                } else {
                    messenger.receive(Rank(0), &mut [0; LENGTH]).map(|_| ())
                }
            });
            assert!(errors[0].contains("staging buffers") || errors[0].contains("memory_cap"), "{errors:?}");
            assert_told(&errors, 0, (ground.clone(), mode));
        }
    }
}

#[test]
fn a_program_that_computes_is_told() {
    for ground in grounds() {
        let errors = both_fail(&ground, &without_staging(), |fabric, messenger| {
            if fabric.rank() == Rank(0) {
                return messenger.send_by(Mode::RendezvousStaged, Rank(1), &[7; LENGTH]);
            }
            let mut into = [0; LENGTH];
            // SAFETY: the memory stays until the receive has ended.
            let posted = unsafe { messenger.post_receive(Rank(0), UserMemory::of_mut(&mut into)) }?;
            while !posted.has_ended() {
                fabric.back_end().sleep(Duration::from_millis(1));
            }
            posted.wait().map(|_| ())
        });
        assert_told(&errors, 0, ground);
    }
}

/// Bytes that can be sent, and then not be read any more.
struct Withdrawn(crate::memory::SharedMemory);

impl Withdrawn {
    fn protect(&self, protection: libc::c_int) {
        // SAFETY: whole pages of an own mapping, which nobody has a reference to.
        let answer = unsafe { libc::mprotect(self.0.as_ptr().cast(), self.0.len(), protection) };
        assert_eq!(answer, 0);
    }
}

#[test]
fn a_sender_is_told_by_a_receiver_that_cannot_copy() {
    const LENGTH: usize = 48 << 10;
    let settings = MessageSettings::default();
    let errors = both_fail(&Ground::Threads, &settings, |fabric, messenger| {
        if fabric.rank() == Rank(1) {
            messenger.receive(Rank(0), &mut []).unwrap();
            // Of a single chunk: the sender is not needed, and was not told that the message is being taken.
            return messenger.receive(Rank(0), &mut vec![0; LENGTH]).map(|_| ());
        }
        let bytes = Withdrawn(mapping::anonymous("a test", LENGTH as u64, Pages::Touched).unwrap());
        let memory = UserMemory { start: std::ptr::NonNull::new(bytes.0.as_ptr()).unwrap(), length: LENGTH };
        bytes.protect(libc::PROT_NONE);
        messenger.send(Rank(1), &[]).unwrap();
        // SAFETY: the memory stays until the send has ended. Only the peer looks at it.
        let posted = unsafe { messenger.post_send(Rank(1), memory, Mode::RendezvousDirect) }?;
        posted.wait().map(|_| ())
    });
    assert!(errors[1].contains("copying"), "{errors:?}");
    assert_told(&errors, 1, "copy");
}

/// What has no room at first goes when there is some.
#[test]
fn a_peer_that_reads_late_is_told() {
    let settings = MessageSettings { asynchronous: false, ring: 256 << 10, ..Default::default() };
    for ground in grounds() {
        let has_failed = AtomicU32::new(0);
        let errors = both_fail(&ground, &settings, |fabric, messenger| {
            if fabric.rank() == Rank(1) {
                messenger.receive(Rank(0), &mut [0; 8])?;
                while has_failed.load(Ordering::Relaxed) == 0 {
                    fabric.back_end().sleep(Duration::from_millis(1));
                }
                return messenger.receive(Rank(0), &mut [0; 8]).map(|_| ());
            }
            messenger.send(Rank(1), b"hello")?;
            let link = messenger.engine().link(Rank(1))?;
            let mut state = link.take_turn();
            (0..100).for_each(|count| state.say(Packet::Withdraw { transfer: FIRST.wrapping_add(count) }));
            state.put_control(link)?;
            assert!(!state.departing.is_empty(), "there is room for all");
            let error = Error::Unsupported { back_end: "the test's".into(), what: "this" };
            state.fail(link, error);
            state.publish(link);
            has_failed.store(1, Ordering::Relaxed);
            Err(state.error.clone().unwrap())
        });
        assert_told(&errors, 0, ground);
    }
}
