//! What is known of one page: who has a copy, who waits for one, and what is lost.

use std::collections::{BTreeSet, VecDeque};

use svmio_transport::Rank;

use super::{Act, Asked, Party};

/// One page. The default is one that nobody has.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) copies: Copies,
    /// The only copy may be stored into.
    pub(super) is_exclusive: bool,
    // Few pages have these, and there may be many pages.
    pub(super) serving: Option<Box<Serving>>,
    pub(super) queue: VecDeque<Asked>,
    pub(super) lost: Option<Box<Loss>>,
}

/// Who has a copy, and by which wish; few have.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<(Party, u64)>);

/// A wish that waits for others to give up their copies.
#[derive(Debug)]
pub(super) struct Serving {
    /// `None` where who asked is lost.
    pub(super) asked: Option<Asked>,
    pub(super) awaited: BTreeSet<Party>,
}

/// What this rank stored into a page is lost; each is told once.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) rank: Rank,
    pub(super) told: BTreeSet<Party>,
}

impl Page {
    /// Whether that mapping has a copy, wants one, or is waited for.
    pub(super) fn concerns(&self, party: Party) -> bool {
        let is_served = |serving: &Serving| {
            serving.awaited.contains(&party) || serving.asked.is_some_and(|asked| asked.party == party)
        };
        self.copies.has(party)
            || self.serving.as_deref().is_some_and(is_served)
            || self.queue.iter().any(|asked| asked.party == party)
    }

    /// A copy goes, or is one for loads from now on.
    pub(super) fn give_up(&mut self, party: Party, keeps: bool) {
        if self.copies.has(party) {
            self.is_exclusive = false;
            if !keeps {
                self.copies.remove(party);
            }
        }
    }

    /// What `rank` stored is lost.
    pub(super) fn spoil(&mut self, rank: Rank) {
        self.lost = Some(Box::new(Loss { rank, told: BTreeSet::new() }));
    }

    /// Nobody is in the way.
    pub(super) fn fulfil(&mut self, asked: Asked) -> Act {
        let (party, wish) = (asked.party, asked.wish);
        if let Some(loss) = &mut self.lost
            && loss.told.insert(party)
        {
            return Act::Refuse { asked, lost: loss.rank };
        }
        let has_bytes = wish.has_copy && self.copies.has(party);
        self.copies.insert(party, wish.ticket);
        self.is_exclusive = wish.is_exclusive;
        Act::Grant { asked, has_bytes: !has_bytes }
    }
}

impl Copies {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Party, u64)> {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ticket(&self, party: Party) -> Option<u64> {
        self.0.iter().find(|(of, _)| *of == party).map(|(_, ticket)| *ticket)
    }

    pub(super) fn has(&self, party: Party) -> bool {
        self.ticket(party).is_some()
    }

    pub(super) fn insert(&mut self, party: Party, ticket: u64) {
        self.remove(party);
        if self.0.is_empty() {
            self.0.reserve_exact(1);
        }
        self.0.push((party, ticket));
    }

    fn remove(&mut self, party: Party) {
        self.0.retain(|(of, _)| *of != party);
    }
}
