//! What comes last, since no fabric comes back from it: peers that are lost, and closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use svmio_transport::back_end::{Backing, Wait, Waited};
use svmio_transport::{Error, Fabric, Interrupt, Rank, Result, SegmentId};

use crate::face::limit;
use crate::face::participant::connect_to;

const SPACE: u32 = 110;

/// Checks that all that concerns a lost peer fails and names it, that the rest goes on, and that closing ends all;
/// called by every rank, after [`run`](super::run), where nothing else minds that peers are declared lost. For
/// `gather` see there.
///
/// # Panics
/// Where the fabric does not keep a promise.
pub fn end(fabric: &Fabric, gather: impl Fn()) {
    losses(fabric, &gather);
    gather();
    closing(fabric);
}

/// Each rank takes the next one for lost while it waits: in its own eyes, which are the only ones that matter here.
fn losses(fabric: &Fabric, gather: impl Fn()) {
    let lost = Rank((fabric.rank().0 + 1) % fabric.size());
    let id = SegmentId::new(SPACE, 0);
    let own = fabric.create(id, &Backing::Anonymous { length: 64 }).expect("a segment can be created");
    let remote = connect_to(fabric, lost, id);
    gather();
    // Declared while the main thread waits for an interrupt.
    let (membership, back_end) = (Arc::clone(fabric.membership()), Arc::clone(fabric.back_end()));
    let body = move || {
        back_end.sleep(Duration::from_millis(30));
        membership.declare_lost(lost, "the suite says so");
    };
    let declarer = fabric.back_end().spawn("declarer", Box::new(body)).expect("a thread can be had");
    let begun = fabric.now();
    while fabric.membership().check(lost).is_ok() {
        let count = fabric.wait_interrupt(Interrupt(20), Some(limit(fabric))).expect("the fabric is open");
        assert_eq!(count, 0, "nobody triggers it");
    }
    let took = fabric.now().since(begun);
    assert!(took < Duration::from_secs(20), "a loss ends a wait for an interrupt only after {took:?}");
    declarer.join();

    fn check<T>(call: &str, lost: Rank, result: Result<T>) {
        let error = result.err();
        let named = matches!(&error, Some(Error::PeerLost { rank, reason, .. })
            if *rank == lost && reason.contains("the suite says so"));
        assert!(named, "{call} to a lost peer: {error:?}");
    }
    check("connect", lost, fabric.connect(lost, SegmentId::new(SPACE, 1)));
    check("write", lost, remote.write(0, &[1; 8]));
    check("store_barrier", lost, fabric.store_barrier(lost));
    check("check_sequence", lost, fabric.check_sequence(lost, fabric.mark(lost)));
    check("fetch_add", lost, remote.fetch_add(0, 1));
    check("compare_swap", lost, remote.compare_swap(0, 0, 1));
    check("read", lost, remote.read(0, &mut [0; 8]));
    check("trigger", lost, fabric.trigger(lost, Interrupt(0)));
    check("inquire", lost, fabric.back_end().inquire(lost, [0; 2], Duration::from_secs(20)));
    drop(remote);

    // A wait whose condition looks at the losses is told of one; this one holds already.
    let mut ready = || !fabric.membership().lost().is_empty();
    let wait = Wait { deadline: Some(limit(fabric)), attends: None, ready: &mut ready };
    assert_eq!(fabric.wait_until(wait), Waited::Ready);
    // This process still gets on with itself.
    let itself = fabric.connect(fabric.rank(), id).expect("this process is not lost");
    fabric.write_checked(fabric.rank(), || itself.write(8, &[9; 8])).expect("this process is not lost");
    let mut found = [0; 8];
    own.memory().read(8, &mut found).expect("within the segment");
    assert_eq!(found, [9; 8]);
    fabric.trigger(fabric.rank(), Interrupt(21)).expect("this process is not lost");
    assert_eq!(fabric.wait_interrupt(Interrupt(21), Some(limit(fabric))).expect("open"), 1);
}

/// Closing ends all waits for interrupts, callbacks included; the second time it does nothing.
fn closing(fabric: &Fabric) {
    let called = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&called);
    let callback = move |count| {
        counted.fetch_add(count, Ordering::Relaxed);
    };
    let service = fabric.on_interrupt(Interrupt(22), callback).expect("a thread can be had");
    let kept = fabric.create(SegmentId::new(SPACE, 2), &Backing::Anonymous { length: 64 });
    fabric.close();
    service.join();
    let ended = fabric.wait_interrupt(Interrupt(20), Some(limit(fabric)));
    assert!(matches!(ended, Err(Error::Ending { .. })), "{ended:?}");
    fabric.close();
    // Relaxed: the thread that counted has been joined.
    assert_eq!(called.load(Ordering::Relaxed), 0, "nobody triggered it");
    // What is held still may be dropped.
    drop(kept);
}
