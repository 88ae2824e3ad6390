//! One thing at a time.

use std::ops::Range;

use svmio_svm::mapping::Region;

use super::*;

#[test]
fn what_is_stored_on_one_node_is_seen_on_all_after_a_barrier() {
    const BYTES: u64 = 6 * SEGMENT;
    let (_directory, stores) = job::stores(4);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        let mapping = map(&file, BYTES, &MappingOptions::new());
        let rank = u64::from(process.rank());
        // Nothing is there yet.
        assert!((0..BYTES).step_by(1000).all(|at| load(&mapping, at) == 0));
        process.meet();
        // Every fourth byte each, in every page of every segment.
        (rank..BYTES).step_by(4).for_each(|at| store(&mapping, at, (at / 7) as u8 | 1));
        mapping.barrier(&mut meeting(process)).unwrap();
        for at in 0..BYTES {
            assert_eq!(load(&mapping, at), (at / 7) as u8 | 1, "byte {at}");
        }
        let mut bytes = vec![0; BYTES as usize];
        assert_eq!(file.read_at(FileOffset(0), &mut bytes).unwrap(), BYTES as usize);
        assert!((0..BYTES).all(|at| bytes[at as usize] == (at / 7) as u8 | 1));
        mapping.unmap().unwrap();
        process.close(Arc::into_inner(file).expect("nothing else has it")).unwrap();
    });
}

#[test]
fn a_mapping_of_a_file_of_this_node_alone_is_the_file() {
    let (_directory, stores) = job::stores(1);
    let name = FileName::new("alone").unwrap();
    let file = Arc::new(stores[0].open_file(&name, &small_segments()).unwrap());
    file.write_at(FileOffset(SEGMENT - 5), b"from before").unwrap();
    // Neither end is one of a page.
    let range = FileOffset(SEGMENT - 3)..FileOffset(3 * SEGMENT + 5);
    let mapping = Mapping::new(&file, range.clone()).unwrap();
    assert_eq!(file.size(), range.end.0);
    assert_eq!(load(&mapping, 0), b'o');
    store(&mapping, 0, b'O');
    store(&mapping, 2 * SEGMENT, 9);
    let byte = |at| {
        let mut byte = [0];
        file.read_at(FileOffset(at), &mut byte).unwrap();
        byte[0]
    };
    assert_eq!([byte(SEGMENT - 3), byte(3 * SEGMENT - 3)], [b'O', 9], "it is the same memory");
    file.write_at(FileOffset(2 * SEGMENT), b"!").unwrap();
    assert_eq!(load(&mapping, SEGMENT + 3), b'!');
    let faults = mapping.statistics().faults;
    (0..mapping.len() as u64).for_each(|at| store(&mapping, at, 3));
    assert!(
        mapping.statistics().faults <= faults + 2,
        "only segments that were not touched fault, once each"
    );
    mapping.sync(range).unwrap();
    drop(mapping);
    assert_eq!([byte(SEGMENT - 4), byte(3 * SEGMENT + 4)], [b'r', 3]);
}

#[test]
fn mapped_memory_can_be_read_into_and_written_from() {
    const BYTES: u64 = 8 * SEGMENT;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        if process.rank() == 1 {
            file.write_at(FileOffset(0), &vec![3; BYTES as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 0 {
            let mapping = map(&file, BYTES, &MappingOptions::new().limit(1 << 20));
            for (turn, pieces) in [(1, 1000), (2, 40_000), (3, 200_000)] {
                // From pages that are not there to others that are not there, which are in the way of each other.
                let (from, to) = (0, BYTES / 2);
                store(&mapping, from + 7, turn);
                for at in (0..BYTES / 2).step_by(pieces) {
                    let bytes = pieces.min((BYTES / 2 - at) as usize);
                    // SAFETY: both lie in the mapping, of which nobody else uses these parts.
                    unsafe {
                        let target = mapping.as_mut_ptr().add((to + at) as usize);
                        let source = mapping.as_ptr().add((from + at) as usize);
                        assert_eq!(file.read_into(FileOffset(from + at), target, bytes).unwrap(), bytes);
                        file.write_from(FileOffset(to + at), source, bytes).unwrap();
                    }
                }
                mapping.flush().unwrap();
                mapping.refresh().unwrap();
                assert_eq!([load(&mapping, from + 7), load(&mapping, to + 7)], [turn; 2]);
                mapping.advise(all(BYTES), svmio_svm::mapping::Advice::DoNotNeed).unwrap();
            }
        }
        process.meet();
    });
}

#[test]
fn regions_of_values_are_read_by_many_and_written_by_one() {
    const VALUES: usize = 20_000;
    let (_directory, stores) = job::stores(3);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        let mapping = Arc::new(map(&file, 24 + VALUES as u64 * 8, &MappingOptions::new()));
        // SAFETY: the file is accessed in no other way.
        let region = unsafe { Region::<u64>::new(&mapping, FileOffset(24), VALUES) }.unwrap();
        for turn in 0..30 {
            let start = turn * 600;
            let mut values = region.write(start..start + 1000).unwrap();
            values.iter_mut().for_each(|value| *value += 1);
            values.release().unwrap();
        }
        process.meet();
        let values = region.read(0..VALUES).unwrap();
        for (number, value) in values.iter().enumerate() {
            let times = (0..30).filter(|turn| (turn * 600..turn * 600 + 1000).contains(&number)).count();
            assert_eq!(*value, 3 * times as u64, "value {number}");
        }
        values.release().unwrap();
        assert!(region.read(0..VALUES + 1).is_err());
        // SAFETY: as above.
        assert!(unsafe { Region::<u64>::new(&mapping, FileOffset(20), 1) }.is_err());
        // SAFETY: as above.
        assert!(unsafe { Region::<u64>::new(&mapping, FileOffset(24), VALUES + 1) }.is_err());
        process.meet();
    });
}

