//! What processes changed and never told, because they were lost before.
//!
//! Bytes that a process stores by itself, straight into an exported segment or as one of the home's own into what it
//! has mapped, are counted when it tells of them: at a sync, at a release, at a close. A process that is killed before
//! would leave pages in other nodes' caches that are older than what the home has, and that nobody ever finds to be
//! old.
//!
//! No write costs a message for that. Who writes straight has asked for the window before, and the home has kept who it
//! was; so all segments to which a lost process has a window count as changed. Of the home's own processes nobody knows
//! what they changed, and all that others have read counts.

use svmio_transport::Rank;

use super::Agent;
use super::files::Served;
use super::lending::Orphans;

impl Agent {
    /// Gives back what a lost process had of a file, after what it may have changed is counted: who gets a lock that it
    /// held, looks for changes next. Locks under which it may have written are returned: they are to be
    /// [freed](Agent::free) by who may wait.
    pub(super) fn bury(&self, served: &Served, lost: Rank) -> Orphans {
        served.windows.strike_off(lost, |index| {
            // As when it tells of them.
            served.attachment.mark_dirty_for_another(index);
            served.add_unknown(index);
        });
        let roster = &self.context.roster;
        let node = roster.node_of(lost);
        if node == roster.own() {
            served.add_unknown_to_all();
        }
        served.lent.forget_rank(&served.attachment, served.late(), (lost, node))
    }
}
