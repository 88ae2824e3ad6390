//! What the processes of a world share: the clock, the network, and everything about each process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::back_end::{ConnectionId, MemoryKey, Place, Provider, Remote, Respondent};
use crate::dma::Completion;
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::{SharedMemory, UserMemory};
use crate::sim::agenda::Agenda;
use crate::sim::engine::{Chain, ChainId, Engine};
use crate::sim::faults::Faults;
use crate::sim::losses::Life;
use crate::sim::model::Model;
use crate::sim::network::{Flight, Network, Node};
use crate::sim::report::{RankReport, Waiter};
use crate::sim::traffic::{Answer, Packet};
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// What a task runs.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// All of a world but its coroutines.
pub(crate) struct State {
    pub(crate) now: Time,
    pub(crate) limit: Time,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) network: Network,
    pub(crate) model: Arc<Model>,
    pub(crate) ranks_per_node: u32,
    pub(crate) ranks: Vec<Process>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) newborn: HashMap<usize, Body>,
    /// By sender and receiver.
    pub(crate) pairs: HashMap<(Rank, Rank), Pair>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) chains: BTreeMap<ChainId, Chain>,
    pub(crate) faults: Faults,
    /// What is to be done once nobody holds the state.
    pub(crate) effects: Vec<Effect>,
    pub(crate) next_number: u64,
    /// How many programs and services of those that run have not ended.
    pub(crate) living: usize,
    /// How many programs of those that run have not returned.
    pub(crate) programs: usize,
    /// A task that waits while it unwinds: it cannot go on.
    pub(crate) doomed: Option<usize>,
    pub(crate) is_over: bool,
}

/// What happens at a time.
pub(crate) enum Event {
    /// A task goes on, if it still waits for that: its wakings are numbered.
    Resume { task: usize, waking: u64 },
    /// A packet begins to enter the network.
    Depart(Packet),
    /// Its first byte reaches another link.
    GoOn(Packet, Flight),
    /// Its last byte is there.
    Arrive(Packet),
    /// A chain is handed to its node's engine.
    Posted(ChainId),
    /// A node's engine goes on.
    Engine(Node),
    /// The engine reads at the owner's, for a chain.
    Fetch(Packet),
    /// A chain's end is known.
    Completed(ChainId),
    /// The waiters of a process look again.
    Stir(Rank),
    /// A process dies.
    Kill(Rank),
    /// A process makes no more progress.
    Hang(Rank),
    /// The others notice.
    Detect(Rank),
}

/// What is done without holding the state, since it calls foreign code.
pub(crate) enum Effect {
    Finish(Rank, Arc<Completion>, Result<()>),
    Provide {
        provider: Arc<dyn Provider>,
        asker: Rank,
        owner: Rank,
        task: usize,
        number: u64,
        id: SegmentId,
    },
    Respond {
        respondent: Arc<dyn Respondent>,
        asker: Rank,
        owner: Rank,
        task: usize,
        number: u64,
        question: [u64; 2],
    },
    DeclareLost {
        membership: Arc<Membership>,
        lost: Rank,
        reason: String,
    },
}

/// A process.
pub(crate) struct Process {
    pub(crate) membership: Arc<Membership>,
    pub(crate) life: Life,
    pub(crate) is_closed: bool,
    /// Counts whatever may have made a condition true.
    pub(crate) generation: u64,
    /// Counts what was declared in the membership.
    pub(crate) disturbances: u64,
    /// How often each interrupt came since it was last waited for.
    pub(crate) interrupts: BTreeMap<Interrupt, u64>,
    pub(crate) segments: HashMap<SegmentId, SharedMemory>,
    pub(crate) segment_memory: u64,
    pub(crate) providers: HashMap<u32, Arc<dyn Provider>>,
    pub(crate) respondent: Option<Arc<dyn Respondent>>,
    pub(crate) registrations: HashMap<u64, UserMemory>,
    pub(crate) connections: HashMap<ConnectionId, Connection>,
    pub(crate) peers: BTreeSet<Rank>,
    /// Its program and its services that have not ended.
    pub(crate) tasks: Vec<usize>,
    pub(crate) report: RankReport,
}

/// A connected segment.
pub(crate) struct Connection {
    pub(crate) owner: Rank,
    pub(crate) id: SegmentId,
    pub(crate) memory: SharedMemory,
}

