//! Stores in memory under a kernel that makes no large pages of small ones, as those before Linux 6.1 do not.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod mounts;

use std::mem::offset_of;

use mounts::with_store_on;
use svmio_svm::{Blocks, FileName, FileOffset, OpenOptions, SegmentSize, Store};

const MIB: usize = 1 << 20;

/// From here on the kernel does not know `MADV_COLLAPSE`, as far as this thread can tell.
fn forget_collapsing() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = |field: usize| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, field as u32);
    let unless = |k: u32, jf: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf,
        k,
    };
    let answer = |k: u32| statement(libc::BPF_RET | libc::BPF_K, k);
    // Of the advice the lower half, which lies first on machines of the usual order.
    let advice = offset_of!(libc::seccomp_data, args) + 2 * size_of::<u64>();
    let mut filter = [
        load(offset_of!(libc::seccomp_data, nr)),
        unless(libc::SYS_madvise as u32, 3),
        load(advice),
        unless(libc::MADV_COLLAPSE as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    let operation = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the program and its statements outlive the call, which only reads them.
    let outcome = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, &raw const program) };
    assert_eq!(outcome, 0, "this test needs a kernel with seccomp");
}

/// What is written in a row and in pieces is there.
fn is_written_and_read(store: &Store) {
    const ROW: usize = 480;
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::DEFAULT));
    let file = store.open_file(&FileName::new("/f").unwrap(), &options).unwrap();
    let data: Vec<u8> = (0..6 * MIB).map(|n| (n % 249) as u8 + 1).collect();
    file.write_at(FileOffset(0), &data[..3 * MIB]).unwrap();
    let (start, length, count) = (3 * MIB as u64, ROW as u64, (3 * MIB / ROW) as u64);
    let rows = Blocks { start, length, stride: length, count };
    let mut write = file.write_strided(FileOffset(start)..FileOffset(rows.end()), rows.bytes()).unwrap();
    // SAFETY: there are as many bytes as the rows have.
    unsafe { write.put(&rows, data[3 * MIB..].as_ptr(), ROW as isize) }.unwrap();
    write.finish().unwrap();
    let mut read = vec![0; rows.end() as usize];
    assert_eq!(file.read_at(FileOffset(0), &mut read).unwrap(), read.len());
    assert!(read == data[..read.len()]);
}

#[test]
fn a_file_system_that_gives_large_pages_where_it_is_asked_to_is_asked() {
    // First: where there were none, a process does not try again for a while.
    with_store_on("size=64m,huge=advise", |store| {
        forget_collapsing();
        let medium = store.medium().unwrap();
        assert_eq!(
            Some(medium.page),
            medium.large_page,
            "whole pages of a kernel with transparent huge pages"
        );
        is_written_and_read(store);
    });
    with_store_on("size=64m,huge=never", |store| {
        forget_collapsing();
        assert_eq!(store.medium().unwrap().page, rustix::param::page_size() as u64);
        is_written_and_read(store);
    });
}
