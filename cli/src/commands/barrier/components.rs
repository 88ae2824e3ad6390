//! `svmio barrier components`: which components carry out collectives, and why others cannot here.

use clap::Args;
use serde::Serialize;
use svmio_collectives::components::{Available, Components};
use svmio_transport::shm;

use crate::commands::Outcome;
use crate::commands::error::CommandError;
use crate::commands::output::Output;
use crate::commands::table::Table;

/// The arguments of `svmio barrier components`.
#[derive(Debug, Args)]
pub(crate) struct ComponentsArguments {
    /// What to set, as SVMIO_COMPONENTS says it: 'barrier=hardware hardware.device=ppdev:/dev/parport0 -shared'
    #[arg(long = "set", value_name = "ITEMS", allow_hyphen_values = true)]
    settings: Vec<String>,

    /// JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// A component as it is told.
#[derive(Debug, Serialize)]
struct Shown {
    name: &'static str,
    purpose: &'static str,
    functions: Vec<&'static str>,
    parameters: Vec<ShownParameter>,
    /// Why it cannot run here; none where it can.
    obstacle: Option<String>,
}

#[derive(Debug, Serialize)]
struct ShownParameter {
    name: &'static str,
    meaning: &'static str,
}

/// Lists them.
///
/// # Errors
/// Where a setting makes no sense.
pub(super) fn components(arguments: &ComponentsArguments) -> Result<Outcome, CommandError> {
    let mut components = Components::standard();
    components.configure_from_environment()?;
    arguments.settings.iter().try_for_each(|text| components.configure(text))?;
    // What they are asked of is this machine; a job of one process has its fabric.
    let fabrics = shm::within_process(1);
    let available: Vec<Available> = fabrics.iter().flat_map(|fabric| components.available(fabric)).collect();
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&available.into_iter().map(shown).collect::<Vec<_>>())?;
    } else {
        print(&available, &mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

fn print(available: &[Available], output: &mut Output) -> Result<(), CommandError> {
    let mut table = Table::of_words(["component", "offers", "what it is", "here"]);
    for component in available {
        let here = component.obstacle.as_deref().unwrap_or("available");
        table.row([component.name, &component.functions.to_string(), component.purpose, here]);
    }
    table.print(output)?;
    output.line("")?;
    let mut table = Table::of_words(["parameter", "meaning and default"]);
    for component in available {
        for parameter in component.parameters {
            table.row([format!("{}.{}", component.name, parameter.name), parameter.meaning.to_owned()]);
        }
    }
    table.row(["COMPONENT.priority", "from 0 to 100: the highest is chosen"]);
    table.print(output)
}

fn shown(component: Available) -> Shown {
    let parameter = |parameter: &svmio_collectives::components::Parameter| ShownParameter {
        name: parameter.name,
        meaning: parameter.meaning,
    };
    Shown {
        name: component.name,
        purpose: component.purpose,
        functions: component.functions.iter().map(|function| function.name()).collect(),
        parameters: component.parameters.iter().map(parameter).collect(),
        obstacle: component.obstacle,
    }
}
