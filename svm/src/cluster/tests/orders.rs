//! Homes that for a while cannot say what they want back of strict mappings.

use std::sync::Arc;

use super::job;
use crate::mapping::StrictMapping;
use crate::{CacheSettings, FileName, FileOffset, OpenOptions, SegmentSize};

#[test]
fn a_mapping_whose_question_for_orders_failed_asks_again_and_tells_again_what_it_did() {
    const SEGMENT: u64 = 64 << 10;
    let (_directory, stores) = job::stores(2);
    job::run([&stores[0], &stores[1], &stores[1]], &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let refuse = |count| {
            if let Some(agent) = process.cluster.agent.as_ref().filter(|_| process.rank() == 0) {
                agent.refuse_strict(count);
            }
        };
        refuse(2);
        process.meet();
        let mapping = StrictMapping::new(&file, FileOffset(0)..FileOffset(SEGMENT)).unwrap();
        // SAFETY: it lies in the mapping, where one process stores at a time.
        let add = || unsafe { *mapping.as_mut_ptr() += 1 };
        for round in 0..4 {
            if process.rank() == 1 + round % 2 {
                add();
            }
            process.meet();
            refuse(3);
            process.meet();
        }
        if process.rank() == 0 {
            // SAFETY: it lies in the mapping.
            assert_eq!(unsafe { mapping.as_ptr().read_volatile() }, 9);
        }
        refuse(0);
        process.meet();
        // It is told of what failed until that has been done again.
        while mapping.flush().is_err() {
            std::thread::yield_now();
        }
        mapping.unmap().unwrap();
        process.meet();
    });
}
