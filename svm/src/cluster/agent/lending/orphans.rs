//! Locks whose holder is lost: what it wrote under them comes home before they go on, or never.
//!
//! Some of that may be in the cache of its node, from where anybody of the node would bring it home later, over what
//! the next holder wrote. So the home has the node's leader bring it first, as for a lock that the node kept. Where that
//! is lost, too, or fails, the home [refuses](super::late) what is left there.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::Rank;

use crate::attachment::Attachment;
use crate::cluster::wire::{Reply, Request};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Mode;
use crate::units::FileId;

use super::giving_back::bring_home;
use super::late::Late;
use super::lent::Loan;
use super::release;
use crate::cluster::agent::Agent;

/// Locks under which a lost rank may have written. They are free when this is dropped.
#[must_use = "they are free when this is dropped"]
pub(in super::super) struct Orphans {
    attachment: Arc<Attachment>,
    late: Arc<Late>,
    holder: Rank,
    node: NodeIndex,
    loans: Vec<Orphan>,
}

struct Orphan {
    loan: Loan,
    /// What was written under it is at home.
    is_home: bool,
}

impl Orphans {
    pub(super) fn new(
        attachment: &Arc<Attachment>,
        late: &Arc<Late>,
        (holder, node): (Rank, NodeIndex),
        loans: Vec<Loan>,
    ) -> Orphans {
        let loans = loans.into_iter().map(|loan| Orphan { loan, is_home: false }).collect();
        let (attachment, late) = (Arc::clone(attachment), Arc::clone(late));
        Orphans { attachment, late, holder, node, loans }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.loans.is_empty()
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        for Orphan { loan, is_home } in self.loans.drain(..) {
            if !is_home {
                self.late.refuse(self.node, loan.wanted.range);
            }
            release(&self.attachment, loan.token);
        }
    }
}

impl Agent {
    /// Frees locks of a lost rank, when what it wrote under them is home, or will not come there.
    pub(in super::super) fn free(&self, mut orphans: Orphans) {
        let (context, node, file) = (&self.context, orphans.node, orphans.attachment.id());
        let membership = context.fabric.membership();
        let mut its_ranks = membership.ranks().filter(|rank| context.roster.node_of(*rank) == node);
        if its_ranks.all(|rank| membership.check(rank).is_err()) {
            // What was in its cache went with it.
            return;
        }
        let begin = |orphan: &Orphan| {
            let range = orphan.loan.wanted.range.clone();
            context.begin(node, &Request::BringHome { file, range }, &[])
        };
        let asked: Vec<_> = orphans.loans.iter().map(begin).collect();
        for (orphan, question) in orphans.loans.iter_mut().zip(asked) {
            let answer =
                question.and_then(|q| context.client.wait(q, context.roster.name(node), &mut |_, _| {}));
            let settled = match answer {
                Ok(_) => {
                    orphan.is_home = true;
                    Ok(())
                }
                Err(error) => {
                    let range = orphan.loan.wanted.range.clone();
                    tell_of_loss(&orphans.attachment, orphans.holder, &error);
                    self.refuse_elsewhere(file, node, range)
                }
            };
            if let Err(error) = settled {
                let (holder, name) = (orphans.holder, orphans.attachment.name());
                tracing::error!(
                    "what lost rank {holder} wrote to {name} under a lock may come home too late: {error}"
                );
            }
        }
    }

    /// Brings home what a lost rank of this node wrote under a lock on `range` that `from`'s node had granted it.
    pub(in super::super) fn bring_home_of_lost(
        &self,
        from: Rank,
        file: FileId,
        range: &Range<u64>,
    ) -> Result<Reply> {
        let served = match self.files.get(&self.context, file) {
            // It was removed, and closed by all of this node.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(Reply::Done),
            served => served?,
        };
        // Without it, this process is leaving.
        let cluster = self.cluster().ok_or_else(|| self.told("its agent has ended".into()))?;
        let shared = SharedFile::new(cluster, Arc::clone(&served.attachment));
        bring_home(&shared, self.context.roster.node_of(from), range, Mode::Exclusive).map(|()| Reply::Done)
    }
}

fn tell_of_loss(attachment: &Attachment, holder: Rank, error: &Error) {
    let name = attachment.name();
    tracing::warn!(
        "what lost rank {holder} wrote to {name} under a lock and did not bring home is lost: {error}"
    );
}
