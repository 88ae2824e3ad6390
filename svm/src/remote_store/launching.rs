//! Starting `svmio serve-store` on other hosts, by ssh or what takes its place, and asking it through its standard
//! input and output.
//!
//! No process is forked for that: what starts one goes through `posix_spawn`, of which no handler for forks hears.

mod patience;
mod quiet_end;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::error::{Error, ErrorKind};

use self::patience::{Patience, Patient};
use self::quiet_end::QuietEnd;
use self::words::Words;

use super::{Connection, RemoteStore};

/// Names the program that starts commands on other hosts, with options if need be, quoted as for a shell.
const COMMAND_VARIABLE: &str = "SVMIO_RSH";
/// It asks for nothing, and a host that does not answer is given up after some ten seconds.
const DEFAULT_COMMAND: &str =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

/// Why a host's store cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// What was given cannot be a host.
    #[error("'{host}' cannot be the name of a host")]
    BadHost {
        /// As it was given.
        host: String,
    },
    /// What starts commands on other hosts cannot be started itself.
    #[error(
        "starting {program} for host {host}: {source} (install it, or name another one with --launcher or SVMIO_RSH)"
    )]
    NotStarted {
        /// The program.
        program: String,
        /// The host for which it was to be started.
        host: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// What starts commands on other hosts is no command.
    #[error(
        "{place}={command}: a quotation mark has no counterpart, or nothing follows a backslash (quote as for a shell)"
    )]
    BadCommand {
        /// The variable or the option.
        place: &'static str,
        /// What it says.
        command: String,
    },
    /// A variable has to tell a time and does not.
    #[error("{variable}={value}: {problem} (a time is told like 90s, 10m or 1h)")]
    NoTime {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What is wrong with that.
        problem: String,
    },
    /// What the host, or the store there, says.
    #[error(transparent)]
    Store(#[from] Error),
}

impl LaunchError {
    /// The same as an error of stores.
    pub(crate) fn into_error(self) -> Error {
        match self {
            LaunchError::Store(error) => error,
            LaunchError::NotStarted { ref host, .. } => {
                Error::OnHost { host: host.clone(), kind: ErrorKind::Other, message: self.to_string() }
            }
            LaunchError::BadHost { .. } | LaunchError::BadCommand { .. } | LaunchError::NoTime { .. } => {
                Error::Settings { problem: self.to_string() }
            }
        }
    }
}

/// How stores of other hosts are reached.
#[derive(Debug)]
pub struct StoreLauncher {
    /// What starts a command on a host, with its options: its words.
    command: Vec<String>,
    /// What the shell of a host is given.
    serving: Vec<u8>,
    patience: Patience,
    pass_on: fn(host: &str, line: &str),
    hands_preloads_on: bool,
    leads_own_groups: bool,
}

impl StoreLauncher {
    /// Stores that `program` serves, which is svmio's tool as it is called on the hosts: in `directory` there, or where
    /// svmio has them by itself. `command` starts commands on hosts, with options if need be, quoted as for a shell; by
    /// default what `SVMIO_RSH` says, or `ssh`. What is said beside the answers goes line by line to `pass_on`, with
    /// the host's name.
    ///
    /// # Errors
    /// [`LaunchError::BadCommand`]; [`LaunchError::NoTime`], of `SVMIO_HOSTS_TIMEOUT`.
    pub fn new(
        program: &OsStr,
        command: Option<&str>,
        directory: Option<&Path>,
        pass_on: fn(host: &str, line: &str),
    ) -> Result<StoreLauncher, LaunchError> {
        let inherited = std::env::var(COMMAND_VARIABLE).ok().filter(|value| !value.trim().is_empty());
        let command = match (command, &inherited) {
            (Some(option), _) => words_of("--launcher", option)?,
            (None, Some(variable)) => words_of(COMMAND_VARIABLE, variable)?,
            (None, None) => DEFAULT_COMMAND.split(' ').map(str::to_owned).collect(),
        };
        let patience = Patience::from_environment()?;
        let serving = serving_command(program, directory);
        let launcher = StoreLauncher {
            command,
            serving,
            patience,
            pass_on,
            hands_preloads_on: true,
            leads_own_groups: false,
        };
        Ok(launcher)
    }

    /// The same for a process that goes on when the command that a script or a person waits for has ended: what is
    /// started leads process groups of its own, so that a signal to theirs does not end it. Only what may ask for a
    /// password at the terminal stays where it may read from there.
    #[must_use]
    pub fn in_own_groups(self) -> StoreLauncher {
        let may_ask = !asks_nobody(&self.command) && is_at_terminal();
        StoreLauncher { leads_own_groups: !may_ask, ..self }
    }

    /// The same for a process whose preloaded libraries are for itself alone.
    #[must_use]
    pub(crate) fn without_preloads(self) -> StoreLauncher {
        StoreLauncher { hands_preloads_on: false, ..self }
    }

