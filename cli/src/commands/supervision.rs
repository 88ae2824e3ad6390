//! The processes of a job, from their start to the end of the last.
//!
//! ```text
//!   all run ── the first fails ──────────► they may leave ── time is up ──► told by SIGTERM ── time is up ──► killed
//!        └──── SIGINT, SIGTERM, SIGHUP, … to this process: handed on ─────────────┘
//! ```
//!
//! Those who are in the job's fabric learn by that what has happened, fail with an error that tells it, and are ended by
//! their watchdogs if they do not leave. So nobody is killed here but who knows of no job, or does not heed signals.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGXCPU,
};
use signal_hook::{SigId, flag, low_level};
use svmio_transport::job::{Launcher, Running};
use svmio_transport::settings::{Origin, Settings};
use svmio_transport::{Rank, has_default_action, register_ending};

use super::descriptors;
use super::error::CommandError;

/// What is handed on in any case. A terminal that stops this process by SIGTSTP means the whole job.
const ALWAYS_HANDED_ON: [i32; 3] = [SIGINT, SIGTERM, SIGTSTP];

/// What else ends a process by default and is handed on, unless whoever started this process has it do nothing: who
/// uses `nohup` has the job outlive the terminal.
const HANDED_ON_UNLESS_IGNORED: [i32; 6] = [SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2];

/// What means something to the programs alone: it ends them, or it does not.
const FOR_PROGRAMS: [i32; 2] = [SIGUSR1, SIGUSR2];

/// How long after the watchdog's grace processes have: theirs closes its fabric first, for up to a second.
const MARGIN: Duration = Duration::from_secs(2);

/// What comes again within so long is the same: `timeout`, for one, signals its child, and then the child's group. A
/// process ends at once by the second one that it gets.
pub(super) const SAME: Duration = Duration::from_millis(250);

/// Starts the processes, of which there are `ranks`, and waits until all have ended well. A signal to one of them ends
/// them all, unless the settings say something about that; one to this process goes to them, and to what they have
/// started, and then both have the same time to leave. What they leave in the background goes on where all has gone
/// well, and otherwise is killed.
///
/// # Errors
/// Which one ended otherwise first, and how; the signal that came to this process before; wrong settings.
pub(super) fn run(mut launcher: Launcher, ranks: u32) -> Result<(), CommandError> {
    let settings = Settings::load()?;
    let is_unset = settings
        .effective()
        .iter()
        .any(|row| (&*row.section, &*row.key, &row.origin) == ("watchdog", "signals", &Origin::Default));
    if is_unset {
        launcher = launcher.environment("SVMIO_WATCHDOG_SIGNALS", "true");
    }
    // Before there are processes: from now on a signal finds somebody who hands it on.
    let signals = Signals::watch().map_err(CommandError::Waiting)?;
    descriptors::allow_for(ranks);
    let started = launcher.process_groups().spawn().map_err(CommandError::from);
    let supervision = started.and_then(|running| Supervision::new(running, settings.watchdog.grace + MARGIN));
    supervision.map_err(|error| descriptors::telling_of_limit(error, ranks))?.until_all_ended(signals)
}

/// Processes, and how far their end is.
struct Supervision {
    running: Running,
    handles: Vec<OwnedFd>,
    /// Of what those have left in their groups who have ended, where that is waited for.
    left: Vec<OwnedFd>,
    ends: Vec<Option<ExitStatus>>,
    patience: Duration,
    /// Why this does not end well.
    error: Option<CommandError>,
    /// When the time is up.
    deadline: Option<Instant>,
    /// When those who are left were last told by a signal.
    told_at: Option<Instant>,
}

