//! The part of all but the master: each calls it until it is let in, then waits until all have come.
//!
//! A connection that ends before the master has let the process in says nothing against it: a master that gets no
//! processor's time or has no descriptors left sends callers away whom it could not hear. So the process calls again,
//! until the limit. What the master says is final, and so is what cannot be the master's word.

use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ADDRESS, Offer, Started, failed};
use crate::error::{Error, Result};
use crate::job::door::Door;
use crate::job::greeting::{Greeting, knock};
use crate::job::link::{Closing, Link};
use crate::job::place::{MASTER, Master, Place};
use crate::job::poller::Poller;
use crate::job::route;
use crate::job::wire::{self, Frame, WireProblem};
use crate::units::Rank;

/// How long a process waits for the master's word beyond the master's own limit.
const MARGIN: Duration = Duration::from_secs(5);

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// The others' part: comes to the master, and waits until all have come. Other machines reach the master's at `known`,
/// where that is known.
pub(in crate::job) fn register(
    place: &Place,
    known: Option<IpAddr>,
    offer: &mut dyn FnMut(IpAddr) -> Offer,
    limit: Duration,
) -> Result<Started> {
    let masters = match &place.master {
        Master::At(at) => vec![at.clone()],
        Master::Known(addresses) => addresses.iter().map(ToString::to_string).collect(),
        Master::Listening(_) => {
            return Err(failed("only rank 0 can be given a listener; the others need its address"));
        }
    };
    let deadline = Instant::now() + limit;
    let poller = Arc::new(Poller::new()?);
    let mut pause = Duration::from_millis(1);
    let mut caller = Caller { place, known, offer, offered: None, poller, limit, deadline };
    let (mut calls, mut ended) = (0_u32, None);
    loop {
        let mut problem = String::new();
        for at in &masters {
            let is_only = masters.len() == 1;
            problem = match connect(at, deadline) {
                Ok(stream) => {
                    calls += 1;
                    match caller.call(stream)? {
                        Outcome::Started(started) => return Ok(*started),
                        Outcome::Stranger(problem) if is_only => {
                            return Err(failed(format!("at {at}, where rank 0 should listen: {problem}")));
                        }
                        Outcome::Stranger(problem) => format!("{at}: {problem}"),
                        Outcome::Ended(problem) => {
                            tracing::info!("rank {} calls rank 0 at {at} again: {problem}", place.rank);
                            ended = Some(problem.clone());
                            format!("{at}: {problem}")
                        }
                    }
                }
                Err(problem) => match &ended {
                    // It was there; its process has ended or given up, and will not listen again.
                    Some(ended) if is_only && problem.kind() == ErrorKind::ConnectionRefused => {
                        let gone = "and nobody listens there any more";
                        return Err(failed(format!("rank 0, the master, is gone: {ended}, {gone} ({at})")));
                    }
                    _ => format!("{at}: {problem}"),
                },
            };
        }
        if Instant::now() + pause >= deadline {
            let doubt = match calls {
                0 => "was not reached",
                _ => "did not let this process in",
            };
            return Err(failed(format!(
                "rank 0, the master, {doubt} within {limit:?} ({calls} calls; the last: {problem}); {}",
                way_out(&place.master)
            )));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(50));
    }
}

/// What is to be done where the master is not reached.
fn way_out(master: &Master) -> String {
    match master {
        Master::At(_) | Master::Listening(_) => format!("does it run, and is {MASTER} right?"),
        Master::Known(_) => format!(
            "does it run? Set {ADDRESS} to an address of rank 0's host that the others reach; its ports must be open \
             to them"
        ),
    }
}

/// Connects to one of the addresses of a host and port.
pub(in crate::job) fn connect(at: &str, deadline: Instant) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::other("the name has no address");
    for address in at.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left.min(ATTEMPT)) {
            // With a port that nobody listens at, a connection may be made to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {
                failure = ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(problem) => failure = problem,
        }
    }
    Err(failure)
}

/// Who calls the master.
struct Caller<'a> {
    place: &'a Place,
    known: Option<IpAddr>,
    offer: &'a mut dyn FnMut(IpAddr) -> Offer,
    /// Made once, when it is known where this process is reached.
    offered: Option<Offer>,
    poller: Arc<Poller>,
    /// How long the master waits for all.
    limit: Duration,
    /// Of this process: until then it calls.
    deadline: Instant,
}

