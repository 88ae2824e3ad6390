//! A store of the test's own, a directory beside it, and the program.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use svmio_svm::{FileName, FileOffset, OpenOptions, SegmentSize, Store};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_svmio");

/// In front of a command: signals do what they do by default, though the tests may have been started by `nohup`, or in
/// the background of a script, which ignores those of the keyboard.
pub(crate) const HEEDING: [&str; 2] = ["env", "--default-signal=HUP,INT,QUIT,ALRM,XCPU,USR1,USR2,TERM"];

/// The program, which heeds all signals.
pub(crate) fn program() -> Command {
    let mut command = Command::new(HEEDING[0]);
    command.args(&HEEDING[1..]).arg(PROGRAM);
    command
}

pub(crate) struct Setting {
    directory: TempDir,
}

impl Setting {
    pub(crate) fn new() -> Setting {
        Setting { directory: tempfile::tempdir().unwrap() }
    }

    /// A path beside the store.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.store_path()).unwrap()
    }

    /// The program with this store, in the directory beside it.
    pub(crate) fn svmio(&self) -> Command {
        self.with_store(program())
    }

    /// `command` with the environment of [`Setting::svmio`].
    pub(crate) fn with_store(&self, mut command: Command) -> Command {
        command
            .current_dir(self.directory.path())
            .env("SVMIO_STORE", self.store_path())
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.svmio().args(arguments).output().unwrap()
    }

    /// What the program prints; it has to be content.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.printed(arguments)).unwrap()
    }

    /// What the program complains of; it has to end with `code`.
    pub(crate) fn complaint(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        message
    }

    /// Makes a file in the store.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        self.put_segmented(name, content, SegmentSize::DEFAULT);
    }

    pub(crate) fn put_segmented(&self, name: &str, content: &[u8], segment_size: SegmentSize) {
        let options = OpenOptions::read_write().create(true).exclusive(true).segment_size(Some(segment_size));
        let file = self.store().open_file(&FileName::new(name).unwrap(), &options).unwrap();
        file.write_at(FileOffset(0), content).unwrap();
        file.sync_data().unwrap();
        file.commit(true).unwrap();
    }

    /// The directory in the store that holds a file's manifest and segments.
    pub(crate) fn object(&self, name: &str) -> PathBuf {
        let id = self.store().lookup(&FileName::new(name).unwrap()).unwrap();
        self.store_path().join("objects").join(id.to_string())
    }

    /// How many files, named or not, the store holds.
    pub(crate) fn object_count(&self) -> usize {
        ["objects", "deleted"]
            .map(|directory| fs::read_dir(self.store_path().join(directory)).unwrap().count())
            .iter()
            .sum()
    }

    pub(crate) fn names_outside(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "store");
        names.sort();
        names
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Bytes without a pattern that a mistake could hide in, the same in each run.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let word = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    word.flat_map(u64::to_le_bytes).take(length).collect()
}

/// Writes `pieces` into a new file of `size` bytes that is a hole elsewhere.
pub(crate) fn write_sparse(path: &Path, size: u64, pieces: &[(u64, Vec<u8>)]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, piece) in pieces {
        file.write_all_at(piece, *offset).unwrap();
    }
    file.sync_all().unwrap();
}

/// Fails the test where it does not run as root.
pub(crate) fn need_root(what_for: &str) {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test {what_for}, which only root can do: run the tests as root (in a container, say)"
    );
}
