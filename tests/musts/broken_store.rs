//! What is broken, forbidden or missing is told on every rank by its error class and a message that helps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use svmio_tests::mounts::{in_own_mounts, read_only};
use svmio_tests::report::Line;
use svmio_tests::{Job, Mpi, Program, Reports, Scratch};

const RANKS: u32 = 3;

/// A store with one file, `/dir/file`, of a few segments.
struct Broken {
    mpi: Mpi,
    scratch: Scratch,
}

impl Broken {
    fn new(mpi: Mpi) -> Broken {
        let broken = Broken { mpi, scratch: Scratch::new() };
        let lines = broken.attempt(&["make", "svm:/dir/file"]);
        expect(&lines, "make", "MPI_SUCCESS", &[]);
        expect(&lines, "whole", "1", &[]);
        broken
    }

    /// What each rank reports of a job that makes these attempts.
    fn attempt(&self, attempts: &[&str]) -> Vec<Vec<Line>> {
        self.attempt_as(0, attempts, |job| job)
    }

    fn attempt_as(
        &self,
        user: u32,
        attempts: &[&str],
        more: impl for<'s> FnOnce(Job<'s>) -> Job<'s>,
    ) -> Vec<Vec<Line>> {
        let number = fs::read_dir(self.scratch.path()).expect("the scratch directory can be read").count();
        let reports = Reports::new(&self.scratch, &format!("reports-{number}"));
        let program = Program::c("attempts", self.mpi);
        let job =
            Job::new(&self.scratch, &program, RANKS).argument(reports.path()).argument(user.to_string());
        more(attempts.iter().fold(job, |job, attempt| job.argument(attempt))).succeed();
        reports.read(RANKS)
    }

    /// The directory with the manifest, the state and the segments of the one file.
    fn object(&self) -> PathBuf {
        let objects = self.scratch.store().join("objects");
        let mut entries = fs::read_dir(objects).expect("a store has objects");
        entries.next().expect("the file is there").expect("a directory can be read").path()
    }

    fn change_manifest(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let path = self.object().join("manifest");
        let bytes = fs::read(&path).expect("the file has a manifest");
        fs::write(&path, change(bytes)).expect("the manifest can be written");
    }

    /// Takes away what the processes of this boot share, so that opening goes by the manifest.
    fn forget_state(&self) {
        fs::remove_file(self.object().join("state")).expect("the file has a state");
    }
}

/// Fails unless each rank has lines on `what`, all with this result and a message with all of `words`.
fn expect(lines: &[impl AsRef<[Line]>], what: &str, result: &str, words: &[&str]) {
    for (rank, lines) in lines.iter().map(AsRef::as_ref).enumerate() {
        let mut on_it = lines.iter().filter(|line| line.what == what).peekable();
        assert!(on_it.peek().is_some(), "rank {rank} reports nothing of {what}: {lines:?}");
        for line in on_it {
            assert_eq!(line.result, result, "rank {rank}: {line:?}");
            for word in words {
                assert!(line.message.contains(word), "rank {rank}: '{word}' is not in {line:?}");
            }
        }
    }
}

/// A file that is damaged gives this error, again and again, and others can still be made.
fn expect_damage(broken: &Broken, result: &str, words: &[&str]) {
    const FILE: &str = "svm:/dir/file";
    const OTHER: [&str; 4] = ["exclusive", "svm:/dir/other", "delete", "svm:/dir/other"];
    let words = [&["/dir/file"], words].concat();
    let actions = ["read", "update", "create"];
    let lines = broken.attempt(&actions.map(|action| [&[action, FILE], &OTHER[..]].concat()).concat());
    for action in actions {
        expect(&lines, action, result, &words);
    }
    expect(&lines, "exclusive", "MPI_SUCCESS", &[]);
    expect(&lines, "delete", "MPI_SUCCESS", &[]);
    // It can be got rid of.
    let lines = broken.attempt(&["create", FILE, "delete", FILE, "make", FILE]);
    expect(&lines, "create", result, &words);
    expect(&lines[..1], "delete", "MPI_SUCCESS", &[]);
    expect(&lines, "whole", "1", &[]);
}

fn corrupt_manifest(mpi: Mpi) {
    let broken = Broken::new(mpi);
    broken.change_manifest(|mut bytes| {
        let last = bytes.len() - 10;
        bytes[last] ^= 1;
        bytes
    });
    expect_damage(&broken, "MPI_ERR_IO", &["manifest", "damaged", "checksum"]);
}

fn truncated_manifest(mpi: Mpi) {
    let broken = Broken::new(mpi);
    broken.change_manifest(|bytes| bytes[..bytes.len() / 2].to_vec());
    expect_damage(&broken, "MPI_ERR_IO", &["manifest", "damaged"]);
}

