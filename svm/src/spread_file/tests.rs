use std::path::Path;

use super::*;
use crate::killing::{self, End};
use crate::name::DirectoryName;
use crate::object;
use crate::store::Store;
use crate::store::aside::Asides;

const SEGMENT: u64 = 64 << 10;

fn put(set: &StoreSet, name: &FileName, seed: u8, segments: u64, placement: &Placement) -> Result<()> {
    let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(placement.clone());
    let size = segments * SEGMENT;
    let mut file = set.create(name, &options, Some(size), true)?;
    file.write_at(FileOffset(0), &vec![seed; size as usize])?;
    file.finish(size)
}

fn content(set: &StoreSet, name: &FileName) -> Vec<u8> {
    let file = set.open(name).unwrap();
    file.check_whole().unwrap();
    let mut bytes = vec![0; file.size() as usize];
    file.read_at(FileOffset(0), &mut bytes).unwrap();
    bytes
}

fn count(store: &Store, directory: &str) -> usize {
    std::fs::read_dir(store.path().join(directory)).map_or(0, Iterator::count)
}

const KILLED_TEST: &str =
    "spread_file::tests::wherever_a_copy_over_a_file_is_killed_verifying_finds_the_old_or_the_new";
const REMOVED_TEST: &str =
    "spread_file::tests::a_file_removed_after_a_copy_over_it_was_killed_does_not_come_back";

fn stores_in(directory: &Path) -> ([Store; 3], StoreSet) {
    let open = |node| Store::open_for(&directory.join(node), &NodeName::new(node)).unwrap();
    let stores = ["a", "b", "c"].map(open);
    let set = StoreSet::new(stores[0].clone(), stores[1..].to_vec()).unwrap();
    (stores, set)
}

/// Kills a process at each point where it puts a file over another one; what verifying finds is one of them, whole.
fn replace_while_killed(older: &Placement, new: &Placement) {
    let directory = tempfile::tempdir().unwrap();
    let (stores, set) = stores_in(directory.path());
    let name = FileName::new("/d/f").unwrap();
    let (old_bytes, new_bytes) = (vec![1; 5 * SEGMENT as usize], vec![2; 4 * SEGMENT as usize]);
    let mut seen = [0; 2];
    for point in 1..1000 {
        put(&set, &name, 1, 5, older).unwrap();
        let task = format!("{}\n{new}", directory.path().display());
        let end = killing::run_anew(KILLED_TEST, &task, point);
        let report = set.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean() && report.unseen.is_empty(), "{point}: {report:?}");
        let found = content(&set, &name);
        let is_new = found == new_bytes;
        assert!(is_new || found == old_bytes, "{point}: {report:?}");
        seen[usize::from(is_new)] += 1;
        let again = set.verify(&DirectoryName::root()).unwrap();
        assert!(again.repaired.is_empty() && again.reclaimed.is_empty(), "{point}: {report:?}, {again:?}");
        for store in &stores {
            assert!(count(store, object::OBJECTS) <= 1 && count(store, object::DELETED) == 0, "{point}");
            assert_eq!(store.asides().unwrap(), Asides::default(), "{point}");
        }
        if end == End::Finished {
            // The stores are asked side by side: how far the others have come where one comes to a point differs.
            assert!(is_new && seen[0] > 1 && seen[1] > 1, "{seen:?}");
            return;
        }
    }
    panic!("it never came to its end");
}

#[test]
fn wherever_a_copy_over_a_file_is_killed_verifying_finds_the_old_or_the_new() {
    if let Some((task, point)) = killing::task() {
        let (directory, new) = task.split_once('\n').unwrap();
        let (_, set) = stores_in(Path::new(directory));
        killing::arm(point);
        return put(&set, &FileName::new("/d/f").unwrap(), 2, 4, &new.parse().unwrap()).unwrap();
    }
    let first = Placement::FirstTouch;
    for (older, new) in [
        (Placement::RoundRobin, Placement::RoundRobin),
        (Placement::RoundRobin, first.clone()),
        (first, Placement::RoundRobin),
        (Placement::Node(NodeName::new("b")), Placement::Node(NodeName::new("c"))),
    ] {
        replace_while_killed(&older, &new);
    }
}

/// How a file is removed in the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The tool, which knows all stores.
    Tool,
    /// The agents of a job, each of which knows its own.
    Agents,
    /// The tool where it knows only the first store.
    ToolAlone,
}

#[test]
fn a_file_removed_after_a_copy_over_it_was_killed_does_not_come_back() {
    let name = FileName::new("/d/f").unwrap();
    if let Some((task, point)) = killing::task() {
        let (directory, new) = task.split_once('\n').unwrap();
        let (_, set) = stores_in(Path::new(directory));
        killing::arm(point);
        return put(&set, &name, 2, 4, &new.parse().unwrap()).unwrap();
    }
    // A part of the new file in all stores, or in the first alone.
    for new in [Placement::RoundRobin, Placement::FirstTouch] {
        removed_after_kill(&name, &new);
    }
}

