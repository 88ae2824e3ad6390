//! Joining, while somebody whom it waits for is lost, or the job ends.

use std::time::{Duration, Instant};

use svmio_transport::message::{MessageSettings, Messenger};
use svmio_transport::{Fabric, Rank};

use super::super::client::ANSWERS;
use super::super::wire::{self, Reply, Request};
use super::super::{REQUESTS, messages};
use super::job;
use crate::{CacheSettings, Cluster, Error};

/// What becomes of the one that is waited for, or of all.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is lost before it begins to join.
    LostBefore,
    /// It is lost with the question.
    LostAsked,
    /// The job ends before it begins to join.
    EndingBefore,
    /// The job ends while it has the question.
    EndingAsked,
    /// It has answered, and is lost before its cache is opened.
    LostAnswered,
    /// The same, and nobody has said yet that it is lost.
    GoneAnswered,
}

/// What rank `joining` of two nodes with two ranks each gets for joining, when rank `waited_for`, which it asks first,
/// meets that fate, and nobody else joins.
fn join(joining: u32, waited_for: u32, fate: Fate) -> Error {
    let (_directory, stores) = job::stores(2);
    let stores = [0, 0, 1, 1].map(|node: usize| &stores[node]);
    let (fabrics, memberships) = job::fabrics_of(&stores);
    let [fabric, other] = [joining, waited_for].map(|rank| &fabrics[rank as usize]);
    let (membership, settings) =
        (&memberships[joining as usize], messages::for_agents(&MessageSettings::default()));
    let lose = || membership.declare_lost(Rank(waited_for), "the test says so");
    let end = || membership.declare_ending("the test says so");
    let open = |port| Messenger::open(other, port, &settings).unwrap();
    let error = std::thread::scope(|scope| {
        let asked = || {
            let (requests, mut bytes) = (open(REQUESTS), vec![0; 4096]);
            requests.receive_any(&mut bytes).unwrap();
            (requests, wire::decode::<Request>(&bytes).unwrap().0)
        };
        let answer = |number| {
            // Processes have smaller numbers.
            let reply = Reply::Welcome { process: i32::MAX as u32, descriptor: 3, cluster: 7 };
            open(ANSWERS).send(Rank(joining), &wire::encode(number, &reply, &[])).unwrap();
        };
        let joins = scope.spawn(|| {
            let cache = CacheSettings { page: 4096, capacity: 16 * 4096 };
            let store = stores[joining as usize].clone();
            Cluster::join(fabric.clone(), store, &cache, &MessageSettings::default())
        });
        // Kept open: who joins must not find out by a closed messenger.
        let mut requests = None;
        match fate {
            Fate::LostBefore => lose(),
            Fate::EndingBefore => end(),
            Fate::LostAsked => {
                requests.replace(asked().0);
                lose();
            }
            Fate::EndingAsked => {
                requests.replace(asked().0);
                end();
            }
            Fate::LostAnswered | Fate::GoneAnswered => {
                let (kept, number) = asked();
                requests.replace(kept);
                answer(number);
                if matches!(fate, Fate::LostAnswered) {
                    lose();
                }
            }
        }
        let began = Instant::now();
        let error = joins.join().unwrap().expect_err("somebody is missing");
        assert!(began.elapsed() < Duration::from_secs(20), "it waits on: {error}");
        // Nobody needs to be told that the messenger is closed.
        memberships.iter().for_each(|membership| membership.declare_ending("the test is over"));
        error
    });
    fabrics.iter().for_each(Fabric::close);
    error
}

#[test]
fn who_waits_for_its_node_s_leader_or_for_rank_0_hears_of_a_loss_and_of_the_end_of_the_job() {
    for (joining, waited_for, node) in [(3, 2, "n1"), (2, 0, "n0"), (1, 0, "n0")] {
        for fate in [Fate::LostBefore, Fate::LostAsked, Fate::EndingBefore, Fate::EndingAsked] {
            let error = join(joining, waited_for, fate).to_string();
            let expected = match fate {
                Fate::EndingBefore | Fate::EndingAsked => "the job is ending: the test says so".into(),
                _ => format!("rank {waited_for} on node {node} is lost: the test says so"),
            };
            assert!(error.contains(&expected), "rank {joining}, {fate:?}: {error}");
        }
    }
}

#[test]
fn who_finds_its_leader_s_cache_gone_says_whose_it_is() {
    for fate in [Fate::LostAnswered, Fate::GoneAnswered] {
        let error = join(3, 2, fate).to_string();
        assert!(error.contains("rank 2") && error.contains("node n1"), "{fate:?}: {error}");
    }
}
