//! Segments that are touched when the program has taken all descriptors. Alone in its process, for these are counted.

use std::fs::File;
use std::io::{Read as _, pipe};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use svmio_svm::mapping::{MappingOptions, StrictMapping};
use svmio_svm::{FileName, FileOffset, OpenOptions, SegmentSize, Store};

const SEGMENT: u64 = 64 << 10;
const DESCRIPTORS: u64 = 512;
/// More than are kept open.
const SEGMENTS: u64 = 300;

#[test]
fn segments_of_the_own_node_are_had_where_the_program_has_all_descriptors() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), ..getrlimit(Resource::Nofile) })
        .expect("it is no more than it was");
    let directory = tempfile::tempdir_in("/dev/shm").expect("directories can be made in /dev/shm");
    let store = Store::open(directory.path()).expect("a new store opens");
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
    let file = store.open_file(&FileName::new("f").expect("it is a name"), &options);
    let file = Arc::new(file.expect("the file opens"));
    for segment in 0..SEGMENTS {
        file.write_at(FileOffset(segment * SEGMENT), &[segment as u8; 8]).expect("it is written");
    }
    // And one that nobody has written to.
    let all = FileOffset(0)..FileOffset((SEGMENTS + 1) * SEGMENT);
    let mapping = MappingOptions::new().map(&file, all.clone()).expect("it is mapped");
    let strict = StrictMapping::new(&file, all).expect("it is mapped");
    let (mut from, to) = pipe().expect("a pipe can be had");
    // The kernel is told of a signal by an error.
    let mut byte = |at: *const u8| {
        // SAFETY: the kernel looks whether the byte can be read.
        let written = unsafe { libc::write(to.as_raw_fd(), at.cast(), 1) };
        let mut byte = [0];
        (written == 1).then(|| from.read_exact(&mut byte).expect("it has been written"))?;
        Some(byte[0])
    };
    let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    for (segments, start) in [(0..SEGMENTS / 2, mapping.as_ptr()), (SEGMENTS / 2..SEGMENTS, strict.as_ptr())]
    {
        for segment in segments {
            let had = byte(start.wrapping_add((segment * SEGMENT) as usize));
            assert_eq!(had, Some(segment as u8), "segment {segment}");
        }
    }
    let new = mapping.as_mut_ptr().wrapping_add((SEGMENTS * SEGMENT) as usize);
    // SAFETY: it lies in the mapping.
    unsafe { new.write_volatile(99) };
    mapping.flush().expect("it is flushed");
    let mut bytes = [0; 1];
    for (segment, expected) in [(0, 0), (200, 200), (SEGMENTS, 99)] {
        file.read_at(FileOffset(segment * SEGMENT), &mut bytes).expect("it is read");
        assert_eq!(bytes, [expected]);
    }
    drop(taken);
    strict.unmap().expect("it ends");
    mapping.unmap().expect("it ends");
}
