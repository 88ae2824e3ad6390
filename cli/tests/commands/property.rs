//! Any sequence of writes, against a plain vector.

use std::fs;

use proptest::prelude::*;
use svmio_svm::{FileName, FileOffset, OpenOptions, SegmentSize};

use crate::setting::{Setting, noise};

const SPAN: u64 = 700_000;

#[derive(Debug, Clone)]
enum Step {
    Write { at: u64, length: usize, seed: u64 },
    SetSize(u64),
    Preallocate(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..SPAN, 0..200_000usize, any::<u64>()).prop_map(|(at, length, seed)| Step::Write {
        at,
        length,
        seed,
    });
    let step = prop_oneof![
        6 => write,
        1 => (0..SPAN).prop_map(Step::SetSize),
        1 => (0..SPAN).prop_map(Step::Preallocate),
    ];
    prop::collection::vec(step, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_a_program_wrote_is_what_cp_and_cat_give(steps in steps(), shift in 16u32..=21, at in 0..SPAN) {
        let setting = Setting::new();
        let options =
            OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::new(1 << shift).unwrap()));
        let file = setting.store().open_file(&FileName::new("/file").unwrap(), &options).unwrap();
        let mut oracle: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write { at, length, seed } => {
                    let data = noise(length, seed);
                    file.write_at(FileOffset(at), &data).unwrap();
                    let end = at as usize + length;
                    if length > 0 {
                        oracle.resize(oracle.len().max(end), 0);
                        oracle[at as usize..end].copy_from_slice(&data);
                    }
                }
                Step::SetSize(size) => {
                    file.set_size(size).unwrap();
                    oracle.resize(size as usize, 0);
                }
                Step::Preallocate(size) => {
                    file.preallocate(size).unwrap();
                    oracle.resize(oracle.len().max(size as usize), 0);
                }
            }
        }
        // While the writer still has it open, and when nobody has.
        setting.printed(&["cp", "svm:/file", "open"]);
        prop_assert!(fs::read(setting.outside("open")).unwrap() == oracle);
        file.sync_data().unwrap();
        file.commit(true).unwrap();
        drop(file);
        setting.printed(&["cp", "svm:/file", "closed"]);
        prop_assert!(fs::read(setting.outside("closed")).unwrap() == oracle);
        setting.printed(&["cp", "closed", "svm:/again"]);
        let offset = at.to_string();
        let rest = setting.run(&["cat", "/again", "--offset", &offset]).stdout;
        prop_assert!(rest == oracle[oracle.len().min(at as usize)..]);
        setting.printed(&["verify"]);
    }
}
