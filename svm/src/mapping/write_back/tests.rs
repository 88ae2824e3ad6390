//! What bringing many pages home takes.

use crate::cluster::tests::job;
use crate::mapping::MappingOptions;
use crate::{CacheSettings, File, FileName, FileOffset, OpenOptions};

use super::*;

/// Runs `body` on a node other than that on which the file is.
fn by_another_node(body: impl Fn(&Arc<File>) + Sync) {
    let (_directory, stores) = job::stores(2);
    job::run(&stores, &CacheSettings::default(), |process| {
        let options = OpenOptions::read_write().create(true);
        let file = Arc::new(process.open(&FileName::new("f").unwrap(), &options).unwrap());
        if process.rank() == 0 {
            file.write_at(FileOffset(0), &[5]).unwrap();
        }
        process.sync(&file).unwrap();
        if process.rank() == 1 {
            body(&file);
        }
        process.meet();
    });
}

#[test]
fn a_flush_looks_at_each_page_as_often_however_many_there_are() {
    const PAGES: u64 = 4096;
    by_another_node(|file| {
        let page = rustix::param::page_size() as u64;
        let all = FileOffset(0)..FileOffset(PAGES * page);
        let mapping = MappingOptions::new().ahead(0).map(file, all).unwrap();
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
    });
}

/// Whoever has been at a page tells so once: who sends other pages meanwhile does not hear of it.
#[test]
fn what_came_home_while_others_were_sent_is_not_waited_for() {
    const ATTEMPTS: u8 = 200;
    by_another_node(|file| {
        let page = rustix::param::page_size() as u64;
        let mapping = MappingOptions::new().ahead(0).map(file, FileOffset(0)..FileOffset(2 * page)).unwrap();
        let service = &mapping.service;
        let is_under_way =
            |table: &Table, page| matches!(table.state(page), Some(PageState::WritingBack { .. }));
        let met_while_sending = |number: u8| {
            for page in [0, page] {
                // SAFETY: it lies in the mapping.
                unsafe { mapping.as_mut_ptr().add(page as usize).write_volatile(number) };
            }
            // Another thread is at the second page.
            let leaving = service.set_out(&mut service.table(), vec![1]).unwrap();
            let before = service.table().waits.get();
            std::thread::scope(|scope| {
                let flush = scope.spawn(|| mapping.flush());
                let met = loop {
                    let table = service.table();
                    if is_under_way(&table, 0) {
                        break true;
                    }
                    if table.waits.get() > before {
                        break false;
                    }
                    drop(table);
                    std::thread::yield_now();
                };
                service.come_home(leaving, After::Keep);
                service.notify();
                flush.join().unwrap().unwrap();
                met.then(|| service.table().waits.get() - before)
            })
        };
        // It may be over before the end of the other's.
        assert!((0..ATTEMPTS).any(|number| met_while_sending(number) == Some(0)));
    });
}
