//! A job that runs, its processes, and its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::MARK;
use crate::processes;
use crate::standing;

/// A job that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    pub(super) child: Option<Child>,
    pub(super) mark: String,
    pub(super) log: PathBuf,
    pub(super) limit: Duration,
    pub(super) started: Instant,
    pub(super) title: String,
}

impl Running {
    /// The process id of what was started: `svmio run`, which becomes `mpiexec`.
    pub fn launcher(&self) -> i32 {
        let id = self.child.as_ref().map_or(0, Child::id);
        i32::try_from(id).expect("the kernel's ids are positive and fit")
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// Where it does not end in time; nothing of it is left then.
    pub fn wait(self) -> Finished {
        let limit = self.limit;
        self.wait_or_end().unwrap_or_else(|finished| {
            panic!("has not ended within {limit:?}: {}", finished.account());
        })
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// It does not end in time, and was ended; nothing of it is left then.
    pub fn wait_or_end(mut self) -> Result<Finished, Finished> {
        let mut child = self.child.take().expect("only `wait` and `drop` take the child, once");
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .expect("the child is not waited for yet");
        let in_time = processes::ended_within(&handle, self.limit.saturating_sub(self.started.elapsed()));
        let mut standing = None;
        if !in_time {
            standing = Some(standing::of_processes(&self.mark().processes()));
            // The launcher last: it would take ranks that die before it for its own failure.
            processes::kill_marked(MARK, &self.mark);
        }
        let status = child.wait().expect("the child can be waited for");
        if !status.success() {
            // Ranks may go on for seconds when their launcher is gone.
            processes::kill_marked(MARK, &self.mark);
        }
        let output = read(&self.log);
        let elapsed = self.started.elapsed();
        let title = std::mem::take(&mut self.title);
        let finished = Finished { status, output, elapsed, title, standing };
        if in_time { Ok(finished) } else { Err(finished) }
    }

    /// What tells its processes, on whatever node, from all others.
    pub fn mark(&self) -> Mark {
        Mark(self.mark.clone())
    }

    /// Changes the time after which it is ended, counted from its start.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// What it has written so far.
    pub fn output(&self) -> String {
        read(&self.log)
    }

    /// Waits until `condition` holds for what it has written so far.
    ///
    /// # Panics
    /// As [`until`](Self::until).
    pub fn until_told(&mut self, what: &str, condition: impl Fn(&str) -> bool) {
        let log = self.log.clone();
        self.until(what, || condition(&read(&log)).then_some(()));
    }

    /// Waits until `condition` gives something.
    ///
    /// # Panics
    /// Where the job's time passes, or the job ends, before it does. In the first case the panic tells where its
    /// processes stood, and they stand still.
    pub fn until<T>(&mut self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            let ended = match &mut self.child {
                Some(child) => child.try_wait().expect("the child can be asked"),
                None => None,
            };
            if let Some(value) = condition() {
                return value;
            }
            assert!(ended.is_none(), "{} ended before {what}\n{}", self.title, self.output());
            if self.started.elapsed() >= self.limit {
                let standing = standing::of_processes(&self.mark().processes());
                let told = format!("{}\nits processes stood at\n{standing}", self.output());
                panic!("{}: no {what} within {:?}\n{told}", self.title, self.limit);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            processes::kill_marked(MARK, &self.mark);
            let _ = child.wait();
        }
    }
}

/// The mark of a job's processes.
#[derive(Debug, Clone)]
pub struct Mark(String);

impl Mark {
    /// Those that run: the launcher, what it started on other nodes, the ranks.
    pub fn processes(&self) -> Vec<i32> {
        processes::marked(MARK, &self.0)
    }
}

/// A job that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How its launcher ended.
    pub status: ExitStatus,
    /// Standard output and error of all ranks.
    pub output: String,
    /// How long it took.
    pub elapsed: Duration,
    title: String,
    /// Where its processes stood when its time had passed.
    standing: Option<String>,
}

impl Finished {
    /// What it was, how it ended, what it wrote and, where it did not end in time, where its processes stood.
    pub fn account(&self) -> String {
        let Finished { status, output, elapsed, title, standing } = self;
        let told = format!("{title}: {status} after {elapsed:?}; it wrote\n{output}");
        match standing {
            Some(standing) => format!("{told}\nits processes stood at\n{standing}"),
            None => told,
        }
    }
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}
