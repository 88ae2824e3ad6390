//! What it costs to bring home the dirty bytes of a range, in a cache with many of others.

use std::sync::Arc;

use super::{PAGE, job, open, read, shared};
use crate::cache::{PageCache, PageNumber};
use crate::{Error, ErrorKind, FileName, FileOffset};

/// How many sets of the cache this thread locks over something.
fn sets_locked(over: impl FnOnce()) -> u64 {
    let before = PageCache::sets_locked();
    over();
    PageCache::sets_locked() - before
}

#[test]
fn who_brings_a_range_home_or_gives_it_up_looks_only_where_its_pages_can_be() {
    let (_directory, stores) = super::job::stores(2);
    job(&stores, 1024, |process| {
        let [others, file] = ["others", "f"].map(|text| open(process, &FileName::new(text).unwrap()));
        if process.rank() == 0 {
            (0..512).for_each(|page| others.write_at(FileOffset(page * PAGE), b"dirty").unwrap());
            assert_eq!(read(&file, 0), [1]);
            let [others, file] = [&others, &file].map(|file| shared(process, &stores[0], file));
            let cache = Arc::clone(&process.cluster.cache);
            let is_dirty = |page| cache.all_dirty().unwrap().contains(&others.key(page));
            let all = sets_locked(|| assert_eq!(cache.all_dirty().unwrap().len(), 512));
            assert!(all > 8, "{all}");
            let page = 0..PAGE;
            assert!(sets_locked(|| file.flush_cached_in(&page).unwrap()) <= 1);
            let error = Error::WritesLost { name: "f".into(), kind: ErrorKind::Other };
            assert!(sets_locked(|| file.give_up_but(&page, |_| false, &error, true).unwrap()) <= 1);
            // So it is where there is something to bring home, but for what that takes.
            assert!(is_dirty(PageNumber(0)));
            assert!(sets_locked(|| others.flush_cached_in(&page).unwrap()) < 8);
            assert!(!is_dirty(PageNumber(0)) && is_dirty(PageNumber(1)));
        }
        process.meet();
    });
}
