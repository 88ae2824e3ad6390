//! Messages: how many it takes, and those that do not arrive.

use std::sync::Arc;
use std::thread;

use super::{PROVIDERS, SEGMENT, anonymous, until};
use crate::back_end::{Piece, Prepared};
use crate::message::{MessageSettings, Messenger, Mode, Port};
use crate::ofi::adapter::Adapter;
use crate::ofi::address::ProcessAddress;
use crate::ofi::back_end::Ofi;
use crate::ofi::wire;
use crate::ofi::{Listening, OfiSettings, listen};
use crate::{Fabric, Interrupt, JobSecret, Membership, Rank};

/// Two that listen, with so long messages, and their addresses.
fn two_listening(provider: &str, message_bytes: [usize; 2]) -> ([Listening; 2], Vec<Vec<u8>>) {
    let secret = JobSecret::random().unwrap();
    let both = message_bytes.map(|message_bytes| {
        let (provider, address) = (provider.into(), "127.0.0.1".into());
        listen(&OfiSettings { provider, address, message_bytes, ..OfiSettings::default() }, &secret, None)
            .unwrap()
    });
    let addresses = both.each_ref().map(|listening| listening.address()).to_vec();
    (both, addresses)
}

/// Brings them together as the ranks of a job.
fn together(both: [Listening; 2], addresses: &[Vec<u8>]) -> [Arc<Adapter>; 2] {
    let mut rank = 0..;
    both.map(|listening| {
        let nodes = vec!["alpha".to_owned(), "beta".to_owned()];
        let membership = Arc::new(Membership::new(Rank(rank.next().unwrap()), nodes));
        listening.attend(&membership, addresses).unwrap()
    })
}

fn faces(adapters: &[Arc<Adapter>; 2]) -> [Fabric; 2] {
    adapters.each_ref().map(|adapter| Fabric::new(Arc::new(Ofi::new(Arc::clone(adapter)))))
}

#[test]
fn messages_are_as_long_as_the_receiver_takes_them() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [512, 60_000]);
        let fabrics = faces(&together(both, &addresses));
        for (from, to) in [(0, 1), (1, 0)] {
            let segment = fabrics[to].create(SEGMENT, &anonymous(60_000)).unwrap();
            let remote = fabrics[from].connect(Rank(to as u32), SEGMENT).unwrap();
            let bytes: Vec<u8> = (0..60_000_u32).map(|number| number as u8).collect();
            remote.write(0, &bytes).unwrap();
            fabrics[from].store_barrier(Rank(to as u32)).unwrap();
            let mut found = vec![0; bytes.len()];
            segment.memory().read(0, &mut found).unwrap();
            assert!(found == bytes, "{provider}, from {from}");
        }
    }
}

#[test]
fn a_write_and_its_interrupt_are_one_message_where_they_fit_into_one() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [512; 2]);
        let adapters = together(both, &addresses);
        let [zero, one] = faces(&adapters);
        let segment = zero.create(SEGMENT, &anonymous(60_000)).unwrap();
        let remote = one.connect(Rank(0), SEGMENT).unwrap();
        let sent = || adapters[1].peers[0].outgoing().sent;
        let room = 512 - wire::WRITE_HEADER - wire::INTERRUPT - wire::PIECE_HEADER;
        for (length, messages) in [(0, 1), (8, 1), (room, 1), (room + 1, 2)] {
            let before = sent();
            let bytes = vec![length as u8 | 1; length];
            remote.write_and_trigger(&[Piece { offset: 0, bytes: &bytes }], Interrupt(1)).unwrap();
            assert_eq!(sent() - before, messages, "{provider}, {length} bytes");
            assert_eq!(zero.wait_interrupt(Interrupt(1), None).unwrap(), 1);
            let mut found = vec![0; length];
            segment.memory().read(0, &mut found).unwrap();
            assert!(found == bytes, "{provider}, {length} bytes");
        }
    }
}