    /// The stores of `hosts`; a host that is given twice counts once.
    ///
    /// # Errors
    /// [`LaunchError::BadHost`], [`LaunchError::NotStarted`]; what hosts and stores say, with the host's name.
    pub fn connect(&self, hosts: &[String]) -> Result<Vec<RemoteStore>, LaunchError> {
        let mut distinct: Vec<&String> = Vec::new();
        for host in hosts {
            if !can_be_host(host) {
                return Err(LaunchError::BadHost { host: host.clone() });
            }
            if !distinct.contains(&host) {
                distinct.push(host);
            }
        }
        // All at once: each takes its time to be reached.
        let started: Vec<_> = distinct.iter().map(|host| self.start(host)).collect();
        let connect = |(host, started): (&&String, Result<Connection, LaunchError>)| {
            Ok(RemoteStore::connect(host, started?)?)
        };
        distinct.iter().zip(started).map(connect).collect()
    }

    fn start(&self, host: &str) -> Result<Connection, LaunchError> {
        let (program, options) =
            self.command.split_first().map_or(("ssh", &[][..]), |(program, options)| (program, options));
        let mut starting = Command::new(program);
        starting.args(options).arg(host).arg(OsStr::from_bytes(&self.serving));
        if !self.hands_preloads_on {
            starting.env_remove("LD_PRELOAD");
        }
        if self.leads_own_groups {
            starting.process_group(0);
        }
        let failed = |source| LaunchError::NotStarted { program: program.into(), host: host.into(), source };
        let (questions, theirs) = UnixStream::pair().map_err(failed)?;
        let questions = Patient::new(QuietEnd::new(questions), self.patience).map_err(failed)?;
        starting.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = starting.spawn().map_err(failed)?;
        // Otherwise this process would hold the other end open, too.
        drop(starting);
        // From here on its end is waited for, whatever else fails.
        let mut to_host = ToHost { questions: Some(questions), child, words: None };
        let (Some(answers), Some(said)) = (to_host.child.stdout.take(), to_host.child.stderr.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let words = Words::of(host, said, self.pass_on).map_err(failed)?;
        to_host.words = Some(Arc::clone(&words));
        let answers = Patient::new(answers, self.patience).map_err(failed)?;
        let last_words = Box::new(move || words.last(PATIENCE));
        Ok(Connection { answers: Box::new(answers), questions: Box::new(to_host), last_words })
    }
}

/// The words of a command, as a shell splits them.
fn words_of(place: &'static str, command: &str) -> Result<Vec<String>, LaunchError> {
    shlex::split(command).ok_or_else(|| LaunchError::BadCommand { place, command: command.to_owned() })
}

/// Whether it is ssh, or wraps it, and is told to ask for nothing.
fn asks_nobody(command: &[String]) -> bool {
    command.iter().any(|word| word.to_ascii_lowercase().contains("batchmode=yes"))
}

/// Whether this process is of the group that may read from the terminal.
fn is_at_terminal() -> bool {
    let group = File::open("/dev/tty").and_then(|terminal| Ok(tcgetpgrp(&terminal)?));
    group.is_ok_and(|group| group == getpgrp())
}

/// Whether it is not an option of the launcher's.
pub(crate) fn can_be_host(host: &str) -> bool {
    !host.is_empty() && !host.starts_with('-')
}

/// What the shell of another host is given.
fn serving_command(program: &OsStr, directory: Option<&Path>) -> Vec<u8> {
    let mut command = [b"exec ".to_vec(), quoted(program), b" serve-store".to_vec()].concat();
    if let Some(directory) = directory {
        // Wherever the shell there begins.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.into());
        command.extend(b" --store ");
        command.extend(quoted(directory.as_os_str()));
    }
    command
}

/// The directory of stores that the environment names.
pub(crate) fn inherited_directory() -> Option<PathBuf> {
    inherited("SVMIO_STORE").map(PathBuf::from)
}

/// A variable that says something.
pub(crate) fn inherited(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// A word as a shell reads it back.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = b"'".to_vec();
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Longer than any process takes to end, once it hears that it is to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to a host; with it, what was started there ends.
struct ToHost {
    questions: Option<Patient<QuietEnd>>,
    child: Child,
    /// What it says beside, once that is listened to.
    words: Option<Arc<Words>>,
}

impl Write for ToHost {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.questions.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |pipe| pipe.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.questions.as_mut().map_or(Ok(()), Patient::flush)
    }
}

impl Drop for ToHost {
    fn drop(&mut self) {
        // Its end is what the process there waits for.
        drop(self.questions.take());
        // How it ended has been told, if it matters.
        let given_up = Instant::now() + PATIENCE;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > given_up {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // What it said to the end is passed on before this process ends.
        let rest = given_up.saturating_duration_since(Instant::now());
        let _ = self.words.as_ref().map(|words| words.last(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_nobody_is_known() {
        for command in [DEFAULT_COMMAND, "ssh -p 22 -oBatchMode=yes", "ssh -o batchmode=yes"] {
            assert!(asks_nobody(&words_of("", command).unwrap()), "{command}");
        }
        for command in ["ssh", "ssh -o BatchMode=no", "srun -w"] {
            assert!(!asks_nobody(&words_of("", command).unwrap()), "{command}");
        }
    }

    #[test]
    fn words_reach_a_shell_as_they_are() {
        for word in ["/opt/svmio", "with space", "it's", "$HOME;ls", "a\\b\"c"] {
            let script = [b"printf %s ".to_vec(), quoted(OsStr::new(word))].concat();
            let output = Command::new("sh").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }
}