/// What came of a call.
enum Outcome {
    Started(Box<Started>),
    /// It is not the master that listens there, and why.
    Stranger(String),
    /// The connection ended before the master had let this process in; how.
    Ended(String),
}

impl Caller<'_> {
    /// Calls over a new connection. Where the master is reached from, the others are reached as well.
    fn call(&mut self, stream: TcpStream) -> Result<Outcome> {
        let reached_at = match route::reached_at(&stream, self.known) {
            Ok(reached_at) => reached_at,
            // A connection that broke already has no other end to be asked for.
            Err(problem) => return Ok(Outcome::Ended(problem.to_string())),
        };
        let mut link = Link::new(&self.poller, stream)?;
        // Before what may take its time: should this process come no further, the master can say that it was there.
        knock(&mut link, self.place.rank);
        let offer = self.offered.get_or_insert_with(|| (self.offer)(reached_at));
        let door = listen(reached_at)?;
        let door = Door::new(&self.poller, door, &self.place.secret, self.place.size)?;
        let greeting = Greeting::begin(offer.hello(self.place, door.address()?))?;
        let (place, poller, limit) = (self.place, Arc::clone(&self.poller), self.limit);
        Call { place, poller, link, door, greeting, limit }.wait(self.deadline + MARGIN)
    }
}

fn listen(at: IpAddr) -> Result<TcpListener> {
    TcpListener::bind((at, 0)).map_err(|problem| Error::system("listening for control connections", problem))
}

/// A call to the master.
struct Call<'a> {
    place: &'a Place,
    poller: Arc<Poller>,
    link: Link,
    door: Door,
    greeting: Greeting,
    /// How long the master waits for all.
    limit: Duration,
}

impl Call<'_> {
    /// Waits until all have come.
    fn wait(mut self, mut deadline: Instant) -> Result<Outcome> {
        loop {
            let (frames, closing) = self.link.receive();
            let mut frames = frames.into_iter();
            while let Some(frame) = frames.next() {
                match frame {
                    Frame::Table(entries) if self.greeting.is_welcome() => {
                        if entries.len() != self.place.size as usize {
                            return Err(failed("rank 0 sent a table of another size"));
                        }
                        self.link.set_limit(wire::LARGEST);
                        let Self { poller, door, link, .. } = self;
                        let links = vec![(Rank(0), link)];
                        let started = Started { poller, door, links, entries, heard: frames.collect() };
                        return Ok(Outcome::Started(started.into()));
                    }
                    Frame::Failed { problem } if self.greeting.is_welcome() => return Err(failed(problem)),
                    Frame::Refusal { problem } => {
                        return Err(failed(format!("rank 0 refuses this process: {problem}")));
                    }
                    frame => match self.greeting.hear(frame, &mut self.link, &self.place.secret) {
                        Ok(()) => {
                            self.link.set_limit(wire::largest_table(self.place.size));
                            if self.greeting.is_welcome() {
                                // The master may have begun to wait but now.
                                deadline = deadline.max(Instant::now() + self.limit + MARGIN);
                            }
                        }
                        Err(problem) => return Ok(Outcome::Stranger(problem)),
                    },
                }
            }
            match closing {
                Some(closing) if self.greeting.is_welcome() => {
                    return Err(failed(format!("rank 0 left while others were being waited for: {closing}")));
                }
                Some(closing @ Closing::Nonsense(WireProblem::Version(_))) => {
                    return Err(failed(format!("rank 0: {closing}")));
                }
                Some(closing @ Closing::Nonsense(_)) => return Ok(Outcome::Stranger(closing.to_string())),
                Some(closing) => {
                    let problem = format!("rank 0 {}; then {closing}", self.greeting.progress());
                    return Ok(Outcome::Ended(problem));
                }
                None => {}
            }
            if Instant::now() >= deadline {
                let progress = self.greeting.progress();
                return Err(failed(format!(
                    "rank 0, the master, came to no decision about the start (it {progress}); does it hang?"
                )));
            }
            self.door.tick(Instant::now());
            let until = self.door.deadline().map_or(deadline, |until| until.min(deadline));
            for token in self.poller.wait(Some(until))? {
                // Nobody can have this process's address yet but strangers.
                drop(self.door.attend(token, Instant::now()));
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
