//! `svmio config --show`: the fabric's settings, where they come from, and the buffers that they amount to.

use clap::Args;
use serde::Serialize;
use svmio_transport::Error;
use svmio_transport::message::Footprint;
use svmio_transport::settings::{Effective, Settings};
use svmio_transport::shm;

use super::Outcome;
use super::byte_count::human;
use super::error::CommandError;
use super::fabric::capabilities_of;
use super::output::Output;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  svmio config --show                          every setting, its value and its origin
  svmio config --show --ranks 64               the buffers of each process in a job of 64 on this machine
  SVMIO_CONFIG=my.toml svmio config --show     with those of a file
  svmio config --show --json | jq '.settings[] | select(.origin != \"default\")'

A setting comes from the file that SVMIO_CONFIG names (TOML, with sections), or from a variable like
SVMIO_MESSAGES_EAGER_BUFFER, which wins.

Exit codes: 0 fine; 1 a setting makes no sense, or not even the smallest buffers fit; 2 wrong command line.";

/// The arguments of `svmio config`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct ConfigArguments {
    /// Show every setting in force, where it comes from, and the buffers
    #[arg(long, required = true)]
    show: bool,

    /// For a job of so many processes, all on this machine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    ranks: u32,

    /// JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// All that is told.
#[derive(Debug, Serialize)]
struct Configuration {
    settings: Vec<Effective>,
    buffers: JobBuffers,
}

/// The message buffers of each process of a job, once it has talked with all the others.
#[derive(Debug, Serialize)]
struct JobBuffers {
    ranks: u32,
    /// Bytes that each process may take: its part of the machine's available memory, or what the settings allow. A
    /// messenger goes by the same, with what is available when it is opened.
    limit: u64,
    /// Bytes that it takes.
    total: u64,
    /// What each peer has of it.
    peer: Footprint,
    /// With how many of its peers a process can exchange messages of all kinds before the memory is used up.
    peers: u32,
    /// The receive buffers for all peers, where the fabric has some: as many as its provider takes of what is set, fewer
    /// where memory is short.
    receive_buffers_at_most: Option<usize>,
    /// Bytes of one: fewer than are set where the provider may let a short message overtake a longer one.
    receive_buffer: Option<u64>,
}

/// Prints the settings.
///
/// # Errors
/// Where they are wrong, or nothing fits.
pub(crate) fn config(arguments: &ConfigArguments) -> Result<Outcome, CommandError> {
    let settings = Settings::load()?;
    let buffers = JobBuffers::of(&settings, arguments.ranks)?;
    let configuration = Configuration { settings: settings.effective(), buffers };
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&configuration)?;
    } else {
        configuration.print(&mut output)?;
    }
    output.finish()?;
    Ok(Outcome::Fine)
}

impl JobBuffers {
    fn of(settings: &Settings, ranks: u32) -> Result<JobBuffers, CommandError> {
        let mut receives = None;
        let capabilities = capabilities_of(|secret| {
            let prepared = settings.prepare(secret)?;
            receives = prepared.receive_buffers();
            Ok(prepared)
        })?;
        let share = shm::memory_share(ranks);
        let limit = settings.messages.memory_cap.min(share.unwrap_or(u64::MAX));
        let peer = Footprint::expected(&settings.messages, &capabilities, ranks, share)
            .map_err(|error| too_small(settings, ranks, &error))?;
        let fitting = u32::try_from(limit / peer.bytes.max(1)).unwrap_or(u32::MAX);
        let peers = fitting.min(ranks - 1);
        Ok(JobBuffers {
            ranks,
            limit,
            total: u64::from(peers) * peer.bytes,
            peer,
            peers,
            receive_buffers_at_most: receives.map(|receives| receives.number),
            receive_buffer: receives.map(|receives| receives.bytes as u64),
        })
    }
}

/// That the memory cap leaves no room for the smallest buffers: where it was set, and what to do.
fn too_small(settings: &Settings, ranks: u32, error: &Error) -> CommandError {
    let rows = settings.effective();
    let cap = rows.iter().find(|row| (&*row.section, &*row.key) == ("messages", "memory_cap"));
    let place = cap.map_or_else(String::new, |cap| cap.origin.to_string());
    let problem = format!(
        "memory_cap is {}, which is too little in a job of {ranks}: {error}; give more, or smaller short_packet, \
         ring, eager_buffer and staging_buffer",
        settings.messages.memory_cap
    );
    Error::Setting { place, problem }.into()
}

impl Configuration {
    fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        let mut table = Table::of_words(["SETTING", "VALUE", "FROM"]);
        for setting in &self.settings {
            let name = if setting.section.is_empty() {
                setting.key.clone()
            } else {
                format!("{}.{}", setting.section, setting.key)
            };
            let value = if setting.value.is_empty() { "-" } else { &setting.value };
            table.row([name, value.to_owned(), setting.origin.to_string()]);
        }
        table.print(output)?;

        let JobBuffers { ranks, limit, total, peer, peers, .. } = &self.buffers;
        let (total, limit, each) = (size(*total), size(*limit), size(peer.bytes));
        output.line(format!(
            "\nMessage buffers in a job of {ranks} on this machine: {each} for each peer that all kinds of \
             messages are exchanged with, {total} for {peers} of them; each process may take {limit}"
        ))?;
        let several = |number: u32, bytes: u32| format!("{number} x {}", size(u64::from(bytes)));
        let mut table = Table::of_words(["BUFFERS FOR EACH PEER", "IN FORCE"]);
        table.row(["short messages up to".into(), size(peer.longest_short)]);
        table.row(["ring of packets".into(), size(peer.ring)]);
        table.row(["eager buffers".into(), several(peer.eager_buffers, peer.eager_buffer)]);
        table.row(["staging buffers, each way".into(), several(peer.staging_buffers, peer.staging_buffer)]);
        table.print(output)?;
        if let (Some(most), Some(bytes)) = (self.buffers.receive_buffers_at_most, self.buffers.receive_buffer)
        {
            output.line(format!(
                "\nFor messages of all peers together up to {most} receive buffers of {}; where memory is short, a process \
                 has fewer, and a warning tells how many",
                size(bytes)
            ))?;
        }
        Ok(())
    }
}

fn size(bytes: u64) -> String {
    human(bytes).replace(".00", "")
}
