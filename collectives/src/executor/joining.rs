//! Segments that the members of a group export to each other under one id, and how all hear of one who cannot.
//!
//! ```text
//!   attempt    create a segment ─► connect to those that are wanted ─► muster: all others have come as far
//!     │ fails: this member's segment goes, and a gravestone stands in its place, with who failed and why
//!     ▼
//!   others     who connects finds the gravestone; who waits in the muster looks now and then whether one stands there
//! ```
//!
//! Who finds a gravestone fails, too, and puts one in its own place that tells the same: so all hear of it who wait for
//! each other, whomever they wait for. Only who was left no memory and no descriptor for it leaves none; then the
//! others wait up to the time limit.

mod gravestone;
mod muster;

pub(super) use muster::is_told;

use std::time::Duration;

use svmio_transport::back_end::Backing;
use svmio_transport::{Error as FabricError, Fabric, LocalSegment, Rank, RemoteSegment, SegmentId};

use super::error::{Error, Result};
use super::network::Fabrics;

/// How long the others may take to come, as far as they do not stand still.
const LIMIT: Duration = Duration::from_secs(30);

/// The most that counts of the time from one question whether a member has come to the next: longer ones mean that it,
/// or this process, stood still.
const LONGEST_ROUND: Duration = Duration::from_millis(100);

/// The longest time between two questions whether a member has come, and the first.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_micros(50)];

/// Bytes of a cache line: all segments but gravestones are whole ones.
const LINE: u64 = 64;

/// A segment of each member.
#[derive(Debug)]
pub(super) struct Joined {
    /// This member's place among them.
    pub(super) own: usize,
    /// This member's segment.
    pub(super) local: LocalSegment,
    /// Those that were wanted, by place.
    pub(super) remote: Vec<Option<RemoteSegment>>,
    /// Where the flags of the muster are.
    tail: u64,
}

/// Has this member `join` a group under an id. Where it cannot, all others who join under that id and wait for it, or
/// for somebody who does, get [`Error::NotJoined`] with its reason. The id is not to be used again then.
///
/// # Errors
/// What `join` returns.
pub(super) fn attempt<T>(fabrics: &Fabrics, id: SegmentId, join: impl FnOnce() -> Result<T>) -> Result<T> {
    gravestone::clear_away();
    // What `join` has exported under the id is gone when it has failed.
    join().inspect_err(|error| gravestone::leave(fabrics, id, error))
}

/// Exports a segment of `length` bytes and connects to those of the members that `wanted` says, given this member's
/// place and theirs; they may come later. To be called within an [`attempt`].
///
/// # Errors
/// `Members` where the members are no group of which this process is one, `NotJoined` where one that is wanted could
/// not join; the fabric's: `TimedOut` where a member has not come within 30 s, or as
/// long as one may stand still.
pub(super) fn join(
    fabric: &Fabric,
    members: &[Rank],
    id: SegmentId,
    length: u64,
    wanted: impl Fn(usize, usize) -> bool,
) -> Result<Joined> {
    let own = place_of(fabric.rank(), members, id)?;
    let tail = length.next_multiple_of(LINE);
    let length = tail + muster::length(members.len());
    let local = fabric.create(id, &Backing::Anonymous { length })?;
    let connect = |(place, &member): (usize, &Rank)| {
        if !wanted(own, place) {
            return Ok(None);
        }
        let remote = connect(fabric, member, members, id)?;
        check(fabric, &remote, length)?;
        Ok(Some(remote))
    };
    let remote = members.iter().enumerate().map(connect).collect::<Result<_>>()?;
    Ok(Joined { own, local, remote, tail })
}

/// Which place among the members a rank has.
///
/// # Errors
/// `Members` where it has none, or one is there twice.
pub(crate) fn place_of(rank: Rank, members: &[Rank], id: SegmentId) -> Result<usize> {
    let misfit = |problem: String| Error::Members { id, problem };
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(misfit(format!("rank {} is in it twice", twice[0])));
    }
    let own = members.iter().position(|&member| member == rank);
    own.ok_or_else(|| misfit(format!("rank {rank} is no member of it")))
}

/// How far the members are from those whom they tell, step by step, where all come to know what each of them knows: by
/// dissemination.
pub(super) fn distances(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |far| Some(2 * far)).take_while(move |&far| far < size)
}

fn connect(fabric: &Fabric, member: Rank, members: &[Rank], id: SegmentId) -> Result<RemoteSegment> {
    let [longest, mut pause] = PAUSES;
    let (mut waited, mut asked) = (Duration::ZERO, fabric.now());
    loop {
        let connected = fabric.connect(member, id);
        let now = fabric.now();
        waited += now.since(asked).min(LONGEST_ROUND);
        asked = now;
        match connected {
            Ok(remote) => return Ok(remote),
            Err(FabricError::UnknownSegment { .. }) if waited < LIMIT => {
                // One that is not lost itself may have left because another one is.
                members.iter().try_for_each(|&member| fabric.membership().check(member))?;
                fabric.back_end().sleep(pause);
                pause = (2 * pause).min(longest);
            }
            Err(FabricError::UnknownSegment { .. }) => return Err(timed_out(fabric, member, id, LIMIT)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// That a segment is one of `length` bytes, as that of a member that joins.
fn check(fabric: &Fabric, segment: &RemoteSegment, length: u64) -> Result<()> {
    gravestone::check(fabric, segment)?;
    if segment.len() == length {
        return Ok(());
    }
    let (rank, found) = (segment.owner(), segment.len());
    let problem = format!("rank {rank} has a segment of {found} bytes, not of {length}");
    Err(Error::Members { id: segment.id(), problem })
}

/// How long a word of a member that may have come is waited for: it may stand still meanwhile.
pub(super) fn limit(fabric: &Fabric) -> Duration {
    LIMIT.max(fabric.membership().answer_limit())
}

pub(super) fn timed_out(fabric: &Fabric, member: Rank, id: SegmentId, limit: Duration) -> Error {
    FabricError::timed_out(fabric.membership(), format!("joining group {id} with"), member, limit).into()
}
