//! Any sequence of file operations, beside the same on a plain directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use svmio_svm::SegmentSize;

use super::{Mounted, alone};
use crate::setting::{Setting, noise};

const SPAN: u64 = 300_000;

/// Files and directories: each can be in the way of others.
const NAMES: [&str; 8] = ["a", "b", "d", "e", "d/a", "d/b", "e/d", "e/d/a"];

type Name = usize;

#[derive(Debug, Clone)]
enum Step {
    Create(Name),
    CreateNew(Name),
    Write { name: Name, at: u64, length: usize, seed: u64 },
    Append { name: Name, length: usize, seed: u64 },
    SetSize(Name, u64),
    Read(Name, u64, usize),
    Rename(Name, Name),
    Remove(Name),
    MakeDirectory(Name),
    RemoveDirectory(Name),
    RemoveAll(Name),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..NAMES.len();
    let write = (name(), 0..SPAN, 0..100_000usize, any::<u64>());
    let append = (name(), 0..50_000usize, any::<u64>());
    let step = prop_oneof![
        3 => name().prop_map(Step::Create),
        1 => name().prop_map(Step::CreateNew),
        6 => write.prop_map(|(name, at, length, seed)| Step::Write { name, at, length, seed }),
        2 => append.prop_map(|(name, length, seed)| Step::Append { name, length, seed }),
        2 => (name(), 0..SPAN).prop_map(|(name, size)| Step::SetSize(name, size)),
        2 => (name(), 0..SPAN, 0..100_000usize).prop_map(|(name, at, length)| Step::Read(name, at, length)),
        4 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => name().prop_map(Step::Remove),
        3 => name().prop_map(Step::MakeDirectory),
        1 => name().prop_map(Step::RemoveDirectory),
        1 => name().prop_map(Step::RemoveAll),
    ];
    prop::collection::vec(step, 1..40)
}

/// Does it below `root`, and tells what came of it.
fn act(step: &Step, root: &Path) -> Result<Vec<u8>, Option<i32>> {
    let path = |name: &Name| root.join(NAMES[*name]);
    let done = |outcome: io::Result<()>| outcome.map(|()| Vec::new());
    let outcome = match step {
        Step::Create(name) => done(File::create(path(name)).map(drop)),
        Step::CreateNew(name) => done(File::create_new(path(name)).map(drop)),
        Step::Write { name, at, length, seed } => {
            let opened = File::options().write(true).open(path(name));
            done(opened.and_then(|file| file.write_all_at(&noise(*length, *seed), *at)))
        }
        Step::Append { name, length, seed } => {
            let opened = File::options().append(true).open(path(name));
            done(opened.and_then(|mut file| file.write_all(&noise(*length, *seed))))
        }
        Step::SetSize(name, size) => {
            done(File::options().write(true).open(path(name)).and_then(|file| file.set_len(*size)))
        }
        Step::Read(name, at, length) => File::open(path(name)).and_then(|file| {
            let mut bytes = vec![0; *length];
            let read = file.read_at(&mut bytes, *at)?;
            bytes.truncate(read);
            Ok(bytes)
        }),
        Step::Rename(from, to) => done(fs::rename(path(from), path(to))),
        Step::Remove(name) => done(fs::remove_file(path(name))),
        Step::MakeDirectory(name) => done(fs::create_dir(path(name))),
        Step::RemoveDirectory(name) => done(fs::remove_dir(path(name))),
        Step::RemoveAll(name) => done(fs::remove_dir_all(path(name))),
    };
    outcome.map_err(|e| e.raw_os_error())
}

/// All files below `root` with their contents, and all directories.
fn all_below(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let is_directory = entry.file_type().unwrap().is_dir();
            assert_eq!(is_directory, path.is_dir());
            let content = (!is_directory).then(|| fs::read(&path).unwrap());
            if let Some(content) = &content {
                assert_eq!(fs::metadata(&path).unwrap().len(), content.len() as u64);
            } else {
                open.push(path.clone());
            }
            all.insert(path.strip_prefix(root).unwrap().to_path_buf(), content);
        }
    }
    all
}

/// Does all `steps` at a mounted directory and at a plain one, and looks at both after each.
fn both_are_alike_after(steps: &[Step]) -> Result<(), TestCaseError> {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let plain = setting.outside("plain");
    fs::create_dir(&plain).unwrap();
    // Its segments are small: most writes touch several.
    setting.put_segmented(&mounted.name("a"), b"begun", SegmentSize::MIN);
    fs::write(plain.join("a"), b"begun").unwrap();
    for step in steps {
        let (here, there) = (act(step, &mounted.point), act(step, &plain));
        prop_assert!(here == there, "{step:?}: {:?} {:?}", here.err(), there.err());
        prop_assert!(all_below(&mounted.point) == all_below(&plain), "{step:?}");
    }
    let files = all_below(&plain).into_values().flatten().count();
    mounted.end();
    setting.printed(&["verify"]);
    prop_assert_eq!(setting.object_count(), files);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn it_is_like_any_directory(steps in steps()) {
        let mut outcome = Ok(());
        alone(|| outcome = both_are_alike_after(&steps));
        outcome?;
    }
}