fn newer_manifest(mpi: Mpi) {
    let broken = Broken::new(mpi);
    broken.change_manifest(|bytes| {
        let text = String::from_utf8(bytes).expect("a manifest is text");
        text.replacen("svmio-manifest 1 ", "svmio-manifest 7 ", 1).into_bytes()
    });
    expect_damage(&broken, "MPI_ERR_IO", &["format version 7"]);
}

fn missing_segment(mpi: Mpi) {
    let broken = Broken::new(mpi);
    fs::remove_file(broken.object().join("segment-0000000002")).expect("the file has three segments");
    expect_damage(&broken, "MPI_ERR_IO", &["segment 2", "missing", "131072"]);
}

fn cut_segment(mpi: Mpi) {
    let broken = Broken::new(mpi);
    let segment = fs::File::options().write(true).open(broken.object().join("segment-0000000001"));
    segment.and_then(|segment| segment.set_len(1000)).expect("the file has two segments");
    expect_damage(&broken, "MPI_ERR_IO", &["segment 1", "1000 bytes"]);
}

/// What processes share while a file is open is not needed to open it again.
fn damaged_state(mpi: Mpi) {
    let broken = Broken::new(mpi);
    let state = broken.object().join("state");
    let length = fs::metadata(&state).expect("the file has a state").len();
    let damages: [&dyn Fn(); 3] =
        [&|| broken.forget_state(), &|| fs::write(&state, b"").expect("the state can be written"), &|| {
            fs::write(&state, vec![0xA5; 1 << 16]).expect("the state can be written");
            let file = fs::File::options().write(true).open(&state).expect("the state is there");
            file.set_len(length).expect("the state can grow");
        }];
    for damage in damages {
        damage();
        let lines = broken.attempt(&["read", "svm:/dir/file", "update", "svm:/dir/file"]);
        expect(&lines, "read", "MPI_SUCCESS", &[]);
        expect(&lines, "update", "MPI_SUCCESS", &[]);
        assert!(lines.iter().flatten().filter(|line| line.what == "whole").all(|line| line.result == "1"));
    }
}

fn forbidden(mpi: Mpi) {
    const NOBODY: u32 = 65534;
    let broken = Broken::new(mpi);
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(broken.scratch.path(), everybody).expect("the mode can be changed");
    for action in ["read", "update", "create"] {
        let lines = broken.attempt_as(NOBODY, &[action, "svm:/dir/file"], |job| job);
        let store = broken.scratch.store().to_string_lossy().into_owned();
        expect(&lines, action, "MPI_ERR_ACCESS", &["permission denied", &store, "SVMIO_STORE"]);
    }
    expect(&broken.attempt(&["read", "svm:/dir/file"]), "whole", "1", &[]);
}

fn bad_names(mpi: Mpi) {
    let broken = Broken::new(mpi);
    let long_part = format!("svm:/dir/{}", "x".repeat(300));
    let long = format!("svm:/dir{}", "/abcdefghi".repeat(450));
    let cases = [
        (long_part.as_str(), "MPI_ERR_BAD_FILE", ["too long", "255 bytes"]),
        (long.as_str(), "MPI_ERR_BAD_FILE", ["too long", "/abcdefghi"]),
        ("svm:/dir/file/below", "MPI_ERR_BAD_FILE", ["/dir/file/below", "file"]),
        ("svm:/dir", "MPI_ERR_BAD_FILE", ["/dir", "directory"]),
        ("svm:/../up", "MPI_ERR_BAD_FILE", ["above", "root"]),
        ("svm:", "MPI_ERR_BAD_FILE", ["empty", "name"]),
    ];
    let actions = ["create", "update", "read"];
    let attempts = cases.map(|(name, ..)| actions.map(|action| [action, name]).concat()).concat();
    let lines = broken.attempt(&attempts);
    for (number, (_, result, words)) in cases.iter().enumerate() {
        // Of each attempt that fails there is one line.
        let of_name = lines.iter().map(|lines| lines.chunks(actions.len()).nth(number).unwrap_or_default());
        let of_name: Vec<&[Line]> = of_name.collect();
        for action in actions {
            expect(&of_name, action, result, words);
        }
    }
    let lines =
        broken.attempt(&["read", "svm:/dir/none", "delete", "svm:/none", "exclusive", "svm:/dir/file"]);
    expect(&lines, "read", "MPI_ERR_NO_SUCH_FILE", &["/dir/none", "svmio ls"]);
    expect(&lines[..1], "delete", "MPI_ERR_NO_SUCH_FILE", &["/none"]);
    expect(&lines, "exclusive", "MPI_ERR_FILE_EXISTS", &["/dir/file"]);
    expect(&broken.attempt(&["read", "svm:/dir/file"]), "whole", "1", &[]);
}

fn no_store(mpi: Mpi) {
    let broken = Broken::new(mpi);
    let file = broken.scratch.file("a-file");
    fs::write(&file, b"no store").expect("the scratch directory can be written to");
    let lines = broken.attempt_as(0, &["create", "svm:/x"], |job| job.variable("SVMIO_STORE", &file));
    expect(&lines, "create", "MPI_ERR_IO", &["a-file", "not a directory"]);
}

