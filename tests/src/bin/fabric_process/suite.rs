//! The suite of the fabric's face, between processes.

use serde_json::{Value, json};
use svmio_tests::face;
use svmio_transport::job::Job;

use crate::reports::Reports;

pub(crate) fn run(job: Job, reports: &Reports) -> Value {
    reports.ready();
    // Nobody's segments go before all have finished: `finish` waits for the others.
    let kept = face::run(job.fabric(), || {});
    let statistics = job.fabric().statistics();
    let capabilities = job.fabric().capabilities().clone();
    let finish = job.finish().err().map(|error| error.to_string());
    drop(kept);
    json!({ "outcome": "done", "capabilities": capabilities, "statistics": statistics, "finish": finish })
}
