//! The adapter over the loopback interface, several ranks in this process.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::within_process;
use crate::back_end::{Backing, Wait, Waited};
use crate::{Error, Fabric, Rank, SegmentId};

mod breaking;
mod chains;
mod hanging;
mod leaving;
mod meeting;
mod messages;
mod posting;
mod questions;
mod registering;
mod sources;
mod waits;
mod ways_to_wait;
mod withdrawing;
mod writes;

const PROVIDERS: [&str; 2] = ["net", "tcp;ofi_rxm"];
const SEGMENT: SegmentId = SegmentId::new(7, 1);

/// Runs `body` as every rank of a job, over each provider. What it returns is kept until all have come to their end:
/// segments, above all.
fn on_each<Kept>(size: u32, body: impl Fn(Fabric) -> Kept + Send + Sync) {
    for provider in PROVIDERS {
        let fabrics = within_process(size, provider).unwrap();
        let all_done = Barrier::new(size as usize);
        thread::scope(|scope| {
            for fabric in fabrics {
                let (body, all_done) = (&body, &all_done);
                scope.spawn(move || {
                    // Whoever fails still comes to the end, or the others would wait for it there.
                    let outcome = catch_unwind(AssertUnwindSafe(|| body(fabric.clone())));
                    all_done.wait();
                    fabric.close();
                    drop(outcome.unwrap_or_else(|failure| resume_unwind(failure)));
                });
            }
        });
    }
}

fn anonymous(length: u64) -> Backing {
    Backing::Anonymous { length }
}

fn until(fabric: &Fabric, mut ready: impl FnMut() -> bool) {
    let deadline = Some(fabric.now().after(Duration::from_secs(20)));
    assert_eq!(fabric.wait_until(Wait { deadline, attends: None, ready: &mut ready }), Waited::Ready);
}

/// Connects as soon as the owner has made the segment.
fn connect(fabric: &Fabric, owner: Rank) -> crate::RemoteSegment {
    connect_to(fabric, owner, SEGMENT)
}

fn other(fabric: &Fabric) -> Rank {
    Rank(1 - fabric.rank().0)
}

/// Connects to segment `id` as soon as the owner has made it.
fn connect_to(fabric: &Fabric, owner: Rank, id: SegmentId) -> crate::RemoteSegment {
    loop {
        match fabric.connect(owner, id) {
            Ok(segment) => return segment,
            Err(Error::UnknownSegment { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}
