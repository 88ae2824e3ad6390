//! A program written out: a line for each call of each rank, as the MPI program reads them, and what the judge is
//! to know of them.

mod pointer;

use super::operation::{Event, Operation, Records, What, moment};
use super::program::{Access, Bytes, LONGEST, Program, Step, Together, TogetherWay, Way};
use super::span::View;

/// Tags of one program, each of which one write has: so many that each byte tells whose it is.
const MOST_TAGS: u8 = 254;
/// How many accesses of a rank are under way at most.
const MOST_BEGUN: usize = 40;

/// What ROMIO is told where it keeps files itself: its data sieving, and its collective buffering, which rests on
/// it, fill holes behind the end of a file with what they find in memory.
const WITHOUT_SIEVING: [(&str, &str); 4] = [
    ("romio_ds_read", "disable"),
    ("romio_ds_write", "disable"),
    ("romio_cb_read", "disable"),
    ("romio_cb_write", "disable"),
];

/// All of a program.
pub(crate) struct Script {
    pub(crate) lines: Vec<String>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) events: Vec<Event>,
    pub(crate) records: Vec<Records>,
}

impl Script {
    /// What `ranks` ranks do with the file `name`; with stock files as they need it.
    pub(crate) fn new(program: &Program, ranks: usize, name: &str, is_stock: bool) -> Script {
        let mut writer = Writer {
            script: Script {
                lines: Vec::new(),
                operations: Vec::new(),
                events: Vec::new(),
                records: Vec::new(),
            },
            name: name.to_owned(),
            views: vec![View::WHOLE; ranks],
            begun: (0..ranks).map(|_| Vec::new()).collect(),
            atomic: None,
            times: 0,
            tags: 0,
            is_stock,
        };
        let further = if is_stock { &WITHOUT_SIEVING[..] } else { &[] };
        for (key, value) in program.hints.iter().chain(further) {
            writer.line(None, &format!("hint {key} {value}"));
        }
        writer.open();
        program.steps.iter().for_each(|step| writer.step(step));
        writer.look_at_all();
        writer.script
    }
}

/// An access that is under way.
struct Begun {
    slot: usize,
    operation: usize,
    /// After how many further accesses it is waited for; none for what is split, which all end together.
    patience: Option<u8>,
}

struct Writer {
    script: Script,
    name: String,
    /// By rank.
    views: Vec<View>,
    /// By rank.
    begun: Vec<Vec<Begun>>,
    atomic: Option<usize>,
    /// How many times of atomic mode there were.
    times: usize,
    tags: u8,
    is_stock: bool,
}

/// How an access is made.
#[derive(Clone, Copy)]
struct Call<'m> {
    method: &'m str,
    writes: bool,
    is_collective: bool,
    /// What [`Begun`] has, where it ends by a call of its own.
    patience: Option<Option<u8>>,
}

impl Writer {
    fn ranks(&self) -> usize {
        self.views.len()
    }

    fn now(&self) -> usize {
        moment::before(self.script.events.len())
    }

    fn line(&mut self, rank: Option<usize>, text: &str) -> usize {
        let whose = rank.map_or("*".to_owned(), |rank| rank.to_string());
        self.script.lines.push(format!("{whose} {text}"));
        self.script.lines.len() - 1
    }

    fn event(&mut self, text: &str, event: Event) {
        self.line(None, text);
        self.script.events.push(event);
    }

    /// An event that changes the file.
    fn change(&mut self, text: &str, event: Event, what: What) {
        let moment = moment::done(self.script.events.len());
        let line = self.script.lines.len();
        self.event(text, event);
        self.script.operations.push(Operation {
            rank: None,
            what,
            lines: (line, line),
            moments: (moment, moment),
            atomic: self.atomic,
            is_collective: false,
            is_ordered: false,
        });
    }

    fn operation(&mut self, rank: usize, what: What, line: usize) -> usize {
        let now = self.now();
        self.script.operations.push(Operation {
            rank: Some(rank),
            what,
            lines: (line, line),
            moments: (now, now),
            atomic: self.atomic,
            is_collective: false,
            is_ordered: false,
        });
        self.script.operations.len() - 1
    }

    fn open(&mut self) {
        self.event(&format!("open {}", self.name.clone()), Event::Open);
        self.views.fill(View::WHOLE);
        self.atomic = None;
    }

    fn exchange(&mut self) {
        self.complete();
        self.event("sync", Event::Sync);
        self.event("barrier", Event::Barrier);
        self.event("sync", Event::Sync);
    }

