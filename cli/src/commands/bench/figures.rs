//! The diagrams of the first paper, drawn anew from the simulated fabric: those whose values the transport's tests
//! compare with the paper's.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_transport::sim::Model;
use svmio_transport::sim::figures::{self, Figure, Series};

use super::chart::{Axis, Chart, Line, Scale};
use super::fabric_choice::model;
use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::Output;

/// The arguments of `svmio bench figures`.
#[derive(Debug, Args)]
pub(crate) struct FiguresArguments {
    /// The cost model: a built-in one's name, or a file
    #[arg(long, value_name = "MODEL", default_value = "sci-switch", value_parser = model)]
    model: String,

    /// The directory for the diagrams, made where there is none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plot: PathBuf,

    /// What is drawn as JSON, too, instead of the names of the diagrams
    #[arg(long)]
    json: bool,
}

/// More points than so many are not marked.
const MOST_MARKED: usize = 32;

/// Draws them all, and prints their names.
///
/// # Errors
/// Where one cannot be measured or written.
pub(super) fn figures(arguments: &FiguresArguments) -> Result<Outcome, CommandError> {
    let directory = &arguments.plot;
    fs::create_dir_all(directory).map_err(|source| CommandError::Outside {
        action: "making the directory",
        path: directory.clone(),
        source,
    })?;
    let figures = figures::all(&Model::find(&arguments.model)?)?;
    let mut output = Output::new()?;
    for figure in &figures {
        let path = directory.join(format!("figure-{}.svg", figure.number));
        chart(figure, &arguments.model).draw(&path)?;
        if !arguments.json {
            let mut line = output.path(&path);
            line.extend(format!("  {}", figure.title).bytes());
            output.line(line)?;
        }
    }
    if arguments.json {
        output.json(&figures)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

fn chart(figure: &Figure, model: &str) -> Chart {
    let line = |series: &Series| {
        let has_marks = series.points.len() <= MOST_MARKED;
        Line { name: series.name.clone(), points: series.points.clone(), has_marks }
    };
    Chart {
        title: format!("{}, {model}", figure.title),
        across: axis(&figure.x),
        up: axis(&figure.y),
        lines: figure.series.iter().map(line).collect(),
    }
}

fn axis(axis: &figures::Axis) -> Axis {
    match (axis.is_logarithmic, axis.label.ends_with("[B]")) {
        (true, true) => Axis { title: axis.label.clone(), ..Axis::sizes() },
        (true, false) => Axis::numbers(axis.label.clone(), Scale::Logarithmic(10)),
        (false, _) => Axis::numbers(axis.label.clone(), Scale::Linear),
    }
}
