//! Stores on file systems in memory, where files get large pages: full ones, small ones, holes.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

mod mounts;

use std::path::Path;

use mounts::with_store_on;
use svmio_svm::team::{Gathering, Team};
use svmio_svm::{Blocks, ErrorKind, FileName, FileOffset, OpenOptions, SegmentSize, Store};

const MIB: usize = 1 << 20;

fn new_file(store: &Store, name: &str) -> svmio_svm::File {
    let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::DEFAULT));
    store.open_file(&FileName::new(name).unwrap(), &options).unwrap()
}

/// Bytes that `path` takes.
fn used(path: &Path) -> u64 {
    let fs = rustix::fs::statvfs(path).unwrap();
    (fs.f_blocks - fs.f_bfree) * fs.f_frsize
}

#[test]
fn a_full_file_system_is_an_error_and_what_was_written_stays() {
    for huge in ["never", "always", "within_size", "advise"] {
        // Not a whole number of large pages.
        with_store_on(&format!("size=19m,huge={huge}"), |store| {
            for step in [3 * MIB, 300_000, 5000] {
                let file = new_file(store, "/full");
                let data: Vec<u8> = (0..step).map(|n| (n % 249) as u8).collect();
                let mut written = 0;
                let error = loop {
                    match file.write_at(FileOffset(written), &data) {
                        Ok(_) => written += step as u64,
                        Err(error) => break error,
                    }
                };
                assert_eq!(error.kind(), ErrorKind::NoSpace, "huge={huge}, {step} bytes");
                // All but what a step and the store's own files take: a large page each where there are no others.
                assert!(written >= 12 * MIB as u64, "huge={huge}: {written} bytes of {step} each");
                let mut read = vec![0; step];
                for at in (0..written).step_by(step) {
                    assert_eq!(file.read_at(FileOffset(at), &mut read).unwrap(), step);
                    assert!(read == data, "huge={huge}, {step} bytes at {at}");
                }
                drop(file);
                store.remove(&FileName::new("/full").unwrap()).unwrap();
            }
        });
    }
}

/// What the file system itself, which knows of no process's mappings, has of a file's only segment.
fn first_segment(store: &Store) -> Vec<u8> {
    let mut objects = std::fs::read_dir(store.path().join("objects")).unwrap();
    let object = objects.next().expect("a file").unwrap().path();
    assert!(objects.next().is_none(), "one file only");
    std::fs::read(object.join("segment-0000000000")).unwrap()
}

#[test]
fn what_one_process_writes_all_others_read() {
    const ROW: usize = 480;
    for huge in ["never", "always", "within_size", "advise"] {
        with_store_on(&format!("size=256m,huge={huge}"), |store| {
            for (step, is_preallocated) in
                [(3 * MIB, false), (300_000, false), (5000, false), (300_000, true)]
            {
                let file = new_file(store, "/shared");
                let data: Vec<u8> = (0..7 * MIB).map(|n| (n % 249) as u8 + 1).collect();
                if is_preallocated {
                    file.preallocate(data.len() as u64).unwrap();
                }
                let half = data.len() / 2 / ROW * ROW;
                for at in (0..half).step_by(step) {
                    file.write_at(FileOffset(at as u64), &data[at..half.min(at + step)]).unwrap();
                }
                let count = (data.len() - half) / ROW;
                let (length, start) = (ROW as u64, half as u64);
                let rows = Blocks { start, length, stride: length, count: count as u64 };
                let end = half + count * ROW;
                let bounds = FileOffset(rows.start)..FileOffset(rows.end());
                let mut write = file.write_strided(bounds, rows.bytes()).unwrap();
                // SAFETY: there are as many bytes as the rows have.
                unsafe { write.put(&rows, data[half..].as_ptr(), ROW as isize) }.unwrap();
                write.finish().unwrap();
                assert!(first_segment(store)[..end] == data[..end], "huge={huge}, {step} bytes");
                drop(file);
                store.remove(&FileName::new("/shared").unwrap()).unwrap();
            }
        });
    }
}

