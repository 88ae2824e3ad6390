//! Of each mapping, the pages that it has to do with, so that it can end without a look at all the others'.

use std::collections::{BTreeMap, BTreeSet};

use svmio_transport::Rank;

use crate::cluster::wire::PagePlace;

use super::Party;

/// The pages of which a mapping has a copy, wants one, or is waited for.
#[derive(Debug, Default)]
pub(super) struct Concerns(BTreeMap<Party, BTreeSet<PagePlace>>);

impl Concerns {
    pub(super) fn add(&mut self, party: Party, place: PagePlace) {
        self.0.entry(party).or_default().insert(place);
    }

    pub(super) fn remove(&mut self, party: Party, place: PagePlace) {
        if let Some(its) = self.0.get_mut(&party) {
            its.remove(&place);
            if its.is_empty() {
                self.0.remove(&party);
            }
        }
    }

    /// A mapping's pages, ascending.
    pub(super) fn of(&self, party: Party) -> Vec<PagePlace> {
        self.0.get(&party).into_iter().flatten().copied().collect()
    }

    /// A process's mappings that have pages.
    pub(super) fn parties_of(&self, rank: Rank) -> impl Iterator<Item = Party> {
        let its = Party { rank, mapping: 0 }..=Party { rank, mapping: u32::MAX };
        self.0.range(its).map(|(party, _)| *party)
    }

    /// All pairs.
    #[cfg(test)]
    pub(super) fn all(&self) -> BTreeSet<(Party, PagePlace)> {
        self.0.iter().flat_map(|(party, its)| its.iter().map(|place| (*party, *place))).collect()
    }
}
