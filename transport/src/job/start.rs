//! Start-up over TCP: all come to the master, and each learns where all are.
//!
//! Here is the master's part; `register` is the others'.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::door::{self, Door};
use super::link::Link;
use super::place::{MASTER, Master, Place};
use super::poller::{Poller, Token};
use super::roll::Roll;
use super::route;
use super::wire::{Entry, Frame, Hello, Purpose, Registration};
use crate::error::{Error, Result};
use crate::units::Rank;

mod register;

pub(super) use register::{connect, register};

/// Where rank 0 listens before an exchange.
const ADDRESS: &str = "SVMIO_START_ADDRESS";

/// How long the master takes to tell those who came that the job does not start.
const PARTING: Duration = Duration::from_secs(1);

/// How long an address may be in use by somebody else before the master gives it up.
const BIND_LIMIT: Duration = Duration::from_secs(2);

/// What every process has once the job has started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) poller: Arc<Poller>,
    pub(super) door: Door,
    /// To the master; at the master, to all others.
    pub(super) links: Vec<(Rank, Link)>,
    /// In the order of ranks.
    pub(super) entries: Vec<Entry>,
    /// What the master has said since, of losses that came at once, say.
    pub(super) heard: Vec<Frame>,
}

/// What a process brings to the start.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    /// Which fabric it was told to use.
    pub(super) fabric: String,
    /// Its back end's address, or why it has none.
    pub(super) address: Result<Vec<u8>, String>,
}

