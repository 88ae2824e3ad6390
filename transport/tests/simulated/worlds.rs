//! Small worlds, and what all tests do in them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use svmio_transport::back_end::{Backing, Wait, Waited};
use svmio_transport::sim::{Model, SimOptions};
use svmio_transport::{Fabric, LocalSegment, Rank, RemoteSegment, SegmentId};

pub(crate) const FLAGS: SegmentId = SegmentId::new(1, 0);

pub(crate) fn options(size: u32, model: &str) -> SimOptions {
    SimOptions::new(size, Model::named(model).unwrap())
}

pub(crate) fn anonymous(length: u64) -> Backing {
    Backing::Anonymous { length }
}

/// Creates a segment, waits until all have, by virtual time, and connects to the peer's.
pub(crate) fn pair(fabric: &Fabric, peer: Rank, length: u64) -> (LocalSegment, RemoteSegment) {
    let local = fabric.create(FLAGS, &anonymous(length)).unwrap();
    fabric.back_end().sleep(Duration::from_millis(10));
    let remote = fabric.connect(peer, FLAGS).unwrap();
    fabric.back_end().sleep(Duration::from_millis(100));
    (local, remote)
}

pub(crate) fn other(fabric: &Fabric) -> Rank {
    Rank(1 - fabric.rank().0)
}

/// Waits until the word at `offset` is `value`.
pub(crate) fn await_word(fabric: &Fabric, segment: &LocalSegment, offset: u64, value: u64) {
    let word = segment.memory().word64(offset).unwrap();
    let mut ready = || word.load(Ordering::Acquire) == value;
    assert_eq!(fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut ready }), Waited::Ready);
}
