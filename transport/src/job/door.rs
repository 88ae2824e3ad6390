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
use super::wire::{Frame, Hello, Nonce};
use crate::error::{Error, Result};
use crate::secret::JobSecret;

/// How long a caller may take to prove who it is.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// For how long nobody is let in when there are no sockets left.
const PAUSE: Duration = Duration::from_millis(100);

/// How many callers may wait to be let in, on the kernel's side.
const BACKLOG: i32 = 4096;

/// A listener and its callers.
#[derive(Debug)]
pub(super) struct Door {
    poller: Arc<Poller>,
    listener: TcpListener,
    token: Token,
    secret: JobSecret,
    room: usize,
    strangers: BTreeMap<Token, Stranger>,
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct Stranger {
    link: Link,
    nonce: Nonce,
    since: Instant,
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
        // The standard library's backlog is too short for a large job's processes to come all at once.
        rustix::net::listen(&listener, BACKLOG)
            .map_err(|problem| Error::system("listening for control connections", problem))?;
        let token = poller.add(&listener)?;
        Ok(Self {
            poller: Arc::clone(poller),
            listener,
            token,
            secret: secret.clone(),
            room: size as usize + 64,
            strangers: BTreeMap::new(),
            paused_until: None,
        })
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
        let oldest = self.strangers.values().map(|stranger| stranger.since + GREETING_LIMIT).min();
        oldest.into_iter().chain(self.paused_until).min()
    }

    /// Sends away who took too long.
    pub(super) fn tick(&mut self, now: Instant) {
        self.strangers.retain(|_, stranger| now < stranger.since + GREETING_LIMIT);
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
        let Stranger { mut link, nonce, since } = self.strangers.remove(&token)?;
        let (frames, closing) = link.receive();
        let mut frames = frames.into_iter().filter(|frame| *frame != Frame::Heartbeat);
        let problem = match (frames.next(), closing) {
            (None, None) => {
                self.strangers.insert(token, Stranger { link, nonce, since });
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
            (Some(_), _) => "a caller did not introduce itself".to_owned(),
            // Not worth a word: it only looked whether somebody listens.
            (None, Some(Closing::End)) => return None,
            (None, Some(closing)) => closing.to_string(),
        };
        tracing::warn!("a control connection was refused: {problem}");
        link.send(&Frame::Refusal { problem });
        None
    }

    fn accept(&mut self, now: Instant) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.strangers.len() >= self.room {
                        self.evict_oldest();
                    }
                    // One who cannot even be challenged is sent away.
                    let greeted = Link::new(&self.poller, stream)
                        .and_then(|link| Nonce::random().map(|nonce| (link, nonce)));
                    if let Ok((mut link, nonce)) = greeted {
                        link.send(&Frame::Challenge { nonce });
                        self.strangers.insert(link.token(), Stranger { link, nonce, since: now });
                    }
                }
                Err(problem) => match problem.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // No sockets left, most likely. Whoever wants in waits in the backlog meanwhile.
                    _ => {
                        tracing::warn!("no control connection can be accepted: {problem}");
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
        let oldest = self.strangers.iter().min_by_key(|(_, stranger)| stranger.since);
        if let Some(token) = oldest.map(|(token, _)| *token) {
            self.strangers.remove(&token);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.poller.remove(&self.listener);
    }
}
