//! A process's place in a job: which of how many it is, and where the others are to be met.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::SocketAddrAny;

use super::wire::LARGEST_NODE;
use crate::error::{Error, Result};
use crate::secret::JobSecret;
use crate::units::Rank;

/// Host and port where rank 0 listens.
pub(super) const MASTER: &str = "SVMIO_JOB_MASTER";
/// This process's rank.
pub(super) const RANK: &str = "SVMIO_JOB_RANK";
/// How many processes the job has.
pub(super) const SIZE: &str = "SVMIO_JOB_SIZE";
/// The job's secret, in hexadecimal.
pub(super) const SECRET: &str = "SVMIO_JOB_SECRET";
/// The file descriptor of a listener that rank 0 has inherited.
pub(super) const LISTENER: &str = "SVMIO_JOB_LISTENER";
/// The node's name, where it is not the host's.
pub(super) const NODE: &str = "SVMIO_NODE";

/// The variables that tell a process its place.
pub const VARIABLES: [&str; 6] = [MASTER, RANK, SIZE, SECRET, LISTENER, NODE];

/// A process's place in a job.
#[derive(Debug)]
pub struct Place {
    /// Which process this is.
    pub rank: Rank,
    /// How many there are.
    pub size: u32,
    /// On which node this one runs.
    pub node: String,
    /// Where rank 0 is to be met.
    pub master: Master,
    /// What keeps strangers out.
    pub secret: JobSecret,
}

/// Where rank 0 is to be met.
#[derive(Debug)]
pub enum Master {
    /// At a host and port; rank 0 listens there.
    At(String),
    /// At one of these.
    Known(Vec<SocketAddr>),
    /// This is rank 0, and it listens already.
    Listening(TcpListener),
}

impl Place {
    /// As `SVMIO_JOB_MASTER`, `SVMIO_JOB_RANK`, `SVMIO_JOB_SIZE`, `SVMIO_JOB_SECRET` and `SVMIO_NODE` say.
    ///
    /// # Errors
    /// [`Error::Setting`] where one of them is missing or makes no sense.
    pub fn from_environment() -> Result<Self> {
        let rank = Rank(number(RANK, "a rank, from 0 on")?);
        let size = number(SIZE, "the number of processes")?;
        let secret = text(SECRET)?
            .parse()
            .map_err(|problem| setting(SECRET, format!("{problem}; it comes from whoever starts the job")))?;
        let at = text(MASTER)?;
        let listener = if rank == Rank(0) { inherited_listener(&at)? } else { None };
        let master = listener.map_or(Master::At(at), Master::Listening);
        let place = Self { rank, size, node: current_node(), master, secret };
        place.check().map_err(|problem| setting(RANK, problem))?;
        Ok(place)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.rank.0 >= self.size {
            return Err(format!("rank {} in a job of {}: ranks count from 0", self.rank, self.size));
        }
        if self.node.len() > LARGEST_NODE {
            return Err(format!(
                "the node's name has over {LARGEST_NODE} bytes; set {NODE} to a shorter one"
            ));
        }
        Ok(())
    }
}

/// Whether the environment tells of a job, or of a part of one.
#[must_use]
pub fn is_told_of() -> bool {
    [MASTER, RANK, SIZE, SECRET]
        .into_iter()
        .any(|variable| std::env::var_os(variable).is_some_and(|text| !text.is_empty()))
}

/// This process's node: `SVMIO_NODE` where it is set, else the host's name.
#[must_use]
pub fn current_node() -> String {
    let name = std::env::var(NODE).ok().filter(|name| !name.is_empty());
    name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

fn text(variable: &str) -> Result<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty()).ok_or_else(|| {
        setting(
            variable,
            "is not set; a program that is part of a job is started by a launcher, which sets it",
        )
    })
}

fn number(variable: &str, what: &str) -> Result<u32> {
    let text = text(variable)?;
    text.parse().map_err(|_| setting(variable, format!("is {text:?}, should be {what}")))
}

fn setting(variable: &str, problem: impl Into<String>) -> Error {
    Error::Setting { place: variable.into(), problem: problem.into() }
}

/// The listener that the launcher made at that place, so that its port is certainly free.
fn inherited_listener(at: &str) -> Result<Option<TcpListener>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let Some(text) = std::env::var(LISTENER).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    let number: RawFd = text
        .parse()
        .ok()
        .filter(|number| *number > 2)
        .ok_or_else(|| setting(LISTENER, format!("is {text:?}, should be a file descriptor")))?;
    // AcqRel: only that one thread gets it matters.
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        // It went with an earlier job of this process: now rank 0 listens by itself.
        return Ok(None);
    }
    if !listens(number, at) {
        // A wrapper on the way closed it, and something else may have its number: then rank 0 listens by itself.
        return Ok(None);
    }
    // SAFETY: it is the listening socket that the launcher left to this program under this number; `IS_TAKEN` sees to
    // it that it is owned once.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)
        .map_err(|problem| Error::system("taking the launcher's listener", problem))?;
    Ok(Some(owned.into()))
}

/// Whether that descriptor is a socket that listens at `at`.
fn listens(number: RawFd, at: &str) -> bool {
    // SAFETY: the descriptor is only asked about here; a number that is none gives an error.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let is_at = |name: SocketAddrAny| SocketAddr::try_from(name).is_ok_and(|own| at.parse() == Ok(own));
    rustix::net::sockopt::socket_acceptconn(socket).unwrap_or(false)
        && rustix::net::getsockname(socket).is_ok_and(is_at)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::listens;

    #[test]
    fn only_the_launchers_listener_is_taken_for_it() {
        let [own, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let at = own.local_addr().unwrap().to_string();
        assert!(listens(own.as_raw_fd(), &at));
        assert!(
            !listens(other.as_raw_fd(), &at),
            "a wrapper closed it, and the program has another one there"
        );
        let file = tempfile::tempfile().unwrap();
        assert!(!listens(file.as_raw_fd(), &at));
        assert!(!listens(own.as_raw_fd(), "a-host:7000"));
    }
}
