//! Where others knock: a listener, and those who have connected but not yet proved who they are.
//!
//! A stranger who says nothing, or nonsense, is sent away; it costs a socket and some kilobytes for a short
//! time, and there is room for only so many.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::link::{Closing, Link};
use super::poller::{Interest, Poller, Token};
use super::proof::Nonces;
use super::roll::list;
use super::wire::{Frame, Hello, Nonce};
use crate::error::{Error, Result};
use crate::secret::JobSecret;
use crate::units::Rank;

mod callers;

use callers::{Caller, Callers};

/// How long a caller may take to prove who it is.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// For how long nobody is let in when there are no sockets left.
const PAUSE: Duration = Duration::from_millis(100);

/// How many callers may wait to be let in, on the kernel's side.
const BACKLOG: i32 = 4096;

/// Of how many who are missing it is told how far they came, at most.
const MOST_ACCOUNTS: usize = 4;

/// Has a listener let as many callers wait as a large job has, which come all at once: by itself, the standard library's
/// lets 128. It may have callers already.
///
/// # Errors
/// `System`.
pub(super) fn lengthen_backlog(listener: &TcpListener) -> Result<()> {
    rustix::net::listen(listener, BACKLOG)
        .map_err(|problem| Error::system("listening for control connections", problem))
}

/// A listener and its callers.
#[derive(Debug)]
pub(super) struct Door {
    poller: Arc<Poller>,
    listener: TcpListener,
    token: Token,
    secret: JobSecret,
    room: usize,
    strangers: BTreeMap<Token, Stranger>,
    gone: Callers,
    /// Why nobody could be let in when that was tried last, if that was ever so.
    closed_for: Option<String>,
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct Stranger {
    link: Link,
    nonce: Nonce,
    caller: Caller,
}

/// A caller who has proved to belong to the job, and was told that we do, too.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) link: Link,
    pub(super) hello: Hello,
}

impl Door {
    /// Has callers of a job of `size` come in at `listener`.
    pub(super) fn new(
        poller: &Arc<Poller>,
        listener: TcpListener,
        secret: &JobSecret,
        size: u32,
    ) -> Result<Self> {
        listener
            .set_nonblocking(true)
            .map_err(|problem| Error::system("preparing the control listener", problem))?;
        lengthen_backlog(&listener)?;
        let token = poller.add(&listener)?;
        Ok(Self {
            poller: Arc::clone(poller),
            listener,
            token,
            secret: secret.clone(),
            room: size as usize + 64,
            strangers: BTreeMap::new(),
            gone: Callers::new(size),
            closed_for: None,
            paused_until: None,
        })
    }

    /// Lets nobody in any more. Who calls finds nobody listening, also where another process has the listener, too: a
    /// shell that has started this one.
    pub(super) fn close(&mut self) {
        self.poller.remove(&self.listener);
        // It fails only where that was done before.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    /// Where others knock.
    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .map_err(|problem| Error::system("asking for the control listener's address", problem))
    }

    /// Whether `token` is to be attended to here.
    pub(super) fn has(&self, token: Token) -> bool {
        token == self.token || self.strangers.contains_key(&token)
    }

