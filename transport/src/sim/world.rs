//! A world, and the loop that drives it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::fabric::Fabric;
use crate::membership::{Membership, Subscription};
use crate::sim::adapter::SimAdapter;
use crate::sim::agenda::Agenda;
use crate::sim::engine::Engine;
use crate::sim::faults::Faults;
use crate::sim::fiber::{Current, Fiber, Stacks};
use crate::sim::losses::Life;
use crate::sim::network::Network;
use crate::sim::options::SimOptions;
use crate::sim::report::{RankReport, SimError, SimReport};
use crate::sim::shared::Shared;
use crate::sim::state::{Event, Process, State};
use crate::units::{Rank, Time};

/// A job of simulated processes.
#[derive(Debug, Clone)]
pub struct World {
    options: SimOptions,
}

impl World {
    /// One made of `options`.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Self { options }
    }

    /// Runs `body` for each rank, all on this thread, until all have returned; then the fabrics are closed and their
    /// services come to their ends.
    ///
    /// A process that is killed or hangs, or that has not returned when the run fails, is forgotten: what lives on its stack
    /// is not dropped.
    ///
    /// # Errors
    /// [`SimError`]: deadlock, panic, the time limit, no stacks, more nodes than the model can have.
    pub fn run<R>(&self, body: impl Fn(Fabric) -> R) -> Result<SimReport<R>, SimError> {
        let nodes = self.options.size.div_ceil(self.ranks_per_node());
        let is_possible = self.options.model.check_nodes(nodes);
        is_possible.map_err(|error| SimError::Nodes { problem: error.to_string() })?;
        let shared = Shared::new(self.state());
        let capabilities = Arc::new(self.capabilities());
        let nodes = self.nodes();
        let fabrics: Vec<_> = (0..self.options.size)
            .map(|rank| {
                let membership = Arc::new(Membership::with_shared_nodes(Rank(rank), Arc::clone(&nodes)));
                let _subscription = self.enter(&shared, Rank(rank), &membership);
                let (shared, capabilities) = (Arc::clone(&shared), Arc::clone(&capabilities));
                let rank = Rank(rank);
                Fabric::new(Arc::new(SimAdapter { shared, rank, capabilities, membership, _subscription }))
            })
            .collect();
        let results: RefCell<Vec<Option<R>>> = RefCell::new(fabrics.iter().map(|_| None).collect());
        let mut run = Run {
            shared: &shared,
            stacks: Stacks::new(self.options.stack_size),
            fibers: HashMap::new(),
            panic: Rc::default(),
            events: 0,
            switches: 0,
        };
        let program = |rank: Rank, fabric: &Fabric| {
            let result = body(fabric.clone());
            results.borrow_mut()[rank.index()] = Some(result);
        };
        run.drive(&fabrics, &program)?;
        let (events, switches) = (run.events, run.switches);
        drop(run);
        let state = shared.lock();
        let ranks: Vec<_> = state.ranks.iter().map(|process| process.report).collect();
        let duration = ranks.iter().map(|report| report.returned_after).max().unwrap_or_default();
        let faults = state.faults.counts;
        Ok(SimReport { duration, events, switches, ranks, faults, results: results.take() })
    }

    fn capabilities(&self) -> crate::Capabilities {
        let faults = &self.options.faults;
        let mut capabilities = self.options.model.capabilities();
        capabilities.is_reliable &= faults.dropped <= 0.0;
        if faults.reorder() {
            capabilities.ordering = crate::WriteOrder::Any;
        }
        capabilities
    }

    fn nodes(&self) -> Arc<[String]> {
        (0..self.options.size).map(|rank| format!("node{}", rank / self.ranks_per_node())).collect()
    }

    fn ranks_per_node(&self) -> u32 {
        self.options.ranks_per_node.max(1)
    }

    fn state(&self) -> State {
        let options = &self.options;
        let nodes = options.size.div_ceil(self.ranks_per_node());
        let mut agenda = Agenda::new();
        let exists = |&&(rank, _): &&(Rank, Time)| rank.0 < options.size;
        for &(rank, time) in options.faults.kill.iter().filter(exists) {
            agenda.enter(time, Event::Kill(rank));
        }
        for &(rank, time) in options.faults.hang.iter().filter(exists) {
            agenda.enter(time, Event::Hang(rank));
        }
        State {
            now: Time(0),
            limit: Time(0).after(options.time_limit),
            agenda,
            network: Network::new(&options.model, nodes),
            model: Arc::clone(&options.model),
            ranks_per_node: self.ranks_per_node(),
            ranks: Vec::new(),
            tasks: Vec::new(),
            newborn: HashMap::new(),
            pairs: HashMap::new(),
            engines: (0..nodes).map(|_| Engine::default()).collect(),
            chains: BTreeMap::new(),
            faults: Faults::new(options.faults.clone(), options.seed),
            effects: Vec::new(),
            next_number: 0,
            living: 0,
            programs: options.size as usize,
            doomed: None,
            is_over: false,
        }
    }

    /// Enters a process and its program, whose task has the rank's number.
    fn enter(&self, shared: &Arc<Shared>, rank: Rank, membership: &Arc<Membership>) -> Subscription {
        let weak = Arc::downgrade(shared);
        let subscription = membership.on_disturbance(move || {
            if let Some(shared) = weak.upgrade() {
                shared.lock().disturb(rank);
            }
        });
        let mut state = shared.lock();
        state.ranks.push(Process {
            membership: Arc::clone(membership),
            life: Life::Runs,
            is_closed: false,
            generation: 0,
            disturbances: 0,
            interrupts: BTreeMap::new(),
            segments: HashMap::new(),
            segment_memory: 0,
            providers: HashMap::new(),
            respondent: None,
            registrations: HashMap::new(),
            connections: HashMap::new(),
            peers: BTreeSet::new(),
            tasks: Vec::new(),
            report: RankReport::default(),
        });
        state.begin(rank, "its program", Time(0));
        drop(state);
        subscription
    }
}