#[test]
fn a_file_without_a_name_is_memory_that_nodes_share() {
    const BYTES: u64 = 4 * SEGMENT;
    let (directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments().exclusive(true).temporary(true));
        if process.rank() == 0 {
            process.cluster.remove(&FileName::new("mapped").unwrap()).unwrap();
        }
        process.meet();
        let mapping = map(&file, BYTES, &MappingOptions::new());
        let own = |at: &u64| at % 2 == u64::from(process.rank());
        (0..BYTES).filter(own).for_each(|at| store(&mapping, at, at as u8));
        mapping.barrier(&mut meeting(process)).unwrap();
        assert!((0..BYTES).all(|at| load(&mapping, at) == at as u8));
        process.meet();
        mapping.unmap().unwrap();
        process.close(Arc::into_inner(file).expect("nothing else has it")).unwrap();
        process.meet();
        for kind in ["objects", "deleted"] {
            let path = directory.path().join(format!("n{}/{kind}", process.rank()));
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{kind}");
        }
    });
}

#[test]
fn what_its_home_has_mapped_and_not_touched_is_fetched_once() {
    const BYTES: u64 = 4 * SEGMENT;
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &vec![5; BYTES as usize]).unwrap();
        }
        process.sync(&file).unwrap();
        let mapping = map(&file, BYTES, &MappingOptions::new());
        // What is fetched from here on is known to be no older than that.
        mapping.barrier(&mut meeting(process)).unwrap();
        let mut fetched = Vec::new();
        for _ in 0..3 {
            if process.rank() == 1 {
                (0..BYTES).step_by(PAGE as usize).for_each(|at| assert_eq!(load(&mapping, at), 5));
                let statistics = mapping.statistics();
                fetched.push(statistics.fetched + statistics.fetched_ahead);
            }
            mapping.barrier(&mut meeting(process)).unwrap();
        }
        assert!(fetched.iter().all(|pages| *pages == BYTES / PAGE), "{fetched:?}");
        // What it stores there afterwards is found all the same.
        if process.rank() == 0 {
            store(&mapping, 3, 6);
        }
        mapping.barrier(&mut meeting(process)).unwrap();
        assert_eq!(load(&mapping, 3), 6);
        process.meet();
    });
}

#[test]
fn what_is_only_foreseen_of_its_home_is_not_told_of_as_changed() {
    foreseen_of_its_home(false);
}

#[test]
fn nor_is_what_was_a_hole_when_it_was_looked_at_first() {
    foreseen_of_its_home(true);
}

fn foreseen_of_its_home(is_mapped_before: bool) {
    let (_directory, stores) = job::stores(2);
    on_nodes(&stores, |process| {
        let file = open(process, &small_segments());
        // The first is the other one's, the second this one's.
        let (first, second) = (0..SEGMENT, SEGMENT..2 * SEGMENT);
        let own = if process.rank() == 0 { &second } else { &first };
        let whole = || map(&file, 2 * SEGMENT, &MappingOptions::new());
        let before = is_mapped_before.then(|| {
            let mapping = whole();
            mapping.barrier(&mut meeting(process)).unwrap();
            mapping
        });
        file.write_at(FileOffset(own.start), &[5; SEGMENT as usize]).unwrap();
        process.sync(&file).unwrap();
        let mapping = before.unwrap_or_else(whole);
        mapping.barrier(&mut meeting(process)).unwrap();
        let load_all = |range: &Range<u64>| {
            range.clone().step_by(PAGE as usize).for_each(|at| assert_eq!(load(&mapping, at), 5));
        };
        if process.rank() == 0 {
            load_all(&first);
            // Whatever was foreseen is looked at before.
            mapping.fetch(FileOffset(first.start)..FileOffset(first.end)).unwrap().wait().unwrap();
        }
        for _ in 0..2 {
            mapping.barrier(&mut meeting(process)).unwrap();
            if process.rank() == 1 {
                load_all(&second);
            }
        }
        if process.rank() == 1 {
            let statistics = mapping.statistics();
            assert_eq!(statistics.fetched + statistics.fetched_ahead, SEGMENT / PAGE, "{statistics:?}");
        }
        process.meet();
    });
}
