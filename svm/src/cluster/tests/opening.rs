//! What others do with a file between its being opened for a node and that node's attaching it.

use super::super::install;
use super::{job, read};
use crate::{
    CacheSettings, Error, File, FileId, FileName, FileOffset, Manifest, NodeIndex, OpenOptions, Store, object,
};
use job::Process;

const NODES: usize = 3;

/// Opens the file for this process alone.
fn alone(process: &Process<'_>, name: &FileName) -> File {
    let options = OpenOptions::read_write().create(true);
    let introduction = process.cluster.open(name, &options, &[NodeIndex(process.rank())]).unwrap();
    process.cluster.attach(&introduction, &options).unwrap()
}

/// The master has a file open. Rank 1, of another node, opens it, and does not attach it before `meanwhile` is over on
/// rank 0; then it does, and finds what is in the file. Returns what has the name on each node in the end.
fn opened_meanwhile(meanwhile: impl Fn(&Process<'_>, &FileName) + Sync) -> [Option<FileId>; NODES] {
    let (_directory, stores) = job::stores(NODES);
    let name = FileName::new("/a/f").unwrap();
    let cache = CacheSettings { page: 64 << 10, capacity: 1 << 20 };
    job::run(&stores, &cache, |process| {
        let options = OpenOptions::read_write().create(true);
        let own = (process.rank() == 0).then(|| {
            let file = alone(process, &name);
            file.write_at(FileOffset(0), b"before").unwrap();
            file
        });
        process.meet();
        let open = || process.cluster.open(&name, &options, &[NodeIndex(1)]).unwrap();
        let introduction = (process.rank() == 1).then(open);
        process.meet();
        if let Some(file) = &own {
            file.write_at(FileOffset(6), b", after").unwrap();
            file.commit(true).unwrap();
            meanwhile(process, &name);
        }
        process.meet();
        if let Some(introduction) = introduction {
            let file = process.cluster.attach(&introduction, &options).unwrap();
            file.refresh().unwrap();
            assert_eq!(&read::<13>(&file, 0), b"before, after");
            file.write_at(FileOffset(13), b"!").unwrap();
            file.flush().unwrap();
            file.commit(true).unwrap();
            file.closed_by_all().unwrap();
        }
        process.meet();
        if let Some(file) = own {
            file.refresh().unwrap();
            assert_eq!(&read::<14>(&file, 0), b"before, after!");
            file.closed_by_all().unwrap();
        }
        process.meet();
    });
    let known = |store: &Store| store.lookup(&name).ok();
    std::array::from_fn(|node| known(&stores[node]))
}

#[test]
fn it_is_committed() {
    let [one, other, third] = opened_meanwhile(|_, _| {});
    assert!(one.is_some() && other == one && third.is_none());
}

#[test]
fn it_is_made_shorter_and_longer_again() {
    opened_meanwhile(|process, name| {
        let file = alone(process, name);
        file.set_size(3).unwrap();
        file.write_at(FileOffset(3), b"ore, after").unwrap();
        file.closed_by_all().unwrap();
    });
}

#[test]
fn it_is_removed() {
    let known = opened_meanwhile(|process, name| process.cluster.remove(name).unwrap());
    assert_eq!(known, [None; NODES]);
}

#[test]
fn its_name_is_given_to_another_file() {
    let known = opened_meanwhile(|process, name| {
        process.cluster.remove(name).unwrap();
        let other = alone(process, name);
        other.write_at(FileOffset(0), b"another").unwrap();
        other.commit(true).unwrap();
        other.closed_by_all().unwrap();
    });
    assert!(matches!(known, [Some(_), None, None]), "{known:?}");
}

#[test]
fn what_a_killed_job_left_of_it_without_a_name_is_in_nobodys_way() {
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: 64 << 10, capacity: 1 << 20 };
    let (name, options) = (FileName::new("/a/f").unwrap(), OpenOptions::read_write().create(true));
    job::run(&stores, &cache, |process| {
        let file = process.open(&name, &options).unwrap();
        if process.rank() == 0 {
            file.write_at(FileOffset(0), b"before").unwrap();
        }
        process.sync(&file).unwrap();
        process.close(file).unwrap();
    });
    let (store, id) = (stores[1].path(), stores[1].lookup(&name).unwrap());
    // As a removal that went no further leaves it, of a file that somebody had open.
    std::fs::remove_dir_all(store.join("names/a")).unwrap();
    std::fs::rename(object::path(store, id), object::deleted_path(store, id)).unwrap();
    job::run(&stores, &cache, |process| {
        let file = process.open(&name, &options).unwrap();
        assert_eq!((file.id(), &read::<6>(&file, 0)), (id, b"before"));
        process.close(file).unwrap();
    });
    assert_eq!(stores[1].lookup(&name).unwrap(), id);
    assert!(!object::deleted_path(store, id).exists());
}