    fn next_tag(&mut self) -> Option<u8> {
        (self.tags < MOST_TAGS).then(|| {
            self.tags += 1;
            self.tags
        })
    }

    /// Ends all that is under way.
    fn complete(&mut self) {
        for rank in 0..self.ranks() {
            for begun in std::mem::take(&mut self.begun[rank]) {
                self.wait(rank, &begun);
            }
        }
    }

    fn wait(&mut self, rank: usize, begun: &Begun) {
        let line = self.line(Some(rank), &format!("wait {}", begun.slot));
        let now = self.now();
        let operation = &mut self.script.operations[begun.operation];
        (operation.lines.1, operation.moments.1) = (line, now);
    }

    /// Ends what a rank has waited long enough with, before its next access.
    fn go_on(&mut self, rank: usize) {
        let (over, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.begun[rank]).into_iter().partition(|begun| begun.patience == Some(0));
        self.begun[rank] = rest;
        over.iter().for_each(|begun| self.wait(rank, begun));
        self.begun[rank].iter_mut().flat_map(|begun| &mut begun.patience).for_each(|patience| *patience -= 1);
        let oldest = self.begun[rank].iter().position(|begun| begun.patience.is_some());
        if let Some(oldest) = oldest.filter(|_| self.begun[rank].len() >= MOST_BEGUN) {
            let begun = self.begun[rank].remove(oldest);
            self.wait(rank, &begun);
        }
    }

    fn free_slot(&self, rank: usize) -> usize {
        let is_used = |slot: &usize| self.begun[rank].iter().any(|begun| begun.slot == *slot);
        (0..).find(|slot| !is_used(slot)).unwrap_or(0)
    }

    /// An access of a rank to bytes of its view; which operation it is.
    fn call(&mut self, rank: usize, bytes: Bytes, call: Call<'_>) -> Option<usize> {
        let tag = if call.writes { Some(self.next_tag().or(call.is_collective.then_some(0))?) } else { None };
        let Bytes { at, mut length, is_spaced } = bytes;
        if tag == Some(0) {
            length = 0;
        }
        let slot = self.free_slot(rank);
        let spacing = if is_spaced { 2 } else { 1 };
        let words = format!("{} {at} {length} {spacing} {slot}", call.method);
        let text = tag.map_or_else(|| format!("read {words}"), |tag| format!("write {words} {tag}"));
        let line = self.line(Some(rank), &text);
        let span = self.views[rank].span(at, length);
        let is_plain = !is_spaced && self.views[rank].is_contiguous() && call.patience.is_none();
        let what = tag.map_or(What::Read { span, is_plain }, |tag| What::Write { span, is_plain, tag });
        let operation = self.operation(rank, what, line);
        if call.is_collective {
            let begun = moment::begun(self.script.events.len());
            let operation = &mut self.script.operations[operation];
            (operation.is_collective, operation.moments) = (true, (begun, begun));
        }
        if let Some(patience) = call.patience {
            self.begun[rank].push(Begun { slot, operation, patience });
        }
        Some(operation)
    }

