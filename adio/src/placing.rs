//! Collective writes to files of several nodes: all new segments get their homes before any byte moves, in one
//! exchange between the ranks, and only where there are new ones.
//!
//! Whether there are, the ranks have to ask each other, which costs more than a short write. So they cease to where none
//! has come for [a while](Asking): who writes to a new segment then gives it a home as an independent write does. They
//! come back to it where they wait for each other anyway, as to sync or to set a view, and stay where there are new ones.
//! Where the new segments of a write go in blocks to nodes, only all of them together tell which goes where, and the
//! ranks ask before each.
//!
//! The first such write to a file also settles how large its segments are, from the same exchange ([`choosing`]),
//! unless the program has said so.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use svmio_svm::team::Team;
use svmio_svm::{FileOffset, NodeIndex, SegmentIndex, SegmentSize, SizeReason};

use crate::abi::Abi;
use crate::access::Access;
use crate::amounts::{Amounts, Writers};
use crate::calls::Mpi;
use crate::choosing::{self, Choice, Reason};
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::hints;
use crate::layout::RomioFile;
use crate::placement::{self, Rule};
use crate::venue::Company;
use crate::view::{Extent, View};

/// More new segments in one rank's bounds are not placed ahead; those that are written are placed one by one then.
const MOST_SEGMENTS: u64 = 1 << 18;

/// Bytes that ranks tell of where they write. What takes more is told by larger units, as long as these are none larger
/// than segments; else the segments are placed one by one.
const MOST_TOLD: usize = 64 << 20;
/// How many times as large those units are.
const COARSER: u32 = 2;

/// Before which collective writes the ranks ask each other for new segments. What goes into it is the same on all.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// How often in a row there were none.
    in_vain: AtomicU32,
}

impl Asking {
    /// Programs that write to new segments at every so many calls at least are asked before each.
    const PATIENCE: u32 = 8;

    /// All have waited for each other, for something else: they ask before the next write, too.
    pub(crate) fn resume(&self) {
        // Relaxed, here and below: ROMIO lets one thread at a time into a file.
        self.in_vain.fetch_min(Self::PATIENCE - 1, Ordering::Relaxed);
    }

    /// Whether they ask before the write that comes now.
    fn is_due(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) < Self::PATIENCE
    }

    /// They have asked; whether there `were` new segments.
    fn note(&self, were: bool) {
        let in_vain = if were { 0 } else { self.in_vain.load(Ordering::Relaxed).saturating_add(1) };
        self.in_vain.store(in_vain, Ordering::Relaxed);
    }
}

/// Places the new segments of a collective write, of which `access` is this rank's part, if it has any.
///
/// # Errors
/// Those of the exchange and of the master, on all ranks; that this rank's node cannot note the homes.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them, and every rank of the file makes the same call.
pub(crate) unsafe fn place_new<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: Option<&Access<A>>,
) -> Result<(), Failure> {
    // SAFETY: ROMIO's file is valid, and nothing else refers to it meanwhile.
    let fd = unsafe { &mut *fd };
    let handle = handle::of(fd)?;
    let Some(company) = handle.company() else {
        return Ok(());
    };
    if !handle.asking.is_due() && !matches!(handle.rule, Rule::Block(_)) {
        return Ok(());
    }
    let now = handle.file.segment_size();
    let part = access.and_then(|access| Part::of(mpi, fd, access)).unwrap_or_default();
    let unplaced = unplaced(handle, now, &part);
    let mut amounts = Amounts::by(now.bytes());
    let may_choose = may_choose(handle);
    // With segments that are there already, all of this rank's may be, though not all between its bounds.
    if !may_choose && !unplaced.is_empty() {
        amounts = part.amounts(now);
        amounts.retain(|segment| unplaced.binary_search(&segment).is_ok());
    }
    let writes_new = if may_choose { !unplaced.is_empty() } else { !amounts.is_empty() };
    let bounds = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (start, end) = match part.bounds.is_empty() {
        true => (i64::MAX, 0),
        false => (bounds(part.bounds.start), bounds(part.bounds.end)),
    };
    let [any_new, any_fixed, end, before_start] =
        handle.team.maxima([writes_new.into(), (!may_choose).into(), end, -start])?;
    // How large segments are is to be settled by the first write of all, however many calls without any bytes come.
    handle.asking.note(any_new == 1 || any_fixed == 0);
    if any_new == 0 {
        return Ok(());
    }
    let unit = match any_fixed {
        0 => choosing::smallest((end + before_start).max(0).unsigned_abs(), now),
        _ => now,
    };
    if may_choose && !unplaced.is_empty() {
        amounts = part.amounts(unit);
    }
    let Some(told) = gathered(&handle.team, amounts, unit, now, MOST_TOLD)? else {
        if handle.rank() == 0 {
            let name = handle.file.name();
            tracing::info!("{name}: new segments are not placed ahead: telling of all pieces takes too much");
        }
        return Ok(());
    };
    let placed = (handle.rank() == 0).then(|| place(handle, company, &told, now));
    let told = handle.team.told(0, placed.unwrap_or_else(|| Ok(Vec::new())))?;
    let (chosen, each, homes) = decoded(&told);
    if let Some(size) = chosen {
        handle.file.note_segment_size(size);
        let noted = hints::tell_segment_size(mpi, fd.info, size);
        // A node whose ranks do not know the size yet would store others' data in segments of another one.
        handle.team.agree(noted)?;
    }
    if handle.rank() != 0 {
        handle.file.note_homes(&homes, each)?;
    }
    if let Some(size) = chosen {
        fd.blksize = i64::try_from(size.bytes()).unwrap_or(i64::MAX);
    }
    Ok(())
}