impl Supervision {
    fn new(running: Running, patience: Duration) -> Result<Self, CommandError> {
        let open = |id: u32| {
            let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
            pidfd_open(pid, PidfdFlags::empty())
        };
        let handles: Result<Vec<_>, _> = running.pids().into_iter().map(open).collect();
        let handles = handles.map_err(|error| CommandError::Waiting(error.into()))?;
        let ends = vec![None; handles.len()];
        Ok(Self {
            running,
            handles,
            left: Vec::new(),
            ends,
            patience,
            error: None,
            deadline: None,
            told_at: None,
        })
    }

    /// # Errors
    /// That of [`run`].
    fn until_all_ended(mut self, mut signals: Signals) -> Result<(), CommandError> {
        while self.is_to_wait() {
            self.wait(&signals).map_err(|error| CommandError::Waiting(error.into()))?;
            for signal in signals.take() {
                self.hand_on(signal)?;
            }
            self.look_after()?;
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                if self.told_at.is_some() {
                    break;
                }
                self.tell(SIGTERM)?;
            }
        }
        for rank in (0..self.ends.len()).filter(|rank| self.ends[*rank].is_none()) {
            // It is, as `running` goes.
            // Nobody may read it any more.
            let _ = writeln!(io::stderr(), "svmio: process {rank} has not ended in time and is killed");
        }
        if !self.left.is_empty() {
            // As above.
            let _ = writeln!(
                io::stderr(),
                "svmio: what the processes started has not ended in time and is killed"
            );
        }
        let all_well = self.ends.iter().all(|end| end.is_some_and(|status| status.success()));
        let Some(error) = self.error else {
            // As what a shell's command leaves.
            self.running.wait()?;
            return Ok(());
        };
        // What is left in their groups is killed, as `running` goes.
        if all_well { Ok(()) } else { Err(error) }
    }

    /// Whether somebody has not ended: of those who were told to, also whom they have started. A shell dies of a signal
    /// at once, and the program behind its script may need its time.
    fn is_to_wait(&mut self) -> bool {
        if self.ends.iter().any(Option::is_none) {
            return true;
        }
        if self.told_at.is_some() && self.left.is_empty() {
            // There are descriptors for so many: those of the processes are needed no more.
            self.handles.clear();
            // Where nobody sees who is left, nobody is waited for.
            self.left = self.running.left_in_groups(self.ends.len()).unwrap_or_default();
        }
        !self.left.is_empty()
    }

    /// Waits until something has happened, or the time is up.
    fn wait(&mut self, signals: &Signals) -> Result<(), rustix::io::Errno> {
        let running = self.handles.iter().zip(&self.ends).filter(|(_, end)| end.is_none());
        let handles = self.left.iter().chain(running.map(|(handle, _)| handle));
        let mut events: Vec<_> = handles.map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        events.extend(signals.pipes().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // What is too long for the kernel is for ever.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut events, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            polled => polled?,
        };
        let mut have_ended =
            events.iter().map(|event| !event.revents().is_empty()).collect::<Vec<_>>().into_iter();
        self.left.retain(|_| have_ended.next() != Some(true));
        Ok(())
    }

    fn hand_on(&mut self, signal: i32) -> Result<(), CommandError> {
        if signal == SIGTSTP {
            self.signal(SIGTSTP)?;
            // It comes back when this process is continued.
            low_level::emulate_default_handler(SIGTSTP).map_err(CommandError::Waiting)?;
            return self.signal(SIGCONT);
        }
        if FOR_PROGRAMS.contains(&signal) {
            return self.signal(signal);
        }
        self.error.get_or_insert(CommandError::Interrupted { signal });
        // The end of a terminal is told by the kernel and by the shell, and nobody is left who is impatient.
        let is_same = is_same(self.told_at, Instant::now()) || (signal == SIGHUP && self.told_at.is_some());
        if is_same { Ok(()) } else { self.tell(signal) }
    }

    /// Tells all that is left that it is to end. The time that it has does not begin again.
    fn tell(&mut self, signal: i32) -> Result<(), CommandError> {
        self.signal(signal)?;
        let now = Instant::now();
        if self.told_at.replace(now).is_none() {
            self.deadline = now.checked_add(self.patience);
        }
        Ok(())
    }

    fn signal(&mut self, signal: i32) -> Result<(), CommandError> {
        for rank in 0..self.ends.len() {
            let sent = self.running.signal(Rank(rank as u32), signal);
            // What those have left who have ended gets it, too, unless it is somebody else's.
            if self.ends[rank].is_none() {
                sent?;
            }
        }
        Ok(())
    }

    /// Sees who has ended.
    fn look_after(&mut self) -> Result<(), CommandError> {
        for rank in 0..self.ends.len() {
            if self.ends[rank].is_some() {
                continue;
            }
            self.ends[rank] = self.running.try_wait(Rank(rank as u32))?;
            if let Some(status) = self.ends[rank].filter(|status| !status.success()) {
                self.error.get_or_insert(CommandError::ProcessFailed { rank, status });
                if self.deadline.is_none() {
                    self.deadline = Instant::now().checked_add(self.patience);
                }
            }
        }
        Ok(())
    }
}

