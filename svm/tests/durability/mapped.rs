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
        let file = Arc::new(open(process, "f"));
        if process.rank() == OWN {
            let range = FileOffset(0)..FileOffset(u64::from(SEGMENTS) * SEGMENT);
            let mapping = M::of(&file, range.clone());
            let store = |segments: &[u32], byte: u8| {
                for segment in segments {
                    let to = mapping.start().wrapping_add(slot(*segment, OWN) as usize);
                    // SAFETY: it lies in the mapping, and nobody else stores there.
                    unsafe { to.write_bytes(byte, SLOT as usize) };
                }
            };
            let there = |segments: &[u32], byte: u8| {
                device.note_return();
                let there = segments_before_return(&device.take_events(), directory);
                for segment in segments {
                    let from = (slot(*segment, OWN) % SEGMENT) as usize;
                    let bytes = &there[&(home(*segment), *segment)][from..from + SLOT as usize];
                    assert_eq!(bytes, [byte; SLOT as usize], "segment {segment}");
                }
            };
            let all: Vec<u32> = (0..SEGMENTS).collect();
            for byte in 1..3 {
                store(&all, byte);
                device.take_events();
                mapping.bring_home(range.clone()).expect("the devices take everything");
                there(&all, byte);
            }
            for segment in [1, 3] {
                store(&[segment], 9);
                device.refuse(move |path| segment_of(path) == Some(segment));
                let error = mapping.bring_home(range.clone()).expect_err("a device fails").to_string();
                // Of the own node's the path tells.
                let node = if home(segment) == 3 { "n3/objects" } else { "node n1" };
                let what = format!("syncing segment {segment} of /f");
                for word in [node, &what, "Input/output error"] {
                    assert!(error.contains(word), "{word} in {error}");
                }
                device.refuse_nothing();
                device.take_events();
                mapping.bring_home(range.clone()).expect("the devices take everything");
                there(&[segment], 9);
            }
            mapping.end();
        }
        process.meet();
        let file = Arc::into_inner(file).expect("it is mapped no longer");
        process.close(file).expect("the file closes");
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