#[test]
fn a_file_that_has_another_name_does_not_get_the_old_one_again() {
    let (_directory, stores) = job::stores(2);
    let [old, new] = ["/a/f", "/a/g"].map(|text| FileName::new(text).unwrap());
    let file = stores[0].open_file(&old, &OpenOptions::read_write().create(true)).unwrap();
    let id = file.id();
    drop(file);
    let manifest = Manifest::read(&object::path(stores[0].path(), id), "f").unwrap();
    stores[0].rename(&old, &new, false).unwrap();
    let cache = CacheSettings { page: 64 << 10, capacity: 1 << 20 };
    job::run(&stores, &cache, |process| {
        if process.rank() == 0 {
            // As the master found it before it was renamed.
            let installed = install::install(process.cluster.context(), &manifest);
            assert!(matches!(installed, Err(Error::NoSuchFile { .. })), "{installed:?}");
        }
    });
    assert_eq!(stores[0].lookup(&new).unwrap(), id);
    assert!(stores[0].lookup(&old).is_err());
}

/// Two nodes open a file that is to be new, while `hinder` keeps it from being opened; then again.
fn opened_anew(hinder: impl Fn(&Process<'_>, &FileName, &OpenOptions, &Store) + Sync) {
    let (_directory, stores) = job::stores(2);
    let cache = CacheSettings { page: 64 << 10, capacity: 1 << 20 };
    let name = FileName::new("/a/f").unwrap();
    let options = OpenOptions::read_write().create(true).exclusive(true);
    job::run(&stores, &cache, |process| {
        hinder(process, &name, &options, &stores[1]);
        process.meet();
        if process.rank() == 0 {
            assert!(stores.iter().all(|store| store.lookup(&name).is_err()), "nothing is left of it");
        }
        process.meet();
        let file = process.open(&name, &options).unwrap();
        process.close(file).unwrap();
    });
}

#[test]
fn a_file_that_not_all_nodes_can_have_is_not_left_behind_by_who_makes_it() {
    opened_anew(|process, name, options, store| {
        let (objects, away) = (store.path().join(object::OBJECTS), store.path().join("away"));
        if process.rank() == 1 {
            // Not even root makes anything in what is no directory.
            std::fs::rename(&objects, &away).unwrap();
            std::fs::write(&objects, b"").unwrap();
        }
        process.meet();
        process.open(name, options).unwrap_err();
        process.meet();
        if process.rank() == 1 {
            std::fs::remove_file(&objects).unwrap();
            std::fs::rename(&away, &objects).unwrap();
        }
    });
}

#[test]
fn a_file_that_is_given_up_goes_if_opening_it_has_made_it() {
    opened_anew(|process, name, options, _| {
        if process.rank() == 0 {
            let all = [NodeIndex(0), NodeIndex(1)];
            let introduction = process.cluster.open(name, options, &all).unwrap();
            process.cluster.give_up(&introduction).unwrap();
            // One that was there before stays.
            let (other, options) =
                (FileName::new("/a/other").unwrap(), OpenOptions::read_write().create(true));
            let file = alone(process, &other);
            file.closed_by_all().unwrap();
            drop(file);
            let introduction = process.cluster.open(&other, &options, &all).unwrap();
            process.cluster.give_up(&introduction).unwrap();
            process.cluster.open(&other, &OpenOptions::read_write(), &all[..1]).unwrap();
        }
    });
}
