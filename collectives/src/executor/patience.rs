//! How long a waiter polls, when it gives its core away, and when it is time to sleep.
//!
//! Five states of a machine ask for different ways to wait, and a waiter tells them apart by what it sees:
//!
//! * A core for each rank: polling sees a flag soonest, and disturbs nobody.
//! * More ranks than cores: the rank that is waited for may need this very core, so it is given away at once. A turn of
//!   the others takes about a microsecond, a sleep and being woken ten.
//! * A core for each rank, but the one that is waited for happens to be on this one, and stays there because somebody
//!   computes on the others: the first turns bring what polling would not. If it stays so, one of them leaves for
//!   another core.
//! * Giving the core away does not help: it comes back at once, because the scheduler does not hand it across groups of
//!   processes (each session has its own, where the kernel groups them automatically), or because nobody else wants it.
//!   Then only sleep lets the others run.
//! * Giving the core away hurts: somebody computes on it, and has it for milliseconds each time, as a process that
//!   yields loses its claim to the time that it gave away. Who sleeps keeps it, and gets the core when it is woken.

mod companions;
mod departure;
mod thieves;

use std::time::{Duration, Instant};

use svmio_transport::Fabric;

use companions::{Brought, Companions, FEW_TURNS};
use departure::{Departure, leave_core};
use thieves::{LONG_TURN, Thieves};

/// Polls in a row before the first look at anything else: a flag that is on its way between two cores comes within
/// them.
const FIRST_POLLS: u32 = 32;

/// How long a waiter sleeps at most that has something to do meanwhile.
pub(crate) const NAP: Duration = Duration::from_micros(500);

/// Polls between two looks at the clock, which cost 25 ns each.
const POLLS: u32 = 64;

/// Where there are more ranks than cores, one wait in so many is watched by the clock from its beginning, as long as
/// nobody is suspected to compute on these cores. After a change of the process the clock's pages are to be found anew:
/// with one wait in 16, watching is a twentieth of a barrier of 16 ranks on two cores.
const WATCHED: u32 = 64;

/// How many turns the other waits give before they look at the clock.
const UNWATCHED_TURNS: u32 = 4;

/// How a waiter waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatienceSettings {
    /// How long it polls without giving its core away, where each rank has one: 5 µs. What takes longer can as well be
    /// seen a turn later (0.4 µs where nobody else wants the core), and two ranks may happen to be on the same core.
    pub spinning: Duration,
    /// The same where somebody computes on these cores: 50 µs, about what falling asleep and being woken costs, so that
    /// waiting costs at most twice what the best choice would.
    pub spinning_among_thieves: Duration,
    /// How long it then gives its core away after each poll, from the beginning on: 1 ms.
    pub yielding: Duration,
    /// The same where those who are waited for were on its own core a short while ago: 5 ms, longer than a computing
    /// process keeps a core that it shares. Where the waiter sleeps meanwhile, the scheduler has the others move to its
    /// core.
    pub yielding_beside_companions: Duration,
    /// The same where there are more ranks than cores: 1 ms, many turns of all others.
    pub crowded_yielding: Duration,
    /// After how many turns in a row in which nobody else ran it sleeps, where there are more ranks than cores.
    pub vain_yields: u32,
    /// Whether it goes on on another core where each rank has one and those who are waited for stay on its own: it does.
    /// Before that it gives them the core without polling first.
    pub leaves_shared_core: bool,
}

impl Default for PatienceSettings {
    fn default() -> Self {
        Self {
            spinning: Duration::from_micros(5),
            spinning_among_thieves: Duration::from_micros(50),
            yielding: Duration::from_millis(1),
            yielding_beside_companions: Duration::from_millis(5),
            crowded_yielding: Duration::from_millis(1),
            vain_yields: 24,
            leaves_shared_core: true,
        }
    }
}

/// The patience of one waiter.
#[derive(Debug)]
pub(crate) struct Patience {
    settings: PatienceSettings,
    is_crowded: bool,
    /// The shortest turn so far: one in which nobody else ran.
    shortest_turn: Duration,
    /// How many waits there were with more ranks than cores.
    waits: u32,
    companions: Companions,
    departure: Departure,
    thieves: Thieves,
}

/// How polling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    /// What was waited for is there.
    Ready,
    /// It is time to sleep.
    InVain,
}

impl Patience {
    /// That of one of so many ranks on so many cores.
    pub(crate) fn new(settings: PatienceSettings, ranks: usize, cores: usize) -> Self {
        Self::of(settings, ranks > cores)
    }

    fn of(settings: PatienceSettings, is_crowded: bool) -> Self {
        Self {
            settings,
            is_crowded,
            shortest_turn: Duration::MAX,
            waits: 0,
            companions: Companions::default(),
            departure: Departure::default(),
            thieves: Thieves::default(),
        }
    }

