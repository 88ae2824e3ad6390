//! The suite of the fabric's face, between processes.

use std::cell::Cell;

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

/// Its end. The job is dropped, not finished: there is no fabric any more.
pub(crate) fn end(job: Job, reports: &Reports) -> Value {
    let meeting = Cell::new(0);
    let gather = || {
        meeting.set(meeting.get() + 1);
        reports.meet(meeting.get(), job.size());
    };
    reports.ready();
    // Connected to all: what is under way to whom has to end.
    drop(face::run(job.fabric(), gather));
    face::end(job.fabric(), gather);
    gather();
    json!({ "outcome": "done", "capabilities": job.fabric().capabilities(), "finish": null })
}
