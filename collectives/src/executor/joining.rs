//! Segments that the members of a group export to each other under one id.

use std::time::Duration;

use svmio_transport::back_end::Backing;
use svmio_transport::{Error as FabricError, Fabric, LocalSegment, Rank, RemoteSegment, SegmentId};

use super::error::{Error, Result};

/// How long the others may take to come.
const LIMIT: Duration = Duration::from_secs(30);

/// The longest time between two questions whether a member has come, and the first.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_micros(50)];

/// A segment of each member.
#[derive(Debug)]
pub(super) struct Joined {
    /// This member's place among them.
    pub(super) own: usize,
    /// This member's segment.
    pub(super) local: LocalSegment,
    /// Those that were wanted, by place.
    pub(super) remote: Vec<Option<RemoteSegment>>,
}

/// Exports a segment of `length` bytes and connects to those of the members that `wanted` says, given this member's
/// place and theirs; they may come later.
///
/// # Errors
/// `Members` where the members are no group of which this process is one; the fabric's: `TimedOut` where a member has
/// not come within 30 s.
pub(super) fn join(
    fabric: &Fabric,
    members: &[Rank],
    id: SegmentId,
    length: u64,
    wanted: impl Fn(usize, usize) -> bool,
) -> Result<Joined> {
    let own = place_of(fabric.rank(), members, id)?;
    let local = fabric.create(id, &Backing::Anonymous { length })?;
    let connect = |(place, &member): (usize, &Rank)| {
        if !wanted(own, place) {
            return Ok(None);
        }
        let remote = connect(fabric, member, members, id)?;
        if remote.len() != length {
            let problem = format!("rank {member} has a segment of {} bytes, not of {length}", remote.len());
            return Err(Error::Members { id, problem });
        }
        Ok(Some(remote))
    };
    let remote = members.iter().enumerate().map(connect).collect::<Result<_>>()?;
    Ok(Joined { own, local, remote })
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

fn connect(fabric: &Fabric, member: Rank, members: &[Rank], id: SegmentId) -> Result<RemoteSegment> {
    let [longest, mut pause] = PAUSES;
    let deadline = fabric.now().after(LIMIT);
    loop {
        match fabric.connect(member, id) {
            Err(FabricError::UnknownSegment { .. }) if fabric.now() < deadline => {
                // One that is not lost itself may have left because another one is.
                members.iter().try_for_each(|&member| fabric.membership().check(member))?;
                fabric.back_end().sleep(pause);
                pause = (2 * pause).min(longest);
            }
            Err(FabricError::UnknownSegment { .. }) => {
                let doing = format!("joining group {id} with");
                return Err(FabricError::timed_out(fabric.membership(), doing, member, LIMIT).into());
            }
            answer => return Ok(answer?),
        }
    }
}
