//! The watchdog: a thread in each process that knows who lives.
//!
//! All follow one *leader*, the lowest rank that is not lost; at the start that is rank 0. Each has one connection to
//! the leader, both sides send heartbeats on it, and whatever the leader learns it tells to all. A connection that
//! closes is a process that died; one on which nothing comes for the set time is a process that hangs.
//!
//! ```text
//!             Table                 leader lost             Lead
//!   start ───────────► Following ───────────────► Seeking ───────► Following
//!                          └──────────────────────► Leading   (if this is the lowest that is left)
//! ```
//!
//! When the leader is lost, every process turns to the lowest rank that it does not know to be lost (`succession`).
//! That one lets it wait until it has noticed the loss itself, then leads. Who does not come within the timeout, or
//! whose listener is gone, is lost as well. A process that was declared lost but lives learns it (`Expelled`, or as a
//! leader `Abandoned`), and its part of the job ends, nobody else's: who still follows it turns to the next. A network
//! that falls into two leaves two parts, each of which goes on without the other.
//!
//! Nothing here waits but for events, at one place (`Watchdog::run`), with a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::door::{Door, Guest};
use super::greeting::Greeting;
use super::link::Link;
use super::poller::{Poller, Token};
use super::settings::WatchdogSettings;
use super::signals::Signals;
use super::start::Started;
use super::wire::{Frame, Purpose};
use crate::error::Result;
use crate::membership::Membership;
use crate::secret::JobSecret;
use crate::service_thread::spawn_service_thread;
use crate::units::Rank;

mod hearing;
mod news;
mod orders;
mod succession;
mod time;
mod view;

pub(super) use orders::{Desk, Order, State};
use view::View;

/// What the watchdog of one process works with.
struct Watchdog {
    me: Rank,
    size: u32,
    secret: JobSecret,
    settings: WatchdogSettings,
    /// Where each process listens, by rank.
    listeners: Vec<SocketAddr>,
    membership: Arc<Membership>,
    desk: Arc<Desk>,
    signals: Option<Signals>,
    poller: Arc<Poller>,
    bell: Token,
    door: Door,
    peers: BTreeMap<Token, Peer>,
    phase: Phase,
    view: View,
    /// Who said that it takes this process for lost.
    abandoned_by: BTreeSet<Rank>,
    beat_at: Instant,
    /// When this process last found that it had not run for long.
    resumed_at: Option<Instant>,
    /// When the process is to be ended, and by which signal.
    end_at: Option<(Instant, u8)>,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody would be told of losses any more.
            self.membership.declare_ending("this process's control thread has panicked");
            self.desk.set_state(State::Stopped { is_over: false });
        }
    }
}

/// A connection, to whom, and what for.
struct Peer {
    link: Link,
    rank: Rank,
    role: Role,
}

enum Role {
    /// It is led by this process.
    Member,
    /// This process is led by it.
    Leader,
    /// This process wants to be led by it.
    Candidate(Greeting),
    /// It wants to be led by this process, which does not know yet whether it leads; what it has told meanwhile.
    Visitor(Vec<Frame>),
    /// This process leads, and wonders whether that one lives.
    Probed(Greeting),
    /// The other end of that.
    Prober,
    /// It was told that it is lost.
    Shunned,
}

enum Phase {
    /// Led by another.
    Following,
    /// The leader is lost; looking for the next.
    Seeking { candidate: Rank, since: Instant, retry_at: Option<Instant>, problem: String },
    /// Leads; when it has just begun to, the others are still coming.
    Leading { gathering: Option<succession::Gathering> },
    /// Expelled: it has nobody to watch.
    Alone,
    /// All is said; the others close their ends, or the time is up.
    Parting { until: Instant, is_over: bool },
}

