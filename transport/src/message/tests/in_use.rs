//! Memory that DMA, or a thread of this process, is using: neither a peer nor the end of the messenger takes it away.

use std::sync::{Arc, mpsc};

use super::lending::{open, open_for};
use super::{Messenger, Mode, Rank};
use crate::back_end::Backing;
use crate::dma::{Completion, Direction, Transfer};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::context::Role;
use crate::message::sharing::Copied;
use crate::message::wire::{Ended, Packet, Way};
use crate::segment::RemoteSegment;
use crate::shm;
use crate::units::SegmentId;

const LENGTH: usize = 1_000_000;

/// Writes to a segment by DMA, after all that was posted before.
fn post(fabric: &Fabric, to: &RemoteSegment, done: &Arc<Completion>) {
    const BYTES: [u8; 8] = [1; 8];
    let local = UserMemory::of(&BYTES);
    let chain = vec![Transfer { direction: Direction::Write, local, remote: to.remote(), offset: 0 }];
    // SAFETY: the bytes stay for ever.
    unsafe { fabric.post(chain, done) }.unwrap();
}

/// Has `messenger` fail with `peer`, which is told.
fn give_up(messenger: &Messenger, peer: Rank) {
    let link = messenger.engine().link(peer).unwrap();
    let mut state = link.take_turn();
    state.fail(link, Error::Unsupported { back_end: "any".into(), what: "this" });
    state.publish(link);
}

#[test]
fn dma_finds_what_it_reads_when_the_messenger_is_gone() {
    let ways = [
        (Way::Staged, Mode::RendezvousStaged),
        (Way::FromUser, Mode::RendezvousHalfStaged),
        (Way::Direct, Mode::RendezvousDirect),
    ];
    for (way, mode) in ways {
        let fabrics = shm::within_process(2);
        let [zero, one] = [0, 1].map(|rank| open_for(&fabrics[rank], way, mode));
        let id = SegmentId::new(1, 0);
        let _segment = fabrics[0].create(id, &Backing::Anonymous { length: 64 }).unwrap();
        let own = fabrics[0].connect(Rank(0), id).unwrap();
        // DMA has something else to do first.
        let ((begun, has_begun), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let first = Arc::new(Completion::calling(move |_| {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
        }));
        post(&fabrics[0], &own, &first);
        has_begun.recv().unwrap();

        let mut into = vec![0; LENGTH];
        zero.send_kept(Rank(1), vec![7; LENGTH]).unwrap();
        // SAFETY: it has failed when the memory goes.
        let receive = unsafe { one.post_receive(Rank(0), UserMemory::of_mut(&mut into)) }.unwrap();
        assert!(receive.test().is_none());
        zero.progress();
        let link = zero.engine().link(Rank(1)).unwrap();
        assert!(!link.take_turn().flights.is_empty(), "{way:?}");
        give_up(&one, Rank(0));
        zero.progress();
        assert!(link.take_turn().error.is_some(), "{way:?}");
        drop(zero);
        go_on.send(()).unwrap();
        let last = Arc::new(Completion::new());
        post(&fabrics[0], &own, &last);
        fabrics[0].wait_for(&last).unwrap();
        receive.wait().unwrap_err();
    }
}

/// Refuses a packet about a message at the end where a thread of this process copies it, and gets the whole message.
fn assert_refused(at: Rank, is_given_up: bool, packet: impl Fn(u32) -> Packet) {
    let fabrics = shm::within_process(2);
    let both = [0, 1].map(|rank| open(&fabrics[rank], Way::Shared));
    let (ours, mut theirs) = (vec![1; LENGTH], vec![0; LENGTH]);
    // SAFETY: both end below, and the memory is left alone until then.
    let (send, receive) = unsafe {
        let send = both[0].post_send(Rank(1), UserMemory::of(&ours), Mode::RendezvousDirect).unwrap();
        (send, both[1].post_receive(Rank(0), UserMemory::of_mut(&mut theirs)).unwrap())
    };
    let [sender, receiver] = [0, 1].map(|rank| both[rank].engine().link(Rank(1 - rank as u32)).unwrap());
    receiver.take_turn().process(receiver);
    if is_given_up {
        let mut state = sender.take_turn();
        let outcome = Arc::clone(&state.sending[0].outcome);
        state.give_up(sender, &outcome).unwrap();
    }
    sender.take_turn().process(sender);

    let link = if at == Rank(0) { sender } else { receiver };
    link.stage(Role::Staging).unwrap();
    let mut state = link.take_turn();
    let id = if at == Rank(0) { state.sending[0].id } else { state.receiving[0].id };
    let sharing = state.take_share(link).unwrap();
    let packet = packet(id);
    assert!(matches!(state.handle(link, packet), Err(Error::Wire { .. })), "{packet:?}");
    state.give_share_back(link, &sharing, Ok(Copied::Stopped));
    drop(state);
    receive.wait().unwrap();
    send.wait().unwrap();
    assert!(theirs == ours);
}

#[test]
fn no_packet_ends_what_a_thread_of_this_process_is_copying() {
    assert_refused(Rank(1), false, |transfer| Packet::Part { transfer, buffer: 0, offset: 0, length: 1000 });
    assert_refused(Rank(0), false, |transfer| Packet::Taken { transfer, ended: Ended::NoWay });
    assert_refused(Rank(0), true, |transfer| Packet::Taken { transfer, ended: Ended::Withdrawn });
}