    /// These bytes as far as there are any in a rank's view.
    fn within(&self, rank: usize, bytes: Bytes) -> Bytes {
        let room = self.views[rank].bytes_before(LONGEST);
        let at = if room == 0 { 0 } else { bytes.at % room };
        Bytes { at, length: bytes.length.min(room - at), ..bytes }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Alone(accesses) => self.alone(accesses),
            Step::Together(together) => self.together(together),
            Step::Sync => {
                self.complete();
                self.event("sync", Event::Sync);
            }
            Step::Barrier => self.event("barrier", Event::Barrier),
            Step::Exchange => self.exchange(),
            Step::SetSize(size) => {
                self.complete();
                self.change(&format!("set_size {size}"), Event::SetSize, What::SetSize(*size));
            }
            Step::Preallocate(size) => {
                self.complete();
                self.change(&format!("preallocate {size}"), Event::Preallocate, What::Preallocate(*size));
            }
            Step::Atomic(is_atomic) => self.set_atomic(*is_atomic),
            Step::Reopen(is_met) => self.reopen(*is_met),
            Step::Views(views) => {
                self.complete();
                self.set_views(|rank| views[rank % views.len()]);
            }
            Step::Shared(shared) => self.shared(shared),
            Step::Ordered(ordered) => self.ordered(ordered),
        }
    }

    fn alone(&mut self, accesses: &[(u8, Access)]) {
        for (rank, access) in accesses {
            let rank = usize::from(*rank) % self.ranks();
            self.go_on(rank);
            let (writes, bytes, way) = match *access {
                Access::Size => {
                    let line = self.line(Some(rank), "get_size");
                    self.operation(rank, What::Size, line);
                    continue;
                }
                Access::Write(bytes, way) => (true, bytes, way),
                Access::Read(bytes, way) => (false, bytes, way),
            };
            let bytes = self.within(rank, bytes);
            let (method, patience) = match way {
                Way::At => ("at", None),
                Way::Seek => ("seek", None),
                Way::Begun(patience) => ("iat", Some(Some(patience))),
                Way::BegunSeek(patience) => ("iseek", Some(Some(patience))),
            };
            if bytes.length > 0 {
                self.call(rank, bytes, Call { method, writes, is_collective: false, patience });
            }
        }
    }

    fn together(&mut self, together: &Together) {
        let Together { writes, ref way, is_by_pointer, ref parts } = *together;
        let (name, event, patience) = match way {
            TogetherWay::Blocking => ("all", [Event::Read, Event::Write], None),
            TogetherWay::Split(_) => ("split", [Event::SplitRead, Event::SplitWrite], Some(None)),
            TogetherWay::Begun(patience) => {
                ("iall", [Event::BegunRead, Event::BegunWrite], Some(Some(*patience)))
            }
        };
        let method = if is_by_pointer { name.to_owned() } else { format!("{name}_at") };
        let call = Call { method: &method, writes, is_collective: true, patience };
        let none = Bytes { at: 0, length: 0, is_spaced: false };
        let own: Vec<_> = (0..self.ranks())
            .filter_map(|rank| {
                self.go_on(rank);
                let bytes = self.within(rank, parts.get(rank).copied().unwrap_or(none));
                self.call(rank, bytes, call)
            })
            .collect();
        self.script.events.push(event[usize::from(writes)]);
        match way {
            TogetherWay::Blocking => self.end(&own),
            TogetherWay::Begun(_) => {}
            TogetherWay::Split(meanwhile) => {
                self.alone(meanwhile);
                self.end_split(&own);
            }
        }
    }

    /// Has all end what is split.
    fn end_split(&mut self, operations: &[usize]) {
        for rank in 0..self.ranks() {
            if let Some(place) = self.begun[rank].iter().position(|begun| begun.patience.is_none()) {
                let begun = self.begun[rank].remove(place);
                self.wait(rank, &begun);
            }
        }
        self.script.events.push(Event::End);
        self.end(operations);
    }

    /// Notes that these have ended now.
    fn end(&mut self, operations: &[usize]) {
        let now = self.now();
        operations.iter().for_each(|operation| self.script.operations[*operation].moments.1 = now);
    }

    fn set_atomic(&mut self, is_atomic: bool) {
        self.exchange();
        self.event(&format!("atomic {}", u8::from(is_atomic)), Event::Atomic);
        self.atomic = is_atomic.then_some(self.times);
        self.times += 1;
        self.event("barrier", Event::Barrier);
    }

    fn reopen(&mut self, is_met: bool) {
        self.complete();
        let is_met = is_met || self.atomic.is_some();
        self.event("close", Event::Close);
        if is_met {
            self.event("barrier", Event::Barrier);
        }
        self.open();
    }

    fn set_views(&mut self, view: impl Fn(usize) -> View) {
        for rank in 0..self.ranks() {
            let View { from, kind, block, stride } = view(rank);
            self.line(Some(rank), &format!("view {from} {kind} {block} {stride}"));
            self.views[rank] = view(rank);
        }
        self.script.events.push(Event::Views);
    }

    /// Has all look at everything, and removes the file.
    fn look_at_all(&mut self) {
        self.exchange();
        self.set_views(|_| View::WHOLE);
        let ranks = self.ranks();
        let part = LONGEST / ranks as u64;
        for rank in 0..ranks {
            let (at, length) =
                if rank + 1 == ranks { (0, LONGEST + 10) } else { ((rank as u64 + 1) * part - 10, part) };
            self.alone(&[(rank as u8, Access::Size)]);
            let bytes = Bytes { at, length, is_spaced: false };
            self.call(
                rank,
                bytes,
                Call { method: "at", writes: false, is_collective: false, patience: None },
            );
        }
        self.event("close", Event::Close);
        self.event("barrier", Event::Barrier);
        self.line(None, &format!("remove {}", self.name.clone()));
    }
}
