//! `svmio fabric info`: what the fabrics of this machine can do.

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use svmio_transport::back_end::Prepared;
use svmio_transport::ofi::{self, OfiSettings};
use svmio_transport::settings::Settings;
use svmio_transport::sim::Model;
use svmio_transport::{
    Atomics, Capabilities, Dma, Error, JobSecret, Membership, Rank, Result, WriteOrder, shm,
};

use super::Outcome;
use super::byte_count::human;
use super::error::CommandError;
use super::output::Output;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  svmio fabric info
  svmio fabric info --fabric ofi
  svmio fabric info --json | jq -r '.[] | select(.capabilities.registers_user_memory) | .provider'

Columns:
  MAPPED       whether a remote segment can be mapped, so that plain stores reach it
  TRANSACTION  the largest write that arrives whole
  STREAM       the adapter's buffer that gathers stores
  LARGEST      the longest single transfer
  DMA          who carries out transfers that are handed over
  REGISTERS    whether transfers can go straight to user memory
  READS        whether remote memory can be read
  ATOMICS      who changes remote words atomically
  ORDER        in which order writes become visible
  RELIABLE     whether every write arrives

Exit codes: 0 fine; 1 a fabric that was asked for cannot be used; 2 wrong command line.";

/// The arguments of `svmio fabric`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct FabricArguments {
    #[command(subcommand)]
    what: FabricCommand,
}

#[derive(Debug, Subcommand)]
enum FabricCommand {
    /// List the fabrics, their providers and cost models, and what each can do
    Info(InfoArguments),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct InfoArguments {
    /// Only this one
    #[arg(long)]
    fabric: Option<Kind>,

    /// A JSON array instead
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Shared memory
    Shm,
    /// libfabric
    Ofi,
    /// Simulated
    Sim,
}

/// A fabric with one of its providers.
#[derive(Debug, Serialize)]
struct Adapter {
    fabric: Kind,
    provider: String,
    #[serde(flatten)]
    state: State,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It can be used.
    Capabilities(Box<Capabilities>),
    /// It cannot, and why.
    Unavailable(String),
}

/// Prints what the fabrics can do.
///
/// # Errors
/// Where the settings are wrong.
pub(crate) fn fabric(arguments: &FabricArguments) -> Result<Outcome, CommandError> {
    let FabricCommand::Info(arguments) = &arguments.what;
    let settings = Settings::load()?;
    let is_wanted = |kind| arguments.fabric.is_none_or(|wanted| wanted == kind);
    let mut adapters = Vec::new();
    if is_wanted(Kind::Shm) {
        adapters.push(Adapter::of(Kind::Shm, "memory", |secret| shm::prepare(&settings.shm, secret)));
    }
    if is_wanted(Kind::Ofi) {
        for &provider in ofi::PROVIDERS {
            let settings = OfiSettings { provider: provider.into(), ..settings.ofi.clone() };
            let adapter = Adapter::of(Kind::Ofi, provider, |secret| ofi::prepare(&settings, secret));
            // libfabric takes some names for those of others.
            if !adapters.iter().any(|known: &Adapter| known.provider == adapter.provider) {
                adapters.push(adapter);
            }
        }
    }
    if is_wanted(Kind::Sim) {
        for name in Model::names() {
            let capabilities = Model::named(name)?.capabilities();
            let state = State::Capabilities(Box::new(capabilities));
            adapters.push(Adapter { fabric: Kind::Sim, provider: name.into(), state });
        }
    }

    let mut output = Output::new()?;
    if arguments.json {
        output.json(&adapters)?;
    } else {
        print(&adapters, &mut output)?;
    }
    output.finish()?;
    // Without --fabric all is told that there is; with it, it was asked for.
    let is_there = adapters.iter().any(|adapter| matches!(adapter.state, State::Capabilities(_)));
    Ok(if is_there { Outcome::Fine } else { Outcome::Troubled })
}

impl Adapter {
    fn of(
        fabric: Kind,
        provider: &str,
        prepare: impl FnOnce(&JobSecret) -> Result<Box<dyn Prepared>>,
    ) -> Adapter {
        match capabilities_of(prepare) {
            Ok(capabilities) => Adapter {
                fabric,
                provider: capabilities.provider.clone(),
                state: State::Capabilities(Box::new(capabilities)),
            },
            Err(error) => {
                Adapter { fabric, provider: provider.into(), state: State::Unavailable(error.to_string()) }
            }
        }
    }
}

/// What a fabric says of itself, in a job of a single process.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn capabilities_of(
    prepare: impl FnOnce(&JobSecret) -> Result<Box<dyn Prepared>>,
) -> Result<Capabilities> {
    let secret = JobSecret::random().map_err(|source| Error::system("making a secret", source))?;
    let prepared = prepare(&secret)?;
    let addresses = vec![prepared.address()];
    let membership = Membership::new(Rank(0), vec!["this".into()]);
    let back_end = prepared.join(Arc::new(membership), addresses)?;
    let capabilities = back_end.capabilities().clone();
    back_end.close();
    Ok(capabilities)
}

fn print(adapters: &[Adapter], output: &mut Output) -> Result<(), CommandError> {
    let mut table = Table::of_words([
        "FABRIC",
        "PROVIDER",
        "MAPPED",
        "TRANSACTION",
        "STREAM",
        "LARGEST",
        "DMA",
        "REGISTERS",
        "READS",
        "ATOMICS",
        "ORDER",
        "RELIABLE",
    ]);
    let mut reasons = Vec::new();
    for Adapter { fabric, provider, state } in adapters {
        let fabric = match fabric {
            Kind::Shm => "shm",
            Kind::Ofi => "ofi",
            Kind::Sim => "sim",
        };
        match state {
            State::Unavailable(reason) => {
                reasons.push(format!("{fabric} {provider} cannot be used: {reason}"))
            }
            State::Capabilities(abilities) => table.row([
                fabric.to_owned(),
                provider.clone(),
                yes_or_no(abilities.direct_mapping),
                size(abilities.transaction_size as u64),
                abilities.stream_buffer.map_or("-".into(), |bytes| size(bytes as u64)),
                size(abilities.largest_transfer),
                match abilities.dma {
                    Dma::None => "-",
                    Dma::Adapter => "adapter",
                    Dma::Thread => "thread",
                }
                .into(),
                yes_or_no(abilities.registers_user_memory),
                yes_or_no(abilities.remote_read),
                match abilities.atomics {
                    Atomics::Processor => "processor",
                    Atomics::Message => "message",
                    Atomics::Adapter => "adapter",
                }
                .into(),
                match abilities.ordering {
                    WriteOrder::Issued => "issued",
                    WriteOrder::Any => "any",
                }
                .into(),
                yes_or_no(abilities.is_reliable),
            ]),
        }
    }
    if reasons.len() < adapters.len() {
        table.print(output)?;
        if !reasons.is_empty() {
            output.line("")?;
        }
    }
    reasons.iter().try_for_each(|reason| output.line(reason))
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.into()
}

/// Beyond an exbibyte there is no limit worth a number.
fn size(bytes: u64) -> String {
    if bytes >= 1 << 60 { "any".into() } else { human(bytes).replace(".00", "") }
}
