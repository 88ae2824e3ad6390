//! One process of a job on the fabric, as tests start it by the job's launcher.
//!
//! `fabric_process WHAT REPORTS ...` does one thing of a job, and tells what came of it in the directory `REPORTS`:
//! `ready-RANK` as soon as it is under way, `report-RANK`, a line of JSON, at its end.
//!
//! ```text
//!   face                      the suite of the fabric's face
//!   end                       the same, and its end: losses, and closing
//!   traffic SEED [ROUNDS [READY]]
//!                             messages of all protocols between all, and all else that the fabric does, until a
//!                             peer is lost and all know it; it is under way after READY rounds, with 0 as soon as
//!                             it has joined
//!   finishing RANKS           all but these finish, these only when they know of a loss
//!   idle                      connected to all, waits for the end of the job
//!   pairs                     talks with one neighbour only
//! ```

mod finishing;
mod idle;
mod pattern;
mod reports;
mod segments;
mod suite;
mod traffic;

use std::process::ExitCode;

use serde_json::json;
use svmio_tests::fabric_job::now;
use svmio_transport::job::Job;

use reports::Reports;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [what, directory, rest @ ..] = &words[..] else {
        eprintln!("usage: fabric_process face|end|traffic|finishing|idle|pairs REPORTS [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let begun = now();
    let job = match Job::from_environment() {
        Ok(job) => job,
        Err(error) => {
            // Without a job there is no rank but the one that the environment claims.
            let rank = std::env::var("SVMIO_JOB_RANK").unwrap_or_default();
            let report = json!({ "outcome": "not started", "error": error.to_string(), "at": now() });
            Reports::new(directory, &rank).tell(&report);
            return ExitCode::from(3);
        }
    };
    let joined = now();
    let reports = Reports::new(directory, &job.rank().to_string());
    let result = match *what {
        "face" => suite::run(job, &reports),
        "end" => suite::end(job, &reports),
        "traffic" => traffic::run(job, &reports, rest),
        "finishing" => finishing::run(job, &reports, rest),
        "idle" => idle::run(job, &reports),
        "pairs" => idle::pairs(job, &reports),
        _ => panic!("{what} is none of face, end, traffic, finishing, idle, pairs"),
    };
    let mut report = result;
    report["begun"] = json!(begun);
    report["joined"] = json!(joined);
    report["ended"] = json!(now());
    reports.tell(&report);
    ExitCode::SUCCESS
}
