//! Which operations of a program are before which, by what MPI promises and by what svmio does.
//!
//! What a rank writes is seen by an operation of another rank
//!
//! * by MPI: if there is a sync, an opening or a closing in between, then a barrier, then another one;
//! * in atomic mode: if there is a barrier;
//! * by svmio: also if there is one sync, opening or closing, by all; what was written collectively, if there is a
//!   collective read that blocks or is split; what was written in order, by all reads;
//! * where it is seen at once: if the one is before the other in time.
//!
//! An operation is before another rank's in time
//!
//! * by MPI: if there is a barrier;
//! * by svmio: also if there is one of its calls above, a change of the size, a new view, another mode, or a new place
//!   of the shared pointer; where outcomes are each rank's own, a collective access of the other direction; where they are
//!   shared, any that blocks.

use super::operation::{Event, Operation, What, moment};

/// By which promises a file is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promises {
    /// svmio's, besides MPI's.
    pub(crate) of_svmio: bool,
    /// Ranks hear of each other's failures at the end of each collective access, and not where the next one goes
    /// the other way.
    pub(crate) outcome_shared: bool,
    /// What is written is seen by whoever reads later: on one node, and where visibility is immediate.
    pub(crate) seen_at_once: bool,
    /// Also that a read that does not block, or has gaps in the file or in memory, tells how much has come, and
    /// that such accesses are atomic in atomic mode. With stock ROMIO's files it is not so.
    pub(crate) of_special: bool,
}

/// A program's order.
pub(crate) struct Order {
    promises: Promises,
    /// From which moment on whatever begins is after what ended by this moment, in time.
    time: Vec<usize>,
    /// The same of what is seen.
    seen: Vec<usize>,
    /// The same of what was written collectively.
    seen_together: Vec<usize>,
}

impl Order {
    pub(crate) fn new(events: &[Event], promises: Promises) -> Order {
        let done = |kinds: &[Event]| -> Vec<usize> {
            let is_one = |number: &usize| kinds.contains(&events[*number]);
            (0..events.len()).filter(is_one).map(moment::done).collect()
        };
        let syncs = done(&[Event::Sync, Event::Open, Event::Close]);
        let barriers = done(&[Event::Barrier]);
        let (mut waits, mut fences, mut reads) = (barriers.clone(), Vec::new(), Vec::new());
        if promises.of_svmio {
            fences = done(&[Event::Sync, Event::Open, Event::Close]);
            waits.extend(&fences);
            waits.extend(done(&[Event::SetSize, Event::Preallocate]));
            waits.extend(done(&[Event::Views, Event::Atomic, Event::SeekShared]));
            let numbers = 0..events.len();
            if promises.outcome_shared {
                waits.extend(done(&[Event::Read, Event::Write]));
            } else {
                waits.extend(numbers.clone().filter(|number| turns(events, *number)).map(moment::met));
            }
            waits.sort_unstable();
            reads = numbers.filter(|number| reads_together(events[*number])).map(moment::met).collect();
        }
        let moments = 0..moment::before(events.len() + 1);
        let time: Vec<usize> = moments.clone().map(|moment| first(&waits, moment)).collect();
        let exchanged = |moment| {
            let barrier = first(&barriers, first(&syncs, moment));
            first(&syncs, barrier)
        };
        let seen = moments.clone().map(|moment| {
            let seen = exchanged(moment).min(first(&fences, moment));
            if promises.seen_at_once { seen.min(time[moment]) } else { seen }
        });
        let seen = seen.collect();
        Order { promises, time, seen, seen_together: moments.map(|moment| first(&reads, moment)).collect() }
    }

    /// Whether what the first has done is there for the second one.
    pub(crate) fn is_seen(&self, first: &Operation, second: &Operation) -> bool {
        let (ended, begun) = (first.moments.1, second.moments.0);
        match (first.rank, second.rank) {
            (Some(one), Some(other)) if one == other => return first.lines.1 < second.lines.0,
            (None, None) => return ended < begun,
            _ => {}
        }
        if first.atomic.is_some() && first.atomic == second.atomic && self.time[ended] <= begun {
            return true;
        }
        if self.seen[ended] <= begun {
            return true;
        }
        let reads = matches!(second.what, What::Read { .. });
        let is_written_together = first.is_collective && first.what.writes();
        self.promises.of_svmio
            && is_written_together
            && (self.seen_together[ended] <= begun || first.is_ordered && reads && ended <= begun)
    }

    /// Whether the first has ended before the second begins.
    pub(crate) fn is_before(&self, first: &Operation, second: &Operation) -> bool {
        if first.rank.is_some() && first.rank == second.rank {
            return first.lines.1 < second.lines.0;
        }
        self.time[first.moments.1] <= second.moments.0 || self.is_seen(first, second)
    }
}

/// The first of these moments that is not before this one.
fn first(of: &[usize], moment: usize) -> usize {
    of.get(of.partition_point(|other| *other < moment)).copied().unwrap_or(usize::MAX)
}

/// Whether this is a collective access that goes the other way than the one before it.
fn turns(events: &[Event], number: usize) -> bool {
    let before = events[..number].iter().rev().find(|event| !matches!(event, Event::End));
    let ways = |event: Event| (reads_together(event), matches!(event, Event::Write | Event::SplitWrite));
    before.is_some_and(|before| {
        let ((reads, writes), (then_reads, then_writes)) = (ways(*before), ways(events[number]));
        reads && then_writes || writes && then_reads
    })
}

/// Whether this is a collective read for which ranks wait.
fn reads_together(event: Event) -> bool {
    matches!(event, Event::Read | Event::SplitRead)
}
