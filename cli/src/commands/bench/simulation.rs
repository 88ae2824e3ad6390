//! A benchmark on the simulated fabric, in this process and in virtual time.

use std::cell::RefCell;

use svmio_transport::message::MessageSettings;
use svmio_transport::sim::{Model, SimOptions, World};

use super::measuring;
use super::plan::{Plan, Report};
use crate::commands::error::CommandError;

/// Carries out `plan` with `ranks` processes, in the time that the cost model `model` gives them.
///
/// # Errors
/// Where there is no such model, or something of the plan fails.
pub(super) fn measured(
    model: &str,
    settings: &MessageSettings,
    plan: &Plan,
    ranks: u32,
) -> Result<Report, CommandError> {
    let world = World::new(SimOptions::new(ranks, Model::find(model)?));
    // The first process that fails leaves the others waiting: its error is the one to tell, and not theirs.
    let failure = RefCell::new(None);
    let run = world.run(|fabric| match measuring::carry_out(&fabric, settings, plan) {
        Ok(report) => report,
        Err(error) => {
            failure.borrow_mut().get_or_insert(error);
            None
        }
    });
    if let Some(error) = failure.into_inner() {
        return Err(error.into());
    }
    let report = run?.results.into_iter().flatten().flatten().next();
    report.ok_or_else(|| CommandError::Plan { problem: "the first of them reported nothing".into() })
}