/// What ranks tell of where they write.
struct Told {
    /// Of all ranks, at rank 0.
    all: Vec<Vec<u8>>,
    /// By these units.
    unit: SegmentSize,
    /// Which are larger than wanted.
    is_coarser: bool,
}

/// What all ranks tell, by `unit` or larger ones; `None` where even by units of `largest` that takes more than `most`
/// bytes.
fn gathered(
    team: &Team,
    mut amounts: Amounts,
    mut unit: SegmentSize,
    largest: SegmentSize,
    most: usize,
) -> Result<Option<Told>, Failure> {
    let wanted = unit;
    loop {
        if let Some(all) = team.gather(0, &amounts.to_bytes(), most)? {
            return Ok(Some(Told { all, unit, is_coarser: unit != wanted }));
        }
        let larger = unit.bytes().saturating_mul(COARSER.into());
        let Some(larger) = SegmentSize::new(larger).ok().filter(|larger| larger.bytes() <= largest.bytes())
        else {
            return Ok(None);
        };
        unit = larger;
        amounts = amounts.coarser(COARSER);
    }
}

/// Whether, as far as this rank knows, nothing has settled how large the file's segments are. What goes on in the
/// background goes by the size that it finds.
fn may_choose(handle: &Handle) -> bool {
    let goes_by_size = !matches!(handle.rule, Rule::Node(_));
    let is_settled = handle.has_given_segment_size || handle.file.has_segments();
    goes_by_size && !is_settled && !handle.under_way.is_any()
}

