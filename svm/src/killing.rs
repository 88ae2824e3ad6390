//! For tests: forked processes, and how they kill themselves at the n-th point where they may be killed.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A forked process, killed at the latest when its test ends.
pub(crate) struct Child {
    pid: libc::pid_t,
    ended: Cell<bool>,
}

impl Child {
    pub(crate) fn run(work: impl FnOnce()) -> Child {
        // SAFETY: the child calls nothing that a lock of another thread could hold up for good: the
        // C library keeps its allocator usable over a fork. It ends without unwinding.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", io::Error::last_os_error()),
            0 => {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without running what its parent has set up for its end.
                unsafe { libc::_exit(i32::from(outcome.is_err())) }
            }
            pid => Child { pid, ended: Cell::new(false) },
        }
    }

    /// Ends it by another signal than it uses itself at a kill point.
    pub(crate) fn terminate(self) -> End {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, libc::SIGTERM) }, 0);
        self.wait()
    }

    pub(crate) fn is_asleep(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("it is there");
        let (_, state) = status.rsplit_once(") ").expect("a name in parentheses");
        state.starts_with('S')
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self, flags: libc::c_int) -> Option<End> {
        let mut status = 0;
        // SAFETY: a child of this process, and room for its status.
        match unsafe { libc::waitpid(self.pid, &mut status, flags) } {
            0 => None,
            pid => {
                assert_eq!(pid, self.pid, "waitpid: {}", io::Error::last_os_error());
                self.ended.set(true);
                if libc::WIFEXITED(status) {
                    assert_eq!(libc::WEXITSTATUS(status), 0, "the child panicked");
                    Some(End::Finished)
                } else if libc::WTERMSIG(status) == libc::SIGKILL {
                    Some(End::KilledItself)
                } else {
                    assert_eq!(libc::WTERMSIG(status), libc::SIGTERM);
                    Some(End::Terminated)
                }
            }
        }
    }

    pub(crate) fn wait(self) -> End {
        self.ended(0).expect("without flags, it is waited for")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended.get() {
            // SAFETY: a child that has not been waited for.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.ended(0);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    /// At a kill point.
    KilledItself,
    Terminated,
}

static POINTS_LEFT: AtomicU32 = AtomicU32::new(0);

/// Has this process kill itself at the `point`-th point from here on. For forked children only: the other tests run in
/// threads of the same process.
pub(crate) fn arm(point: u32) {
    POINTS_LEFT.store(point, Relaxed);
}

/// A point where the process may be killed.
pub(crate) fn point() {
    if POINTS_LEFT.load(Relaxed) != 0 && POINTS_LEFT.fetch_sub(1, Relaxed) == 1 {
        // SAFETY: kills this process, at once.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

const TASK: &str = "SVMIO_TEST_TASK";
const POINT: &str = "SVMIO_TEST_KILL_POINT";

/// Runs the test `test` alone in a process of its own, with `task` to do, which is killed at the `point`-th point after
/// [`arm`]: for what takes locks that another thread might hold at a fork.
pub(crate) fn run_anew(test: &str, task: &str, point: u32) -> End {
    let mut command = std::process::Command::new(std::env::current_exe().expect("it is running"));
    command.args(["--exact", test]).env(TASK, task).env(POINT, point.to_string());
    let output = command.output().expect("it can be started");
    match std::os::unix::process::ExitStatusExt::signal(&output.status) {
        Some(libc::SIGKILL) => End::KilledItself,
        _ => {
            let said = String::from_utf8_lossy(&output.stdout);
            // A process that ran no test would have nothing to fail with.
            assert!(output.status.success() && said.contains("1 passed"), "{test}: {said}");
            End::Finished
        }
    }
}

/// What [`run_anew`] gave this process to do, and the point at which it is to be killed.
pub(crate) fn task() -> Option<(String, u32)> {
    Some((std::env::var(TASK).ok()?, std::env::var(POINT).ok()?.parse().ok()?))
}