/// Kills a process at each point where it puts a file over another one, and removes what has the name then.
fn removed_after_kill(name: &FileName, new: &Placement) {
    let directory = tempfile::tempdir().unwrap();
    let (stores, set) = stores_in(directory.path());
    let alone = StoreSet::new(stores[0].clone(), []).unwrap();
    let each = || {
        stores.iter().try_for_each(|store| match store.remove(name) {
            Err(Error::NoSuchFile { .. }) => Ok(()),
            removed => removed,
        })
    };
    for (by, point) in (1..1000).flat_map(|point| [By::Tool, By::Agents, By::ToolAlone].map(|by| (by, point)))
    {
        put(&set, name, 1, 5, &Placement::RoundRobin).unwrap();
        let task = format!("{}\n{new}", directory.path().display());
        let end = killing::run_anew(REMOVED_TEST, &task, point);
        let is_there = set.find(name).is_ok();
        let removed = match by {
            By::Agents if is_there => each(),
            // What it finds may be the older file.
            By::ToolAlone if is_there && *new == Placement::FirstTouch => alone.remove(name, true),
            _ => set.remove(name, false),
        };
        removed.unwrap();
        let report = set.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean(), "{new}, {by:?}, {point}: {report:?}");
        let found = set.lookup(name);
        assert!(
            matches!(found, Err(Error::NoSuchFile { .. })),
            "{new}, {by:?}, {point}: {found:?}, {report:?}"
        );
        for store in &stores {
            assert_eq!(store.asides().unwrap(), Asides::default(), "{new}, {by:?}, {point}");
            let left = (count(store, object::OBJECTS), count(store, object::DELETED));
            assert_eq!(left, (0, 0), "{new}, {by:?}, {point}");
        }
        if end == End::Finished && by == By::ToolAlone {
            return;
        }
    }
    panic!("it never came to its end");
}

/// How a file gets another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renamed {
    /// By the tool, which knows all stores.
    ByTool,
    /// By somebody who knows only the store that it is in.
    ByStore,
}

#[test]
fn a_file_renamed_after_a_copy_over_another_was_killed_leaves_no_older_one_behind() {
    const TEST: &str =
        "spread_file::tests::a_file_renamed_after_a_copy_over_another_was_killed_leaves_no_older_one_behind";
    let name = FileName::new("/d/f").unwrap();
    if let Some((directory, point)) = killing::task() {
        let (_, set) = stores_in(Path::new(&directory));
        killing::arm(point);
        return put(&set, &name, 2, 4, &Placement::FirstTouch).unwrap();
    }
    // With a part in each store, or whole in another one than the new one.
    for older in [Placement::RoundRobin, Placement::Node(NodeName::new("b"))] {
        for how in [Renamed::ByTool, Renamed::ByStore] {
            renamed_after_kill(TEST, &name, &older, how);
        }
    }
}

/// Kills a process at each point where it puts a file of one store over another one, and renames what has the name then.
fn renamed_after_kill(test: &str, name: &FileName, older: &Placement, how: Renamed) {
    let directory = tempfile::tempdir().unwrap();
    let (stores, set) = stores_in(directory.path());
    let other = FileName::new("/other").unwrap();
    let contents = [vec![1; 5 * SEGMENT as usize], vec![2; 4 * SEGMENT as usize]];
    let mut renamed = 0;
    for point in 1..1000 {
        let case = format!("{older}, {how:?}, {point}");
        put(&set, name, 1, 5, older).unwrap();
        let end = killing::run_anew(test, &directory.path().to_string_lossy(), point);
        let outcome = match how {
            Renamed::ByTool => set.rename(name, &other, false),
            Renamed::ByStore => stores[0].rename(name, &other, false),
        };
        let report = set.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean() && report.unseen.is_empty(), "{case}: {outcome:?}, {report:?}");
        let there = [name, &other].map(|name| set.lookup(name).is_ok());
        assert_eq!(there, [outcome.is_err(), outcome.is_ok()], "{case}: {outcome:?}, {report:?}");
        for (name, is_there) in [name, &other].into_iter().zip(there) {
            if is_there {
                assert!(contents.contains(&content(&set, name)), "{case}: {report:?}");
                set.remove(name, false).unwrap();
            }
        }
        set.verify(&DirectoryName::root()).unwrap();
        for store in &stores {
            assert_eq!(store.asides().unwrap(), Asides::default(), "{case}");
            assert_eq!((count(store, object::OBJECTS), count(store, object::DELETED)), (0, 0), "{case}");
        }
        renamed += u32::from(outcome.is_ok());
        if end == End::Finished {
            assert!(renamed > 0 && outcome.is_ok(), "{case}: {outcome:?}");
            return;
        }
    }
    panic!("it never came to its end");
}

