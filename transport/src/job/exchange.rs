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

/// What a process learns from rank 0's invitation.
#[derive(Debug)]
pub(super) struct Invited {
    /// The secret of the job, or why this process cannot take part: the others do not know of that.
    pub(super) secret: Result<JobSecret>,
    /// Where rank 0 listens.
    pub(super) addresses: Vec<SocketAddr>,
}

/// What all gave to the exchange says of the job.
///
/// # Errors
/// What all see alike: that there is no invitation.
pub(super) fn accept(size: u32, all: &[Vec<u8>]) -> Result<Invited> {
    if all.len() != size as usize {
        return Err(failed(format!("the exchange returned {} contributions in a job of {size}", all.len())));
    }
    let first = all.first().map(Vec::as_slice).unwrap_or_default();
    if first.is_empty() {
        return Err(failed("rank 0 could not begin to listen; it says why"));
    }
    let Invitation { version, secret, addresses } = serde_json::from_slice(first)
        .map_err(|problem| failed(format!("what rank 0 gave to the exchange is no invitation: {problem}")))?;
    let secret = if version == VERSION {
        secret.parse().map_err(|problem| failed(format!("rank 0's secret: {problem}")))
    } else {
        Err(failed(format!(
            "rank 0 speaks version {version} of the control protocol, this process version {VERSION}: use the same svmio"
        )))
    };
    Ok(Invited { secret, addresses })
}

fn failed(problem: impl Into<String>) -> Error {
    Error::StartUp { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::job::Job;
    use crate::settings::Settings;

    #[test]
    fn an_invitation_reaches_all() {
        let secret = JobSecret::random().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        let all = [invite(&secret, vec![address]).unwrap(), Vec::new()];
        let Invited { secret: theirs, addresses } = accept(2, &all).unwrap();
        assert!(theirs.unwrap().admits(secret.as_bytes()));
        assert_eq!(addresses, [address]);
    }

    #[test]
    fn what_is_no_invitation_is_an_error() {
        for first in ["", "{}", "[1]"] {
            assert!(accept(1, &[first.as_bytes().to_vec()]).is_err(), "{first}");
        }
        assert!(accept(2, &[Vec::new()]).is_err());
    }

    #[test]
    fn who_cannot_take_part_knows_the_addresses_all_the_same() {
        let secret = JobSecret::random().unwrap().to_hex();
        for (version, secret) in [(VERSION + 1, secret), (VERSION, String::new())] {
            let invited = accept(1, &[invitation(version, secret)]).unwrap();
            assert!(invited.secret.is_err(), "{version}");
            assert_eq!(invited.addresses, addresses());
        }
    }

    /// Rank 1, to which rank 0 of another version has given an invitation, and how often it has exchanged something.
    struct Older {
        rounds: u32,
    }

    impl Exchange for Older {
        fn rank(&self) -> Rank {
            Rank(1)
        }

        fn size(&self) -> u32 {
            2
        }

        fn all_gather(&mut self, ours: &[u8]) -> Result<Vec<Vec<u8>>> {
            self.rounds += 1;
            let theirs = if self.rounds == 1 { invitation(VERSION + 1, String::new()) } else { Vec::new() };
            Ok(vec![theirs, ours.to_vec()])
        }
    }

    #[test]
    fn who_is_of_another_version_leaves_nobody_waiting_in_the_exchange() {
        let mut exchange = Older { rounds: 0 };
        let error = Job::by_exchange(&mut exchange, Settings::default()).unwrap_err().to_string();
        assert!(error.contains("use the same svmio"), "{error}");
        assert_eq!(exchange.rounds, 2, "one for the invitation, one for the way to rank 0");
    }

    #[test]
    fn who_does_not_reach_rank_0_is_told_what_to_set() {
        struct Deaf(Vec<u8>);
        impl Exchange for Deaf {
            fn rank(&self) -> Rank {
                Rank(1)
            }

            fn size(&self) -> u32 {
                2
            }

            fn all_gather(&mut self, ours: &[u8]) -> Result<Vec<Vec<u8>>> {
                Ok(vec![std::mem::take(&mut self.0), ours.to_vec()])
            }
        }
        let mut exchange = Deaf(invitation(VERSION, JobSecret::random().unwrap().to_hex()));
        let mut settings = Settings::default();
        settings.start.limit = Duration::from_millis(200);
        let error = Job::by_exchange(&mut exchange, settings).unwrap_err().to_string();
        assert!(
            error.contains("was not reached within 200ms") && error.contains("SVMIO_START_ADDRESS"),
            "{error}"
        );
        assert!(!error.contains("SVMIO_JOB_MASTER"), "{error}");
    }

    /// Two at which nobody listens.
    fn addresses() -> [SocketAddr; 2] {
        [2, 3].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 1)))
    }

    fn invitation(version: u32, secret: String) -> Vec<u8> {
        let addresses = addresses().to_vec();
        serde_json::to_vec(&Invitation { version, secret, addresses }).unwrap()
    }
}
