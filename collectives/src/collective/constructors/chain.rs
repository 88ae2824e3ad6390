//! From rank to rank in segments: bcast.

use super::{Part, Position};
use crate::collective::transfer::Receipt;

/// Each passes a segment on while the next one comes: segment *s* leaves place *p* in step *p* + *s*.
pub(crate) fn bcast(part: &mut Part, at: Position, root: u32, segments: u32) {
    let place = at.place(root);
    let (before, after) = (at.before(1), at.after(1));
    let (gets, gives) = (place > 0, place + 1 < at.ranks);
    for step in place.saturating_sub(1)..place + segments {
        if gives && step >= place {
            part.give(step, after, u64::from(step - place), Receipt::Store);
        }
        if gets && step + 1 < place + segments {
            part.get(step, before, u64::from(step + 1 - place), Receipt::Store);
        }
    }
}
