//! What is known of callers who have not proved to belong to the job: for the error, should somebody be missing.
//!
//! What they say of themselves is not proved. Nothing is done by it but to tell people.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use crate::units::Rank;

/// Who calls, as far as that is known.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// From where.
    pub(super) from: SocketAddr,
    /// When it was let in to be asked.
    pub(super) since: Instant,
    /// What it calls itself: a rank, and a process id.
    pub(super) name: Option<(Rank, u32)>,
}

/// Those who are gone again.
#[derive(Debug)]
pub(super) struct Callers {
    size: u32,
    /// The latest of each rank, and how many there were: no more entries than the job has ranks.
    named: BTreeMap<Rank, (Gone, u64)>,
    /// The latest that did not say who it was, and how many there were.
    nameless: Option<(Gone, u64)>,
}

#[derive(Debug)]
struct Gone {
    caller: Caller,
    how: String,
}

impl Callers {
    /// None yet, of a job of `size`.
    pub(super) fn new(size: u32) -> Self {
        Self { size, named: BTreeMap::new(), nameless: None }
    }

    /// Notes how a caller's connection ended, as in "hung up".
    pub(super) fn note(&mut self, caller: Caller, how: impl Into<String>) {
        let rank = caller.name.map(|(rank, _)| rank).filter(|rank| rank.0 < self.size);
        let gone = Gone { caller, how: how.into() };
        match rank {
            Some(rank) => {
                let calls = self.named.get(&rank).map_or(0, |(_, calls)| *calls);
                self.named.insert(rank, (gone, calls + 1));
            }
            None => {
                let calls = self.nameless.as_ref().map_or(0, |(_, calls)| *calls);
                self.nameless = Some((gone, calls + 1));
            }
        }
    }

    /// What there is to say of `rank`, which is missing and of whose callers `connected` is the latest that still is;
    /// `None` where nobody has called itself that.
    pub(super) fn tell(&self, rank: Rank, connected: Option<&Caller>, now: Instant) -> Option<String> {
        let gone = self.named.get(&rank);
        let (caller, how) = match (connected, gone) {
            (Some(caller), _) => (caller, "has not introduced itself yet"),
            (None, Some((gone, _))) => (&gone.caller, gone.how.as_str()),
            (None, None) => return None,
        };
        let process = caller.name.map_or(String::new(), |(_, process)| format!(" (process {process})"));
        let again = match gone.map_or(0, |(_, calls)| *calls) + u64::from(connected.is_some()) {
            1 => String::new(),
            calls => format!(", its call number {calls},"),
        };
        let ago = now.saturating_duration_since(caller.since).as_secs_f64();
        Some(format!("rank {rank}{process} called from {} {ago:.1}s ago{again} and {how}", caller.from))
    }

    /// What there is to say of those who did not say who they were, and are gone.
    pub(super) fn tell_nameless(&self) -> Option<String> {
        let (Gone { caller, how }, calls) = self.nameless.as_ref()?;
        Some(match calls {
            1 => format!("one from {} did not say who it was and {how}", caller.from),
            _ => format!("{calls} callers did not say who they were; the last, from {}, {how}", caller.from),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn caller(port: u16, name: Option<u32>, since: Instant) -> Caller {
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Caller { from, since, name: name.map(|rank| (Rank(rank), 100 + rank)) }
    }

    #[test]
    fn the_latest_of_a_rank_and_all_its_calls_are_told() {
        let since = Instant::now();
        let now = since + Duration::from_millis(2500);
        let mut callers = Callers::new(4);
        callers.note(caller(7, Some(3), since), "hung up");
        assert_eq!(
            callers.tell(Rank(3), None, now).unwrap(),
            "rank 3 (process 103) called from 127.0.0.1:7 2.5s ago and hung up"
        );
        callers.note(caller(8, Some(3), now), "was sent away");
        assert_eq!(
            callers.tell(Rank(3), None, now).unwrap(),
            "rank 3 (process 103) called from 127.0.0.1:8 0.0s ago, its call number 2, and was sent away"
        );
        let told = callers.tell(Rank(3), Some(&caller(9, Some(3), now)), now).unwrap();
        assert!(told.contains("127.0.0.1:9 0.0s ago, its call number 3, and has not introduced"), "{told}");
        assert_eq!(callers.tell(Rank(2), None, now), None);
        assert_eq!(callers.tell_nameless(), None);
    }

    #[test]
    fn who_is_nobody_of_the_job_is_counted_only() {
        let now = Instant::now();
        let mut callers = Callers::new(4);
        callers.note(caller(7, Some(4), now), "hung up");
        assert_eq!(
            callers.tell_nameless().unwrap(),
            "one from 127.0.0.1:7 did not say who it was and hung up"
        );
        callers.note(caller(8, None, now), "broke off");
        let expected = "2 callers did not say who they were; the last, from 127.0.0.1:8, broke off";
        assert_eq!(callers.tell_nameless().unwrap(), expected);
    }
}
