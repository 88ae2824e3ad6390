//! That whoever watches the C library's `munmap`, as libfabric's cache of registrations does, learns of the memory of
//! segments that is gone.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use svmio_transport::back_end::Backing;
use svmio_transport::ofi::within_process;
use svmio_transport::{Fabric, SegmentId};

/// What was unmapped by the function: where it began, and how long it was.
static UNMAPPED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Stands before the C library's, as what watches it does.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(start: *mut c_void, length: usize) -> c_int {
    UNMAPPED.lock().unwrap_or_else(PoisonError::into_inner).push((start.addr(), length));
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_munmap, start, length) as c_int }
}

#[test]
fn who_watches_the_c_library_learns_that_a_segment_is_unmapped() {
    const LENGTH: u64 = 3 << 20;
    let file = tempfile::tempfile().unwrap();
    file.set_len(LENGTH).unwrap();
    let fabrics = within_process(1, "net").unwrap();
    let backings = [
        Backing::Anonymous { length: LENGTH },
        Backing::File { file: file.into(), offset: 0, length: LENGTH },
    ];
    for (number, backing) in (1..).zip(&backings) {
        let segment = fabrics[0].create(SegmentId::new(7, number), backing).unwrap();
        let mapped = (segment.memory().as_ptr().addr(), LENGTH as usize);
        let take_seen = || std::mem::take(&mut *UNMAPPED.lock().unwrap_or_else(PoisonError::into_inner));
        // Of what was there before, perhaps at the same address.
        drop(take_seen());
        drop(segment);
        assert!(take_seen().contains(&mapped), "{backing:?}: nobody is told that {mapped:x?} is unmapped");
    }
    fabrics.iter().for_each(Fabric::close);
}