/// A run of a world.
struct Run<'a> {
    shared: &'a Arc<Shared>,
    stacks: Stacks,
    fibers: HashMap<usize, Fiber>,
    panic: Rc<Cell<Option<String>>>,
    events: u64,
    switches: u64,
}

impl Run<'_> {
    /// Lets one event happen after the other until all have ended.
    fn drive(&mut self, fabrics: &[Fabric], program: &dyn Fn(Rank, &Fabric)) -> Result<(), SimError> {
        let mut is_closing = false;
        loop {
            if !is_closing && self.shared.lock().programs == 0 {
                is_closing = true;
                fabrics.iter().for_each(Fabric::close);
            }
            let (resumed, effects) = {
                let mut state = self.shared.lock();
                if is_closing && state.living == 0 {
                    return Ok(());
                }
                let at = Duration::from_nanos(state.now.0);
                let Some((time, event)) = state.agenda.take() else {
                    return Err(SimError::Deadlock { at, waiting: state.waiters() });
                };
                if time > state.limit {
                    let limit = Duration::from_nanos(state.limit.0);
                    return Err(SimError::TimeLimit { limit, waiting: state.waiters() });
                }
                state.now = time;
                self.events += 1;
                (state.handle(event), std::mem::take(&mut state.effects))
            };
            self.shared.carry_out(effects);
            if let Some(task) = resumed {
                self.resume(task, fabrics, program)?;
            }
        }
    }

    fn resume(
        &mut self,
        task: usize,
        fabrics: &[Fabric],
        program: &dyn Fn(Rank, &Fabric),
    ) -> Result<(), SimError> {
        self.switches += 1;
        if !self.fibers.contains_key(&task) {
            let fiber = self.fiber(task, fabrics, program)?;
            self.fibers.insert(task, fiber);
        }
        let Some(fiber) = self.fibers.get_mut(&task) else { return Ok(()) };
        let has_ended = fiber.resume(Current { world: self.shared.world(), task });
        let doomed = self.shared.lock().doomed.take();
        if let Some(message) = self.panic.take() {
            return Err(self.panicked(task, message));
        }
        if let Some(task) = doomed {
            return Err(self.panicked(task, "what it said is above; it waited as it unwound".into()));
        }
        if has_ended {
            self.shared.lock().end(task);
            if let Some(fiber) = self.fibers.remove(&task) {
                self.stacks.put_back(fiber.into_stack());
            }
        }
        Ok(())
    }

    /// The coroutine of a task that starts.
    fn fiber(
        &self,
        task: usize,
        fabrics: &[Fabric],
        program: &dyn Fn(Rank, &Fabric),
    ) -> Result<Fiber, SimError> {
        let (rank, name, service) = {
            let mut state = self.shared.lock();
            let service = state.newborn.remove(&task);
            (state.tasks[task].rank, state.tasks[task].name.clone(), service)
        };
        let stack = self.stacks.take().map_err(|error| SimError::Stack {
            rank,
            task: name,
            problem: error.to_string(),
        })?;
        let shared = Arc::clone(self.shared);
        let panic = Rc::clone(&self.panic);
        let body: Box<dyn FnOnce() + '_> = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| match service {
                Some(service) => service(),
                None => {
                    program(rank, &fabrics[rank.index()]);
                    let returned = shared.settle();
                    let mut state = shared.lock();
                    state.programs -= 1;
                    state.rank(rank).report.returned_after = returned.since(Time(0));
                }
            }));
            if let Err(payload) = outcome {
                panic.set(Some(message_of(payload.as_ref())));
            }
        });
        // SAFETY: the body runs only while `self.fibers` holds its coroutine, and `World::run` has dropped that,
        // with `self`, before anything that the body borrows ends.
        let body = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(body) };
        Ok(Fiber::new(stack, body))
    }

    fn panicked(&self, task: usize, message: String) -> SimError {
        let state = self.shared.lock();
        let at = Duration::from_nanos(state.now.0);
        SimError::Panicked { rank: state.tasks[task].rank, task: state.tasks[task].name.clone(), at, message }
    }
}

impl Drop for Run<'_> {
    /// Ends what is left: first everything that refers to the stacks of processes, then these.
    fn drop(&mut self) {
        let mut remains = Vec::<Box<dyn Any>>::new();
        {
            let mut state = self.shared.lock();
            state.is_over = true;
            state.chains.clear();
            remains.push(Box::new(std::mem::take(&mut state.agenda)));
            remains.push(Box::new(std::mem::take(&mut state.newborn)));
            remains.push(Box::new(std::mem::take(&mut state.effects)));
            for process in &mut state.ranks {
                process.registrations.clear();
                remains.push(Box::new(std::mem::take(&mut process.segments)));
                remains.push(Box::new(std::mem::take(&mut process.providers)));
                remains.push(Box::new(process.respondent.take()));
                remains.push(Box::new(std::mem::take(&mut process.connections)));
            }
        }
        // Only here, where nobody holds the state: some of it calls back when it is dropped.
        drop(remains);
        for (_, fiber) in self.fibers.drain() {
            drop(fiber.into_stack());
        }
    }
}

/// What a panic said.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something unprintable".into())
}
