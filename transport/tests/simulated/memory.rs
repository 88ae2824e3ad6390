//! What memory is reached how: user memory, registered memory, atomic words, segments on demand, order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::sim::World;
use svmio_transport::{Error, Fabric, LocalSegment, Rank, SegmentId, UserMemory};

use crate::worlds::{FLAGS, anonymous, await_word, options, other, pair};

#[test]
fn user_memory_is_for_dma_only_where_the_model_says_so() {
    for (model, allowed) in [("sci-switch", false), ("infiniband-hdr", true)] {
        let report = World::new(options(2, model)).run(|fabric| {
            let (local, remote) = pair(&fabric, other(&fabric), 4096);
            if fabric.rank() == Rank(1) {
                fabric.back_end().sleep(Duration::from_millis(10));
                return local.memory().word64(8).unwrap().load(Ordering::Acquire) == 7;
            }
            let bytes = 7_u64.to_ne_bytes();
            let from = UserMemory::of(&bytes);
            let done = Arc::new(Completion::new());
            let transfer =
                |direction| Transfer { direction, local: from, remote: remote.remote(), offset: 8 };
            // SAFETY: `bytes` outlives the wait below.
            match unsafe { fabric.post(vec![transfer(Direction::Write)], &done) } {
                Ok(()) => fabric.wait_for(&done).unwrap(),
                Err(Error::Unsupported { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
            let mut back = [0; 8];
            let into = UserMemory::of_mut(&mut back);
            let done = Arc::new(Completion::new());
            let transfer = Transfer { local: into, ..transfer(Direction::Read) };
            // SAFETY: `back` is not looked at before the wait has ended.
            unsafe { fabric.post(vec![transfer], &done) }.unwrap();
            fabric.wait_for(&done).unwrap();
            u64::from_ne_bytes(back) == 7
        });
        assert_eq!(report.unwrap().results, [Some(allowed), Some(allowed)], "{model}");
    }
}

#[test]
fn registered_memory_is_written_until_it_is_unregistered() {
    let report = World::new(options(2, "infiniband-hdr")).run(|fabric| {
        let (local, remote) = pair(&fabric, other(&fabric), 4096);
        let mut memory = vec![0_u8; 64];
        if fabric.rank() == Rank(0) {
            // SAFETY: `memory` stays until the registration is dropped, and is not touched meanwhile.
            let registration = unsafe { fabric.register(UserMemory::of_mut(&mut memory)) }.unwrap();
            let words: Vec<_> = registration.key().0.iter().flat_map(|word| word.to_ne_bytes()).collect();
            remote.write(0, &words).unwrap();
            remote.write(32, &1_u64.to_ne_bytes()).unwrap();
            await_word(&fabric, &local, 0, 1);
            drop(registration);
            assert_eq!(memory, [5; 64]);
            remote.write(32, &2_u64.to_ne_bytes()).unwrap();
            await_word(&fabric, &local, 0, 2);
            return memory;
        }
        await_word(&fabric, &local, 32, 1);
        let word = |index: u64| local.memory().word64(8 * index).unwrap().load(Ordering::Acquire);
        let key = svmio_transport::back_end::MemoryKey([word(0), word(1), word(2)]);
        let place = svmio_transport::back_end::Place::Registered(key);
        let memory = svmio_transport::back_end::Remote { owner: Rank(0), place };
        let piece = |byte| [byte; 64];
        let write = |bytes: &[u8], offset| {
            fabric.write(&memory, &[svmio_transport::back_end::Piece { offset, bytes }])
        };
        write(&piece(5), 0).unwrap();
        assert!(matches!(write(&piece(5), 1), Err(Error::OutOfBounds { .. })));
        remote.write(0, &1_u64.to_ne_bytes()).unwrap();
        await_word(&fabric, &local, 32, 2);
        write(&piece(6), 0).unwrap();
        remote.write(0, &2_u64.to_ne_bytes()).unwrap();
        Vec::new()
    });
    assert_eq!(report.unwrap().results[0].as_deref(), Some(&[5; 64][..]));
}

#[test]
fn atomics_count_to_the_last_one() {
    const SIZE: u32 = 50;
    let report = World::new(options(SIZE, "sci-torus")).run(|fabric| {
        let local = fabric.create(FLAGS, &anonymous(64)).unwrap();
        fabric.back_end().sleep(Duration::from_millis(10));
        let remote = fabric.connect(Rank(0), FLAGS).unwrap();
        for _ in 0..20 {
            remote.fetch_add(0, 1).unwrap();
            while remote.compare_swap(8, 0, 1).unwrap() != 0 {
                fabric.back_end().compute(Duration::from_micros(3));
            }
            assert_eq!(remote.compare_swap(8, 1, 0).unwrap(), 1);
        }
        assert!(matches!(remote.fetch_add(4, 1), Err(Error::Misaligned { .. })));
        if fabric.rank() == Rank(0) {
            await_word(&fabric, &local, 0, u64::from(20 * SIZE));
        }
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn segments_are_made_on_demand() {
    struct Maker {
        fabric: Fabric,
        made: std::sync::Mutex<Vec<LocalSegment>>,
    }
    impl svmio_transport::back_end::Provider for Maker {
        fn provide(&self, asker: Rank, id: SegmentId) {
            if id.number < 10 {
                let segment = self.fabric.create(id, &anonymous(64)).unwrap();
                segment.memory().write(0, &asker.0.to_ne_bytes()).unwrap();
                self.made.lock().unwrap().push(segment);
            }
        }
    }
    let report = World::new(options(3, "ethernet-25g")).run(|fabric| {
        let made = std::sync::Mutex::default();
        fabric.set_provider(4, Arc::new(Maker { fabric: fabric.clone(), made }));
        fabric.back_end().sleep(Duration::from_millis(1));
        assert!(fabric.connected_peers().is_empty());
        let next = Rank((fabric.rank().0 + 1) % 3);
        let remote = fabric.connect(next, SegmentId::new(4, 2)).unwrap();
        let mut word = [0; 4];
        remote.read(0, &mut word).unwrap();
        assert_eq!(u32::from_ne_bytes(word), fabric.rank().0);
        assert!(matches!(fabric.connect(next, SegmentId::new(4, 10)), Err(Error::UnknownSegment { .. })));
        assert!(matches!(fabric.connect(next, SegmentId::new(5, 0)), Err(Error::UnknownSegment { .. })));
        assert_eq!(fabric.connected_peers(), [next]);
        // The others may still ask.
        fabric.back_end().sleep(Duration::from_millis(10));
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn ordered_fabrics_keep_the_order_of_writes() {
    World::new(options(2, "infiniband-hdr"))
        .run(|fabric| {
            let (local, remote) = pair(&fabric, other(&fabric), 1 << 20);
            if fabric.rank() == Rank(0) {
                for number in 1..=50_u64 {
                    remote.write(0, &vec![number as u8; 300_000]).unwrap();
                    remote.write(1 << 19, &number.to_ne_bytes()).unwrap();
                    await_word(&fabric, &local, 0, number);
                }
                return;
            }
            for number in 1..=50_u64 {
                await_word(&fabric, &local, 1 << 19, number);
                let mut bytes = vec![0; 300_000];
                local.memory().read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&byte| byte == number as u8));
                remote.write(0, &number.to_ne_bytes()).unwrap();
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
