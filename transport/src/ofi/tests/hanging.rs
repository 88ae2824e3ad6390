//! Peers that live, and do nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::{PROVIDERS, SEGMENT, anonymous, until};
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::message::{MessageSettings, Messenger, Port};
use crate::ofi::adapter::Adapter;
use crate::ofi::back_end::Ofi;
use crate::ofi::{Listening, OfiSettings, listen};
use crate::{Fabric, Interrupt, JobSecret, Membership, Rank, RemoteSegment};

const LENGTH: usize = 32 << 20;

/// Settings by which ranks give each other up after so many seconds.
pub(super) fn quick(provider: &str, answer_seconds: u32) -> OfiSettings {
    OfiSettings {
        provider: provider.into(),
        address: "127.0.0.1".into(),
        // More parts of a long write than can be under way.
        transfer_bytes: 64 << 10,
        answer_seconds,
        ..OfiSettings::default()
    }
}

/// Ranks that give each other up after a second, and their adapters.
pub(super) fn ranks<const SIZE: usize>(provider: &str) -> [(Fabric, Arc<Adapter>); SIZE] {
    ranks_by(&quick(provider, 1))
}

/// Whether nobody is lost who does its part, where ranks give each other up after so many seconds. What else runs on the
/// machine may hold up one of them for longer than a second, and then more are tried: what goes wrong in itself does so
/// with each.
pub(super) fn within_some_seconds(attempt: impl FnMut(u32) -> bool) -> bool {
    [1, 5, 20].into_iter().any(attempt)
}

/// Ranks with these settings, and their adapters.
pub(super) fn ranks_by<const SIZE: usize>(settings: &OfiSettings) -> [(Fabric, Arc<Adapter>); SIZE] {
    let secret = JobSecret::random().unwrap();
    join([(); SIZE].map(|()| listen(settings, &secret, None).unwrap()))
}

/// The ranks that listen so.
pub(super) fn join<const SIZE: usize>(listening: [Listening; SIZE]) -> [(Fabric, Arc<Adapter>); SIZE] {
    let addresses = listening.each_ref().map(|listening| listening.address.encode());
    let mut rank = 0;
    listening.map(|listening| {
        let membership = Arc::new(Membership::new(Rank(rank), vec!["here".into(); SIZE]));
        rank += 1;
        let adapter = listening.attend(&membership, &addresses).unwrap();
        (Fabric::new(Arc::new(Ofi::new(Arc::clone(&adapter)))), adapter)
    })
}

#[test]
fn a_peer_that_takes_nothing_of_a_long_write_is_lost() {
    for provider in PROVIDERS {
        let [(zero, _), (one, its_adapter)] = ranks(provider);
        let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        remote.write(0, &[1; 8]).unwrap();
        zero.store_barrier(Rank(1)).unwrap();

        // From here on, rank 1 does nothing.
        its_adapter.stop_attendant();
        let error = remote.write(0, &vec![1; LENGTH]).unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(1)), "{provider}: {error}");
        assert!(error.to_string().contains("took nothing"), "{provider}: {error}");
        assert_eq!(zero.membership().lost(), [Rank(1)]);
        drop((remote, segment));
        zero.close();
        one.close();
    }
}

#[test]
fn a_peer_that_tells_nothing_is_lost_to_messages_and_chains() {
    for provider in PROVIDERS {
        for by_chain in [false, true] {
            let [(zero, _), (one, its_adapter)] = ranks(provider);
            let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
            let remote = zero.connect(Rank(1), SEGMENT).unwrap();
            remote.write(0, &[1; 8]).unwrap();
            zero.store_barrier(Rank(1)).unwrap();

            // From here on, rank 1 does nothing.
            its_adapter.stop_attendant();
            let (bytes, done) = (vec![1; LENGTH], Arc::new(Completion::new()));
            if by_chain {
                let local = UserMemory::of(&bytes);
                let transfer =
                    Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
                // SAFETY: the bytes live longer than the fabric.
                unsafe { zero.post(vec![transfer], &done) }.unwrap();
                until(&zero, || done.test().is_some());
                assert_eq!(done.test().unwrap().unwrap_err().lost_peer(), Some(Rank(1)), "{provider}");
            } else {
                remote.write(0, &[1; 8]).unwrap();
                until(&zero, || !zero.membership().lost().is_empty());
            }
            assert_eq!(zero.membership().lost(), [Rank(1)], "{provider}");
            drop((remote, segment));
            zero.close();
            one.close();
        }
    }
}