/// Rank 0's part: settles the segment size where the units are smaller ones, and enters homes at the master; returns the
/// size, if it was to be another one, how many bytes each segment gets on the average, and the homes in force, encoded.
fn place(handle: &Handle, company: &Company, told: &Told, now: SegmentSize) -> Result<Vec<u8>, Failure> {
    let &Told { ref all, unit, is_coarser } = told;
    let located = |error: svmio_svm::Error| handle.located(error.into());
    let nodes = company.nodes_of_ranks().iter().copied();
    let writers = Writers::of(nodes.zip(all.iter().map(|told| &told[..])));
    let choice = match &handle.rule {
        Rule::FirstTouch if unit != now => choosing::choose(&writers, unit, now),
        Rule::RoundRobin(nodes) | Rule::Block(nodes) if unit != now => {
            choosing::choose_to_spread(&writers, unit, now, nodes.len())
        }
        _ => None,
    };
    let mut chosen = None;
    if let Some(choice) = choice {
        let reason = match choice.reason {
            Reason::Nearness { .. } => SizeReason::Nearness,
            Reason::Spreading { .. } => SizeReason::Spreading,
        };
        let size = handle.file.choose_segment_size(choice.size, reason).map_err(located)?;
        log(handle, &choice, size);
        chosen = Some(size);
    } else if !handle.has_given_segment_size && !handle.file.has_segments() {
        let name = handle.file.name();
        let why = match is_coarser {
            true => "telling where each piece of its first write lies takes too much",
            false => "smaller ones would not suit its first write better",
        };
        tracing::info!("{name}: segments stay at {now} bytes: {why}");
    }
    let size = chosen.unwrap_or(now);
    // Where somebody else has settled a smaller size meanwhile, there are homes, too.
    let times = u32::try_from(size.bytes() / unit.bytes()).unwrap_or(0);
    let homes = match times {
        0 => Vec::new(),
        1 => placement::homes(&handle.rule, &writers),
        _ => placement::homes(&handle.rule, &writers.coarser(times)),
    };
    let each = writers.bytes() / homes.len().max(1) as u64;
    match handle.file.place(&homes, each) {
        Ok(placed) => Ok(encoded(chosen, each, &placed)),
        // The new size is in force, so all have to know. Whoever writes meets what is wrong with the master himself.
        Err(error) if chosen.is_some() => {
            tracing::warn!("{}: new segments are not placed ahead: {error}", handle.file.name());
            Ok(encoded(chosen, each, &[]))
        }
        Err(error) => Err(located(error)),
    }
}

fn log(handle: &Handle, choice: &Choice, in_force: SegmentSize) {
    let Choice { size, bytes, reason } = *choice;
    let name = handle.file.name();
    match reason {
        _ if in_force != size => {
            tracing::info!(
                "{name}: segments stay at {in_force} bytes, {size} would suit it: others have it open"
            );
        }
        Reason::Nearness { remote, remote_before } => tracing::info!(
            "{name}: segments of {size} bytes: of the first {bytes} bytes {remote} are remote with them, and would be \
             {remote_before} with larger ones"
        ),
        Reason::Spreading { nodes } => tracing::info!(
            "{name}: segments of {size} bytes: several of the first {bytes} bytes for each of {nodes} nodes, as the \
             placement spreads them"
        ),
    }
}

/// The segments within a rank's bounds that have no home as far as this node knows, in ascending order.
fn unplaced(handle: &Handle, size: SegmentSize, part: &Part) -> Vec<u32> {
    let range = &part.bounds;
    let segments = range.end.saturating_sub(range.start) / size.bytes();
    // Wide bounds of little data: most of the segments will not be written.
    if range.is_empty() || segments > part.bytes || segments > MOST_SEGMENTS {
        return Vec::new();
    }
    let unplaced = handle.file.unplaced(FileOffset(range.start)..FileOffset(range.end));
    let mut unplaced: Vec<u32> = unplaced.into_iter().map(|segment| segment.0).collect();
    unplaced.sort_unstable();
    unplaced
}

/// A rank's part of a collective write. It is none where the view or a datatype cannot be understood, or the access
/// does not lie within the view: the write itself fails then.
#[derive(Default)]
struct Part {
    view: Option<(View, Extent)>,
    bytes: u64,
    /// No byte lies outside.
    bounds: Range<u64>,
}

impl Part {
    fn of<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, access: &Access<A>) -> Option<Part> {
        let bytes = mpi.type_size(access.datatype).saturating_mul(access.count.unsigned_abs());
        if bytes == 0 {
            return None;
        }
        let view = View::of(mpi, fd).ok()?;
        let extent = view.extent(access.position.pointer, access.position.offset, bytes)?;
        let bounds = view.bounds(extent)?;
        Some(Part { view: Some((view, extent)), bytes, bounds })
    }

    /// How many bytes it writes in each unit.
    fn amounts(&self, unit: SegmentSize) -> Amounts {
        match &self.view {
            Some((view, extent)) => Amounts::of(view, extent, unit),
            None => Amounts::by(unit.bytes()),
        }
    }
}

/// Bytes of the segment size, encoded, before all others, 0 where it stays; and of what each segment gets, behind it.
const NUMBER: usize = 8;
/// Bytes of one home, encoded: segment and node.
const HOME: usize = 8;

