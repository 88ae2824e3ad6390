//! What the provider does not take, though the peer is well.

use std::sync::Arc;

use super::hanging::{quick, ranks_by};
use super::{PROVIDERS, SEGMENT, anonymous};
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::ofi::adapter::Adapter;
use crate::ofi::faults::Faults;
use crate::{Error, Fabric, Rank, RemoteSegment, Result};

const LENGTH: usize = 1 << 20;

/// What adapters answer that map the memory of a transfer while it is posted.
const UNFIT: [i32; 4] = [-libc::EFAULT, -libc::EINVAL, -libc::EMSGSIZE, -258];

fn with_faults(adapter: &Adapter, work: impl FnOnce(&Faults)) {
    let done = adapter.with_endpoint(|endpoint| {
        work(endpoint.domain().faults());
        Ok(())
    });
    done.unwrap();
}

/// Hands a write over, and waits for its end.
fn post(fabric: &Fabric, bytes: &[u8], remote: &RemoteSegment) -> Result<()> {
    let done = Arc::new(Completion::new());
    let local = UserMemory::of(bytes);
    let transfer = Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
    // SAFETY: the bytes are borrowed until the end.
    unsafe { fabric.post(vec![transfer], &done) }?;
    fabric.wait_for(&done)
}

/// Lets rank 0 write to rank 1, with its adapter.
fn write(provider: &str, body: impl FnOnce(&Fabric, &Adapter, &RemoteSegment, &dyn Fn() -> Vec<u8>)) {
    let [(zero, adapter), (one, _)] = ranks_by(&quick(provider, 20));
    let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    let found = || {
        let mut found = vec![0; LENGTH];
        segment.memory().read(0, &mut found).unwrap();
        found
    };
    body(&zero, &adapter, &remote, &found);
    for fabric in [&zero, &one] {
        assert_eq!(fabric.membership().lost(), [], "{provider}");
    }
    drop((remote, segment));
    [zero, one].iter().for_each(Fabric::close);
}

#[test]
fn transfers_wait_until_what_is_short_is_there() {
    for provider in PROVIDERS {
        write(provider, |zero, adapter, remote, found| {
            with_faults(adapter, |faults| faults.fail_transfers([-libc::ENOSPC; 3]));
            remote.write(0, &[1; LENGTH]).unwrap();
            assert!(found() == [1; LENGTH], "{provider}: written");
            with_faults(adapter, |faults| faults.fail_transfers([-libc::ENOSPC; 3]));
            post(zero, &[2; LENGTH], remote).unwrap();
            assert!(found() == [2; LENGTH], "{provider}: handed over");
        });
    }
}

#[test]
fn what_cannot_leave_from_where_it_is_leaves_from_elsewhere() {
    for (provider, answer) in
        PROVIDERS.into_iter().flat_map(|provider| UNFIT.map(|answer| (provider, answer)))
    {
        write(provider, |zero, adapter, remote, found| {
            with_faults(adapter, |faults| faults.fail_transfers([answer]));
            remote.write(0, &[1; LENGTH]).unwrap();
            zero.store_barrier(Rank(1)).unwrap();
            assert!(found() == [1; LENGTH], "{provider}, {answer}: written");
            with_faults(adapter, |faults| faults.fail_transfers([answer]));
            post(zero, &[2; LENGTH], remote).unwrap();
            assert!(found() == [2; LENGTH], "{provider}, {answer}: handed over");
        });
    }
}

#[test]
fn what_cannot_leave_at_all_fails_alone() {
    for (provider, answer) in
        PROVIDERS.into_iter().flat_map(|provider| UNFIT.map(|answer| (provider, answer)))
    {
        write(provider, |zero, adapter, remote, found| {
            zero.store_barrier(Rank(1)).unwrap();
            with_faults(adapter, |faults| faults.fail_sends([answer]));
            let error = remote.write(0, &[1; 8]).unwrap_err();
            assert!(matches!(error, Error::Provider { .. }), "{provider}, {answer}: {error}");
            // Neither from where it is, nor from elsewhere.
            with_faults(adapter, |faults| faults.fail_transfers([answer; 2]));
            let error = post(zero, &[1; LENGTH], remote).unwrap_err();
            assert!(matches!(error, Error::Provider { .. }), "{provider}, {answer}: {error}");

            remote.write(0, &[3; LENGTH]).unwrap();
            remote.write(0, &[4; 8]).unwrap();
            zero.store_barrier(Rank(1)).unwrap();
            assert!(found()[..8] == [4; 8] && found()[8..] == [3; LENGTH - 8], "{provider}, {answer}");
        });
    }
}
