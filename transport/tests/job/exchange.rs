//! Ranks that meet by an exchange of their own: a board, on which each puts what it says.

use std::process::Command;
use std::sync::{Barrier, Mutex};

use svmio_transport::job::{Exchange, Job};
use svmio_transport::settings::{FabricChoice, Settings};
use svmio_transport::{Rank, Result};

use crate::starting::is_a_job;
use crate::threads::{finish_all, quick, together};

/// An exchange between threads.
pub(crate) struct Board {
    contributions: Mutex<Vec<Vec<u8>>>,
    barrier: Barrier,
}

/// One of them.
struct Member<'a> {
    board: &'a Board,
    rank: Rank,
}

impl Board {
    pub(crate) fn new(size: usize) -> Self {
        Self { contributions: Mutex::new(vec![Vec::new(); size]), barrier: Barrier::new(size) }
    }

    /// All ranks, started at the same time; their jobs, in order.
    pub(crate) fn start(&self, settings: &Settings) -> Vec<Result<Job>> {
        let size = self.contributions.lock().unwrap().len() as u32;
        together((0..size).map(|rank| {
            let mut member = Member { board: self, rank: Rank(rank) };
            move || Job::by_exchange(&mut member, settings.clone())
        }))
    }
}

impl Exchange for Member<'_> {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.board.contributions.lock().unwrap().len() as u32
    }

    fn all_gather(&mut self, ours: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.board.contributions.lock().unwrap()[self.rank.index()] = ours.to_vec();
        self.board.barrier.wait();
        Ok(self.board.contributions.lock().unwrap().clone())
    }
}

/// The address of the only network of a host.
const ADDRESS: &str = "fd00::7";

#[test]
#[ignore = "it is a process of the other test"]
fn host_of_ipv6_only() {
    for address in ["", "::", ADDRESS] {
        for fabric in [FabricChoice::Shm, FabricChoice::Ofi] {
            let mut settings = quick();
            (settings.fabric, settings.start.address) = (fabric, address.into());
            let board = Board::new(3);
            let jobs: Vec<_> = board.start(&settings).into_iter().map(Result::unwrap).collect();
            // With one address there was one round, and what rank 0 said in it is still there.
            let invitation = String::from_utf8(board.contributions.lock().unwrap()[0].clone()).unwrap();
            let offered = invitation.split_once("\"addresses\":").unwrap().1;
            assert!(offered.starts_with(&format!("[\"[{ADDRESS}]:")), "{address} {fabric}: {offered}");
            assert_eq!(offered.matches("]:").count(), 1, "{address} {fabric}: {offered}");
            is_a_job(&jobs);
            finish_all(jobs).into_iter().for_each(Result::unwrap);
        }
    }
}

#[test]
fn where_a_host_has_ipv6_only_rank_0_is_reached_by_that() {
    let network = format!(
        "ip link set lo up && ip link add svm0 type veth peer name svm1 && ip addr add {ADDRESS}/64 dev svm0 nodad &&
        ip link set svm1 up && ip link set svm0 up && exec \"$@\""
    );
    let host = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", &network, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "exchange::host_of_ipv6_only", "--ignored", "--nocapture"])
        .output()
        .expect("unshare (Debian: util-linux)");
    let (said, complaint) = (String::from_utf8_lossy(&host.stdout), String::from_utf8_lossy(&host.stderr));
    assert!(host.status.success() && said.contains("1 passed"), "{said}{complaint}");
}
