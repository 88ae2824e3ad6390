//! Locks whose holder is lost: what it wrote under them comes home before they go on.
//!
//! Some of that may be in the cache of its node, from where anybody of the node would bring it home later, over what
//! the next holder wrote. So the home has the node's leader bring it first, as for a lock that the node kept.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::Rank;

use crate::attachment::Attachment;
use crate::cluster::SharedFile;
use crate::cluster::wire::{Reply, Request};
use crate::error::{ErrorKind, Result};
use crate::locks::Mode;
use crate::units::FileId;

use super::giving_back::bring_home;
use super::lent::Loan;
use super::release;
use crate::cluster::agent::Agent;

/// Locks under which a lost rank may have written. They are free when this is dropped.
#[must_use = "they are free when this is dropped"]
pub(in super::super) struct Orphans {
    attachment: Arc<Attachment>,
    holder: Rank,
    loans: Vec<Loan>,
}

impl Orphans {
    pub(super) fn new(attachment: &Arc<Attachment>, holder: Rank, loans: Vec<Loan>) -> Orphans {
        Orphans { attachment: Arc::clone(attachment), holder, loans }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.loans.is_empty()
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        self.loans.drain(..).for_each(|loan| release(&self.attachment, loan.token));
    }
}

impl Agent {
    /// Frees locks of a lost rank, when what it wrote under them is home.
    pub(in super::super) fn free(&self, orphans: Orphans) {
        let (context, holder) = (&self.context, orphans.holder);
        let (node, file) = (context.roster.node_of(holder), orphans.attachment.id());
        let membership = context.fabric.membership();
        let mut its_ranks = membership.ranks().filter(|rank| context.roster.node_of(*rank) == node);
        if its_ranks.all(|rank| membership.check(rank).is_err()) {
            // What was in its cache went with it.
            return;
        }
        let begin = |loan: &Loan| {
            let request = Request::BringHome { file, range: loan.wanted.range.clone() };
            context.begin(node, &request, &[])
        };
        let asked: Vec<_> = orphans.loans.iter().map(begin).collect();
        for question in asked {
            let answer =
                question.and_then(|q| context.client.wait(q, context.roster.name(node), &mut |_, _| {}));
            if let Err(error) = answer {
                let name = orphans.attachment.name();
                tracing::error!(
                    "what lost rank {holder} wrote to {name} under a lock may come home too late: {error}"
                );
            }
        }
    }

    /// Brings home what a lost rank of this node wrote under a lock on `range`.
    pub(in super::super) fn bring_home_of_lost(&self, file: FileId, range: &Range<u64>) -> Result<Reply> {
        let served = match self.files.get(&self.context, file) {
            // It was removed, and closed by all of this node.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(Reply::Done),
            served => served?,
        };
        if let Some(cluster) = self.cluster() {
            let shared = SharedFile::new(cluster, Arc::clone(&served.attachment));
            bring_home(&shared, range, Mode::Exclusive);
        }
        Ok(Reply::Done)
    }
}
