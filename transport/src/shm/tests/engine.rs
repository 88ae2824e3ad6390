//! DMA: chains, their order, their ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::super::{ShmSettings, within_process_with};
use super::{SEGMENT, anonymous, pair};
use crate::back_end::{Place, Remote};
use crate::dma::{Completion, Direction, Transfer};
use crate::error::Error;
use crate::memory::UserMemory;
use crate::units::Rank;

#[test]
fn chains_are_carried_out_in_order_both_ways() {
    const CHAINS: usize = 100;
    let (one, other) = pair();
    let segment = other.create(SEGMENT, &anonymous(8)).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    let written: Vec<[u8; 8]> = (0..CHAINS as u64).map(u64::to_ne_bytes).collect();
    let mut read = vec![[0xff; 8]; CHAINS];
    let ended = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for (number, (written, read)) in written.iter().zip(&mut read).enumerate() {
        let transfer = |direction, local| Transfer { direction, local, remote: remote.remote(), offset: 0 };
        let chain = vec![
            transfer(Direction::Write, UserMemory::of(written)),
            transfer(Direction::Read, UserMemory::of_mut(read)),
        ];
        let ended = Arc::clone(&ended);
        let done = Arc::new(Completion::calling(move |result| {
            result.unwrap();
            ended.lock().unwrap().push(number);
        }));
        // SAFETY: both vectors outlive the waits below.
        unsafe { one.post(chain, &done) }.unwrap();
        all.push(done);
    }
    // The connection may go while chains are under way.
    drop(remote);
    all.iter().for_each(|done| one.wait_for(done).unwrap());
    assert_eq!(read, written);
    assert_eq!(segment.memory().word64(0).unwrap().load(Ordering::Relaxed), CHAINS as u64 - 1);
    // The last callback may still run when its chain is already known to have ended.
    while ended.lock().unwrap().len() < CHAINS {
        std::thread::yield_now();
    }
    assert!(ended.lock().unwrap().is_sorted());
}

#[test]
fn large_transfers_arrive_whole() {
    const LENGTH: usize = (9 << 20) + 13;
    let (one, other) = pair();
    let segment = other.create(SEGMENT, &anonymous(LENGTH as u64 + 5)).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at * 7 / 3) as u8).collect();
    let transfer = Transfer {
        direction: Direction::Write,
        local: UserMemory::of(&bytes),
        remote: remote.remote(),
        offset: 5,
    };
    let done = Arc::new(Completion::new());
    // SAFETY: `bytes` outlives the wait.
    unsafe { one.post(vec![transfer], &done) }.unwrap();
    one.wait_for(&done).unwrap();
    let mut found = vec![0; LENGTH];
    segment.memory().read(5, &mut found).unwrap();
    assert!(found == bytes);
}

#[test]
fn registered_memory_is_written_read_and_transferred_to() {
    let (one, other) = pair();
    assert!(
        one.capabilities().registers_user_memory,
        "this kernel forbids copies between processes of one user"
    );
    let mut memory = vec![0_u8; 3 << 20];
    // SAFETY: `memory` is left alone until the registration is dropped.
    let registration = unsafe { other.register(UserMemory::of_mut(&mut memory)) }.unwrap();
    let remote = Remote { owner: Rank(1), place: Place::Registered(registration.key()) };
    let bytes: Vec<u8> = (0..memory.len()).map(|at| (at / 5) as u8).collect();
    let pieces: Vec<_> = bytes
        .chunks(10_001)
        .enumerate()
        .map(|(number, bytes)| crate::back_end::Piece { offset: number as u64 * 10_001, bytes })
        .collect();
    one.write(&remote, &pieces).unwrap();
    let mut found = vec![0; bytes.len()];
    one.read(&remote, 0, &mut found).unwrap();
    assert!(found == bytes);
    let transfer =
        Transfer { direction: Direction::Write, local: UserMemory::of(&found[1..]), remote, offset: 0 };
    let done = Arc::new(Completion::new());
    // SAFETY: `found` outlives the wait.
    unsafe { one.post(vec![transfer.clone()], &done) }.unwrap();
    one.wait_for(&done).unwrap();
    // Beyond the end: refused when posted, and nothing is begun.
    let beyond = Transfer { offset: 2, ..transfer };
    let done = Arc::new(Completion::new());
    // SAFETY: as above.
    let refused = unsafe { one.post(vec![beyond], &done) };
    assert!(matches!(refused, Err(Error::OutOfBounds { .. })));
    assert!(done.test().is_none());
    // A key of another process.
    let mut words = registration.key().0;
    words[2] ^= 1;
    let wrong = Remote { owner: Rank(1), place: Place::Registered(crate::back_end::MemoryKey(words)) };
    let refused = one.write(&wrong, &[]).unwrap_err();
    assert!(matches!(refused, Error::Wire { .. }) && refused.to_string().contains("node here"), "{refused}");
    assert!(matches!(one.fetch_add(&remote, 0, 1), Err(Error::Unsupported { .. })));
    drop(registration);
    assert_eq!(memory[..10], bytes[1..11]);
}

