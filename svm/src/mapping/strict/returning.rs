//! What goes home by order. The page is another's as soon as that is done here, and what was stored arrives later: who
//! has to know that it is home waits for the home's word.

use std::collections::BTreeMap;

use crate::cluster::NodeIndex;
use crate::error::Error;

/// What is on its way, and what came of what was.
#[derive(Default)]
pub(super) struct Returning {
    homes: BTreeMap<NodeIndex, Way>,
    /// Why something that was stored is nowhere, until somebody is told.
    loss: Option<Error>,
}

/// Pages that go to one home, in the order in which they arrive.
#[derive(Default)]
struct Way {
    begun: u64,
    ended: u64,
    /// Why the last try failed; there is another one.
    failure: Option<Error>,
}

impl Returning {
    /// What was stored into a page goes home.
    pub(super) fn begin(&mut self, home: NodeIndex) {
        self.homes.entry(home).or_default().begun += 1;
    }

    /// How many have begun so far.
    pub(super) fn begun(&self, home: NodeIndex) -> u64 {
        self.homes.get(&home).map_or(0, |way| way.begun)
    }

    /// The first `count` of all are at home, but for what is lost.
    pub(super) fn end(&mut self, home: NodeIndex, count: u64, loss: Option<Error>) {
        let way = self.homes.entry(home).or_default();
        (way.ended, way.failure) = (count, None);
        if let Some(error) = loss {
            self.loss.get_or_insert(error);
        }
    }

    /// What is under way did not arrive yet.
    pub(super) fn fail(&mut self, home: NodeIndex, error: Error) {
        if let Some(way) = self.homes.get_mut(&home).filter(|way| way.ended < way.begun) {
            way.failure = Some(error);
        }
    }

    /// What is under way never arrives.
    pub(super) fn lose(&mut self, home: NodeIndex, error: Error) {
        let Some(way) = self.homes.get(&home).filter(|way| way.ended < way.begun) else { return };
        self.end(home, way.begun, Some(error));
    }

    /// What is under way: the homes, and how many have to be there.
    pub(super) fn under_way(&self) -> Vec<(NodeIndex, u64)> {
        let under_way = self.homes.iter().filter(|(_, way)| way.ended < way.begun);
        under_way.map(|(home, way)| (*home, way.begun)).collect()
    }

    /// Whether the first `count` of all are there, or why they are not.
    pub(super) fn has_ended(&mut self, home: NodeIndex, count: u64) -> Result<bool, Error> {
        let Some(way) = self.homes.get_mut(&home) else { return Ok(true) };
        match way.failure.take() {
            Some(error) if way.ended < count => Err(error),
            _ => Ok(way.ended >= count),
        }
    }

    /// What is lost: each loss is told once.
    pub(super) fn loss(&mut self) -> Result<(), Error> {
        self.loss.take().map_or(Ok(()), Err)
    }
}
