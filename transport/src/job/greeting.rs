//! The caller's side of getting acquainted.

use super::link::Link;
use super::proof::Nonces;
use super::wire::{Frame, Hello, Nonce};
use crate::error::Result;
use crate::secret::JobSecret;
use crate::units::Rank;

/// Says who calls, as the first thing on a connection. What follows may take its time.
///
/// A process that dies just now may leave a connection that only the caller believes in. It learns that as soon as it
/// says something.
pub(super) fn knock(link: &mut Link, rank: Rank) {
    link.send(&Frame::Knock { rank, process: std::process::id() });
}

/// A call that was made, and how far it has come.
#[derive(Debug)]
pub(super) struct Greeting {
    hello: Hello,
    calling: Nonce,
    called: Option<Nonce>,
    is_welcome: bool,
}

impl Greeting {
    /// Begins to get acquainted with whom it has [knocked](knock) at, to present itself by `hello`.
    pub(super) fn begin(hello: Hello) -> Result<Self> {
        Ok(Self { hello, calling: Nonce::random()?, called: None, is_welcome: false })
    }

    /// How far it has come, to be said of the other side.
    pub(super) fn progress(&self) -> &'static str {
        match (self.called, self.is_welcome) {
            (None, _) => "has accepted the connection, and has not asked who calls",
            (Some(_), false) => "has asked who calls, and has not answered what it was told",
            (Some(_), true) => "has let this process in",
        }
    }

    /// Whether both sides have proved to belong to the job.
    pub(super) fn is_welcome(&self) -> bool {
        self.is_welcome
    }

    /// Goes a step further by a frame that came on `link`.
    ///
    /// # Errors
    /// Why the other side is nobody to talk to.
    pub(super) fn hear(&mut self, frame: Frame, link: &mut Link, secret: &JobSecret) -> Result<(), String> {
        match (frame, self.called) {
            (Frame::Challenge { nonce }, None) => {
                self.called = Some(nonce);
                let nonces = Nonces { called: nonce, calling: self.calling };
                let proof = nonces.prove_hello(secret, &self.hello);
                link.send(&Frame::Hello { hello: self.hello.clone(), nonce: self.calling, proof });
                Ok(())
            }
            (Frame::Welcome { proof }, Some(called)) => {
                let nonces = Nonces { called, calling: self.calling };
                self.is_welcome = nonces.admit_welcome(secret, &proof);
                if self.is_welcome { Ok(()) } else { Err("it does not know this job's secret".into()) }
            }
            (Frame::Refusal { problem }, _) => Err(problem),
            _ => Err("it does not talk as a process of a job does".into()),
        }
    }
}
