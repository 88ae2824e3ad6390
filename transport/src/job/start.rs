//! Start-up over TCP: all come to the master, and each learns where all are.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::door::Door;
use super::greeting::Greeting;
use super::link::{Closing, Link};
use super::place::{Master, Place};
use super::poller::{Poller, Token};
use super::roll::Roll;
use super::route;
use super::wire::{self, Entry, Frame, Hello, Purpose, Registration, WireProblem};
use crate::error::{Error, Result};
use crate::units::Rank;

/// How long a process waits for the master's word beyond the master's own limit.
const MARGIN: Duration = Duration::from_secs(5);

/// How long the master takes to tell those who came that the job does not start.
const PARTING: Duration = Duration::from_secs(1);

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);

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
    let at = match master {
        Master::Listening(listener) => return Ok(listener),
        Master::At(at) => at,
        Master::Known(addresses) => {
            return TcpListener::bind(&addresses[..])
                .map_err(|problem| failed(format!("rank 0 cannot listen at {addresses:?}: {problem}")));
        }
    };
    let deadline = Instant::now() + BIND_LIMIT;
    loop {
        match TcpListener::bind(&at) {
            Ok(listener) => return Ok(listener),
            // A process that looked for us too early may hold the port for a moment.
            Err(problem) if problem.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(problem) => {
                return Err(failed(format!(
                    "rank 0 cannot listen at {at}: {problem}; choose another SVMIO_JOB_MASTER"
                )));
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
            Ok(Started { poller: gathering.poller, door: gathering.door, links, entries })
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
                return Err(failed(format!("{} within {limit:?}", self.roll.missing())));
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
            let Ok(ready) = self.poller.wait(Some(deadline)) else { return };
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
    }
}

/// The others' part: comes to the master, and waits until all have come. Other machines reach the master's at `known`,
/// where that is known.
pub(super) fn register(
    place: &Place,
    known: Option<IpAddr>,
    offer: &mut dyn FnMut(IpAddr) -> Offer,
    limit: Duration,
) -> Result<Started> {
    let master = match &place.master {
        Master::At(at) => vec![at.clone()],
        Master::Known(addresses) => addresses.iter().map(ToString::to_string).collect(),
        Master::Listening(_) => {
            return Err(failed("only rank 0 can be given a listener; the others need its address"));
        }
    };
    let deadline = Instant::now() + limit;
    let poller = Arc::new(Poller::new()?);
    let mut pause = Duration::from_millis(1);
    // Made once, when it is known where this process is reached.
    let mut offered = None;
    loop {
        let mut problem = String::new();
        for at in &master {
            problem = match connect(at, deadline) {
                Ok(stream) => {
                    let reached_at = route::reached_at(&stream, known)?;
                    let offer = offered.get_or_insert_with(|| offer(reached_at));
                    match Call::new(place, offer, reached_at, &poller, stream)?.wait(deadline + MARGIN)? {
                        Outcome::Started(started) => return Ok(started),
                        Outcome::Stranger(problem) if master.len() == 1 => {
                            return Err(failed(format!("at {at}, where rank 0 should listen: {problem}")));
                        }
                        Outcome::Stranger(problem) => format!("{at}: {problem}"),
                    }
                }
                Err(problem) => format!("{at}: {problem}"),
            };
        }
        if Instant::now() + pause >= deadline {
            return Err(failed(format!(
                "rank 0, the master, was not reached within {limit:?} ({problem}); does it run, and is \
                 SVMIO_JOB_MASTER right?"
            )));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(50));
    }
}

/// Connects to one of the addresses of a host and port.
pub(super) fn connect(at: &str, deadline: Instant) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::other("the name has no address");
    for address in at.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left.min(ATTEMPT)) {
            // With a port that nobody listens at, a connection may be made to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {
                failure = std::io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(problem) => failure = problem,
        }
    }
    Err(failure)
}

/// A call to the master.
struct Call<'a> {
    place: &'a Place,
    poller: Arc<Poller>,
    link: Link,
    door: Door,
    greeting: Greeting,
}

/// What came of a call.
enum Outcome {
    Started(Started),
    /// It is not the master that listens there, and why.
    Stranger(String),
}

impl<'a> Call<'a> {
    /// Where the master is reached from, the others are reached as well.
    fn new(
        place: &'a Place,
        offer: &Offer,
        reached_at: IpAddr,
        poller: &Arc<Poller>,
        stream: TcpStream,
    ) -> Result<Self> {
        let mut link = Link::new(poller, stream)?;
        let door = TcpListener::bind((reached_at, 0))
            .map_err(|problem| Error::system("listening for control connections", problem))?;
        let door = Door::new(poller, door, &place.secret, place.size)?;
        let greeting = Greeting::begin(&mut link, offer.hello(place, door.address()?))?;
        Ok(Self { place, poller: Arc::clone(poller), link, door, greeting })
    }

    /// Waits until all have come.
    fn wait(mut self, deadline: Instant) -> Result<Outcome> {
        loop {
            let (frames, closing) = self.link.receive();
            for frame in frames {
                match frame {
                    Frame::Table(entries) if self.greeting.is_welcome() => {
                        if entries.len() != self.place.size as usize {
                            return Err(failed("rank 0 sent a table of another size"));
                        }
                        self.link.set_limit(wire::LARGEST);
                        let Self { poller, door, link, .. } = self;
                        let links = vec![(Rank(0), link)];
                        return Ok(Outcome::Started(Started { poller, door, links, entries }));
                    }
                    Frame::Failed { problem } if self.greeting.is_welcome() => return Err(failed(problem)),
                    Frame::Refusal { problem } => {
                        return Err(failed(format!("rank 0 refuses this process: {problem}")));
                    }
                    frame => match self.greeting.hear(frame, &mut self.link, &self.place.secret) {
                        Ok(()) => self.link.set_limit(wire::largest_table(self.place.size)),
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
                Some(closing) => return Ok(Outcome::Stranger(closing.to_string())),
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(failed("rank 0, the master, came to no decision about the start; does it hang?"));
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

pub(super) fn unaddressed(problem: std::io::Error) -> Error {
    Error::system("asking for the address of a control connection", problem)
}

fn failed(problem: impl Into<String>) -> Error {
    Error::StartUp { problem: problem.into() }
}
