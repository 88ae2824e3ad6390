//! Processes of which some wait within `finish` for the others, who hold back until they know of a loss.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use svmio_tests::fabric_job::now;
use svmio_transport::job::Job;
use svmio_transport::message::{Messenger, Port};

use crate::idle::talk_with_all;
use crate::reports::Reports;

/// Who holds back does so no longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// `finishing RANKS`: these hold back, as in `0,2`. The others are under way when the next thing that they do is to
/// finish.
pub(crate) fn run(job: Job, reports: &Reports, words: &[&str]) -> Value {
    let ranks = words.first().expect("finishing RANKS").split(',');
    let holds_back = ranks.map(|rank| rank.parse::<u32>().expect("a rank")).any(|rank| rank == job.rank().0);
    let messenger =
        Messenger::open(job.fabric(), Port::FIRST, &job.settings().messages).expect("a port can be opened");
    talk_with_all(&job, &messenger);
    drop(messenger);
    reports.ready();
    let losses = if holds_back { await_loss(&job) } else { Vec::new() };
    let finish = job.finish().err().map(|error| error.to_string());
    json!({ "losses": losses, "ending": null, "unexpected": [], "finish": finish, "finished": now() })
}

/// Waits until somebody is lost; who, and when that was known.
fn await_loss(job: &Job) -> Vec<Value> {
    let (told, news) = mpsc::channel();
    let _subscription = job.membership().on_disturbance(move || {
        // Nobody may wait any more.
        let _ = told.send(());
    });
    if job.membership().lost().is_empty() {
        // Where nothing comes, the list is empty.
        let _ = news.recv_timeout(PATIENCE);
    }
    let at = now();
    let lost = job.membership().lost().into_iter();
    lost.map(|rank| {
        let error = job.membership().check(rank).err().map(|error| error.to_string());
        json!({ "rank": rank.0, "error": error, "at": at })
    })
    .collect()
}