fn encoded(chosen: Option<SegmentSize>, each: u64, homes: &[(SegmentIndex, NodeIndex)]) -> Vec<u8> {
    let homes = homes.iter().flat_map(|(segment, node)| [segment.0.to_ne_bytes(), node.0.to_ne_bytes()]);
    let numbers = [chosen.map_or(0, SegmentSize::bytes), each].map(u64::to_ne_bytes);
    numbers.into_iter().flatten().chain(homes.flatten()).collect()
}

fn decoded(bytes: &[u8]) -> (Option<SegmentSize>, u64, Vec<(SegmentIndex, NodeIndex)>) {
    let first =
        |bytes: &'_ [u8]| bytes.split_first_chunk::<NUMBER>().map(|(first, _)| u64::from_ne_bytes(*first));
    let (Some(size), Some(each)) = (first(bytes), bytes.get(NUMBER..).and_then(first)) else {
        return (None, 0, Vec::new());
    };
    let homes = &bytes[2 * NUMBER..];
    let four = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let home = |bytes: &[u8]| (SegmentIndex(four(&bytes[..4])), NodeIndex(four(&bytes[4..])));
    let chosen = SegmentSize::new(size).ok();
    (chosen, each, homes.chunks_exact(HOME).map(home).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether ranks ask before each of so many writes, where `is_new` tells which of them are to new segments, and
    /// `meet` before which of them they wait for each other.
    fn asked(writes: u32, is_new: impl Fn(u32) -> bool, meet: impl Fn(u32) -> bool) -> Vec<bool> {
        let asking = Asking::default();
        let ask = |write: u32| {
            if meet(write) {
                asking.resume();
            }
            let is_due = asking.is_due();
            if is_due {
                asking.note(is_new(write));
            }
            is_due
        };
        (0..writes).map(ask).collect()
    }

    #[test]
    fn who_writes_what_is_there_is_asked_where_ranks_meet() {
        let asked = asked(1000, |_| false, |write| write % 100 == 50);
        let is_asked = |write: usize| write < 8 || write % 100 == 50;
        assert!((0..1000).all(|write| asked[write] == is_asked(write)), "{asked:?}");
    }

    #[test]
    fn who_writes_new_segments_is_asked_before_each_write() {
        for period in 1..=Asking::PATIENCE {
            let asked = asked(1000, |write| write % period == 0, |_| false);
            assert!(asked.iter().all(|is_asked| *is_asked), "every {period} writes");
        }
        // Also where many that were not new have come before.
        let asked = asked(1000, |write| write >= 500, |write| write == 600);
        assert!(!asked[8..600].contains(&true) && !asked[600..].contains(&false), "{asked:?}");
    }

    #[test]
    fn what_takes_too_much_to_tell_is_told_by_larger_units_or_not_at_all() {
        let size = |kibibytes: u64| SegmentSize::new(kibibytes << 10).expect("a power of two");
        let (smallest, now) = (size(64), size(1024));
        let mut amounts = Amounts::by(smallest.bytes());
        // The first mebibyte has some in every second unit, the next one in every fourth.
        let starts = (0..8).map(|number| number << 17).chain((0..4).map(|number| (1 << 20) + (number << 18)));
        starts.for_each(|start| amounts.add(start, 1000));
        let told = |most| {
            let told =
                gathered(&Team::alone(), amounts.clone(), smallest, now, most).expect("nobody is missing");
            told.map(|Told { all, unit, .. }| (all[0].len() / 16, unit))
        };
        assert_eq!(told(MOST_TOLD), Some((12, smallest)));
        assert_eq!(told(12 * 16 - 1), Some((4, size(128))));
        assert_eq!(told(4 * 16 - 1), Some((2, size(256))));
        assert_eq!(told(15), None);
    }

    proptest! {
        #[test]
        fn homes_survive_the_wire(
            homes in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..20),
            (shift, each) in (proptest::option::of(16u32..=30), any::<u64>()),
        ) {
            let homes: Vec<_> = homes.iter().map(|(s, n)| (SegmentIndex(*s), NodeIndex(*n))).collect();
            let chosen = shift.map(|shift| SegmentSize::new(1 << shift).expect("a power of two"));
            prop_assert_eq!(decoded(&encoded(chosen, each, &homes)), (chosen, each, homes));
        }
    }
}
