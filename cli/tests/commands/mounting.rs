//! Files of stores as a mounted directory: real mounts, and the programs that everybody has.

mod commands;
mod contents;
mod durability;
mod ending;
mod groups;
mod likeness;
mod sharing;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::setting::{Setting, text};

/// Whatever is waited for comes within this, or the test fails.
const LIMIT: Duration = Duration::from_secs(30);

/// A mounted directory, which is taken away at the end of the test, however that ends.
struct Mounted {
    point: PathBuf,
}

impl Mounted {
    /// Mounts files of the setting's store at `mounted` beside it.
    fn of(setting: &Setting) -> Mounted {
        Mounted::by(setting, "mounted", &mut setting.svmio(), &[])
    }

    /// The same by `command`, with these options, at `point`.
    fn by(setting: &Setting, point: &str, command: &mut Command, options: &[&str]) -> Mounted {
        need_fuse();
        let point = setting.outside(point);
        fs::create_dir_all(&point).unwrap();
        let mounted = Mounted { point };
        let output = command.arg("mount").args(options).arg(&mounted.point).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// The name of a file in the store.
    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The process that serves it.
    fn server(&self) -> Pid {
        self.servers().into_iter().next().expect("a process serves it")
    }

    /// The same, and those that served it before and have not ended yet.
    fn servers(&self) -> Vec<Pid> {
        let serves = |id: &i32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            words.contains(&&b"--in-background"[..]) && words.contains(&self.point.as_os_str().as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let ids = entries.filter_map(|name| name.to_str()?.parse().ok()).filter(serves);
        ids.filter_map(Pid::from_raw).collect()
    }

    /// Unmounts it, and waits until all is done that programs have asked for: what is closed last is heard of later.
    /// Within [`alone`]; otherwise another test may have the mount, too.
    fn end(&self) {
        let end = End::of(self.server());
        // A child that another test has just started has what was open here until it executes its program.
        self.detach();
        end.wait();
    }

    /// Takes it away, whoever has files open there.
    fn detach(&self) {
        if is_root() {
            let _ = unmount(&self.point, UnmountFlags::DETACH);
        } else {
            let _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(&self.point).status();
        }
    }

    fn unmount(&self) {
        let mut command = Command::new(if is_root() { "umount" } else { "fusermount3" });
        command.args(if is_root() { &[][..] } else { &["-u"] }).arg(&self.point);
        let began = Instant::now();
        loop {
            let output = command.output().unwrap();
            let told = text(&output.stderr);
            // What another test starts has copies of all descriptors for a moment.
            if !told.contains("busy") || began.elapsed() > LIMIT {
                assert!(output.status.success(), "{told}");
                return;
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.detach();
    }
}

/// The end of a process that is nobody's child here.
struct End {
    process: std::os::fd::OwnedFd,
}

impl End {
    fn of(process: Pid) -> End {
        End { process: pidfd_open(process, PidfdFlags::empty()).unwrap() }
    }

    fn wait(self) {
        let limit = LIMIT.try_into().unwrap();
        let ended = poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&limit)).unwrap();
        assert_eq!(ended, 1, "the process has not ended");
    }
}

/// Runs `test` in a mount namespace of its own, if root runs it: one that another test makes meanwhile (a host of its
/// own) would have the mount, too, and the process would serve it there.
fn alone(test: impl FnOnce() + Send) {
    if is_root() { svmio_tests::mounts::in_own_mounts(test) } else { test() }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Fails the test where nothing can be mounted.
fn need_fuse() {
    assert!(
        Path::new("/dev/fuse").exists(),
        "this test mounts a directory, which needs /dev/fuse: modprobe fuse, or start the container with it"
    );
    let has_helper = Command::new("fusermount3").arg("--version").output().is_ok();
    assert!(
        is_root() || has_helper,
        "this test mounts a directory: run it as root, or apt-get install fuse3"
    );
}

fn run(program: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The system's number of an error.
fn number<T: std::fmt::Debug>(outcome: std::io::Result<T>) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&outcome.unwrap_err()).unwrap()
}

fn is_mounted(point: &Path) -> bool {
    kind_at(point).is_some()
}

/// The kind of the file system that was mounted last at `point`, of those that are mounted there.
fn kind_at(point: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let mut at_point = mounts.lines().rev().filter(|line| line.split(' ').nth(1) == point.to_str());
    at_point.next()?.split(' ').nth(2).map(str::to_owned)
}
