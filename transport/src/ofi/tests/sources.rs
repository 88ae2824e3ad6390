//! Memory from which is written, where the provider wants it registered, as adapters do.

use std::sync::Arc;
use std::thread;

use super::hanging::{join, quick};
use super::{PROVIDERS, SEGMENT, anonymous, until};
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::message::{MessageSettings, Messenger, Port};
use crate::ofi::adapter::Adapter;
use crate::ofi::domain::Domain;
use crate::ofi::provider::Offer;
use crate::ofi::sources::Source;
use crate::ofi::{listen_in, sys};
use crate::{Error, Fabric, JobSecret, Rank, RemoteSegment, SegmentId};

const LENGTH: usize = 4 << 20;

/// What may be locked, for all tests of this: a buffer through which is written, and nothing that is as long as a
/// message of these tests.
const LOCKABLE: usize = 300 << 10;

/// Two ranks over a provider that has local memory registered, and their adapters.
fn ranks(provider: &str) -> [(Fabric, Arc<Adapter>); 2] {
    ranks_with(provider, sys::FI_MR_LOCAL)
}

/// The same with what else the provider wants of memory registration.
fn ranks_with(provider: &str, demand: u64) -> [(Fabric, Arc<Adapter>); 2] {
    let (settings, secret) = (quick(provider, 20), JobSecret::random().unwrap());
    join([(); 2].map(|()| {
        let (mut offer, at) = Offer::choose(&settings, None).unwrap();
        offer.demand(demand);
        listen_in(Domain::open(offer).unwrap(), &at, &settings, &secret).unwrap()
    }))
}

/// What keeps a rank from registering memory from which it writes.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// It may lock no more than little memory.
    Lockable,
    /// The provider wants to be allowed more there than this process is.
    Refused(i32),
}

const LIMITS: [Limit; 5] = [
    Limit::Lockable,
    Limit::Refused(-libc::EFAULT),
    Limit::Refused(-libc::EACCES),
    Limit::Refused(-libc::EPERM),
    Limit::Refused(-libc::EOPNOTSUPP),
];

fn limit(adapter: &Adapter, limit: Limit) {
    let limited = adapter.with_endpoint(|endpoint| {
        let faults = endpoint.domain().faults();
        match limit {
            Limit::Lockable => faults.limit_registrations(LOCKABLE),
            Limit::Refused(answer) => faults.refuse_sources(answer),
        }
        Ok(())
    });
    limited.unwrap();
}

fn pattern() -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 7) as u8).collect()
}

fn post(fabric: &Fabric, bytes: &[u8], remote: &RemoteSegment) -> Arc<Completion> {
    let done = Arc::new(Completion::new());
    let local = UserMemory::of(bytes);
    let transfer = Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
    // SAFETY: whoever calls this leaves the bytes alone until the end.
    unsafe { fabric.post(vec![transfer], &done) }.unwrap();
    done
}

#[test]
fn what_cannot_be_registered_is_written_all_the_same() {
    for provider in PROVIDERS {
        for kind in LIMITS {
            write_unregistered(provider, kind);
        }
    }
}

fn write_unregistered(provider: &str, kind: Limit) {
    let [(zero, adapter), (one, _)] = ranks(provider);
    let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    limit(&adapter, kind);
    let (bytes, mut found) = (pattern(), vec![0; LENGTH]);

    zero.wait_for(&post(&zero, &bytes, &remote)).unwrap();
    segment.memory().read(0, &mut found).unwrap();
    assert!(found == bytes, "{provider}, {kind:?}: handed over");

    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    remote.write(0, &turned).unwrap();
    zero.store_barrier(Rank(1)).unwrap();
    segment.memory().read(0, &mut found).unwrap();
    assert!(found == turned, "{provider}, {kind:?}: written");
    remote.read(0, &mut found).unwrap();
    assert!(found == turned, "{provider}, {kind:?}: read");

    assert_eq!(zero.membership().lost(), [], "{provider}, {kind:?}");
    drop((remote, segment));
    [zero, one].iter().for_each(Fabric::close);
}