/// Whether a signal that comes `now` is the one of which processes were told.
fn is_same(told_at: Option<Instant>, now: Instant) -> bool {
    told_at.is_some_and(|at| now.saturating_duration_since(at) < SAME)
}

/// As long as it lives, signals do nothing to this process, but can be taken.
struct Signals {
    sources: Vec<(i32, UnixStream, SigId)>,
    default: Arc<AtomicBool>,
}

/// What is handed on, and whether it does what it does by default. Once a handler was installed, it is that which has
/// to do it.
static DEFAULT: OnceLock<(Vec<i32>, Arc<AtomicBool>)> = OnceLock::new();

impl Signals {
    fn watch() -> io::Result<Self> {
        let (handed_on, default) = if let Some(handed_on) = DEFAULT.get() {
            handed_on
        } else {
            let default = Arc::new(AtomicBool::new(true));
            let unless_ignored =
                HANDED_ON_UNLESS_IGNORED.into_iter().filter(|signal| has_default_action(*signal));
            let handed_on: Vec<i32> = ALWAYS_HANDED_ON.into_iter().chain(unless_ignored).collect();
            for &signal in &handed_on {
                let default = Arc::clone(&default);
                if signal == SIGTSTP {
                    flag::register_conditional_default(signal, default)?;
                } else {
                    register_ending(signal, default)?;
                }
            }
            DEFAULT.get_or_init(|| (handed_on, default))
        };
        let mut signals = Self { sources: Vec::new(), default: Arc::clone(default) };
        for &signal in handed_on {
            let (pipe, writer) = UnixStream::pair()?;
            pipe.set_nonblocking(true)?;
            signals.sources.push((signal, pipe, low_level::pipe::register(signal, writer)?));
        }
        // SeqCst, as the handler: nothing is won by less here.
        default.store(false, Ordering::SeqCst);
        Ok(signals)
    }

    /// What can be read when there is something to take.
    fn pipes(&self) -> impl Iterator<Item = &UnixStream> {
        self.sources.iter().map(|(_, pipe, _)| pipe)
    }

    /// Which ones have come since it was last called.
    fn take(&mut self) -> Vec<i32> {
        let mut came = Vec::new();
        for (signal, pipe, _) in &mut self.sources {
            // Every byte is the same signal.
            if pipe.read(&mut [0; 64]).is_ok_and(|length| length > 0) {
                came.push(*signal);
            }
        }
        came
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.default.store(true, Ordering::SeqCst);
        for (_, _, registration) in &self.sources {
            low_level::unregister(*registration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_at_once_is_the_same_and_later_it_is_not() {
        let now = Instant::now();
        assert!(!is_same(None, now));
        assert!(is_same(Some(now), now) && is_same(Some(now), now + SAME / 2));
        assert!(!is_same(Some(now), now + SAME));
    }
}
