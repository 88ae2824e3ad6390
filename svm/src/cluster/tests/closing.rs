//! Files that are closed while something is still on its way that was asked for ahead.

use super::job;
use crate::{CacheSettings, FileName, FileOffset, OpenOptions, SegmentSize};

#[test]
fn what_was_asked_for_ahead_opens_no_file_again_that_all_have_closed() {
    const SEGMENT: usize = 32 << 20;
    const READ: usize = 8 << 20;
    const ROUNDS: usize = 4;
    let (_directory, stores) = job::stores(3);
    let cache = CacheSettings { page: 64 << 10, capacity: 64 << 20 };
    // Rank 1 is the home and rank 2 reads: the master, by which the home hears of the close, is another one.
    job::run(&stores, &cache, |process| {
        let size = SegmentSize::new(SEGMENT as u64).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        for round in 0..ROUNDS {
            let name = FileName::new(format!("f{round}")).unwrap();
            let file = process.open(&name, &options).unwrap();
            if process.rank() == 1 {
                file.write_at(FileOffset(0), &vec![1; SEGMENT]).unwrap();
            }
            process.sync(&file).unwrap();
            if process.rank() == 2 {
                let mut bytes = vec![0; READ];
                file.read_at(FileOffset(0), &mut bytes).unwrap();
                file.read_at(FileOffset(READ as u64), &mut bytes).unwrap();
                assert!(file.shared().unwrap().is_kept(2 * READ as u64), "nothing is read ahead");
            }
            let id = file.id();
            if round % 2 == 0 {
                process.team.close(&file, true).unwrap();
                drop(file);
            } else {
                // By who has no team: each by itself, and one for all.
                let first = (process.rank() == 0).then_some(file);
                process.meet();
                first.map_or(Ok(()), |file| file.closed_by_all()).unwrap();
            }
            process.meet();
            if process.rank() == 2 {
                // Whatever is on its way arrives.
                process.cluster.ahead.end();
            }
            process.meet();
            if process.rank() == 1 {
                assert!(!process.cluster.agent.as_ref().unwrap().serves(id), "round {round}");
            }
            let removed = if process.rank() == 0 { process.cluster.remove(&name) } else { Ok(()) };
            process.team.outcome_of(0, removed).unwrap();
        }
    });
}
