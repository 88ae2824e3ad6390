//! Forked processes, to be killed.

use std::io;

/// A forked process; killed when its test ends without having waited for it.
pub(super) struct Child(Option<libc::pid_t>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Finished,
    /// At a kill point of its own.
    KilledItself,
    Terminated,
}

impl Child {
    pub(super) fn run(work: impl FnOnce()) -> Child {
        // SAFETY: the child calls nothing that a lock of another thread could hold up for good: the C library keeps
        // its allocator usable over a fork. It ends without unwinding.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", io::Error::last_os_error()),
            0 => {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without running what its parent has set up for its own end.
                unsafe { libc::_exit(i32::from(outcome.is_err())) }
            }
            pid => Child(Some(pid)),
        }
    }

    pub(super) fn wait(mut self) -> End {
        wait_for(self.0.take().expect("waited for only here, by value"))
    }

    /// Kills it, wherever it is, by another signal than it uses itself.
    pub(super) fn terminate(self) -> End {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    fn signal(&self, signal: libc::c_int) {
        if let Some(pid) = self.0 {
            // SAFETY: a child that has not been waited for.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        if let Some(pid) = self.0.take() {
            wait_for(pid);
        }
    }
}

fn wait_for(pid: libc::pid_t) -> End {
    let mut status = 0;
    // SAFETY: a child of this process, and room for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid, "{}", io::Error::last_os_error());
    if libc::WIFEXITED(status) {
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child panicked");
        End::Finished
    } else if libc::WTERMSIG(status) == libc::SIGKILL {
        End::KilledItself
    } else {
        assert_eq!(libc::WTERMSIG(status), libc::SIGTERM);
        End::Terminated
    }
}
