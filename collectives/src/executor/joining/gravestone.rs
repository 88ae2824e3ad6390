//! A segment in place of the one that a member would have had: it tells the others who could not join, and why.
//!
//! ```text
//!   magic │ rank │ bytes of the reason │ the reason …
//! ```
//!
//! It stays longer than anybody waits for a member to come, as far as this process joins anything then, or until the
//! fabric is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use svmio_transport::back_end::{BackEnd, Backing};
use svmio_transport::futex::Ordering;
use svmio_transport::{Fabric, Rank, RemoteSegment, SegmentId, SharedMemory, Time};

use super::limit;
use crate::executor::error::{Error, Result};
use crate::executor::network::Fabrics;

/// Its bytes: no other segment has as many, as they are whole cache lines.
const LENGTH: usize = 1000;

const MAGIC: u64 = 0x6772_6176_6573_746f;

/// Where things are in it.
const RANK_AT: usize = 8;
const BYTES_AT: usize = 16;
const REASON_AT: usize = 24;

/// How long writing one may take.
const WRITING: Duration = Duration::from_secs(1);

/// Those of this process.
static STANDING: Mutex<Vec<Gravestone>> = Mutex::new(Vec::new());

struct Gravestone {
    back_end: Weak<dyn BackEnd>,
    id: SegmentId,
    until: Time,
}

/// Puts one where the others look for this member. Where that fails, too, the others have to wait.
pub(super) fn leave(fabrics: &Fabrics, id: SegmentId, error: &Error) {
    let (rank, reason) = match error {
        Error::NotJoined { rank, reason, .. } => (*rank, reason.clone()),
        error => (fabrics.job().rank(), error.to_string()),
    };
    // Where both are the same, the second one is refused.
    for fabric in [Some(fabrics.job()), fabrics.mapped()].into_iter().flatten() {
        let back_end = fabric.back_end();
        let backing = Backing::Anonymous { length: LENGTH as u64 };
        let Ok(memory) = back_end.create(id, &backing) else { continue };
        // Before it is written: it is taken away, whatever comes of that.
        // Who came just before it stood there waits no longer.
        let until = fabric.now().after(limit(fabric).saturating_mul(2));
        standing().push(Gravestone { back_end: Arc::downgrade(back_end), id, until });
        // It has room for all of it.
        let _ = inscribe(&memory, rank, &reason);
    }
}

fn inscribe(memory: &SharedMemory, rank: Rank, reason: &str) -> Result<()> {
    let reason = &reason.as_bytes()[..reason.len().min(LENGTH - REASON_AT)];
    memory.write(RANK_AT as u64, &u64::from(rank.0).to_ne_bytes())?;
    memory.write(BYTES_AT as u64, &(reason.len() as u64).to_ne_bytes())?;
    memory.write(REASON_AT as u64, reason)?;
    // Release: who sees it sees the rest.
    memory.word64(0)?.store(MAGIC, Ordering::Release);
    Ok(())
}

/// Fails where a segment is one.
///
/// # Errors
/// `NotJoined`; the fabric's.
pub(super) fn check(fabric: &Fabric, segment: &RemoteSegment) -> Result<()> {
    if segment.len() != LENGTH as u64 {
        return Ok(());
    }
    let mut magic = [0; RANK_AT];
    let deadline = fabric.now().after(WRITING);
    loop {
        segment.read(0, &mut magic)?;
        if u64::from_ne_bytes(magic) == MAGIC {
            break;
        }
        if fabric.now() >= deadline {
            // It is something else.
            return Ok(());
        }
        fabric.back_end().sleep(super::PAUSES[1]);
    }
    // Once more: what was read before it was whole may be anything.
    let mut bytes = [0; LENGTH];
    segment.read(0, &mut bytes)?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let length = (word(BYTES_AT) as usize).min(LENGTH - REASON_AT);
    let reason = String::from_utf8_lossy(&bytes[REASON_AT..][..length]).into_owned();
    Err(Error::NotJoined { id: segment.id(), rank: Rank(word(RANK_AT) as u32), reason })
}

/// Takes away those that nobody looks for any more.
pub(super) fn clear_away() {
    standing().retain(|stone| {
        let Some(back_end) = stone.back_end.upgrade() else { return false };
        let stays = back_end.now() < stone.until;
        if !stays {
            back_end.remove(stone.id);
        }
        stays
    });
}

fn standing() -> MutexGuard<'static, Vec<Gravestone>> {
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}