    /// When `tick` has to be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let oldest = self.strangers.values().map(|stranger| stranger.caller.since + GREETING_LIMIT).min();
        oldest.into_iter().chain(self.paused_until).min()
    }

    /// Sends away who took too long.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_late = |stranger: &Stranger| now >= stranger.caller.since + GREETING_LIMIT;
        let late = self.strangers.iter().filter(|(_, stranger)| is_late(stranger));
        for token in late.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.send_away(token, format!("did not introduce itself within {GREETING_LIMIT:?}"));
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.poller.set_interest(&self.listener, self.token, Interest::Read);
        }
    }

    /// Deals with a socket that is ready; returns who has come in.
    pub(super) fn attend(&mut self, token: Token, now: Instant) -> Option<Guest> {
        if token == self.token {
            self.accept(now);
            return None;
        }
        let Stranger { mut link, nonce, mut caller } = self.strangers.remove(&token)?;
        let (frames, closing) = link.receive();
        let mut said = None;
        for frame in frames {
            match frame {
                Frame::Heartbeat => {}
                Frame::Knock { rank, process } if said.is_none() => caller.name = Some((rank, process)),
                frame => drop(said.get_or_insert(frame)),
            }
        }
        let problem = match (said, closing) {
            (None, None) => {
                self.strangers.insert(token, Stranger { link, nonce, caller });
                return None;
            }
            (Some(Frame::Hello { hello, nonce: calling, proof }), None) => {
                let nonces = Nonces { called: nonce, calling };
                if nonces.admit_hello(&self.secret, &hello, &proof) {
                    link.send(&Frame::Welcome { proof: nonces.prove_welcome(&self.secret) });
                    return Some(Guest { link, hello });
                }
                format!("what calls itself rank {} does not know this job's secret", hello.rank)
            }
            (Some(Frame::Hello { .. }), Some(closing)) => {
                self.gone.note(caller, format!("left when it had introduced itself: {closing}"));
                return None;
            }
            (Some(_), _) => "a caller did not introduce itself".to_owned(),
            // Not worth a warning: most often, it only looked whether somebody listens.
            (None, Some(Closing::End)) => {
                self.gone.note(caller, "hung up before it introduced itself");
                return None;
            }
            (None, Some(closing)) => closing.to_string(),
        };
        tracing::warn!("a control connection was refused: {problem}");
        self.gone.note(caller, format!("was refused: {problem}"));
        link.send(&Frame::Refusal { problem });
        None
    }

    fn accept(&mut self, now: Instant) {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    if self.strangers.len() >= self.room {
                        self.evict_oldest();
                    }
                    let caller = Caller { from, since: now, name: None };
                    // One who cannot even be challenged is sent away.
                    let greeted = Link::new(&self.poller, stream)
                        .and_then(|link| Nonce::random().map(|nonce| (link, nonce)));
                    match greeted {
                        Ok((mut link, nonce)) => {
                            link.send(&Frame::Challenge { nonce });
                            self.strangers.insert(link.token(), Stranger { link, nonce, caller });
                        }
                        Err(problem) => self.gone.note(caller, format!("could not be asked: {problem}")),
                    }
                }
                Err(problem) => match problem.kind() {
                    // Nobody has come, or it was closed meanwhile.
                    ErrorKind::WouldBlock | ErrorKind::InvalidInput => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // No sockets left, most likely. Whoever wants in waits in the backlog meanwhile.
                    _ => {
                        tracing::warn!("no control connection can be accepted: {problem}");
                        self.closed_for = Some(problem.to_string());
                        self.evict_oldest();
                        self.paused_until = Some(now + PAUSE);
                        self.poller.set_interest(&self.listener, self.token, Interest::Nothing);
                        return;
                    }
                },
            }
        }
    }

    fn evict_oldest(&mut self) {
        let oldest = self.strangers.iter().min_by_key(|(_, stranger)| stranger.caller.since);
        if let Some(token) = oldest.map(|(token, _)| *token) {
            self.send_away(token, "was the oldest when there was no room for more".into());
        }
    }

    /// Closes a stranger's connection, for what `why` says of it.
    fn send_away(&mut self, token: Token, why: String) {
        if let Some(Stranger { caller, .. }) = self.strangers.remove(&token) {
            self.gone.note(caller, format!("was sent away, as it {why}"));
        }
    }

    /// What is known of processes that have not come: whether they called, from where, and how far they came.
    pub(super) fn account(&self, missing: &[u32], now: Instant) -> String {
        let mut accounts = Vec::new();
        let mut silent = Vec::new();
        for &rank in missing {
            let rank = Rank(rank);
            let is_it = |caller: &&Caller| caller.name.is_some_and(|(name, _)| name == rank);
            let callers = self.strangers.values().map(|stranger| &stranger.caller);
            let connected = callers.filter(is_it).max_by_key(|caller| caller.since);
            match self.gone.tell(rank, connected, now) {
                Some(account) => accounts.push(account),
                None => silent.push(rank.0),
            }
        }
        if accounts.len() > MOST_ACCOUNTS {
            accounts.truncate(MOST_ACCOUNTS);
            accounts.push("more have called as well".into());
        }
        match silent.as_slice() {
            [] => {}
            [rank] => accounts.push(format!("rank {rank} has not called")),
            ranks => accounts.push(format!("the ranks {} have not called", list(ranks))),
        }
        let waiting = self.strangers.values().filter(|stranger| stranger.caller.name.is_none()).count();
        if waiting > 0 {
            accounts.push(format!("{waiting} connected and have not said who they are"));
        }
        accounts.extend(self.gone.tell_nameless());
        let closed = self.closed_for.as_ref();
        accounts.extend(closed.map(|problem| format!("for a time nobody could be let in: {problem}")));
        accounts.join("; ")
    }

    /// Tells those who have not proved who they are that the job does not start; why, is not for strangers.
    pub(super) fn dismiss(&mut self) {
        for Stranger { link, .. } in self.strangers.values_mut() {
            // What was not read when a connection is closed would take with it what is sent.
            drop(link.receive());
            link.send(&Frame::Refusal { problem: "the job does not start".into() });
            link.shut();
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.poller.remove(&self.listener);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::super::greeting::knock;
    use super::*;

    #[test]
    fn of_one_that_says_nothing_for_too_long_it_is_known_that_it_was_there() {
        let poller = Arc::new(Poller::new().unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut door = Door::new(&poller, listener, &JobSecret::random().unwrap(), 4).unwrap();
        let mut caller = Link::new(&poller, TcpStream::connect(door.address().unwrap()).unwrap()).unwrap();
        let silent = TcpStream::connect(door.address().unwrap()).unwrap();
        knock(&mut caller, Rank(3));
        let now = Instant::now();
        let is_known = |door: &Door| door.account(&[3], now).contains("called from");
        while !is_known(&door) || door.strangers.len() < 2 {
            for token in poller.wait(None).unwrap() {
                assert!(door.attend(token, now).is_none());
            }
        }
        let account = door.account(&[2, 3], now);
        assert!(
            account.contains("has not introduced itself yet; rank 2 has not called; 1 connected"),
            "{account}"
        );
        door.tick(now + GREETING_LIMIT);
        let account = door.account(&[3], now);
        assert!(
            account.contains("and was sent away, as it did not introduce itself within 5s; one from"),
            "{account}"
        );
        assert_eq!(caller.receive().0.len(), 1, "it was asked who it is");
        drop(silent);
    }
}
