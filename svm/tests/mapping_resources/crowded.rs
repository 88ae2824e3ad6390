//! What becomes of mappings where the process has as many parts of its address space as the kernel allows.

use std::sync::Mutex;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use super::*;

const SEGMENT: u64 = 64 << 10;
const SEGMENTS: u64 = 40;

/// Parts of the address space that look different from their neighbours. Given back on drop.
struct Crowd {
    start: *mut u8,
    bytes: usize,
}

impl Crowd {
    /// As many as there can be, less some `few`.
    fn but_for(few: usize) -> Crowd {
        let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("/proc is there");
        let most = most.trim().parse::<usize>().expect("a number");
        assert!(
            most <= 1 << 22,
            "it would take too long: set the sysctl vm.max_map_count to 65530 for this test"
        );
        let pages = 2 * most;
        let (bytes, flags) = (pages * PAGE as usize, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: nothing is replaced.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags).unwrap()
        };
        let crowd = Crowd { start: start.cast(), bytes };
        let last = (1..pages).step_by(2).find(|page| crowd.change(*page, MprotectFlags::READ).is_err());
        let last = last.expect("the kernel has a limit");
        for page in (1..last).step_by(2).take(few.div_ceil(2)) {
            crowd.change(page, MprotectFlags::empty()).unwrap();
        }
        crowd
    }

    fn change(&self, page: usize, protection: MprotectFlags) -> Result<(), Errno> {
        let at = self.start.wrapping_add(page * PAGE as usize);
        // SAFETY: within this value's own pages, which nobody touches.
        unsafe { rustix::mm::mprotect(at.cast(), PAGE as usize, protection) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // SAFETY: this value's own pages, which nobody touches.
        unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) }.unwrap();
    }
}

/// The byte there, if it can be had: the kernel is told of a signal by an error.
fn kernel_reads(at: *const u8) -> Option<u8> {
    let (from, to) = std::io::pipe().expect("a pipe can be had");
    // SAFETY: the kernel looks whether the byte can be read.
    let written = unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&to), at.cast(), 1) };
    let mut byte = [0];
    (written == 1).then(|| std::io::Read::read_exact(&mut &from, &mut byte).expect("it has been written"))?;
    Some(byte[0])
}

/// A file of this node alone.
fn file(stores: &[svmio_svm::Store], name: &str) -> Arc<svmio_svm::File> {
    let segments = Some(SegmentSize::new(SEGMENT).expect("it is a size"));
    let options = OpenOptions::read_write().create(true).segment_size(segments);
    Arc::new(stores[0].open_file(&FileName::new(name).unwrap(), &options).unwrap())
}

/// Fills each segment with its number. Whoever has mapped the file before has none of them in place.
fn fill(file: &svmio_svm::File) {
    for segment in 0..SEGMENTS {
        file.write_at(FileOffset(segment * SEGMENT), &[segment as u8; SEGMENT as usize]).unwrap();
    }
}

/// Segments that the kernel does not map are served by faults.
pub(super) fn what_the_kernel_maps_no_more_is_served_by_faults() {
    let (_directory, stores) = job::stores(1);
    let file = file(&stores, "f");
    let mapping = Mapping::new(&file, all(SEGMENTS * SEGMENT)).unwrap();
    fill(&file);
    let crowd = Crowd::but_for(10);
    for segment in 0..SEGMENTS {
        assert_eq!(load(&mapping, segment * SEGMENT + 5), segment as u8);
        store(&mapping, segment * SEGMENT + 6, 99);
        assert_eq!(load(&mapping, segment * SEGMENT + 6), 99);
    }
    drop(crowd);
    assert!(mapping.statistics().fetched > 0, "the kernel mapped all: {:?}", mapping.statistics());
    mapping.unmap().unwrap();
    let mut bytes = [0; 2];
    for segment in 0..SEGMENTS {
        file.read_at(FileOffset(segment * SEGMENT + 5), &mut bytes).unwrap();
        assert_eq!(bytes, [segment as u8, 99]);
    }
}

/// Where pages have one writer at a time there is nobody to ask for those of this node alone.
pub(super) fn what_the_kernel_maps_no_more_is_told_of_where_there_is_no_other_way() {
    let (_directory, stores) = job::stores(1);
    let file = file(&stores, "s");
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tell = Arc::clone(&told);
    let options =
        MappingOptions::new().on_loss(move |lost| tell.lock().unwrap().push(lost.error.to_string()));
    let mapping = options.map_strictly(&file, all(SEGMENTS * SEGMENT)).unwrap();
    fill(&file);
    let byte = |segment: u64, at: u64| {
        kernel_reads(mapping.as_mut_ptr().wrapping_add((segment * SEGMENT + at) as usize))
    };
    let crowd = Crowd::but_for(10);
    let half = SEGMENTS / 2;
    // Another page of a segment that could not be mapped is no other matter.
    let had: Vec<_> = (0..half).map(|segment| [byte(segment, 0), byte(segment, PAGE)]).collect();
    drop(crowd);
    for (segment, bytes) in had.iter().enumerate() {
        assert!(*bytes == [None; 2] || *bytes == [Some(segment as u8); 2], "{had:?}");
    }
    let lost = had.iter().filter(|bytes| bytes[0].is_none()).count();
    assert!(0 < lost && lost < half as usize, "{had:?}");
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 2 * lost, "{told:?}");
    assert!(told.iter().all(|text| text.contains("/s") && text.contains("vm.max_map_count")), "{told:?}");
    for segment in half..SEGMENTS {
        assert_eq!(byte(segment, 7), Some(segment as u8));
    }
    // There is room again: for pages that nobody has touched, and after a refresh for those that were lost.
    for (segment, _) in (0..).zip(&had).filter(|(_, bytes)| bytes[0].is_none()) {
        assert_eq!(byte(segment, 2 * PAGE), Some(segment as u8));
    }
    mapping.refresh().unwrap();
    for segment in 0..half {
        for page in 0..3 {
            assert_eq!(byte(segment, page * PAGE), Some(segment as u8), "page {page} of segment {segment}");
        }
    }
}
