//! Stores of other hosts: `svmio serve-store` is started on each, by ssh or what takes its place, and asked through its
//! standard input and output.

mod patience;
mod words;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use svmio_svm::{Connection, Error, RemoteStore, Store, StoreSet};

use self::patience::{Patience, Patient};
use self::words::Words;
use super::Outcome;
use super::error::CommandError;
use super::interruption::Interruption;
use super::output;

/// Names the program that starts commands on other hosts, with options if need be.
const LAUNCHER_VARIABLE: &str = "SVMIO_RSH";
/// It asks for nothing, and a host that does not answer is given up after some ten seconds.
const DEFAULT_LAUNCHER: &str =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

/// The arguments of `svmio serve-store`.
#[derive(Debug, Args)]
pub(crate) struct ServeStoreArguments {
    /// The store [default: SVMIO_STORE, else /dev/shm/svmio-UID]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
}

/// Answers what `svmio` on another host asks, until it ends.
pub(crate) fn serve_store(arguments: &ServeStoreArguments) -> Result<Outcome, CommandError> {
    let store = match &arguments.store {
        // A mistyped directory should not come into being.
        Some(path) if matches!(path.try_exists(), Ok(false)) => {
            let reason = "it does not exist (svmio run makes one on each of its hosts)".into();
            Err(Error::NotAStore { path: path.clone(), reason })
        }
        Some(path) => Store::open(path),
        None => Store::from_environment(),
    };
    let interruption = Interruption::watch()?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(CommandError::Output)?;
    let mut questions = Questions { input: File::from(input), interruption };
    svmio_svm::serve(store, &mut questions, &mut output::raw()?).map_err(CommandError::Output)?;
    questions.interruption.check()?;
    Ok(Outcome::Fine)
}

/// Standard input, which a signal ends, too: so that what was being made here is removed.
struct Questions {
    input: File,
    interruption: Interruption,
}

impl Read for Questions {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.interruption.wait_readable(self.input.as_fd())?;
        if self.interruption.check().is_err() { Ok(0) } else { self.input.read(bytes) }
    }
}

/// The stores of `hosts`, in `directory` on each, or where svmio has them by itself.
///
/// # Errors
/// What keeps `launcher` from being started; what hosts and stores say, with the host's name.
pub(crate) fn open(
    hosts: &[String],
    launcher: Option<&str>,
    directory: Option<&Path>,
) -> Result<StoreSet, CommandError> {
    let inherited = std::env::var(LAUNCHER_VARIABLE).ok().filter(|value| !value.trim().is_empty());
    let launcher = launcher.map(str::to_owned).or(inherited).unwrap_or_else(|| DEFAULT_LAUNCHER.to_owned());
    let (command, patience) = (serving_command(directory)?, Patience::from_environment()?);
    let mut distinct: Vec<&String> = Vec::new();
    for host in hosts {
        // It would be an option of the launcher's.
        if host.is_empty() || host.starts_with('-') {
            return Err(CommandError::BadHost { host: host.clone() });
        }
        if !distinct.contains(&host) {
            distinct.push(host);
        }
    }
    // All at once: each takes its time to be reached.
    let started: Vec<_> = distinct.iter().map(|host| start(&launcher, host, &command, patience)).collect();
    let connect = |(host, started): (&&String, Result<Connection, CommandError>)| {
        Ok(RemoteStore::connect(host, started?)?)
    };
    let stores = distinct.iter().zip(started).map(connect).collect::<Result<Vec<_>, CommandError>>()?;
    Ok(StoreSet::of_hosts(stores)?)
}

/// What the shell of another host is given.
fn serving_command(directory: Option<&Path>) -> Result<Vec<u8>, CommandError> {
    let program = std::env::current_exe().map_err(|source| CommandError::Outside {
        action: "looking for",
        path: PathBuf::from("svmio's own program"),
        source,
    })?;
    let mut command = [b"exec ".to_vec(), quoted(program.as_os_str()), b" serve-store".to_vec()].concat();
    if let Some(directory) = directory {
        // Wherever the shell there begins.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.into());
        command.extend(b" --store ");
        command.extend(quoted(directory.as_os_str()));
    }
    Ok(command)
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

fn start(launcher: &str, host: &str, command: &[u8], patience: Patience) -> Result<Connection, CommandError> {
    let mut words = launcher.split_whitespace();
    let program = words.next().unwrap_or("ssh");
    let mut starting = Command::new(program);
    starting.args(words).arg(host).arg(OsStr::from_bytes(command));
    starting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |source| CommandError::Launcher { program: program.into(), host: host.into(), source };
    let mut child = starting.spawn().map_err(failed)?;
    let (Some(answers), Some(said)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let words = Words::of(host, said).map_err(failed)?;
    let patient = |questions| Patient::new(questions, patience);
    let questions = child.stdin.take().map(patient).transpose().map_err(failed)?;
    let to_host = ToHost { questions, child, words: Arc::clone(&words) };
    let answers = Patient::new(answers, patience).map_err(failed)?;
    let last_words = Box::new(move || words.last(PATIENCE));
    Ok(Connection { answers: Box::new(answers), questions: Box::new(to_host), last_words })
}

/// Longer than any process takes to end, once it hears that it is to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to a host; with it, what was started there ends.
struct ToHost {
    questions: Option<Patient<ChildStdin>>,
    child: Child,
    words: Arc<Words>,
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
        let _ = self.words.last(given_up.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_a_shell_as_they_are() {
        for word in ["/opt/svmio", "with space", "it's", "$HOME;ls", "a\\b\"c"] {
            let script = [b"printf %s ".to_vec(), quoted(OsStr::new(word))].concat();
            let output = Command::new("sh").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }
}
