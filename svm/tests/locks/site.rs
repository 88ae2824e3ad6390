//! What the processes of a test share, and how the first of them starts the others.

use std::env;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::MmapRaw;
use rustix::io::Errno;
use rustix::thread::futex;
use svmio_svm::locks::{LockTable, LockToken, Mode, Owner, Standing, ThreadId};
use svmio_svm::presence::{Gate, Presence};

pub(super) const ROLE: &str = "SVMIO_TEST_LOCKS_ROLE";
pub(super) const FILE: &str = "SVMIO_TEST_LOCKS_FILE";
pub(super) const NUMBER: &str = "SVMIO_TEST_LOCKS_NUMBER";

pub(super) const SLOTS: u16 = 16;
/// After that a test gives up: what has not come until then never comes. What a death takes is a period, but where much
/// else runs a process is late to everything.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The shared state of a file as the library lays it out, a lock table, and some words behind it.
pub(super) struct Site {
    pub(super) path: PathBuf,
    pub(super) presence: Presence,
    map: MmapRaw,
}

/// The words that the processes of a test share.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Arrived,
    Go,
    Stop,
    LogLength,
    Micros,
    /// One for each number of a child.
    Done(u32),
    Log(u32),
}

pub(super) const WORDS: usize = 256;
/// 64-bit words behind those.
pub(super) const CELLS: usize = 16;

impl Site {
    pub(super) fn attach(path: &Path) -> Site {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let gate = Gate::lock(&file).unwrap();
        let first = !gate.anybody_present().unwrap();
        if first {
            let len = LockTable::BYTES + WORDS * 4 + CELLS * 8;
            file.set_len(0).unwrap();
            file.set_len(len as u64).unwrap();
        }
        let map = MmapRaw::map_raw(&file).unwrap();
        if first {
            // SAFETY: freshly mapped, and the gate keeps all others away.
            unsafe { LockTable::init_at(map.as_mut_ptr(), map.len()).unwrap() };
        }
        let presence = Presence::enter(file.try_clone().unwrap(), SLOTS).unwrap();
        let path = path.to_owned();
        let site = Site { path, presence, map };
        site.table().reap(site.presence.slot()).unwrap();
        drop(gate);
        site
    }

    pub(super) fn table(&self) -> &LockTable {
        // SAFETY: initialised when the first process attached, and mapped as long as `self` lives.
        unsafe { LockTable::from_ptr(self.map.as_mut_ptr(), self.map.len()).unwrap() }
    }

    pub(super) fn word(&self, word: Word) -> &AtomicU32 {
        let index = match word {
            Word::Arrived => 0,
            Word::Go => 1,
            Word::Stop => 2,
            Word::LogLength => 3,
            Word::Micros => 4,
            Word::Done(number) => 16 + number as usize,
            Word::Log(at) => 64 + at as usize,
        };
        assert!(index < WORDS);
        // SAFETY: inside the mapping, aligned, and used as an atomic only.
        unsafe {
            let words = self.map.as_mut_ptr().add(LockTable::BYTES).cast::<u32>();
            AtomicU32::from_ptr(words.add(index))
        }
    }

    /// A cell that is read and written in steps that a lock has to hold together.
    pub(super) fn cell(&self, index: usize) -> &AtomicU64 {
        assert!(index < CELLS);
        let offset = LockTable::BYTES + WORDS * 4;
        // SAFETY: as for the words.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast::<u64>().add(index)) }
    }

    pub(super) fn add(&self, word: Word, amount: u32) {
        let word = self.word(word);
        word.fetch_add(amount, Ordering::Release);
        futex::wake(word, futex::Flags::empty(), i32::MAX as u32).unwrap();
    }

    /// Sleeps until the word is at least so big.
    #[track_caller]
    pub(super) fn await_word(&self, word: Word, at_least: u32) {
        let start = Instant::now();
        let word = self.word(word);
        loop {
            let value = word.load(Ordering::Acquire);
            if value >= at_least {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{value} of {at_least}");
            let second = futex::Timespec { tv_sec: 1, tv_nsec: 0 };
            match futex::wait(word, futex::Flags::empty(), value, Some(&second)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(error) => panic!("futex: {error}"),
            }
        }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner { slot: self.presence.slot(), thread: ThreadId::current() }
    }

    pub(super) fn acquire(&self, range: std::ops::Range<u64>, mode: Mode) -> LockToken {
        let alive = |slot| self.presence.alive(slot);
        self.table().acquire(self.owner(), range, mode, &alive).unwrap()
    }

    pub(super) fn release(&self, token: LockToken) {
        self.table().release(token).unwrap();
    }

    /// Enters a number in the log. The caller holds a lock.
    pub(super) fn log(&self, number: u32) {
        let at = self.word(Word::LogLength).load(Ordering::Relaxed);
        self.word(Word::Log(at)).store(number, Ordering::Relaxed);
        self.add(Word::LogLength, 1);
    }

    pub(super) fn logged(&self) -> Vec<u32> {
        let length = self.word(Word::LogLength).load(Ordering::Acquire);
        (0..length).map(|at| self.word(Word::Log(at)).load(Ordering::Relaxed)).collect()
    }
}

/// The parent's side of a test: the file, and the way to start children.
pub(super) struct Job {
    pub(super) site: Site,
    _file: tempfile::NamedTempFile,
}

impl Job {
    pub(super) fn new() -> Job {
        let file = tempfile::NamedTempFile::new().unwrap();
        Job { site: Site::attach(file.path()), _file: file }
    }

    pub(super) fn start(&self, role: &str, number: u32) -> Process {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--test-threads=1", "--nocapture"])
            .env(ROLE, role)
            .env(FILE, &self.site.path)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Process(child)
    }

    pub(super) fn start_all(&self, role: &str, count: u32) -> Vec<Process> {
        (0..count).map(|number| self.start(role, number)).collect()
    }

    /// Waits until so many requests wait for a lock.
    #[track_caller]
    pub(super) fn await_waiting(&self, count: usize) {
        let start = Instant::now();
        loop {
            let claims = self.site.table().claims().unwrap();
            let waiting = claims.iter().filter(|claim| claim.standing == Standing::Waiting).count();
            if waiting == count {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{claims:?}");
            thread::yield_now();
        }
    }

    pub(super) fn assert_nothing_claimed(&self) {
        assert_eq!(self.site.table().claims().unwrap(), []);
    }
}

/// A child, killed at the latest when its test ends.
pub(super) struct Process(Child);

impl Process {
    #[track_caller]
    pub(super) fn finish(mut self) {
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        // A process that ran no test would have nothing to fail with.
        assert!(status.success() && said.contains("1 passed"), "{status}: {said}");
    }

    /// Kills it, unless it has ended by itself.
    pub(super) fn kill(&mut self) -> ExitStatus {
        self.0.kill().unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
