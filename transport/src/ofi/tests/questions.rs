//! Questions that go down with a connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{SEGMENT, anonymous, connect, connect_to, on_each, until};
use crate::back_end::{MemoryKey, Place, Remote};
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::{Fabric, Rank, SegmentId};

/// Has rank 0's provider close its connection with this process, over memory that there is not, and asks something
/// right behind, which is not read there.
fn ask_into_a_closing_connection(fabric: &Fabric, ask: impl FnOnce()) {
    let bytes = vec![1; 1 << 20];
    let nothing = Remote { owner: Rank(0), place: Place::Registered(MemoryKey([1, 0, 1 << 20])) };
    let chain = vec![Transfer {
        direction: Direction::Write,
        local: UserMemory::of(&bytes),
        remote: nothing,
        offset: 0,
    }];
    let done = Arc::new(Completion::new());
    // SAFETY: the bytes stay until it has ended, which is waited for.
    unsafe { fabric.post(chain, &done) }.unwrap();
    let began = Instant::now();
    ask();
    assert!(began.elapsed() < Duration::from_secs(25), "it was not asked again: {:?}", began.elapsed());
    until(fabric, || done.test().is_some());
    assert!(done.test().is_some_and(|result| result.is_err()));
}

#[test]
fn they_are_asked_again() {
    const OTHER: SegmentId = SegmentId::new(7, 2);
    on_each(2, |fabric| {
        let own = [SEGMENT, OTHER].map(|id| fabric.create(id, &anonymous(64)).unwrap());
        if fabric.rank() == Rank(1) {
            let remote = connect(&fabric, Rank(0));
            ask_into_a_closing_connection(&fabric, || remote.read(0, &mut [1; 8]).unwrap());
            ask_into_a_closing_connection(&fabric, || {
                connect_to(&fabric, Rank(0), OTHER);
            });
        }
        own
    });
}
