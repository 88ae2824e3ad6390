//! Memory of messages that fail while a living peer may still be writing into it, or reading from it.

use super::worlds::run_threads;
use super::{MessageSettings, Messenger, Mode, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::context::Context;
use crate::message::engine::Engine;
use crate::message::lease;
use crate::message::wire::{Way, Ways};
use crate::shm;
use crate::units::Interrupt;

const LENGTH: usize = 1_000_000;

/// The ways by which a sender writes into the receiver's own memory, and a mode that offers them.
const WAYS: [(Way, Mode); 3] = [
    (Way::Direct, Mode::RendezvousDirect),
    (Way::ToUser, Mode::RendezvousHalfStaged),
    (Way::Shared, Mode::RendezvousDirect),
];

pub(super) fn open(fabric: &Fabric, way: Way) -> Messenger {
    open_for(fabric, way, Mode::default())
}

/// One that sends by `mode` where nothing else is said.
pub(super) fn open_for(fabric: &Fabric, way: Way, mode: Mode) -> Messenger {
    let settings = MessageSettings { asynchronous: false, mode, ..MessageSettings::default() };
    let mut context = Context::new(fabric.clone(), settings, 0x6d67_0000, Interrupt(63));
    context.sends = Ways::default().with(way);
    Messenger::over(Engine::new(context))
}

/// A lease as `messenger` takes it for a write to rank 0, and is stopped in the middle of.
pub(super) fn stopped_write(messenger: &Messenger) -> Option<lease::Lease> {
    let link = messenger.engine().link(Rank(0)).unwrap();
    let segment = link.take_turn().outbox(link).map(|outbox| outbox.segment.clone()).unwrap();
    messenger.engine().context.lease(&segment).unwrap()
}

#[test]
fn a_receive_that_fails_keeps_its_memory_until_a_peer_that_lives_has_ended_its_write() {
    for (way, mode) in WAYS {
        let fabrics = shm::within_process(2);
        let [zero, one] = [0, 1].map(|rank| open(&fabrics[rank], way));
        let (ours, mut theirs) = (vec![1; LENGTH], vec![0; LENGTH]);
        // SAFETY: both end below, and the memory is left alone until then.
        let (receive, send) = unsafe {
            let receive = zero.post_receive(Rank(1), UserMemory::of_mut(&mut theirs)).unwrap();
            (receive, one.post_send(Rank(0), UserMemory::of(&ours), mode).unwrap())
        };
        let write = stopped_write(&one);
        assert!(write.is_some(), "{way:?}");
        // The receive meets the message, and says how it is to come.
        zero.engine().link(Rank(1)).map(|link| link.take_turn().process(link)).unwrap();
        fabrics[0].membership().declare_lost(Rank(1), "the test says so");
        for _ in 0..100 {
            assert!(receive.test().is_none(), "{way:?}: its memory was given back too early");
        }
        drop(write);
        let error = receive.wait().unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(1)), "{way:?}: {error}");
        // The memory is the program's again: what the peer begins from now on does not come there.
        theirs.fill(7);
        let error = send.wait().unwrap_err();
        assert!(matches!(error, Error::NoMessenger { rank: Rank(0), .. }), "{way:?}: {error}");
        assert!(theirs.iter().all(|byte| *byte == 7), "{way:?}");
    }
}

#[test]
fn a_send_that_fails_keeps_its_memory_until_a_peer_that_lives_has_ended_its_read() {
    let fabrics = shm::within_process(2);
    let [zero, one] = [0, 1].map(|rank| open(&fabrics[rank], Way::Shared));
    let (mut ours, mut theirs) = (vec![1; LENGTH], vec![0; LENGTH]);
    // SAFETY: both end below, and the memory is left alone until then.
    let (send, receive) = unsafe {
        let send = zero.post_send(Rank(1), UserMemory::of(&ours), Mode::RendezvousDirect).unwrap();
        (send, one.post_receive(Rank(0), UserMemory::of_mut(&mut theirs)).unwrap())
    };
    let read = stopped_write(&one);
    fabrics[0].membership().declare_lost(Rank(1), "the test says so");
    for _ in 0..100 {
        assert!(send.test().is_none(), "its memory was given back too early");
    }
    drop(read);
    assert_eq!(send.wait().unwrap_err().lost_peer(), Some(Rank(1)));
    // The memory is the program's again: nothing of what it becomes is received.
    ours.fill(7);
    assert!(matches!(receive.wait().unwrap_err(), Error::NoMessenger { rank: Rank(0), .. }));
    assert!(theirs.iter().all(|byte| *byte == 0));
}

#[test]
fn whoever_waits_in_a_receive_is_told_when_its_peer_has_ended_its_write() {
    let fabrics = shm::within_process(2);
    let [zero, one] = [0, 1].map(|rank| open(&fabrics[rank], Way::Direct));
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| zero.receive(Rank(1), &mut vec![0; LENGTH]));
        let ours = vec![1; LENGTH];
        // SAFETY: it ends below, and the memory is left alone until then.
        let send = unsafe { one.post_send(Rank(0), UserMemory::of(&ours), Mode::RendezvousDirect) }.unwrap();
        let write = stopped_write(&one);
        let link = zero.engine().link(Rank(1)).unwrap();
        // Until the receiver said how it wants the message.
        while !one.engine().link(Rank(0)).unwrap().signs.control.has_arrived() {
            std::thread::yield_now();
        }
        fabrics[0].membership().declare_lost(Rank(1), "the test says so");
        while !link.signs.lent.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert!(!receiving.is_finished());
        drop(write);
        assert_eq!(receiving.join().unwrap().unwrap_err().lost_peer(), Some(Rank(1)));
        send.wait().unwrap_err();
    });
}

#[test]
fn all_that_is_written_into_user_memory_is_told_before_and_after() {
    for (way, mode) in WAYS {
        let fabrics = shm::within_process(2);
        run_threads(&fabrics, |fabric| {
            let messenger = open(fabric, way);
            if fabric.rank() == Rank(0) {
                let mut into = vec![0; LENGTH];
                messenger.receive(Rank(1), &mut into).unwrap();
                assert!(into.iter().all(|byte| *byte == 5));
                let inbox = messenger.engine().link(Rank(1)).unwrap().inbox.memory().clone();
                let (begun, ended) = lease::counts(&inbox);
                assert_eq!(begun, ended, "{way:?}");
                // How many chunks of a shared message each end copies depends on who is quicker.
                assert!(begun > 0 || way == Way::Shared, "{way:?}");
                messenger.send(Rank(1), b"seen").unwrap();
            } else {
                messenger.send_by(mode, Rank(0), &vec![5; LENGTH]).unwrap();
                messenger.receive(Rank(0), &mut [0; 4]).unwrap();
            }
        });
    }
}