#[test]
fn wherever_a_removal_in_some_stores_is_killed_the_file_is_whole_or_removed() {
    const TEST: &str =
        "spread_file::tests::wherever_a_removal_in_some_stores_is_killed_the_file_is_whole_or_removed";
    let name = FileName::new("/d/f").unwrap();
    let some = |stores: &[Store; 3]| StoreSet::new(stores[1].clone(), [stores[0].clone()]).unwrap();
    if let Some((directory, point)) = killing::task() {
        let (stores, _) = stores_in(Path::new(&directory));
        killing::arm(point);
        return some(&stores).remove(&name, true).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let (stores, set) = stores_in(directory.path());
    let mut seen = [0; 2];
    for (is_repeated, point) in (1..1000).flat_map(|point| [(false, point), (true, point)]) {
        put(&set, &name, 1, 5, &Placement::RoundRobin).unwrap();
        let end = killing::run_anew(TEST, &directory.path().to_string_lossy(), point);
        if is_repeated {
            match some(&stores).remove(&name, true) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => panic!("{point}: {e}"),
            }
        }
        let report = set.verify(&DirectoryName::root()).unwrap();
        assert!(report.is_clean() && report.unseen.is_empty(), "{point}: {report:?}");
        let is_there = set.lookup(&name).is_ok();
        assert!(!(is_there && (is_repeated || end == End::Finished)), "{point}: {report:?}");
        assert!(!is_there || content(&set, &name) == vec![1; 5 * SEGMENT as usize], "{point}: {report:?}");
        seen[usize::from(is_there)] += 1;
        for store in &stores {
            assert_eq!(count(store, object::OBJECTS), usize::from(is_there), "{point}: {report:?}");
            assert_eq!(count(store, object::DELETED), 0, "{point}: {report:?}");
        }
        if is_repeated && end == End::Finished {
            assert!(seen.iter().all(|times| *times > 1), "{seen:?}");
            return;
        }
    }
    panic!("it never came to its end");
}

#[test]
fn what_is_set_aside_stays_as_long_as_nobody_knows_which_file_is_to_stay() {
    const TEST: &str =
        "spread_file::tests::what_is_set_aside_stays_as_long_as_nobody_knows_which_file_is_to_stay";
    let directory = tempfile::tempdir().unwrap();
    let task = killing::task();
    let path = task.as_ref().map_or(directory.path(), |(path, _)| Path::new(path));
    let ([here, there, _], _) = stores_in(path);
    let name = FileName::new("/f").unwrap();
    let alone = StoreSet::from(here.clone());
    let both = StoreSet::new(here.clone(), [there]).unwrap();
    if task.is_some() {
        let older = here.lookup(&name).unwrap();
        let new = here.create_unnamed(&name, &OpenOptions::read_write()).unwrap();
        let nodes = vec![NodeName::new("a"), NodeName::new("b")];
        let _aside = new.set_aside(&Over { older: Some(older), nodes, cleared: Vec::new() }).unwrap();
        // Whoever replaces it is at work.
        let report = both.verify(&DirectoryName::root()).unwrap();
        assert!(report.repaired.is_empty() && report.reclaimed.is_empty(), "{report:?}");
        let error = put(&both, &name, 3, 2, &Placement::RoundRobin).unwrap_err();
        assert!(matches!(error, Error::BeingReplaced { .. }), "{error:?}");
        killing::arm(1);
        return killing::point();
    }
    put(&alone, &name, 1, 1, &Placement::FirstTouch).unwrap();
    let older = here.lookup(&name).unwrap();
    assert_eq!(killing::run_anew(TEST, &path.to_string_lossy(), 1), End::KilledItself);
    let report = alone.verify(&DirectoryName::root()).unwrap();
    assert!(report.repaired.is_empty() && report.reclaimed.is_empty(), "{report:?}");
    assert!(matches!(&report.unseen[..], [(_, Error::StoresMissing { .. })]), "{report:?}");
    // The other one does not know of the new file.
    let report = both.verify(&DirectoryName::root()).unwrap();
    assert_eq!(report.repaired.len(), 1, "{report:?}");
    assert_eq!(here.lookup(&name).unwrap(), older);
    assert!(content(&both, &name) == vec![1; SEGMENT as usize]);
}

#[test]
fn a_damaged_record_is_told_and_holds_up_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let ([a, ..], set) = stores_in(directory.path());
    let name = FileName::new("/f").unwrap();
    put(&set, &name, 1, 3, &Placement::RoundRobin).unwrap();
    let record = a.path().join(crate::store::aside::ASIDE).join(FileId::random().unwrap().to_string());
    std::fs::create_dir_all(record.parent().unwrap()).unwrap();
    std::fs::write(&record, "?").unwrap();
    let leftover = object::path(a.path(), FileId::random().unwrap());
    std::fs::create_dir(&leftover).unwrap();

    put(&set, &name, 2, 3, &Placement::RoundRobin).unwrap();
    assert_eq!(content(&set, &name), vec![2; 3 * SEGMENT as usize]);
    let report = set.verify(&DirectoryName::root()).unwrap();
    assert!(!report.is_clean() && report.damaged.is_empty(), "{report:?}");
    assert_eq!((report.damaged_records, report.reclaimed), (vec![record.clone()], vec![]));
    assert!(leftover.exists());

    std::fs::remove_file(&record).unwrap();
    let report = set.verify(&DirectoryName::root()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.reclaimed, [leftover]);
}
