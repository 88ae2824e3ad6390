//! Ranks that are processes, started by the launcher and led by a socket each.
//!
//! A process is this test program again, in `rank_process`; it carries out what it is told line by line and answers
//! each with one line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use svmio_transport::Rank;
use svmio_transport::job::{Job, Launcher, Running, Streams};
use svmio_transport::message::{Messenger, Port};

/// Names the socket that a process connects to.
const SOCKET: &str = "SVMIO_TEST_SOCKET";

/// Makes a process the launcher of so many others instead.
pub(crate) const INNER: &str = "SVMIO_TEST_INNER";

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes, and the lines to them.
pub(crate) struct Company {
    pub(crate) running: Running,
    lines: Vec<Line>,
    _directory: tempfile::TempDir,
}

pub(crate) struct Line(BufReader<UnixStream>);

impl Line {
    fn tell(&mut self, order: &str) {
        // A process that was killed hears nothing.
        let _ = writeln!(self.0.get_mut(), "{order}");
    }

    /// The answer; `None` when the process has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(problem) if problem.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(problem) => panic!("no answer: {problem}"),
        }
    }
}

/// The launcher of `size` such processes, and where they will call.
pub(crate) fn launcher(size: u32, settings: &[(&str, &str)]) -> (Launcher, UnixListener, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // SIGHUP does what it does by default there, though the tests may have been started by `nohup`.
    let mut launcher = Launcher::new("env")
        .arguments(["--default-signal=HUP".into(), std::env::current_exe().unwrap().into_os_string()])
        .arguments(["--exact", "company::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Null)
        .node(|rank| format!("host{rank}"))
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(SOCKET, path);
    for (name, value) in settings {
        launcher = launcher.environment(name, value);
    }
    (launcher, listener, directory)
}

/// Takes the calls of all.
pub(crate) fn answer_calls(size: u32, listener: &UnixListener) -> Vec<Line> {
    let mut lines: Vec<_> = (0..size)
        .map(|_| {
            let mut call = [PollFd::new(listener, PollFlags::IN)];
            let patience = PATIENCE.try_into().unwrap();
            assert!(poll(&mut call, Some(&patience)).unwrap() > 0, "a process calls");
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut line = Line(BufReader::new(stream));
            let rank: usize = line.answer().expect("a process calls").parse().unwrap();
            (rank, line)
        })
        .collect();
    lines.sort_by_key(|(rank, _)| *rank);
    lines.into_iter().map(|(_, line)| line).collect()
}

impl Company {
    /// Starts processes, which have not joined their job yet.
    pub(crate) fn launch(size: u32, settings: &[(&str, &str)]) -> Self {
        let (launcher, listener, directory) = launcher(size, settings);
        let running = launcher.spawn().unwrap();
        Self { running, lines: answer_calls(size, &listener), _directory: directory }
    }

    /// Starts a job.
    pub(crate) fn start(size: u32, settings: &[(&str, &str)]) -> Self {
        let mut company = Self::launch(size, settings);
        company.all("start").into_iter().for_each(|answer| assert_eq!(answer, "up"));
        company
    }

    /// Has all carry out `order` at the same time; their answers.
    pub(crate) fn all(&mut self, order: &str) -> Vec<String> {
        let all: Vec<_> = (0..self.lines.len() as u32).collect();
        self.some(&all, order)
    }

    /// The same for some.
    pub(crate) fn some(&mut self, ranks: &[u32], order: &str) -> Vec<String> {
        self.tell(ranks, order);
        self.answers(ranks)
    }

    pub(crate) fn tell(&mut self, ranks: &[u32], order: &str) {
        ranks.iter().for_each(|rank| self.lines[*rank as usize].tell(order));
    }

    pub(crate) fn answers(&mut self, ranks: &[u32]) -> Vec<String> {
        let answer = |rank: &u32| self.lines[*rank as usize].answer().expect("the process lives");
        ranks.iter().map(answer).collect()
    }

    /// Has one finish, and waits until it sleeps there, as the others have not.
    pub(crate) fn await_within_finish(&mut self, rank: u32) {
        self.await_within(rank, "finish", libc::SYS_futex);
    }

    /// Has one carry out `order`, and waits until it sleeps there in a system call of this number.
    pub(crate) fn await_within(&mut self, rank: u32, order: &str, number: libc::c_long) {
        let thread = self.some(&[rank], "thread").remove(0);
        let process = self.running.pids()[rank as usize];
        self.tell(&[rank], order);
        let deadline = Instant::now() + PATIENCE;
        loop {
            // As long as it does not sleep, the file says just so; and while it waits for an order, it reads a socket.
            let path = format!("/proc/{process}/task/{thread}/syscall");
            let system_call = std::fs::read_to_string(path).unwrap();
            if system_call.split(' ').next() == Some(&number.to_string()) {
                return;
            }
            assert!(Instant::now() < deadline, "rank {rank} is not within {order}: {system_call}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn signal(&mut self, rank: u32, signal: i32) {
        self.running.signal(Rank(rank), signal).unwrap();
    }

    /// Ends the lines, and by that the processes.
    pub(crate) fn hang_up(self) -> Running {
        self.running
    }

    /// All ranks but some.
    pub(crate) fn but(&self, some: &[u32]) -> Vec<u32> {
        (0..self.lines.len() as u32).filter(|rank| !some.contains(rank)).collect()
    }
}

/// What a process does.
#[test]
#[ignore = "it is the body of the processes that the other tests start"]
fn rank_process() {
    end_in_time();
    if let Some(size) = std::env::var(INNER).ok().filter(|size| !size.is_empty()) {
        return lead(&size);
    }
    let stream = UnixStream::connect(std::env::var_os(SOCKET).unwrap()).unwrap();
    let mut line = Line(BufReader::new(stream));
    line.tell(&std::env::var("SVMIO_JOB_RANK").unwrap());
    let mut job = None;
    while let Some(order) = line.answer() {
        let answer = obey(&mut job, &order);
        line.tell(&answer);
    }
}

/// Has the kernel end this process, by SIGALRM, should it take longer than any test does: who waits for its end waits
/// no longer then.
fn end_in_time() {
    const SECONDS: u32 = 300;
    // SAFETY: nothing is demanded of whoever calls it, and nobody here has to do with this signal.
    unsafe { libc::alarm(SECONDS) };
}

/// Is a launcher itself, of the same processes.
fn lead(size: &str) {
    let running = Launcher::new(std::env::current_exe().unwrap())
        .arguments(std::env::args_os().skip(1))
        .size(size.parse().unwrap())
        .environment(INNER, "")
        .streams(Streams::Null);
    running.spawn().unwrap().wait().unwrap();
}

fn obey(place: &mut Option<Job>, order: &str) -> String {
    let mut words = order.split(' ');
    let word = words.next().unwrap();
    let number = words.next().map_or(0, |word| word.parse().unwrap());
    if word == "start" {
        return match Job::from_environment() {
            Ok(job) => {
                *place = Some(job);
                "up".into()
            }
            Err(error) => error.to_string(),
        };
    }
    let Some(job) = place.take() else { return "no job".into() };
    match word {
        "finish" => return job.finish().map_or_else(|error| error.to_string(), |()| "finished".into()),
        "drop" => {
            drop(job);
            return "dropped".into();
        }
        _ => {}
    }
    let answer = match word {
        // Until so many are lost.
        "losses" => {
            let losses = || -> Vec<String> {
                let check = |rank| job.membership().check(rank).err();
                job.membership().ranks().filter_map(check).map(|error| error.to_string()).collect()
            };
            await_disturbance(&job, || losses().len() >= number);
            losses().join("; ")
        }
        "ending" => {
            await_disturbance(&job, || job.membership().check_job().is_err());
            job.membership().check_job().map_or_else(|error| error.to_string(), |()| "goes on".into())
        }
        // A message to that rank, and one from it.
        "send" => told(messenger(&job).and_then(|messenger| messenger.send(Rank(number as u32), b"hello"))),
        "receive" => {
            let receive =
                |messenger: Messenger| messenger.receive(Rank(number as u32), &mut [0; 5]).map(|_| ());
            told(messenger(&job).and_then(receive))
        }
        // That of this process which carries out orders.
        "thread" => rustix::thread::gettid().to_string(),
        // Processor time of this process, in microseconds.
        "processor" => {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            (time.tv_sec * 1_000_000 + time.tv_nsec / 1000).to_string()
        }
        other => format!("what is {other}?"),
    };
    *place = Some(job);
    answer
}

fn messenger(job: &Job) -> svmio_transport::Result<Messenger> {
    Messenger::open(job.fabric(), Port::FIRST, &job.settings().messages)
}

fn told(done: svmio_transport::Result<()>) -> String {
    done.map_or_else(|error| error.to_string(), |()| "done".into())
}

fn await_disturbance(job: &Job, suits: impl Fn() -> bool) {
    let (told, news) = std::sync::mpsc::channel();
    let _subscription = job.membership().on_disturbance(move || {
        // Nobody may wait any more.
        let _ = told.send(());
    });
    let deadline = Instant::now() + PATIENCE;
    while !suits() && Instant::now() < deadline {
        let _ = news.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}