/// A coroutine's bookkeeping.
pub(crate) struct Task {
    pub(crate) rank: Rank,
    pub(crate) name: String,
    pub(crate) is_done: bool,
    /// What it has used of the processor since the clock last stood at its own time.
    pub(crate) debt: Duration,
    pub(crate) waits: Option<(Awaited, Time)>,
    pub(crate) waking: u64,
    pub(crate) answer: Option<(u64, Answer)>,
    /// The interrupt that it attends while it waits for a condition.
    pub(crate) attends: Option<Interrupt>,
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    Start,
    Time,
    Condition { attends: Option<Interrupt> },
    Interrupt(Interrupt),
    Writes { peer: Rank },
    Answer { doing: String, peer: Rank },
    End { task: usize },
}

/// What is under way from one process to another.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) failures: u64,
    /// Numbers of the transactions that are on their way.
    pub(crate) outstanding: BTreeSet<u64>,
    pub(crate) issued: u64,
    /// When the last write or interrupt was issued.
    pub(crate) last_issue: Time,
    /// How many were issued when a store barrier last ended.
    pub(crate) settled: u64,
    /// When the last acknowledgement is back.
    pub(crate) acknowledged: Time,
    /// When the last packet arrives, where the order is kept.
    pub(crate) last_arrival: Time,
}

/// Where bytes go to or come from.
#[derive(Clone)]
pub(crate) enum Target {
    Segment(SharedMemory),
    Registered { owner: Rank, key: u64 },
}

impl State {
    pub(crate) fn node(&self, rank: Rank) -> Node {
        Node(rank.0 / self.ranks_per_node)
    }

    pub(crate) fn rank(&mut self, rank: Rank) -> &mut Process {
        &mut self.ranks[rank.index()]
    }

