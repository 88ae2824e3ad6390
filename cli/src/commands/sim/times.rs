//! What simulations tell: times of algorithms over numbers of nodes.

use std::path::Path;

use serde::Serialize;

use crate::commands::bench::chart::{Axis, Chart, Line, Scale};
use crate::commands::bench::showing::microseconds;
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

/// All that is told.
#[derive(Debug, Serialize)]
pub(super) struct Times {
    pub(super) model: String,
    pub(super) ranks_per_node: u32,
    /// How much data there is, where there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    pub(super) nodes: Vec<u32>,
    pub(super) algorithms: Vec<Row>,
}

/// One algorithm.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: String,
    /// For each number of nodes.
    pub(super) seconds: Vec<f64>,
}

impl Times {
    /// Shows them, and draws them where that is asked for. `what` they are of, in the plural and in the singular.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub(super) fn show(
        &self,
        [all, one]: [&str; 2],
        as_json: bool,
        plot: Option<&Path>,
    ) -> Result<(), CommandError> {
        if let Some(path) = plot {
            self.chart(all, one).draw(path)?;
        }
        let mut output = Output::new()?;
        if as_json {
            output.json(self)?;
        } else {
            self.print(&mut output)?;
        }
        output.finish()
    }

    /// One row for each number of nodes, one column for each algorithm.
    fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        let ranks =
            if self.ranks_per_node == 1 { "a rank" } else { &format!("{} ranks", self.ranks_per_node) };
        let bytes = self.bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        output.line(format!("{}, {ranks} on each node{bytes}, µs", self.model))?;
        let names = self.algorithms.iter().map(|row| row.algorithm.clone());
        let mut table = Table::of_numbers(["NODES".to_owned()].into_iter().chain(names));
        for (at, nodes) in self.nodes.iter().enumerate() {
            let times = self.algorithms.iter().map(|row| microseconds(row.seconds[at]));
            table.row([nodes.to_string()].into_iter().chain(times));
        }
        table.print(output)
    }

    fn chart(&self, all: &str, one: &str) -> Chart {
        // What spans more than two powers of ten is shown by powers.
        let span = self.nodes.last().zip(self.nodes.first()).map_or(1, |(last, first)| last / first.max(&1));
        let scale = |base| if span > 100 { Scale::Logarithmic(base) } else { Scale::Linear };
        let line = |row: &Row| {
            let points = self.nodes.iter().zip(&row.seconds);
            let points = points.map(|(&nodes, seconds)| (f64::from(nodes), seconds * 1e6)).collect();
            Line { name: row.algorithm.clone(), points, has_marks: true }
        };
        Chart {
            title: format!("{all} on {}", self.model),
            across: Axis::numbers("nodes", scale(2)),
            up: Axis::numbers(format!("{one}, µs"), scale(10)),
            lines: self.algorithms.iter().map(line).collect(),
        }
    }
}
