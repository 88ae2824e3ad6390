//! Ranks that are threads.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use svmio_transport::job::{Job, Master, Place};
use svmio_transport::settings::Settings;
use svmio_transport::{JobSecret, Rank, Result};

/// Where the ranks of a test meet.
pub(crate) struct Meeting {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    pub(crate) secret: JobSecret,
    pub(crate) size: u32,
}

impl Meeting {
    pub(crate) fn new(size: u32) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, listener, secret: JobSecret::random().unwrap(), size }
    }

    pub(crate) fn place(&self, rank: u32) -> Place {
        let master = match rank {
            0 => Master::Listening(self.listener.try_clone().unwrap()),
            _ => Master::At(self.address.to_string()),
        };
        Place {
            rank: Rank(rank),
            size: self.size,
            node: format!("node{rank}"),
            master,
            secret: self.secret.clone(),
        }
    }

    /// All ranks of the meeting, started at the same time; their jobs, in order.
    pub(crate) fn start(&self, settings: &Settings) -> Vec<Job> {
        let started =
            together((0..self.size).map(|rank| move || Job::start(self.place(rank), settings.clone())));
        started.into_iter().map(Result::unwrap).collect()
    }
}

/// Settings with which nobody waits long.
pub(crate) fn quick() -> Settings {
    let mut settings = Settings::default();
    settings.start.limit = Duration::from_secs(10);
    settings.start.finish_limit = Duration::from_secs(30);
    settings.watchdog.timeout = Duration::from_secs(20);
    settings
}

/// Whether what is to happen within a limit does so. What else runs on the machine may hold up a thread for longer than
/// a short limit, and then a longer one is tried: what goes wrong in itself does so with each.
pub(crate) fn within_some_limit(attempt: impl FnMut(Duration) -> bool) -> bool {
    [200, 1000, 5000].map(Duration::from_millis).into_iter().any(attempt)
}

/// Runs each on a thread of its own, all at the same time; the results in order.
pub(crate) fn together<T: Send>(bodies: impl IntoIterator<Item = impl FnOnce() -> T + Send>) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = bodies.into_iter().map(|body| scope.spawn(body)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits until the membership of `job` is disturbed so that `suits` holds.
pub(crate) fn await_membership(job: &Job, suits: impl Fn(&svmio_transport::Membership) -> bool) {
    let (told, news) = std::sync::mpsc::channel();
    let membership = job.membership();
    let _subscription = membership.on_disturbance(move || {
        // Nobody may wait any more.
        let _ = told.send(());
    });
    while !suits(membership) {
        news.recv_timeout(Duration::from_secs(20)).expect("news of the membership within 20 s");
    }
}

pub(crate) fn finish_all(jobs: Vec<Job>) -> Vec<Result<()>> {
    together(jobs.into_iter().map(|job| move || job.finish()))
}
