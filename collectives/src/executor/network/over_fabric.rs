//! Messages between members by the fabric's messenger.

use std::sync::Arc;
use std::time::Duration;

use svmio_transport::message::Messenger;
use svmio_transport::{Fabric, Rank, Time};

use super::point_to_point::PointToPoint;
use crate::executor::error::{Error, Result};

/// The members' processes, as one of them reaches them.
#[derive(Debug)]
pub(super) struct OverFabric {
    pub(super) messenger: Arc<Messenger>,
    /// Who the members are.
    pub(super) ranks: Vec<Rank>,
    pub(super) own: usize,
    pub(super) fabric: Fabric,
}

impl PointToPoint for OverFabric {
    fn members(&self) -> usize {
        self.ranks.len()
    }

    fn member(&self) -> usize {
        self.own
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.messenger.send(self.ranks[to], bytes)?)
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<usize> {
        Ok(self.messenger.receive(self.ranks[from], into)?)
    }

    fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<usize> {
        let length = self.messenger.scope(|scope| {
            let receive = scope.receive(self.ranks[from], into)?;
            scope.send(self.ranks[to], bytes)?;
            receive.wait()
        });
        Ok(length?)
    }

    fn send_each(&self, messages: &[(usize, &[u8])]) -> Result<()> {
        let sent = self.messenger.scope(|scope| {
            for &(to, bytes) in messages {
                scope.send(self.ranks[to], bytes)?;
            }
            Ok(())
        });
        Ok(sent?)
    }

    /// Who sends to this member or receives from it ends with an error.
    fn leave(&self, _: &Error) {
        self.messenger.end();
    }

    fn do_meanwhile(&self, meanwhile: fn()) {
        self.messenger.do_meanwhile(meanwhile);
    }

    fn now(&self) -> Duration {
        self.fabric.now().since(Time(0))
    }
}