#[test]
fn it_is_told_whether_memory_is_pinned() {
    for provider in PROVIDERS {
        for (demand, is_pinned) in
            [(sys::FI_MR_LOCAL, false), (sys::FI_MR_LOCAL | sys::FI_MR_ALLOCATED, true)]
        {
            let ranks = ranks_with(provider, demand);
            ranks.iter().for_each(|(fabric, adapter)| {
                assert_eq!(fabric.capabilities().pins_memory, is_pinned, "{provider}");
                assert_eq!(*fabric.capabilities(), adapter.capabilities);
            });
            ranks.iter().for_each(|(fabric, _)| fabric.close());
        }
    }
}

#[test]
fn a_segment_that_cannot_be_registered_lacks_memory() {
    for provider in PROVIDERS {
        let [(zero, adapter), (one, _)] = ranks(provider);
        limit(&adapter, Limit::Lockable);
        let error = zero.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }) && error.to_string().contains("ulimit -l"), "{error}");
        // A shorter one is registered.
        drop(zero.create(SEGMENT, &anonymous(LOCKABLE as u64 / 2)).unwrap());
        [zero, one].iter().for_each(Fabric::close);
    }
}

#[test]
fn messages_arrive_whatever_may_be_locked() {
    for provider in PROVIDERS {
        for limits in [[true, false], [false, true], [true, true]] {
            send_limited(provider, limits, Limit::Lockable);
        }
    }
}

#[test]
fn messages_leave_from_memory_that_the_provider_refuses() {
    for provider in PROVIDERS {
        for kind in LIMITS {
            send_limited(provider, [true, false], kind);
        }
    }
}

/// Sends messages of several lengths, where these ranks can register little memory.
fn send_limited(provider: &str, limits: [bool; 2], kind: Limit) {
    let ranks = ranks(provider);
    for ((_, adapter), is_limited) in ranks.iter().zip(limits) {
        if is_limited {
            limit(adapter, kind);
        }
    }
    let settings = MessageSettings::default();
    let messengers =
        ranks.each_ref().map(|(fabric, _)| Messenger::open(fabric, Port::FIRST, &settings).unwrap());
    let [zero, one] = &messengers;
    let bytes = pattern();
    for length in [100, 20_000, LENGTH] {
        let mut into = vec![0; length];
        thread::scope(|scope| {
            let sending = scope.spawn(|| zero.send(Rank(1), &bytes[..length]));
            one.receive(Rank(0), &mut into).unwrap();
            sending.join().unwrap().unwrap();
        });
        assert!(into == bytes[..length], "{provider}, {limits:?}, {kind:?}: {length} bytes");
    }
    ranks.iter().for_each(|(fabric, _)| assert_eq!(fabric.membership().lost(), []));
    drop(messengers);
    ranks.iter().for_each(|(fabric, _)| fabric.close());
}

#[test]
fn a_segment_that_goes_stays_registered_while_it_is_written_from() {
    const FROM: SegmentId = SegmentId::new(7, 2);
    for provider in PROVIDERS {
        let [(zero, adapter), (one, its_adapter)] = ranks(provider);
        let length = 64 << 20;
        let segment = one.create(SEGMENT, &anonymous(length)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        let from = zero.create(FROM, &anonymous(length)).unwrap();
        let memory = from.memory().clone();
        // SAFETY: the memory is kept, and nobody changes it from here on.
        let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), memory.len()) };
        let registered = match adapter.exports.source(UserMemory::of(bytes)) {
            Some(Source::Exported { registration, .. }) => Arc::downgrade(&registration),
            _ => panic!("{provider}: it is exported"),
        };
        // Which takes in nothing more by itself.
        its_adapter.stop_attendant();
        let done = post(&zero, bytes, &remote);
        drop(from);
        assert!(done.test().is_none(), "{provider}: so much cannot be under way");
        assert!(registered.strong_count() > 0, "{provider}: it is written from");
        while done.test().is_none() {
            its_adapter.process().unwrap();
            adapter.process().unwrap();
        }
        done.test().unwrap().unwrap();
        until(&zero, || registered.strong_count() == 0);
        drop((remote, segment));
        [zero, one].iter().for_each(Fabric::close);
    }
}
