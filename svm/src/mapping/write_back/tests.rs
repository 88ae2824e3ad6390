//! What bringing many pages home takes.

use crate::cluster::tests::job;
use crate::mapping::MappingOptions;
use crate::{CacheSettings, FileName, FileOffset, OpenOptions};

use super::*;

#[test]
fn a_flush_looks_at_each_page_as_often_however_many_there_are() {
    const PAGES: u64 = 4096;
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true);
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            let page = rustix::param::page_size() as u64;
            let all = FileOffset(0)..FileOffset(PAGES * page);
            let mapping = MappingOptions::new().ahead(0).map(&file, all).unwrap();
            let looks = |pages: u64| {
                for page in (0..pages).map(|number| number * page) {
                    // SAFETY: it lies in the mapping.
                    unsafe { mapping.as_mut_ptr().add(page as usize).write_volatile(7) };
                }
                let before = mapping.service.table().looks.get();
                mapping.flush().unwrap();
                (mapping.service.table().looks.get() - before) / pages
            };
            let (few, many) = (looks(PAGES / 4), looks(PAGES));
            assert!(many <= few + 1, "{few} of few, {many} of many");
        }
        process.meet();
    });
}