    pub(crate) fn pair(&mut self, from: Rank, to: Rank) -> &mut Pair {
        self.pairs.entry((from, to)).or_default()
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The task's own time.
    pub(crate) fn time_of(&self, task: Option<usize>) -> Time {
        task.map_or(self.now, |task| self.now.after(self.tasks[task].debt))
    }

    /// When a task can issue a write or an interrupt to `peer`: at its own time, but not before what its process has
    /// issued already. A thread that did so ahead of the clock has perhaps told this one of it: with a turn that it
    /// gave on, as the clock of one process is no other one for each of its threads.
    pub(crate) fn begin_issue(&mut self, rank: Rank, peer: Rank, task: Option<usize>) -> Time {
        let own = self.time_of(task);
        let time = own.max(self.pair(rank, peer).last_issue);
        self.charge(task, time.since(own));
        time
    }

    /// Lets the task use the processor; without a task, nobody's time passes.
    pub(crate) fn charge(&mut self, task: Option<usize>, time: Duration) {
        if let Some(task) = task {
            let task = &mut self.tasks[task];
            task.debt += time;
            let rank = task.rank;
            self.rank(rank).report.processor += time;
        }
    }

    /// Lets an event happen; returns the task that goes on.
    pub(crate) fn handle(&mut self, event: Event) -> Option<usize> {
        match event {
            Event::Resume { task, waking } => {
                let entry = &mut self.tasks[task];
                if entry.waking == waking && !entry.is_done {
                    entry.waits = None;
                    return Some(task);
                }
            }
            Event::Depart(packet) => self.depart(packet),
            Event::GoOn(packet, flight) => self.go_on(packet, flight),
            Event::Arrive(packet) => self.arrive(packet),
            Event::Posted(chain) => self.posted(chain),
            Event::Engine(node) => self.run_engine(node),
            Event::Fetch(packet) => self.fetch(packet),
            Event::Completed(chain) => self.completed(chain),
            Event::Stir(rank) => self.stir(rank),
            Event::Kill(rank) => self.kill(rank),
            Event::Hang(rank) => self.hang(rank),
            Event::Detect(rank) => self.detect(rank),
        }
        None
    }

    /// A new task that starts at `time`.
    pub(crate) fn begin(&mut self, rank: Rank, name: &str, time: Time) -> usize {
        let task = self.tasks.len();
        self.tasks.push(Task {
            rank,
            name: name.into(),
            is_done: false,
            debt: Duration::ZERO,
            waits: Some((Awaited::Start, time)),
            waking: 0,
            answer: None,
            attends: None,
        });
        self.rank(rank).tasks.push(task);
        self.living += 1;
        self.agenda.enter(time, Event::Resume { task, waking: 0 });
        task
    }

    /// Has a waiting task go on at `time`, whatever it waited for.
    pub(crate) fn wake_at(&mut self, task: usize, time: Time) {
        let entry = &mut self.tasks[task];
        entry.waking += 1;
        // It is on its way: nothing else wakes it any more.
        entry.waits = entry.waits.take().map(|(_, since)| (Awaited::Time, since));
        let waking = entry.waking;
        self.agenda.enter(time, Event::Resume { task, waking });
    }

    /// Has those tasks of `rank` go on now that wait for something like that.
    pub(crate) fn wake(&mut self, rank: Rank, matches: impl Fn(&Awaited) -> bool) {
        for index in 0..self.ranks[rank.index()].tasks.len() {
            let task = self.ranks[rank.index()].tasks[index];
            if self.tasks[task].waits.as_ref().is_some_and(|(awaited, _)| matches(awaited)) {
                self.wake_at(task, self.now);
            }
        }
    }

    /// Has the waiters of `rank` look again.
    pub(crate) fn stir(&mut self, rank: Rank) {
        self.rank(rank).generation += 1;
        self.wake(rank, |awaited| matches!(awaited, Awaited::Condition { .. }));
    }

    /// Has all of `rank` look again, since something was declared in its membership.
    pub(crate) fn disturb(&mut self, rank: Rank) {
        self.rank(rank).generation += 1;
        self.rank(rank).disturbances += 1;
        self.wake(rank, |awaited| !matches!(awaited, Awaited::Start | Awaited::Time | Awaited::End { .. }));
    }

    /// Ends what `rank` waits for without end, and its chains.
    pub(crate) fn close(&mut self, rank: Rank) {
        self.rank(rank).is_closed = true;
        self.end_chains(
            |chain| chain.rank == rank,
            || Error::Ending { reason: "the fabric is closed".into() },
        );
        self.stir(rank);
        self.wake(rank, |awaited| matches!(awaited, Awaited::Interrupt(_)));
    }

    /// A task has ended.
    pub(crate) fn end(&mut self, task: usize) {
        let entry = &mut self.tasks[task];
        entry.is_done = true;
        let rank = entry.rank;
        let tasks = &mut self.rank(rank).tasks;
        tasks.retain(|&other| other != task);
        self.living -= 1;
        self.wake(rank, |awaited| *awaited == Awaited::End { task });
    }

    /// What `remote` is, as `rank` sees it, with a check of the range.
    pub(crate) fn resolve(&self, rank: Rank, remote: &Remote, offset: u64, length: u64) -> Result<Target> {
        let (target, size) = match remote.place {
            Place::Segment(connection) => match self.ranks[rank.index()].connections.get(&connection) {
                Some(Connection { owner, memory, .. }) if *owner == remote.owner => {
                    (Some(Target::Segment(memory.clone())), memory.len() as u64)
                }
                _ => (None, 0),
            },
            Place::Registered(MemoryKey([key, size, _])) => {
                (Some(Target::Registered { owner: remote.owner, key }), size)
            }
        };
        match target {
            Some(target) if offset.checked_add(length).is_some_and(|end| end <= size) => Ok(target),
            _ => Err(Error::OutOfBounds { what: self.describe(rank, remote), offset, length, size }),
        }
    }

    fn describe(&self, rank: Rank, remote: &Remote) -> String {
        let owner = remote.owner;
        match remote.place {
            Place::Registered(_) => format!("registered memory of rank {owner}"),
            Place::Segment(connection) => match self.ranks[rank.index()].connections.get(&connection) {
                Some(Connection { id, .. }) => format!("segment {id} of rank {owner}"),
                None => format!("a connection to rank {owner} that has ended"),
            },
        }
    }

    /// Who of those that run has not ended.
    pub(crate) fn waiters(&self) -> Vec<Waiter> {
        let living = |task: &&Task| !task.is_done && self.runs(task.rank);
        let waiter = |task: &Task| {
            let (awaited, since) = task.waits.clone().unwrap_or((Awaited::Time, self.now));
            Waiter { rank: task.rank, task: task.name.clone(), what: self.tell(&awaited), since }
        };
        self.tasks.iter().filter(living).map(waiter).collect()
    }

    fn tell(&self, awaited: &Awaited) -> String {
        match awaited {
            Awaited::Start => "its start".into(),
            Awaited::Time => "time to pass".into(),
            Awaited::Condition { attends: None } => "a condition".into(),
            Awaited::Condition { attends: Some(interrupt) } => {
                format!("a condition, attending interrupt {interrupt}")
            }
            Awaited::Interrupt(interrupt) => format!("interrupt {interrupt}"),
            Awaited::Writes { peer } => format!("its writes to rank {peer}"),
            Awaited::Answer { doing, peer } => format!("rank {peer}: {doing}"),
            Awaited::End { task } => format!("the end of its service {}", self.tasks[*task].name),
        }
    }
}
