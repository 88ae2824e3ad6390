//! What there is to tell of a barrier.

use serde::Serialize;
use svmio_collectives::profile::Profile;
use svmio_collectives::{CostModel, Prediction, Signal};

use super::wanted::Named;

/// A barrier and what it is predicted to cost.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: String,
    pub(super) steps: usize,
    pub(super) signals: usize,
    pub(super) predicted_seconds: f64,
    /// The ranks that the last one to leave had to wait for, one for the other, and itself.
    pub(super) critical_path: Vec<u32>,
}

/// Ranks of a critical path that are printed at most.
const SHOWN: usize = 8;

impl Row {
    /// That of a barrier on a machine.
    pub(super) fn of(barrier: &Named, profile: &Profile, costs: CostModel) -> Self {
        let prediction = barrier.schedule.predict(profile, costs);
        Self::predicted(barrier, &prediction)
    }

    /// That of a barrier that is predicted already.
    pub(super) fn predicted(barrier: &Named, prediction: &Prediction) -> Self {
        Self {
            algorithm: barrier.name.clone(),
            steps: barrier.schedule.steps().len(),
            signals: barrier.schedule.signals(),
            predicted_seconds: prediction.total * 1e-9,
            critical_path: ranks_along(&prediction.critical_path),
        }
    }

    /// The critical path as people read it.
    pub(super) fn path(&self) -> String {
        let ranks = self.critical_path.iter().map(u32::to_string);
        let mut path = ranks.take(SHOWN).collect::<Vec<_>>().join("→");
        if self.critical_path.len() > SHOWN {
            path.push('…');
        }
        path
    }
}

fn ranks_along(path: &[(usize, Signal)]) -> Vec<u32> {
    let first = path.first().map(|(_, signal)| signal.from.0);
    first.into_iter().chain(path.iter().map(|(_, signal)| signal.to.0)).collect()
}