fn read_only_store(mpi: Mpi) {
    let broken = Broken::new(mpi);
    in_own_mounts(|| {
        read_only(broken.scratch.store());
        let lines = broken.attempt(&["read", "svm:/dir/file", "update", "svm:/dir/file"]);
        expect(&lines, "read", "MPI_SUCCESS", &[]);
        expect(&lines, "whole", "1", &[]);
        expect(&lines, "close", "MPI_SUCCESS", &[]);
        let words = ["can only be read", "SVMIO_STORE"];
        expect(&lines, "update", "MPI_ERR_READ_ONLY", &words);
        let lines = broken.attempt(&["create", "svm:/new", "delete", "svm:/dir/file"]);
        expect(&lines, "create", "MPI_ERR_READ_ONLY", &words);
        expect(&lines[..1], "delete", "MPI_ERR_READ_ONLY", &words);
        let lines = broken.attempt(&["temporary", "svm:/dir/file"]);
        expect(&lines, "whole", "1", &[]);
        // One rank removes the file.
        expect(&lines[..1], "close", "MPI_ERR_READ_ONLY", &["/dir/file", "removing it failed"]);
        expect(&lines[1..], "close", "MPI_SUCCESS", &[]);
    });
    expect(&broken.attempt(&["update", "svm:/dir/file"]), "whole", "1", &[]);
    let lines = broken.attempt(&["temporary", "svm:/dir/file", "read", "svm:/dir/file"]);
    expect(&lines, "close", "MPI_SUCCESS", &[]);
    expect(&lines, "read", "MPI_ERR_NO_SUCH_FILE", &[]);
}

/// The same where an MPI makes a code of its own of what comes from ROMIO.
#[test]
fn read_only_store_of_newer_mpis() {
    read_only_store(Mpi::WheelMpich);
    read_only_store(Mpi::WheelOpenMpi);
}

/// One rank may have no more files open: all are told how it could, and later it goes on.
fn no_descriptors(mpi: Mpi) {
    let broken = Broken::new(mpi);
    let file = "svm:/dir/file";
    // MPI opens files of its own before the first one, and one of them each time.
    let first = ["exclusive", "svm:/first", "delete", "svm:/first", "descriptors", "1"];
    let opens = ["update", file, "read", file];
    // What else there is to do may be behind the 256 characters that a text of Open MPI has.
    let words = ["too many open files", "ulimit -n"];
    let lines = broken.attempt(&[&first[..], &opens].concat());
    expect(&lines, "update", "MPI_ERR_IO", &words);
    expect(&lines, "read", "MPI_ERR_IO", &words);
    let attempts = [&first[..], &opens, &["descriptors", "-1"], &opens].concat();
    for (rank, lines) in broken.attempt(&attempts).iter().enumerate() {
        let results = [
            ("update", &["MPI_ERR_IO", "MPI_SUCCESS"][..]),
            ("read", &["MPI_ERR_IO", "MPI_SUCCESS"]),
            ("whole", &["0", "1", "1"]),
        ];
        for (what, expected) in results {
            let of_it = lines.iter().filter(|line| line.what == what);
            let found: Vec<&str> = of_it.map(|line| &*line.result).collect();
            assert_eq!(found, expected, "rank {rank}: {lines:?}");
        }
    }
}

/// An MPI that is not known: no file of svmio's, nothing touched, and other files as ever.
fn unknown_mpi(mpi: Mpi) {
    let broken = Broken { mpi, scratch: Scratch::new() };
    let shim = Program::library("unknown_mpi", mpi);
    let stock = broken.scratch.file("stock-file").to_string_lossy().into_owned();
    let lines = broken
        .attempt_as(0, &["create", "svm:/x", "make", &stock], |job| job.variable("LD_PRELOAD", &shim.path));
    expect(&lines, "create", "MPI_ERR_UNSUPPORTED_OPERATION", &["9.9.9", "not know"]);
    expect(&lines, "make", "MPI_SUCCESS", &[]);
    expect(&lines, "whole", "1", &[]);
    assert!(!broken.scratch.store().exists(), "a store was made");
}

macro_rules! with_both {
    ($($name:ident),*) => {
        mod mpich {
            $(#[test] fn $name() { super::$name(svmio_tests::Mpi::DebianMpich); })*
        }
        mod openmpi {
            $(#[test] fn $name() { super::$name(svmio_tests::Mpi::DebianOpenMpi); })*
        }
    };
}

with_both!(
    corrupt_manifest,
    truncated_manifest,
    newer_manifest,
    missing_segment,
    cut_segment,
    damaged_state,
    forbidden,
    bad_names,
    no_store,
    read_only_store,
    no_descriptors,
    unknown_mpi
);