    /// That of a process of the fabric's job, as far as it can tell by itself.
    pub(crate) fn of_process(settings: PatienceSettings, fabric: &Fabric) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(settings, ranks_here(fabric), cores)
    }

    /// One that has not waited yet, for the same processes on the same cores.
    pub(crate) fn anew(&self) -> Self {
        Self::of(self.settings, self.is_crowded)
    }

    /// What others have told of their cores is taken into account from here on.
    pub(super) fn learn(&mut self, is_crowded: bool) {
        self.is_crowded = is_crowded;
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Polls a few times only: for what is about to come.
    #[inline]
    pub(crate) fn glance(&self, mut ready: impl FnMut() -> bool) -> bool {
        if self.is_crowded {
            return ready();
        }
        for _ in 0..FIRST_POLLS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Where there are more ranks than cores, gives the first turns after a glance in vain: most waits are over then.
    /// To be followed by [`poll`](Self::poll).
    #[inline]
    pub(crate) fn give_turns(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if !self.is_crowded {
            return false;
        }
        self.waits = self.waits.wrapping_add(1);
        if self.thieves.are_suspected() || self.waits.is_multiple_of(WATCHED) {
            return false;
        }
        (0..UNWATCHED_TURNS).any(|_| {
            give_turn();
            ready()
        })
    }

    /// Where each rank has a core, polls for what is about to come within some time, without giving the core away: not
    /// where those who are waited for were on it a moment ago.
    pub(crate) fn expect(&self, within: Duration, mut ready: impl FnMut() -> bool) {
        if self.is_crowded || self.companions.are_certain() {
            return;
        }
        let begun = Instant::now();
        let mut is_ready = false;
        while !is_ready && begun.elapsed() < within {
            is_ready = self.glance(&mut ready);
        }
    }

    /// After how many polls some microseconds are over.
    pub(crate) fn polls_of_microseconds(&self) -> u32 {
        if self.is_crowded { 8 } else { 8 * POLLS }
    }

    /// Polls until it is time to sleep.
    #[inline(never)]
    pub(crate) fn poll(&mut self, ready: impl FnMut() -> bool) -> Polled {
        if self.is_crowded { self.poll_crowded(ready) } else { self.poll_alone(ready) }
    }

    fn poll_alone(&mut self, mut ready: impl FnMut() -> bool) -> Polled {
        let mut began = Instant::now();
        let (mut last, mut longest) = (began, Duration::ZERO);
        let mut is_leaving = false;
        if self.companions.are_here(began) {
            is_leaving = self.settings.leaves_shared_core && self.departure.is_due(began);
            // They may have left themselves: before it leaves, it polls.
            if !is_leaving {
                if self.thieves.are_shunned(began) {
                    return if ready() { Polled::Ready } else { Polled::InVain };
                }
                let is_ready = (0..FEW_TURNS).any(|_| {
                    give_turn();
                    ready()
                });
                last = Instant::now();
                longest = last - began;
                if is_ready {
                    self.thieves.notice(longest, last);
                    return Polled::Ready;
                }
            }
        }
        let yielding = if self.companions.were_here(began) {
            self.settings.yielding_beside_companions
        } else {
            self.settings.yielding
        };
        let (polled, brought) = loop {
            if (0..POLLS).any(|_| {
                std::hint::spin_loop();
                ready()
            }) {
                break (Polled::Ready, Brought::WhilePolling);
            }
            let now = Instant::now();
            if now - began >= self.settings.spinning {
                longest = longest.max(now - last);
                if std::mem::take(&mut is_leaving) {
                    self.departure.notice(now);
                    if leave_core() {
                        self.companions.forget();
                    }
                    // What that takes is nobody's turn.
                    began = Instant::now();
                    last = began;
                    continue;
                }
                let are_shunned = self.thieves.are_shunned(now);
                if are_shunned && now - began >= self.settings.spinning_among_thieves {
                    break (Polled::InVain, Brought::BySleep);
                }
                if now - began >= yielding {
                    break (Polled::InVain, Brought::Late);
                }
                if !are_shunned {
                    give_turn();
                    if ready() {
                        let turn = now.elapsed();
                        longest = longest.max(turn);
                        let brought = if turn < LONG_TURN { Brought::ByTurn } else { Brought::Late };
                        break (Polled::Ready, brought);
                    }
                }
            }
            last = now;
        };
        self.companions.notice(brought);
        if !self.companions.are_certain() {
            self.departure.call_off();
        }
        if longest > Duration::ZERO {
            self.thieves.notice(longest, Instant::now());
        }
        polled
    }

    fn poll_crowded(&mut self, mut ready: impl FnMut() -> bool) -> Polled {
        let began = Instant::now();
        if self.thieves.are_shunned(began) {
            return if ready() { Polled::Ready } else { Polled::InVain };
        }
        let (mut last, mut longest, mut vain) = (began, Duration::ZERO, 0);
        let polled = loop {
            if ready() {
                break Polled::Ready;
            }
            if vain >= self.settings.vain_yields || last - began >= self.settings.crowded_yielding {
                break Polled::InVain;
            }
            give_turn();
            let now = Instant::now();
            let turn = now - last;
            last = now;
            longest = longest.max(turn);
            self.shortest_turn = self.shortest_turn.min(turn);
            // Another's turn costs two changes of the process, several times what coming back at once does.
            vain = if turn < 2 * self.shortest_turn { vain + 1 } else { 0 };
        };
        self.thieves.notice(longest, last);
        polled
    }
}

/// Lets others run on this core. The system call stands here and not in a library: after a turn of others, each page of
/// code is to be found anew.
#[inline]
fn give_turn() {
    rustix::thread::sched_yield();
}

/// How many processes of the fabric's job are on this one's node.
pub(super) fn ranks_here(fabric: &Fabric) -> usize {
    let membership = fabric.membership();
    let own = membership.node(membership.rank());
    membership.ranks().filter(|&rank| membership.node(rank) == own).count()
}

/// `is_done`, which does what is to be done meanwhile after each so many polls.
pub(crate) fn with_meanwhile(
    mut is_done: impl FnMut() -> bool,
    meanwhile: Option<fn()>,
    every: u32,
) -> impl FnMut() -> bool {
    let mut polls = 0_u32;
    move || {
        if is_done() {
            return true;
        }
        polls = polls.wrapping_add(1);
        if let (Some(meanwhile), true) = (meanwhile, polls.is_multiple_of(every)) {
            meanwhile();
        }
        false
    }
}