#[test]
fn a_peer_that_has_left_is_not_lost_for_what_it_does_not_tell() {
    for provider in PROVIDERS {
        let [(zero, _), (one, _)] = ranks(provider);
        let segment = one.create(SEGMENT, &anonymous(8)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        remote.write(0, &[1; 8]).unwrap();
        until(&one, || segment.memory().word64(0).unwrap().load(Ordering::Acquire) != 0);
        // Which tells nothing of what was applied: it takes the other for lost.
        one.membership().declare_lost(Rank(0), "a test");
        one.close();
        let deadline = Some(zero.now().after(Duration::from_secs(5)));
        assert_eq!(zero.wait_interrupt(Interrupt(1), deadline).unwrap(), 0);
        assert_eq!(zero.membership().lost(), [], "{provider}");
        drop((remote, segment));
        zero.close();
    }
}

#[test]
fn a_peer_that_has_left_is_lost_to_a_chain_that_comes_later() {
    for provider in PROVIDERS {
        let [(zero, _), (one, _)] = ranks(provider);
        let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        let bytes = vec![1; LENGTH];
        // From here on, no connection to it comes about.
        one.close();
        let (done, local) = (Arc::new(Completion::new()), UserMemory::of(&bytes));
        let transfer = Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
        // SAFETY: the bytes live longer than the fabric.
        unsafe { zero.post(vec![transfer], &done) }.unwrap();
        until(&zero, || done.test().is_some());
        assert_eq!(done.test().unwrap().unwrap_err().lost_peer(), Some(Rank(1)), "{provider}");
        drop((remote, segment));
        zero.close();
    }
}

/// What a write to a peer that hangs brings, which is tried until it is lost.
type Hung = fn(&RemoteSegment, &[u8]) -> crate::Error;

#[test]
fn a_peer_that_hangs_takes_no_room_from_others() {
    let by_transfers: Hung = |remote, bytes| remote.write(0, bytes).unwrap_err();
    let by_messages: Hung = |remote, bytes| loop {
        if let Err(error) = remote.write(0, &bytes[..60_000]) {
            return error;
        }
    };
    for (provider, write_to_hung) in
        PROVIDERS.into_iter().flat_map(|provider| [(provider, by_transfers), (provider, by_messages)])
    {
        let is_reached = |seconds| is_healthy_one_reached(provider, seconds, write_to_hung);
        assert!(within_some_seconds(is_reached), "{provider}");
    }
}

/// Whether a peer is reached while another one hangs, until that one alone is lost, and after that.
fn is_healthy_one_reached(provider: &str, answer_seconds: u32, write_to_hung: Hung) -> bool {
    let [(zero, _), (one, its_adapter), (two, _)] = ranks_by(&quick(provider, answer_seconds));
    let segments = [&one, &two].map(|fabric| fabric.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap());
    let [hung, healthy] = [1, 2].map(|rank| zero.connect(Rank(rank), SEGMENT).unwrap());
    let bytes = vec![1; LENGTH];
    let reach_healthy = || {
        healthy.write(0, &bytes[..60_000])?;
        healthy.write(0, &bytes[..1 << 20])?;
        healthy.read(0, &mut vec![0; 1 << 20])?;
        let local = UserMemory::of(&bytes[..1 << 20]);
        let transfer = Transfer { direction: Direction::Write, local, remote: healthy.remote(), offset: 0 };
        let done = Arc::new(Completion::new());
        // SAFETY: the bytes live longer than the fabric.
        unsafe { zero.post(vec![transfer], &done) }?;
        zero.wait_for(&done)
    };
    let mut reached = reach_healthy();

    // From here on, rank 1 does nothing.
    its_adapter.stop_attendant();
    let error = thread::scope(|scope| {
        let writing = scope.spawn(|| write_to_hung(&hung, &bytes));
        while reached.is_ok() && !writing.is_finished() {
            reached = reach_healthy();
        }
        writing.join().unwrap()
    });
    // What it held it still holds.
    reached = reached.and_then(|()| reach_healthy());
    let lost = zero.membership().lost();
    println!("{provider}, {answer_seconds} s: {reached:?}; {error}; lost {lost:?}");
    drop((hung, healthy, segments));
    [zero, one, two].iter().for_each(Fabric::close);
    reached.is_ok() && error.lost_peer() == Some(Rank(1)) && lost == [Rank(1)]
}

#[test]
fn who_waits_for_a_message_of_one_that_is_gone_loses_it() {
    for provider in PROVIDERS {
        let [(zero, _), (one, its_adapter)] = ranks_by(&quick(provider, 2));
        let [messenger, gone] = [&zero, &one]
            .map(|fabric| Messenger::open(fabric, Port::FIRST, &MessageSettings::default()).unwrap());
        drop((gone, one, its_adapter));
        // Nothing was exchanged before.
        let error = messenger.receive(Rank(1), &mut [0; 8]).unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(1)), "{provider}: {error}");
    }
}