#[test]
fn who_gets_a_message_needs_no_ring() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [8192; 2]);
        let adapters = together(both, &addresses);
        let [zero, one] = faces(&adapters);
        let segment = zero.create(SEGMENT, &anonymous(1 << 20)).unwrap();
        let remote = one.connect(Rank(0), SEGMENT).unwrap();
        let after_direct_write = |then: &dyn Fn()| {
            remote.write(0, &[1; 1 << 20]).unwrap();
            let before = adapters[1].peers[0].outgoing().sent;
            then();
            one.ring(Rank(0)).unwrap();
            adapters[1].peers[0].outgoing().sent - before
        };
        assert_eq!(after_direct_write(&|| ()), 1, "{provider}: a ring");
        assert_eq!(after_direct_write(&|| remote.write(0, &[2; 8]).unwrap()), 1, "{provider}: the write");
        drop(segment);
    }
}

#[test]
fn a_long_write_wakes_nobody_and_a_ring_tells_of_it() {
    const LONG: usize = 64 << 10;
    let (both, addresses) = two_listening("net", [LONG + 512; 2]);
    let adapters = together(both, &addresses);
    let [zero, one] = faces(&adapters);
    let segment = zero.create(SEGMENT, &anonymous(1 << 20)).unwrap();
    let remote = one.connect(Rank(0), SEGMENT).unwrap();
    let messages_of = |then: &dyn Fn()| {
        let before = adapters[1].peers[0].outgoing().sent;
        remote.write(0, &[1; LONG]).unwrap();
        then();
        one.ring(Rank(0)).unwrap();
        adapters[1].peers[0].outgoing().sent - before
    };
    assert_eq!(messages_of(&|| ()), 2, "the write and a ring");
    assert_eq!(messages_of(&|| remote.write(0, &[2; 8]).unwrap()), 2, "the write and another that wakes");
    one.store_barrier(Rank(0)).unwrap();
    let wakes = || {
        let seen = adapters[0].waiters.seen();
        (0..10).for_each(|_| remote.write(8, &[3; LONG]).unwrap());
        one.store_barrier(Rank(0)).unwrap();
        adapters[0].waiters.seen() - seen
    };
    // The questions for the barriers wake, too, perhaps after they were answered; and now and then what is late.
    assert!((0..3).map(|_| wakes()).any(|wakes| wakes <= 2));
    let mut byte = [0];
    segment.memory().read(8 + LONG as u64 - 1, &mut byte).unwrap();
    assert_eq!(byte, [3]);
}

#[test]
fn an_eager_message_is_one_message_that_wakes_where_it_fits_into_one() {
    for (provider, longest) in [("net", (64 << 10) + 512), ("tcp;ofi_rxm", 8192)] {
        let (both, addresses) = two_listening(provider, [longest; 2]);
        let adapters = together(both, &addresses);
        let fabrics = faces(&adapters);
        let settings = MessageSettings::default();
        let messengers =
            fabrics.each_ref().map(|fabric| Messenger::open(fabric, Port::FIRST, &settings).unwrap());
        let messages_of = |length: usize| {
            let before = adapters[1].peers[0].outgoing().sent;
            let (bytes, mut into) = (vec![length as u8 | 1; length], vec![0; length]);
            thread::scope(|scope| {
                scope.spawn(|| messengers[1].send_by(Mode::Eager, Rank(0), &bytes).unwrap());
                messengers[0].receive(Rank(1), &mut into).unwrap();
            });
            assert!(into == bytes, "{provider}, {length} bytes");
            adapters[1].peers[0].outgoing().sent - before
        };
        // The first one connects them.
        messages_of(1000);
        let room = (longest - 256).min(settings.eager_buffer as usize);
        // Over the first provider, writes of one piece that are as long as the longest two would wake nobody.
        for length in [1000, 4096, room / 2, room] {
            assert_eq!(messages_of(length), 1, "{provider}, {length} bytes");
        }
    }
}

