//! Sizes of segments that are settled while somebody asks for homes of what he has counted by the size before.

use std::sync::Arc;

use svmio_transport::Rank;

use super::super::wire::{Reply, Request};
use super::job;
use crate::attachment::Home;
use crate::mapping::MappingOptions;
use crate::{
    CacheSettings, FileName, FileOffset, NodeIndex, OpenOptions, SegmentIndex, SegmentSize, SizeReason,
};

#[test]
fn no_segment_gets_a_home_while_another_size_is_settled_nor_by_the_size_before() {
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true);
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        let (id, homes) = (file.id(), vec![(SegmentIndex(3), 1)]);
        if process.rank() == 0 {
            let state = file.attachment().state().unwrap();
            let place = |segment_size| {
                let request = Request::Place { file: id, homes: homes.clone(), segment_size };
                process.cluster.agent.as_ref().unwrap().serve_for(Rank(1), &request).unwrap()
            };
            let choose = |size| file.choose_segment_size(size, SizeReason::Spreading).unwrap();
            let settling = state.begin_settling().expect("there is no segment");
            assert_eq!(place(SegmentSize::DEFAULT), Reply::OtherSize(None));
            let own = [(SegmentIndex(0), NodeIndex(0))];
            assert_eq!(file.place(&own, 1).unwrap(), []);
            // One at a time.
            assert_eq!(choose(SegmentSize::MIN), SegmentSize::DEFAULT);
            drop(settling);
            assert_eq!(choose(SegmentSize::MIN), SegmentSize::MIN);
            assert_eq!(place(SegmentSize::DEFAULT), Reply::OtherSize(Some(SegmentSize::MIN)));
            assert_eq!(state.segments(), 0);
            let given = Reply::Homes { homes: homes.clone(), also_locked_at_master: false };
            assert_eq!(place(SegmentSize::MIN), given);
            assert_eq!(choose(SegmentSize::DEFAULT), SegmentSize::MIN, "there is a segment");
        }
        process.meet();
        if process.rank() == 1 {
            // As it was read just before; this node has not heard of any home.
            file.note_segment_size(SegmentSize::DEFAULT);
            let shared = file.shared().unwrap();
            let asked = |size| shared.place(&homes, size, crate::attachment::Filling::Much).unwrap();
            assert_eq!(asked(SegmentSize::DEFAULT), None);
            assert_eq!(file.segment_size(), SegmentSize::MIN, "the master has told");
            let path = file.attachment().path().join(crate::object::segment_name(SegmentIndex(3)));
            assert!(!path.exists(), "nothing was made by the size before");
            assert_eq!(asked(SegmentSize::MIN), Some(homes.clone()));
            assert_eq!(file.attachment().home(SegmentIndex(3)), Home::Here);
            assert_eq!(path.metadata().unwrap().len(), SegmentSize::MIN.bytes());
            file.write_at(FileOffset(3 * SegmentSize::MIN.bytes()), b"where it should be").unwrap();
        }
        process.close(file).unwrap();
    });
}

#[test]
fn no_other_size_is_settled_where_somebody_has_mapped_the_file_for_writing() {
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true);
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        let map = || MappingOptions::new().map(&file, FileOffset(0)..FileOffset(1 << 20)).unwrap();
        let mapping = (process.rank() == 1).then(map);
        process.meet();
        if process.rank() == 0 {
            let chosen = file.choose_segment_size(SegmentSize::MIN, SizeReason::Spreading);
            assert_eq!(chosen.unwrap(), SegmentSize::DEFAULT);
            assert_eq!(file.attachment().state().unwrap().segments(), 0, "nothing is stored yet");
        }
        process.meet();
        drop(mapping);
        process.close(Arc::into_inner(file).expect("nobody maps it")).unwrap();
    });
}
