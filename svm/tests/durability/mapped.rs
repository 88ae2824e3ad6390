//! What was stored through mappings.

use std::ops::Range;
use std::sync::Arc;

use svmio_svm::mapping::{Mapping, StrictMapping};

use super::*;

/// Who stores: a rank of the last node.
const OWN: u32 = 4;

/// A mapping of either kind.
trait Mapped {
    fn of(file: &Arc<File>, range: Range<FileOffset>) -> Self;
    fn start(&self) -> *mut u8;
    fn bring_home(&self, range: Range<FileOffset>) -> svmio_svm::Result<()>;
    fn end(self);
}

impl Mapped for Mapping {
    fn of(file: &Arc<File>, range: Range<FileOffset>) -> Mapping {
        Mapping::new(file, range).expect("it can be mapped")
    }

    fn start(&self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn bring_home(&self, range: Range<FileOffset>) -> svmio_svm::Result<()> {
        self.sync(range)
    }

    fn end(self) {
        self.unmap().expect("nothing is left to go home");
    }
}

impl Mapped for StrictMapping {
    fn of(file: &Arc<File>, range: Range<FileOffset>) -> StrictMapping {
        StrictMapping::new(file, range).expect("it can be mapped")
    }

    fn start(&self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn bring_home(&self, _: Range<FileOffset>) -> svmio_svm::Result<()> {
        self.sync()
    }

    fn end(self) {
        self.unmap().expect("nothing is left to go home");
    }
}

/// One rank stores into segments of all nodes. When its sync returns, their devices have it; where one fails, the sync
/// does, and names the node.
fn what_is_stored_reaches_all_devices<M: Mapped>() {
    on_device(|process, device, directory| {
        let range = FileOffset(0)..FileOffset(u64::from(SEGMENTS) * SEGMENT);
        // Has all open the file, one rank use a mapping of it, and all close it.
        let mapped = |used: &dyn Fn(&M)| {
            let file = Arc::new(open(process, "f"));
            if process.rank() == OWN {
                let mapping = M::of(&file, range.clone());
                used(&mapping);
                mapping.end();
            }
            process.meet();
            let file = Arc::into_inner(file).expect("it is mapped no longer");
            process.close(file).expect("the file closes");
        };
        let store = |mapping: &M, segments: &[u32], byte: u8| {
            for segment in segments {
                let to = mapping.start().wrapping_add(slot(*segment, OWN) as usize);
                // SAFETY: it lies in the mapping, and nobody else stores there.
                unsafe { to.write_bytes(byte, SLOT as usize) };
            }
        };
        let stored_is_brought_home = |mapping: &M, segments: &[u32], byte: u8| {
            store(mapping, segments, byte);
            device.take_events();
            mapping.bring_home(range.clone()).expect("the devices take everything");
            device.note_return();
            let there = segments_before_return(&device.take_events(), directory);
            for segment in segments {
                let from = (slot(*segment, OWN) % SEGMENT) as usize;
                let bytes = &there[&(home(*segment), *segment)][from..from + SLOT as usize];
                assert_eq!(bytes, [byte; SLOT as usize], "segment {segment}");
            }
        };
        let all: Vec<u32> = (0..SEGMENTS).collect();
        mapped(&|mapping| (1..3).for_each(|byte| stored_is_brought_home(mapping, &all, byte)));
        for segment in [1, 3] {
            mapped(&|mapping| {
                store(mapping, &[segment], 9);
                device.refuse(move |path| segment_of(path) == Some(segment));
                let error = mapping.bring_home(range.clone()).expect_err("a device fails").to_string();
                // Of the own node's the path tells.
                let node = if home(segment) == 3 { "n3/objects" } else { "node n1" };
                let what = format!("segment {segment} could not be brought to the storage device");
                for word in [node, &what, "/f", "Input/output error"] {
                    assert!(error.contains(word), "{word} in {error}");
                }
                device.refuse_nothing();
                mapping.bring_home(range.clone()).expect_err("the system has told it once");
            });
            // By an open of its own, and stored again.
            mapped(&|mapping| stored_is_brought_home(mapping, &[segment], 8));
        }
    });
}

#[test]
fn when_a_mapping_is_synced_the_devices_have_what_was_stored() {
    what_is_stored_reaches_all_devices::<Mapping>();
}

#[test]
fn when_a_strict_mapping_is_synced_the_devices_have_what_was_stored() {
    what_is_stored_reaches_all_devices::<StrictMapping>();
}
