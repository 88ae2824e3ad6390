//! A start by the program's own means: MPI, a batch system, a file.

use std::net::SocketAddr;

use crate::error::{Error, Result};
use crate::secret::JobSecret;
use crate::units::Rank;

use super::wire::VERSION;

/// Processes that can already tell each other something.
pub trait Exchange {
    /// Which of them this is.
    fn rank(&self) -> Rank;

    /// How many they are.
    fn size(&self) -> u32;

    /// Gives `ours` to all and returns everybody's, in the order of ranks. Called by all at the same time: once, and
    /// once more where rank 0's machine has several interfaces.
    ///
    /// # Errors
    /// What keeps it from working.
    fn all_gather(&mut self, ours: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// What rank 0 tells all by the exchange.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Invitation {
    version: u32,
    secret: String,
    addresses: Vec<SocketAddr>,
}

/// What a process gives to the exchange; only rank 0 has something to tell.
pub(super) fn invite(secret: &JobSecret, addresses: Vec<SocketAddr>) -> Result<Vec<u8>> {
    let invitation = Invitation { version: VERSION, secret: secret.to_hex(), addresses };
    serde_json::to_vec(&invitation).map_err(|problem| failed(format!("rank 0's addresses: {problem}")))
}

/// The secret of the job and where rank 0 listens, from what all gave to the exchange.
pub(super) fn accept(size: u32, all: &[Vec<u8>]) -> Result<(JobSecret, Vec<SocketAddr>)> {
    if all.len() != size as usize {
        return Err(failed(format!("the exchange returned {} contributions in a job of {size}", all.len())));
    }
    let first = all.first().map(Vec::as_slice).unwrap_or_default();
    if first.is_empty() {
        return Err(failed("rank 0 could not begin to listen; it says why"));
    }
    let invitation: Invitation = serde_json::from_slice(first)
        .map_err(|problem| failed(format!("what rank 0 gave to the exchange is no invitation: {problem}")))?;
    if invitation.version != VERSION {
        return Err(failed(format!(
            "rank 0 speaks version {} of the control protocol, this process version {VERSION}: use the same svmio",
            invitation.version
        )));
    }
    let secret =
        invitation.secret.parse().map_err(|problem| failed(format!("rank 0's secret: {problem}")))?;
    Ok((secret, invitation.addresses))
}

fn failed(problem: impl Into<String>) -> Error {
    Error::StartUp { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_invitation_reaches_all() {
        let secret = JobSecret::random().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        let all = [invite(&secret, vec![address]).unwrap(), Vec::new()];
        let (theirs, addresses) = accept(2, &all).unwrap();
        assert!(theirs.admits(secret.as_bytes()));
        assert_eq!(addresses, [address]);
    }

    #[test]
    fn what_is_no_invitation_is_an_error() {
        for first in ["", "{}", "[1]", r#"{"version":9,"secret":"","addresses":[]}"#] {
            assert!(accept(1, &[first.as_bytes().to_vec()]).is_err(), "{first}");
        }
        assert!(accept(2, &[Vec::new()]).is_err());
    }
}
