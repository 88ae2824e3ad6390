//! One process of a job, alone or with the group that it leads.
//!
//! A group's id is safe only as long as its leader, ended or not, has not been waited for: afterwards the number may be
//! somebody else's. So one that leads a group is [looked at](Process::try_wait) but not [waited for](Process::reap) when
//! it ends: what it has left in its group still gets signals.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};

/// A process that was started.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Whether it leads a group and has not been waited for.
    leads_group: bool,
}

impl Process {
    /// Starts `command`, whose process leads a group if it `leads_group`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn start(command: &mut Command, leads_group: bool) -> io::Result<Process> {
        Ok(Process { child: command.spawn()?, leads_group })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it leads a group and has not been waited for.
    pub(super) fn leads_group(&self) -> bool {
        self.leads_group
    }

    /// Sends it, and its group, a signal. One that was waited for gets none.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        let process = self.pid()?;
        if self.leads_group {
            return match kill_process_group(process, signal) {
                // It has gone to another group.
                Err(Errno::SRCH) => Ok(kill_process(process, signal)?),
                sent => Ok(sent?),
            };
        }
        match self.child.try_wait()? {
            // Not waited for, so the id is still this child's.
            None => Ok(kill_process(process, signal)?),
            Some(_) => Ok(()),
        }
    }

    /// Kills it, and its group. Who was waited for is left alone.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        if self.leads_group { self.signal(Signal::KILL) } else { self.child.kill() }
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.leads_group { self.look(WaitIdOptions::NOHANG) } else { self.child.try_wait() }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        if !self.leads_group {
            return self.child.wait();
        }
        self.look(WaitIdOptions::empty())?.ok_or_else(|| Errno::CHILD.into())
    }

    /// Waits for its end, and lets go of its group.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.leads_group = false;
        Ok(status)
    }

    /// Reads its piped output until it has ended.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn output(self) -> io::Result<Output> {
        self.child.wait_with_output()
    }

    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    fn pid(&self) -> io::Result<Pid> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        id.ok_or_else(|| Errno::INVAL.into())
    }

    /// How it ended; it stays to be waited for.
    fn look(&self, options: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
        let process = WaitId::Pid(self.pid()?);
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        Ok(retry_on_intr(|| waitid(process.clone(), options))?.map(|end| status(&end)))
    }
}

/// The same as `wait` tells it.
fn status(end: &WaitIdStatus) -> ExitStatus {
    let dumped = if end.dumped() { 0x80 } else { 0 };
    let exited = end.exit_status().map(|code| (code & 0xff) << 8);
    ExitStatus::from_raw(
        exited.or(end.terminating_signal().map(|signal| signal | dumped)).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    fn leader(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]).process_group(0), true).unwrap()
    }

    #[test]
    fn an_end_that_is_looked_at_is_the_one_that_is_waited_for() {
        for script in ["exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "ulimit -c 0; kill -ABRT $$"] {
            let mut process = leader(script);
            let looked_at = process.wait().unwrap();
            assert_eq!(process.try_wait().unwrap(), Some(looked_at), "{script}");
            assert_eq!(process.reap().unwrap(), looked_at, "{script}");
            assert_eq!(process.try_wait().unwrap(), Some(looked_at), "{script}");
            // There is nobody any more who would get it.
            process.signal(Signal::TERM).unwrap();
            process.kill().unwrap();
        }
    }

    #[test]
    fn who_runs_has_no_end() {
        let mut process = leader("exec sleep 600");
        assert_eq!(process.try_wait().unwrap(), None);
        process.kill().unwrap();
        assert_eq!(process.reap().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
