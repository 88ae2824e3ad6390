//! The diagrams of two papers, drawn anew from the simulated fabric: those whose values the tests of `transport` and
//! `collectives` compare with the papers'.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_collectives::Algorithm;
use svmio_collectives::simulation::figures as barriers;
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
    /// The cost model of all diagrams: a built-in one's name, or a file; without it sci-switch, for barriers sci-torus,
    /// and for those on many nodes infiniband-hdr
    #[arg(long, value_name = "MODEL", value_parser = model)]
    model: Option<String>,

    /// The directory for the diagrams, made where there is none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plot: PathBuf,

    /// What is drawn as JSON, too, instead of the names of the diagrams
    #[arg(long)]
    json: bool,
}

/// More points than so many are not marked.
const MOST_MARKED: usize = 32;

/// Up to how many nodes barriers are drawn: one algorithm with several parameters, several beside each other, and those
/// for many.
const MOST_OF_ONE: u32 = 24;
const MOST_OF_SEVERAL: u32 = 16;
const MOST_OF_MANY: u32 = 1024;

/// A diagram, the name of its file, and what was simulated for it.
struct Diagram<'m> {
    name: String,
    figure: Figure,
    model: &'m str,
}

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
    let diagrams = diagrams(arguments.model.as_deref())?;
    let mut output = Output::new()?;
    for Diagram { name, figure, model } in &diagrams {
        let path = directory.join(format!("{name}.svg"));
        chart(figure, model).draw(&path)?;
        if !arguments.json {
            let mut line = output.path(&path);
            line.extend(format!("  {}", figure.title).bytes());
            output.line(line)?;
        }
    }
    if arguments.json {
        output.json(&diagrams.iter().map(|diagram| &diagram.figure).collect::<Vec<_>>())?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

/// All of them, by one model or by those of the papers.
fn diagrams(wanted: Option<&str>) -> Result<Vec<Diagram<'_>>, CommandError> {
    let [switch, torus, tree] =
        ["sci-switch", "sci-torus", "infiniband-hdr"].map(|own| wanted.unwrap_or(own));
    let name = |figure: &Figure| format!("figure-{}", figure.number);
    let messages = figures::all(&Model::find(switch)?)?.into_iter();
    let mut diagrams: Vec<_> =
        messages.map(|figure| Diagram { name: name(&figure), figure, model: switch }).collect();
    let model = Model::find(torus)?;
    for figure in
        [barriers::optimization(&model, MOST_OF_ONE)?, barriers::comparison(&model, MOST_OF_SEVERAL)?]
    {
        let name = format!("collectives-{}", name(&figure));
        diagrams.push(Diagram { name, figure, model: torus });
    }
    let algorithms = [
        Algorithm::Linear,
        Algorithm::Tree { arity: 4 },
        Algorithm::Dissemination,
        Algorithm::Hsb { fan_in: 8, fan_out: 8 },
        Algorithm::Exchange { group: 6 },
        Algorithm::NaryDissemination { radix: 6 },
        Algorithm::X1Tree,
    ];
    let figure = barriers::scaling(&Model::find(tree)?, &algorithms, MOST_OF_MANY)?;
    diagrams.push(Diagram { name: "collectives-scaling".into(), figure, model: tree });
    Ok(diagrams)
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
