//! Forked processes.

use std::cell::Cell;
use std::io;

/// A forked process, killed at the latest when its test ends.
pub(super) struct Child {
    pid: libc::pid_t,
    ended: Cell<bool>,
}

impl Child {
    pub(super) fn run(work: impl FnOnce()) -> Child {
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
    pub(super) fn terminate(self) -> End {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, libc::SIGTERM) }, 0);
        self.wait()
    }

    pub(super) fn is_asleep(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let (_, state) = status.rsplit_once(") ").unwrap();
        state.starts_with('S')
    }

    /// How it ended, if it has.
    pub(super) fn ended(&self, flags: libc::c_int) -> Option<End> {
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

    pub(super) fn wait(self) -> End {
        self.ended(0).unwrap()
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
pub(super) enum End {
    Finished,
    KilledItself,
    Terminated,
}