/// Blocks so long that idle cores would take a share of each.
#[test]
fn what_a_failed_write_left_behind_the_end_is_never_seen() {
    const BLOCK: u64 = 12 << 20;
    const STRIDE: u64 = 16 << 20;
    for huge in ["never", "always"] {
        for is_in_a_row in [false, true] {
            with_store_on(&format!("size=21m,huge={huge}"), |store| {
                let file = new_file(store, "/failed");
                let data = vec![7; 2 * BLOCK as usize];
                let failed = if is_in_a_row {
                    file.write_at(FileOffset(0), &data[BLOCK as usize..]).unwrap();
                    file.write_at(FileOffset(STRIDE), &data[BLOCK as usize..])
                } else {
                    let blocks = Blocks { start: 0, length: BLOCK, stride: STRIDE, count: 2 };
                    let mut write =
                        file.write_strided(FileOffset(0)..FileOffset(blocks.end()), blocks.bytes()).unwrap();
                    // SAFETY: there are as many bytes as the blocks have.
                    unsafe { write.put(&blocks, data.as_ptr(), BLOCK as isize) }
                };
                assert_eq!(failed.unwrap_err().kind(), ErrorKind::NoSpace, "huge={huge}");
                let seen = file.size();
                file.set_size(STRIDE + BLOCK).unwrap();
                let mut read = vec![1; (STRIDE + BLOCK - seen) as usize];
                assert_eq!(file.read_at(FileOffset(seen), &mut read).unwrap(), read.len());
                assert!(read.iter().all(|byte| *byte == 0), "huge={huge}, in a row: {is_in_a_row}");
            });
        }
    }
}

/// One of many who write together, if they have nothing to tell each other.
fn member_of(number: u64, size: u64) -> Team {
    let apart = Gathering::new(size as usize, |_: &[u8], _: &mut [u8]| Err("no line".into()));
    Team::new(number as usize, size as usize, Box::new(apart))
}

/// Like ranks of a collective write of which all but one have nothing to write.
#[test]
fn what_one_of_many_writes_far_apart_takes_no_large_pages_between() {
    const PIECE: u64 = 64 << 10;
    const STRIDE: u64 = 4 << 20;
    with_store_on("size=512m", |store| {
        let before = used(store.path());
        let file = new_file(store, "/apart");
        let pieces = Blocks { start: 0, length: PIECE, stride: STRIDE, count: 32 };
        let bounds = FileOffset(0)..FileOffset(pieces.end());
        let mut write = file.write_strided_by_all(bounds, pieces.bytes(), &member_of(3, 16)).unwrap();
        let memory = vec![5; pieces.bytes() as usize];
        // SAFETY: there are as many bytes as the pieces have.
        unsafe { write.put(&pieces, memory.as_ptr(), PIECE as isize) }.unwrap();
        write.finish().unwrap();
        let taken = used(store.path()) - before;
        assert!(taken < pieces.bytes() + MIB as u64, "{taken} bytes for {}", pieces.bytes());
    });
}

#[test]
fn what_many_write_together_is_there() {
    const WRITERS: u64 = 16;
    const ROW: u64 = 1000;
    const ROWS: u64 = 2500;
    for huge in ["never", "always", "within_size", "advise"] {
        with_store_on(&format!("size=256m,huge={huge}"), |store| {
            new_file(store, "/together");
            let value = |writer: u64, row: u64| (writer * 31 + row) as u8 | 1;
            let write = |writer: u64| {
                let file = new_file(store, "/together");
                let team = member_of(writer, WRITERS);
                let memory: Vec<u8> = (0..ROWS).flat_map(|row| [value(writer, row); ROW as usize]).collect();
                let start = writer * ROW;
                let rows = Blocks { start, length: ROW, stride: WRITERS * ROW, count: ROWS };
                let bounds = FileOffset(start)..FileOffset(rows.end());
                let mut write = file.write_strided_by_all(bounds, rows.bytes(), &team).unwrap();
                // SAFETY: there are as many bytes as the rows have.
                unsafe { write.put(&rows, memory.as_ptr(), ROW as isize) }.unwrap();
                write.finish().unwrap();
            };
            std::thread::scope(|scope| {
                (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer))));
            });
            let size = WRITERS * ROW * ROWS;
            let file = new_file(store, "/together");
            assert_eq!(file.size(), size, "huge={huge}");
            let mut read = vec![0; size as usize];
            assert_eq!(file.read_at(FileOffset(0), &mut read).unwrap(), read.len());
            for (number, row) in (0..).zip(read.chunks(ROW as usize)) {
                let expected = value(number % WRITERS, number / WRITERS);
                assert!(row.iter().all(|byte| *byte == expected), "huge={huge}, row {number}");
            }
        });
    }
}