impl Offer {
    fn hello(&self, place: &Place, control: SocketAddr) -> Hello {
        let (address, problem) = match self.address.clone() {
            Ok(address) => (address, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let entry = Entry { node: place.node.clone(), control, address };
        let fabric = self.fabric.clone();
        let purpose = Purpose::Register(Registration { process: std::process::id(), fabric, entry, problem });
        Hello { rank: place.rank, size: place.size, purpose }
    }
}

/// The master's part: listens.
pub(super) fn listen(master: Master) -> Result<TcpListener> {
    let listener = bind(master)?;
    // Not only when they are let in: before that, all try which of the addresses leads here, and who finds no room then
    // takes it for dead. The closed connections of those who have found it keep their room until then, too.
    door::lengthen_backlog(&listener)?;
    Ok(listener)
}

/// The same before an exchange, at a host name or an address of the settings.
pub(super) fn listen_for_exchange(address: &str) -> Result<TcpListener> {
    let way_out = format!(
        "{ADDRESS} is to be the name or an address of rank 0's host that the others reach, or :: for all interfaces"
    );
    let listener = bind_at(&format!("{address}:0"), &way_out)?;
    door::lengthen_backlog(&listener)?;
    Ok(listener)
}

fn bind(master: Master) -> Result<TcpListener> {
    match master {
        Master::Listening(listener) => Ok(listener),
        Master::At(at) => bind_at(&at, &format!("choose another {MASTER}")),
        Master::Known(addresses) => TcpListener::bind(&addresses[..])
            .map_err(|problem| failed(format!("rank 0 cannot listen at {addresses:?}: {problem}"))),
    }
}

fn bind_at(at: &str, way_out: &str) -> Result<TcpListener> {
    let deadline = Instant::now() + BIND_LIMIT;
    loop {
        match TcpListener::bind(at) {
            Ok(listener) => return Ok(listener),
            // A process that looked for us too early may hold the port for a moment.
            Err(problem) if problem.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(problem) => {
                return Err(failed(format!("rank 0 cannot listen at {at}: {problem}; {way_out}")));
            }
        }
    }
}

/// The master's part: waits for all others, who reach it at `known`, where that is known.
pub(super) fn gather(
    place: &Place,
    listener: TcpListener,
    known: Option<IpAddr>,
    offer: &mut dyn FnMut(IpAddr) -> Offer,
    limit: Duration,
) -> Result<Started> {
    let deadline = Instant::now() + limit;
    let reached_at = match known {
        Some(known) => known,
        None => route::candidates(&listener)?.first().map_or(Ipv4Addr::LOCALHOST.into(), SocketAddr::ip),
    };
    let offer = offer(reached_at);
    let poller = Arc::new(Poller::new()?);
    let door = Door::new(&poller, listener, &place.secret, place.size)?;
    let roll = Roll::new(place.size, &offer.fabric);
    let ours = offer.hello(place, door.address()?);
    let mut gathering = Gathering { poller, door, roll, came: BTreeMap::new() };
    let entered = gathering.roll.enter(ours).map_err(failed);
    match entered.and_then(|_| gathering.run(deadline, limit)) {
        Ok(entries) => {
            let mut links: Vec<_> = gathering.came.into_values().collect();
            let table = Frame::Table(entries.clone());
            for (_, link) in &mut links {
                link.send(&table);
            }
            let Gathering { poller, door, .. } = gathering;
            Ok(Started { poller, door, links, entries, heard: Vec::new() })
        }
        Err(error) => {
            gathering.dismiss(&error);
            Err(error)
        }
    }
}

struct Gathering {
    poller: Arc<Poller>,
    door: Door,
    roll: Roll,
    came: BTreeMap<Token, (Rank, Link)>,
}

impl Gathering {
    fn run(&mut self, deadline: Instant, limit: Duration) -> Result<Vec<Entry>> {
        loop {
            if let Some(entries) = self.roll.complete() {
                return Ok(entries);
            }
            let now = Instant::now();
            if now >= deadline {
                let (missing, account) =
                    (self.roll.tell_missing(), self.door.account(&self.roll.missing(), now));
                return Err(failed(format!("{missing} within {limit:?}: {account}")));
            }
            self.door.tick(now);
            let until = self.door.deadline().map_or(deadline, |until| until.min(deadline));
            for token in self.poller.wait(Some(until))? {
                self.attend(token)?;
            }
        }
    }

    fn attend(&mut self, token: Token) -> Result<()> {
        if self.door.has(token) {
            let Some(mut guest) = self.door.attend(token, Instant::now()) else { return Ok(()) };
            return match self.roll.enter(guest.hello) {
                Ok(rank) => {
                    self.came.insert(guest.link.token(), (rank, guest.link));
                    Ok(())
                }
                Err(problem) => {
                    guest.link.send(&Frame::Failed { problem: problem.clone() });
                    Err(failed(problem))
                }
            };
        }
        let Some((rank, link)) = self.came.get_mut(&token) else { return Ok(()) };
        match link.receive() {
            (_, Some(closing)) => {
                let who = self.roll.describe(*rank);
                Err(failed(format!("{who} left while others were being waited for: {closing}")))
            }
            // Until it has the table, a process has nothing to say.
            _ => Ok(()),
        }
    }

    /// Tells those who came, and for a moment those who come now, that the job does not start.
    fn dismiss(&mut self, error: &Error) {
        let problem = match error {
            Error::StartUp { problem } => problem.clone(),
            other => format!("rank 0: {other}"),
        };
        let tell = |link: &mut Link| {
            link.send(&Frame::Failed { problem: problem.clone() });
            link.shut();
        };
        self.came.values_mut().for_each(|(_, link)| tell(link));
        let deadline = Instant::now() + PARTING;
        let mut to_go = self.roll.size().saturating_sub(1);
        while to_go > 0 && Instant::now() < deadline {
            let Ok(ready) = self.poller.wait(Some(deadline)) else { break };
            for token in ready {
                if let Some((_, link)) = self.came.get_mut(&token) {
                    if link.receive().1.is_some() {
                        self.came.remove(&token);
                        to_go -= 1;
                    }
                } else if let Some(mut guest) = self.door.attend(token, Instant::now()) {
                    tell(&mut guest.link);
                    self.came.insert(guest.link.token(), (guest.hello.rank, guest.link));
                }
            }
        }
        self.door.dismiss();
    }
}

pub(super) fn unaddressed(problem: std::io::Error) -> Error {
    Error::system("asking for the address of a control connection", problem)
}

fn failed(problem: impl Into<String>) -> Error {
    Error::StartUp { problem: problem.into() }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn more_can_wait_for_the_master_than_the_standard_library_lets() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let number = most.trim().parse::<usize>().unwrap().min(200);
        let listener = listen(Master::Known(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])).unwrap();
        let at = listener.local_addr().unwrap();
        // Nobody is let in meanwhile.
        for _ in 0..number {
            let called = TcpStream::connect_timeout(&at, Duration::from_secs(30));
            drop(called.expect("there is room for another caller"));
        }
    }
}
