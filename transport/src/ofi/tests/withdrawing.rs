//! Memory that is taken back while a peer that lives is at it: nothing else is lost by that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::{SEGMENT, anonymous, connect, connect_to, on_each, other, until};
use crate::back_end::Remote;
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::{Error, Fabric, Rank, Result, SegmentId};

/// Many parts of a transfer.
const LENGTH: usize = 32 << 20;

const ROUNDS: u32 = 16;

fn segment_of(round: u32) -> SegmentId {
    SegmentId::new(8, round)
}

/// Transfers all of `bytes`, and meanwhile writes to `counter` again and again, by messages that must all arrive.
/// Returns how the transfer ended.
fn transfer_beside(
    fabric: &Fabric,
    (direction, remote): (Direction, Remote),
    bytes: &mut [u8],
    mut meanwhile: impl FnMut(),
) -> Result<()> {
    let done = Arc::new(Completion::new());
    let chain = vec![Transfer { direction, local: UserMemory::of_mut(bytes), remote, offset: 0 }];
    // SAFETY: the bytes are left alone until it has ended, which is waited for.
    unsafe { fabric.post(chain, &done) }?;
    loop {
        meanwhile();
        if let Some(result) = done.test() {
            return result;
        }
        thread::yield_now();
    }
}

/// The one rank has a segment go while the other is at it, and numbered messages go both ways all the while: were one
/// of them lost, its receiver would take the sender for lost.
fn segments_go(direction: Direction) {
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(16)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let word = |at| own.memory().word64(at).unwrap().load(Ordering::Acquire);
        let (mut count, mut refused) = (0_u64, 0);
        let mut bytes = vec![1; LENGTH];
        for round in 1..=ROUNDS {
            if fabric.rank() == Rank(0) {
                let segment = fabric.create(segment_of(round), &anonymous(LENGTH as u64)).unwrap();
                // The other one has begun.
                until(&fabric, || word(0) >= u64::from(round));
                drop(segment);
                remote.write(0, &u64::from(round).to_ne_bytes()).unwrap();
            } else {
                let gone = connect_to(&fabric, Rank(0), segment_of(round));
                let began = |count: &mut u64| {
                    *count += 1;
                    remote.write(8, &count.to_ne_bytes()).unwrap();
                    remote.write(0, &u64::from(round).to_ne_bytes()).unwrap();
                    // Whoever writes without ever waiting leaves the transfer little of the link.
                    if count.is_multiple_of(16) {
                        fabric.store_barrier(other(&fabric)).unwrap();
                    }
                };
                let what = (direction, gone.remote());
                match transfer_beside(&fabric, what, &mut bytes, || began(&mut count)) {
                    Ok(()) => {}
                    Err(Error::OutOfBounds { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                until(&fabric, || word(0) == u64::from(round));
                assert!(refused > 0 || round < ROUNDS, "all were there before the segment was gone");
            }
        }
        fabric.store_barrier(other(&fabric)).unwrap();
        if fabric.rank() == Rank(1) {
            remote.write(0, &u64::MAX.to_ne_bytes()).unwrap();
        } else {
            until(&fabric, || word(0) == u64::MAX);
        }
        fabric.membership().check(other(&fabric)).unwrap();
        own
    });
}

#[test]
fn a_segment_that_goes_while_it_is_written_costs_nothing_else() {
    segments_go(Direction::Write);
}

#[test]
fn a_segment_that_goes_while_it_is_read_costs_nothing_else() {
    segments_go(Direction::Read);
}