#[test]
fn where_the_settings_forbid_copies_between_processes_nothing_is_registered() {
    let settings = ShmSettings { copy_between_processes: false, ..ShmSettings::default() };
    let fabrics = within_process_with(2, &settings);
    assert!(fabrics.iter().all(|fabric| !fabric.capabilities().registers_user_memory));
    let mut memory = [0; 8];
    // SAFETY: it is refused; and `memory` stays until the end.
    let refused = unsafe { fabrics[0].register(UserMemory::of_mut(&mut memory)) };
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}

#[test]
fn a_lost_peer_ends_its_chains_and_no_others() {
    let (one, other) = pair();
    let _segment = other.create(SEGMENT, &anonymous(8)).unwrap();
    let _own = one.create(SEGMENT, &anonymous(8)).unwrap();
    let (lost, own) = (one.connect(Rank(1), SEGMENT).unwrap(), one.connect(Rank(0), SEGMENT).unwrap());
    let bytes = [1; 8];
    let post = |remote: Remote, done: &Arc<Completion>| {
        let local = UserMemory::of(&bytes);
        let transfer = Transfer { direction: Direction::Write, local, remote, offset: 0 };
        // SAFETY: `bytes` outlives the waits below.
        unsafe { one.post(vec![transfer], done) }
    };
    // The engine is held up in a callback until the peer is lost, so that a chain to it is surely still queued.
    let (go, gate) = std::sync::mpsc::channel();
    let held = Arc::new(Completion::calling(move |_| gate.recv().unwrap()));
    post(own.remote(), &held).unwrap();
    let (first, second) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    post(lost.remote(), &first).unwrap();
    post(own.remote(), &second).unwrap();
    one.membership().declare_lost(Rank(1), "for the test");
    go.send(()).unwrap();
    assert_eq!(one.wait_for(&first).unwrap_err().lost_peer(), Some(Rank(1)));
    one.wait_for(&second).unwrap();
    assert!(post(lost.remote(), &Arc::new(Completion::new())).is_err());
}

#[test]
fn closing_ends_what_is_queued_and_may_come_from_a_callback() {
    let (one, other) = pair();
    let _segment = other.create(SEGMENT, &anonymous(8)).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    let bytes = [1; 8];
    let post = |done: &Arc<Completion>| {
        let local = UserMemory::of(&bytes);
        let transfer = Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
        // SAFETY: `bytes` outlives the waits below.
        unsafe { one.post(vec![transfer], done) }
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let (fabric, counter) = (one.clone(), Arc::clone(&calls));
    let (go, gate) = std::sync::mpsc::channel();
    let closing = Arc::new(Completion::calling(move |_| {
        gate.recv().unwrap();
        fabric.close();
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let queued = Arc::new(Completion::new());
    post(&closing).unwrap();
    post(&queued).unwrap();
    go.send(()).unwrap();
    assert!(matches!(one.wait_for(&queued), Err(Error::Ending { .. })));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(matches!(post(&Arc::new(Completion::new())), Err(Error::Ending { .. })));
}