#[test]
fn a_message_by_rendezvous_takes_three_messages_beside_its_bytes() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [8192; 2]);
        let adapters = together(both, &addresses);
        let fabrics = faces(&adapters);
        let settings = MessageSettings { asynchronous: true, ..MessageSettings::default() };
        let messengers =
            fabrics.each_ref().map(|fabric| Messenger::open(fabric, Port::FIRST, &settings).unwrap());
        let transfer = || {
            let (bytes, mut into) = (vec![7; 1 << 20], vec![0; 1 << 20]);
            thread::scope(|scope| {
                scope.spawn(|| messengers[1].send_by(Mode::RendezvousDirect, Rank(0), &bytes).unwrap());
                messengers[0].receive(Rank(1), &mut into).unwrap();
            });
            assert!(into == bytes);
            [0, 1].map(|rank: usize| adapters[rank].peers[1 - rank].outgoing().sent)
        };
        // The first one connects them.
        let [before, after] = [transfer(), transfer()];
        assert_eq!(after[1] - before[1], 2, "{provider}: the request, and that it is done");
        assert_eq!(after[0] - before[0], 1, "{provider}: that the receiver is ready");
    }
}

/// The attendant looks often only where there is something to look at.
#[test]
fn a_segment_that_nobody_knows_goes_at_once() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [64 << 10; 2]);
        let adapters = together(both, &addresses);
        let fabrics = faces(&adapters);
        let (segment, known) = (fabrics[0].create(SEGMENT, &anonymous(8)).unwrap(), &adapters[0].drains);
        drop(segment);
        assert!(!known.are_urgent(), "{provider}");
        let segment = fabrics[0].create(SEGMENT, &anonymous(8)).unwrap();
        drop(fabrics[1].connect(Rank(0), SEGMENT).unwrap());
        drop(segment);
        // Where somebody knew it, it does so for a while.
        until(&fabrics[0], || !known.are_urgent());
    }
}

/// Waits until rank 1 is lost to `fabric`, and returns what that says.
fn loss_of_one(fabric: &Fabric) -> String {
    until(fabric, || fabric.membership().check(Rank(1)).is_err());
    fabric.membership().check(Rank(1)).unwrap_err().to_string()
}

#[test]
fn who_lost_a_message_is_lost_and_that_is_the_reason() {
    for provider in PROVIDERS {
        let (both, addresses) = two_listening(provider, [8192; 2]);
        let adapters = together(both, &addresses);
        let [zero, one] = faces(&adapters);
        one.trigger(Rank(0), Interrupt(1)).unwrap();
        assert_eq!(zero.wait_interrupt(Interrupt(1), None).unwrap(), 1);
        // As if one had gone down with its connection.
        adapters[1].peers[0].outgoing().sent += 1;
        one.trigger(Rank(0), Interrupt(1)).unwrap();
        let problem = loss_of_one(&zero);
        assert!(problem.contains("rank 1 on node beta") && problem.contains("message 2 of 3"), "{problem}");
        assert_eq!(zero.wait_interrupt(Interrupt(1), Some(zero.now())).unwrap(), 0, "it was not applied");
    }
}

#[test]
fn who_sends_what_cannot_be_received_is_lost_and_that_is_the_reason() {
    for provider in PROVIDERS {
        let (both, mut addresses) = two_listening(provider, [600, 8192]);
        // Told wrongly, rank 1 sends longer messages than rank 0 has room for.
        let mut told = ProcessAddress::decode(&addresses[0]).unwrap();
        assert_eq!(told.message_bytes, 600);
        told.message_bytes = 8192;
        addresses[0] = told.encode();
        let [zero, one] = faces(&together(both, &addresses));
        let segment = zero.create(SEGMENT, &anonymous(8000)).unwrap();
        let remote = one.connect(Rank(0), SEGMENT).unwrap();
        remote.write(0, &[1; 100]).unwrap();
        one.store_barrier(Rank(0)).unwrap();
        remote.write(0, &[2; 4000]).unwrap();
        let problem = loss_of_one(&zero);
        assert!(problem.contains("rank 1 on node beta"), "{problem}");
        println!("{provider}: {problem}");
        drop(segment);
    }
}
