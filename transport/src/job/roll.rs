//! Who has come to the start of a job, and who is still missing.

use super::wire::{Entry, Hello, LARGEST_ADDRESS, Purpose, Registration};
use crate::units::Rank;

/// The master's list.
#[derive(Debug)]
pub(super) struct Roll {
    fabric: String,
    came: Vec<Option<Registration>>,
}

impl Roll {
    /// A job of `size` on `fabric`, where nobody has come yet.
    pub(super) fn new(size: u32, fabric: &str) -> Self {
        Self { fabric: fabric.into(), came: (0..size).map(|_| None).collect() }
    }

    /// Enters a process, which knows the job's secret.
    ///
    /// # Errors
    /// Why the job cannot start with it.
    pub(super) fn enter(&mut self, hello: Hello) -> Result<Rank, String> {
        let Hello { rank, size, purpose } = hello;
        let Purpose::Register(registration) = purpose else {
            return Err(format!(
                "rank {rank} takes the job for started already; was an older one of its processes left?"
            ));
        };
        let who = format!("rank {rank} on node {}", registration.entry.node);
        if size != self.size() {
            return Err(format!(
                "{who} was started for a job of {size}, rank 0 for one of {}: start all with the same size",
                self.size()
            ));
        }
        if let Some(problem) = &registration.problem {
            return Err(format!("{who}: {problem}"));
        }
        if registration.fabric != self.fabric {
            return Err(format!(
                "{who} chose the fabric {}, rank 0 {}: choose the same for all (SVMIO_FABRIC)",
                registration.fabric, self.fabric
            ));
        }
        if registration.entry.address.len() > LARGEST_ADDRESS {
            let length = registration.entry.address.len();
            return Err(format!(
                "{who}: its fabric's address has {length} bytes, {LARGEST_ADDRESS} are the most"
            ));
        }
        let Some(place) = self.came.get_mut(rank.index()) else {
            return Err(format!("{who} came to a job of {size}: ranks count from 0"));
        };
        if let Some(first) = place {
            return Err(format!(
                "rank {rank} came twice: process {} on node {} and process {} on node {}: give each its own",
                first.process, first.entry.node, registration.process, registration.entry.node
            ));
        }
        *place = Some(registration);
        Ok(rank)
    }

    /// Everybody's entries, once all have come.
    pub(super) fn complete(&self) -> Option<Vec<Entry>> {
        self.came.iter().map(|came| came.as_ref().map(|registration| registration.entry.clone())).collect()
    }

    /// What to say of a process that had come.
    pub(super) fn describe(&self, rank: Rank) -> String {
        match self.came.get(rank.index()).and_then(Option::as_ref) {
            Some(Registration { entry, process, .. }) => {
                format!("rank {rank} on node {} (process {process})", entry.node)
            }
            None => format!("rank {rank}"),
        }
    }

    /// The ranks that are missing.
    pub(super) fn missing(&self) -> Vec<u32> {
        (0..self.size()).filter(|rank| self.came[*rank as usize].is_none()).collect()
    }

    /// Who is missing, as in "7 of 9 came; missing are the ranks 3, 7".
    pub(super) fn tell_missing(&self) -> String {
        let missing = self.missing();
        let (size, came) = (self.size(), self.size() - missing.len() as u32);
        let word = if missing.len() == 1 { "is rank" } else { "are the ranks" };
        format!("{came} of {size} came; missing {word} {}", list(&missing))
    }

    /// How many the job has.
    pub(super) fn size(&self) -> u32 {
        self.came.len() as u32
    }
}

/// Numbers for people: runs are drawn together, and a list that is too long is cut.
pub(super) fn list(numbers: &[u32]) -> String {
    const MOST: usize = 16;
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let texts: Vec<_> = runs
        .iter()
        .take(MOST)
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        })
        .collect();
    let more = if runs.len() > MOST { " and more" } else { "" };
    format!("{}{more}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn hello(rank: u32) -> Hello {
        let control = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let entry = Entry { node: format!("n{rank}"), control, address: vec![rank as u8] };
        let registration = Registration { process: 100 + rank, fabric: "shm".into(), entry, problem: None };
        Hello { rank: Rank(rank), size: 5, purpose: Purpose::Register(registration) }
    }

    fn changed(rank: u32, change: impl FnOnce(&mut Registration)) -> Hello {
        let mut hello = hello(rank);
        if let Purpose::Register(registration) = &mut hello.purpose {
            change(registration);
        }
        hello
    }

    #[test]
    fn all_who_come_once_are_enough() {
        let mut roll = Roll::new(5, "shm");
        for rank in [4, 0, 2] {
            assert_eq!(roll.enter(hello(rank)), Ok(Rank(rank)));
            assert!(roll.complete().is_none());
        }
        assert_eq!(roll.tell_missing(), "3 of 5 came; missing are the ranks 1, 3");
        roll.enter(hello(3)).unwrap();
        assert_eq!(roll.tell_missing(), "4 of 5 came; missing is rank 1");
        roll.enter(hello(1)).unwrap();
        let nodes: Vec<_> = roll.complete().unwrap().into_iter().map(|entry| entry.node).collect();
        assert_eq!(nodes, ["n0", "n1", "n2", "n3", "n4"]);
    }

    #[test]
    fn who_does_not_fit_is_told_why() {
        let mut roll = Roll::new(5, "shm");
        roll.enter(hello(1)).unwrap();
        let misfit = |roll: &mut Roll, hello| roll.enter(hello).unwrap_err();
        assert_eq!(
            misfit(&mut roll, hello(1)),
            "rank 1 came twice: process 101 on node n1 and process 101 on node n1: give each its own"
        );
        assert!(misfit(&mut roll, hello(5)).contains("ranks count from 0"));
        assert!(misfit(&mut roll, Hello { size: 4, ..hello(2) }).contains("a job of 4, rank 0 for one of 5"));
        let other_fabric = changed(2, |registration| registration.fabric = "ofi".into());
        assert!(misfit(&mut roll, other_fabric).contains("chose the fabric ofi, rank 0 shm"));
        let broken = changed(2, |registration| registration.problem = Some("no adapter".into()));
        assert_eq!(misfit(&mut roll, broken), "rank 2 on node n2: no adapter");
        assert!(misfit(&mut roll, Hello { purpose: Purpose::Probe, ..hello(2) }).contains("started already"));
    }

    #[test]
    fn long_lists_are_drawn_together() {
        assert_eq!(list(&[3]), "3");
        assert_eq!(list(&[3, 4]), "3, 4");
        assert_eq!(list(&[0, 2, 3, 4, 9]), "0, 2 to 4, 9");
        let odd: Vec<_> = (0..100).map(|number| 2 * number + 1).collect();
        assert!(list(&odd).ends_with("29, 31 and more"));
    }
}
