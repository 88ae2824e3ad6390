//! Processes that do little: wait, or talk with one neighbour.

use serde_json::{Value, json};
use svmio_tests::fabric_job::now;
use svmio_transport::job::Job;
use svmio_transport::message::{Messenger, Port};
use svmio_transport::{Interrupt, Rank};

use crate::pattern::{first_wrong, message};
use crate::reports::Reports;

/// A long one and a short one, so that more than one protocol has been at work.
const LENGTHS: [usize; 2] = [100_000, 8];

/// Talks with all others, then waits until the job ends.
pub(crate) fn run(job: Job, reports: &Reports) -> Value {
    let fabric = job.fabric();
    let messenger =
        Messenger::open(fabric, Port::FIRST, &job.settings().messages).expect("a port can be opened");
    talk_with_all(&job, &messenger);
    reports.ready();
    // Nobody triggers it; a loss ends one wait, the end of the job all.
    let ended = loop {
        let waited = fabric.wait_interrupt(Interrupt(20), None);
        if let Err(error) = waited.and_then(|_| job.membership().check_job()) {
            break error;
        }
    };
    let at = now();
    let peers = fabric.connected_peers();
    drop(messenger);
    let finish = job.finish().err().map(|error| error.to_string());
    json!({ "outcome": "ended", "error": ended.to_string(), "at": at, "peers": peers, "finish": finish })
}

/// Talks with the neighbour: 0 with 1, 2 with 3 and so on.
pub(crate) fn pairs(job: Job, reports: &Reports) -> Value {
    reports.ready();
    let fabric = job.fabric();
    let peer = Rank(job.rank().0 ^ 1);
    let messenger =
        Messenger::open(fabric, Port::FIRST, &job.settings().messages).expect("a port can be opened");
    talk(&messenger, peer, peer);
    let at = now();
    let peers = fabric.connected_peers();
    drop(messenger);
    let finish = job.finish().err().map(|error| error.to_string());
    json!({ "outcome": "done", "at": at, "peers": peers, "finish": finish })
}

/// In pairs that meet one after the other: no two ranks wait for each other.
pub(crate) fn talk_with_all(job: &Job, messenger: &Messenger) {
    for distance in 1..job.size() {
        let to = Rank((job.rank().0 + distance) % job.size());
        let from = Rank((job.rank().0 + job.size() - distance) % job.size());
        talk(messenger, to, from);
    }
}

/// Sends to one and receives from one.
fn talk(messenger: &Messenger, to: Rank, from: Rank) {
    for length in LENGTHS {
        let (ours, mut theirs) = (message(length as u64, length), vec![0; length]);
        let exchanged = messenger.scope(|scope| {
            let receive = scope.receive(from, &mut theirs)?;
            let send = scope.send(to, &ours)?;
            send.wait()?;
            receive.wait()
        });
        assert_eq!(exchanged.expect("the peers are there"), length);
        assert_eq!(first_wrong(length as u64, &theirs), None, "the message from rank {from}");
    }
}