#[test]
fn small_files_and_holes_take_no_large_pages_on_demand() {
    with_store_on("size=256m", |store| {
        let before = used(store.path());
        for number in 0..8 {
            let file = new_file(store, &format!("/{number}"));
            file.write_at(FileOffset(number * 5000), &[1; 20_000]).unwrap();
            file.write_at(FileOffset(1 << 30), &[2; 20_000]).unwrap();
        }
        let taken = used(store.path()) - before;
        assert!(taken < 8 * 200_000, "{taken} bytes");
        // What has grown is likely to grow, but not to have its holes filled.
        let file = new_file(store, "/holes");
        file.write_at(FileOffset(0), &vec![3; 2 * MIB]).unwrap();
        for number in 3..40 {
            file.write_at(FileOffset(number * MIB as u64), &[4; 4096]).unwrap();
        }
        for number in 11..40 {
            file.write_at(FileOffset(number * 4 * MIB as u64), &[4; 100_000]).unwrap();
        }
        let taken = used(store.path()) - before;
        assert!(taken < 8 * MIB as u64, "{taken} bytes");
    });
}

#[test]
fn what_grows_bit_by_bit_takes_little_more_than_it_has() {
    const STEP: u64 = 552_960;
    const ROW: u64 = 480;
    with_store_on("size=512m", |store| {
        let before = used(store.path());
        let file = new_file(store, "/grows");
        for step in 0..64 {
            let (start, values) = (step * STEP, [step as u8 + 1; STEP as usize]);
            // Like two ranks that write every other row each.
            for rank in 0..2 {
                let rows =
                    Blocks { start: start + rank * ROW, length: ROW, stride: 2 * ROW, count: STEP / ROW / 2 };
                let bounds = FileOffset(rows.start)..FileOffset(rows.end());
                let mut write = file.write_strided(bounds, rows.bytes()).unwrap();
                // SAFETY: there are as many bytes as the rows have.
                unsafe { write.put(&rows, values.as_ptr(), ROW as isize) }.unwrap();
                write.finish().unwrap();
            }
            let (size, taken) = (start + STEP, used(store.path()) - before);
            assert_eq!(file.size(), size);
            assert!(taken <= size * 5 / 4 + 5 * MIB as u64, "{taken} bytes for {size}");
        }
        let mut read = vec![0; 64 * STEP as usize];
        assert_eq!(file.read_at(FileOffset(0), &mut read).unwrap(), read.len());
        assert!(read.iter().enumerate().all(|(at, byte)| u64::from(*byte) == at as u64 / STEP + 1));
    });
}

#[test]
fn what_is_cut_off_reads_as_zero_when_the_file_grows_again() {
    with_store_on("size=256m", |store| {
        let file = new_file(store, "/cut");
        file.write_at(FileOffset(0), &vec![9; 7 * MIB]).unwrap();
        for size in [5 * MIB + 3, 4 * MIB, 100] {
            file.set_size(size as u64).unwrap();
            file.write_at(FileOffset(6 * MIB as u64), &[8; 10]).unwrap();
            let mut read = vec![1; 6 * MIB + 10];
            file.read_at(FileOffset(0), &mut read).unwrap();
            let expected = |at: usize| {
                if at < size {
                    9
                } else if at < 6 * MIB {
                    0
                } else {
                    8
                }
            };
            assert!(read.iter().enumerate().all(|(at, byte)| *byte == expected(at)), "cut to {size}");
        }
    });
}