/// Begins to watch; the thread stops by itself when the job is over or on the order to leave.
pub(super) fn spawn(
    started: Started,
    membership: &Arc<Membership>,
    secret: &JobSecret,
    settings: &WatchdogSettings,
) -> Result<(Arc<Desk>, std::thread::JoinHandle<()>)> {
    let Started { poller, door, links, entries, heard } = started;
    let desk = Arc::new(Desk::new()?);
    let bell = poller.add(desk.bell())?;
    let signals = if settings.signals { Some(Signals::guard(&poller)?) } else { None };
    let me = membership.rank();
    let role = || if me == Rank(0) { Role::Member } else { Role::Leader };
    let now = Instant::now();
    let peers = links
        .into_iter()
        .map(|(rank, mut link)| {
            link.forgive(now);
            (link.token(), Peer { link, rank, role: role() })
        })
        .collect();
    let watchdog = Watchdog {
        me,
        size: membership.size(),
        secret: secret.clone(),
        settings: settings.clone(),
        listeners: entries.iter().map(|entry| entry.control).collect(),
        membership: Arc::clone(membership),
        desk: Arc::clone(&desk),
        signals,
        poller,
        bell,
        door,
        peers,
        phase: if me == Rank(0) { Phase::Leading { gathering: None } } else { Phase::Following },
        view: View::default(),
        abandoned_by: BTreeSet::new(),
        beat_at: now,
        resumed_at: None,
        end_at: None,
    };
    let thread = spawn_service_thread("svmio-control", move || watchdog.run(heard))?;
    Ok((desk, thread))
}

impl Watchdog {
    /// Watches until the end. What was `heard` of the leader meanwhile comes first: no event tells of it any more.
    fn run(mut self, heard: Vec<Frame>) {
        if let Some(&leader) = self.with_role(|role| matches!(role, Role::Leader)).first() {
            self.take(leader, heard, Instant::now());
        }
        let is_over = loop {
            let until = self.deadline();
            let ready = match self.poller.wait(until) {
                Ok(ready) => ready,
                Err(problem) => {
                    self.membership.declare_ending(format!("this process can watch no more: {problem}"));
                    break false;
                }
            };
            let now = Instant::now();
            self.notice_suspension(until, now);
            for token in ready {
                self.attend(token, now);
            }
            self.tick(now);
            if let Phase::Parting { until, is_over } = self.phase
                && (self.peers.is_empty() || now >= until)
            {
                break is_over;
            }
        };
        self.desk.set_state(State::Stopped { is_over });
    }

    fn attend(&mut self, token: Token, now: Instant) {
        if token == self.bell {
            for order in self.desk.take() {
                self.obey(order, now);
            }
        } else if let Some(signal) = self.signals.as_mut().and_then(|signals| signals.take(token)) {
            self.signalled(signal, now);
        } else if self.door.has(token) {
            if let Some(guest) = self.door.attend(token, now) {
                self.receive_guest(guest);
            }
        } else {
            self.hear(token, now);
        }
    }

    fn obey(&mut self, order: Order, now: Instant) {
        match order {
            Order::Finish => self.finish(now),
            Order::Leave(reason) => self.leave(&reason, now),
        }
    }

    /// One who has proved to be of this job wants something.
    fn receive_guest(&mut self, guest: Guest) {
        let Guest { mut link, hello } = guest;
        let rank = hello.rank;
        if rank.0 >= self.size || hello.size != self.size || rank == self.me {
            let problem = format!("rank {rank} of {} comes to rank {} of {}", hello.size, self.me, self.size);
            return link.send(&Frame::Failed { problem });
        }
        let role = match hello.purpose {
            Purpose::Follow => Role::Visitor(Vec::new()),
            Purpose::Probe => Role::Prober,
            Purpose::Register(_) => {
                let problem = format!("the job has started already, with a rank {rank} among its processes");
                return link.send(&Frame::Failed { problem });
            }
        };
        if matches!(self.phase, Phase::Alone | Phase::Parting { .. }) {
            return;
        }
        let mut peer = Peer { link, rank, role };
        if let Some(loss) = self.view.loss(rank) {
            peer.link.send(&Frame::Expelled { reason: loss.reason.clone() });
            peer.role = Role::Shunned;
        }
        let is_visitor = matches!(peer.role, Role::Visitor(_));
        let token = peer.link.token();
        self.peers.insert(token, peer);
        if is_visitor && matches!(self.phase, Phase::Leading { .. }) {
            self.admit(token, Instant::now());
        }
    }

    /// The connections in a role.
    fn with_role(&self, role: impl Fn(&Role) -> bool) -> Vec<Token> {
        self.peers.iter().filter(|(_, peer)| role(&peer.role)).map(|(token, _)| *token).collect()
    }

    /// Sends to all whom this process leads.
    fn broadcast(&mut self, frame: &Frame) {
        for peer in self.peers.values_mut().filter(|peer| matches!(peer.role, Role::Member)) {
            peer.link.send(frame);
        }
    }

    /// How long those who are told something last may take to close their ends.
    const PARTING: Duration = Duration::from_secs(1);
}
