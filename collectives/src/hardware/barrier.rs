//! Doing it: a node's steps over its lines.

use super::error::{Error, Result};
use super::lines::{LONGEST_SLEEP, Lines};
use super::machine::{Level, Node, NodeStep};
use crate::executor::{NAP, Patience, PatienceSettings, Polled, with_meanwhile};

/// A hardware barrier, as one node holds it. After an error it is of no more use.
///
/// A waiter polls its line in, gives its core away and sleeps as [`PatienceSettings`] say. A poll of an emulated line
/// is a load. A poll of a real port is a system call and a cycle of its bus.
#[derive(Debug)]
pub struct Barrier {
    lines: Box<dyn Lines>,
    patience: Patience,
    /// What is done again and again while this node waits.
    meanwhile: Option<fn()>,
}

impl Barrier {
    /// One over these lines. `beside` is how many processes share the machine with this one, itself included: where
    /// they outnumber the cores, a waiter gives its core away at once.
    #[must_use]
    pub fn new(lines: Box<dyn Lines>, beside: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let patience = Patience::new(PatienceSettings::default(), beside, cores);
        Self { lines, patience, meanwhile: None }
    }

    /// Has `meanwhile` called again and again while this node waits for others.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    /// Returns when all nodes have come. `all_are_there` is asked every 100 ms of a long wait; its error ends the wait.
    ///
    /// # Errors
    /// The device's; what `all_are_there` returns.
    pub fn wait<E: From<Error>>(
        &mut self,
        mut all_are_there: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut node = Node::come();
        loop {
            match (node.next(), node.awaited()) {
                (NodeStep::Sense, Some(awaited)) => {
                    self.wait_for(awaited, &mut all_are_there)?;
                    node = node.sensed(awaited);
                }
                (NodeStep::Sense, None) => node = node.sensed(self.lines.sense()?),
                (NodeStep::Drive(level), _) => {
                    self.lines.drive(level)?;
                    node = node.driven();
                }
                (NodeStep::Leave, _) => return Ok(()),
            }
        }
    }

    /// Returns when the line in carries `awaited`.
    fn wait_for<E: From<Error>>(
        &mut self,
        awaited: Level,
        mut all_are_there: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lines, patience, meanwhile } = self;
        let mut failed = None;
        let mut has_come = || match lines.sense() {
            Ok(level) => level == awaited,
            Err(error) => {
                failed = Some(error);
                true
            }
        };
        let is_over = patience.glance(&mut has_come) || patience.give_turns(&mut has_come) || {
            let every = patience.polls_of_microseconds();
            patience.poll(with_meanwhile(&mut has_come, *meanwhile, every)) == Polled::Ready
        };
        if let Some(error) = failed {
            return Err(error.into());
        }
        if is_over {
            return Ok(());
        }
        let limit = if meanwhile.is_some() { NAP } else { LONGEST_SLEEP };
        while lines.sense()? != awaited {
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
            all_are_there()?;
            lines.sleep(awaited, limit)?;
        }
        Ok(())
    }
}
