//! Of which ranks a barrier is.

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_collectives::profile::Profile;
use svmio_collectives::{Partition, Rank, Schedule, compose, outermost_clusters, tune_on};

use super::counts::MOST_RANKS;
use super::wanted::{Named, Wanted};
use crate::commands::error::CommandError;

/// Of which ranks, as it is typed.
#[derive(Debug, Args)]
pub(crate) struct GroupArguments {
    /// The machine's profile, from `svmio barrier profile`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,

    /// How many ranks; of a profile's, the first so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    ranks: Option<u32>,

    /// How many consecutive ranks are a node, for two-level algorithms; without, a profile's outermost clusters are
    /// nodes, or else each rank is one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_node: Option<u32>,
}

/// Of which ranks.
#[derive(Debug)]
pub(super) struct Group {
    /// That of as many ranks.
    profile: Option<Profile>,
    ranks: Option<u32>,
    per_node: Option<u32>,
    /// Once they are asked for.
    nodes: OnceCell<Partition>,
}

impl GroupArguments {
    /// Reads the profile.
    ///
    /// # Errors
    /// Where it cannot be read, or has fewer ranks than are asked for.
    pub(super) fn group(&self) -> Result<Group, CommandError> {
        let profile = match (&self.profile, self.ranks) {
            (None, _) => None,
            (Some(path), None) => Some(profile_in(path)?),
            (Some(path), Some(ranks)) => Some(profile_of(path, ranks)?),
        };
        let per_node = self.per_node;
        Ok(match profile {
            Some(profile) => Group::of(profile, per_node),
            None => Group { profile: None, ranks: self.ranks, per_node, nodes: OnceCell::new() },
        })
    }
}

/// The profile in a file, of the first so many ranks.
///
/// # Errors
/// Where it cannot be read, or has fewer.
pub(super) fn profile_of(path: &Path, ranks: u32) -> Result<Profile, CommandError> {
    let profile = profile_in(path)?;
    let others = profile.ranks();
    if ranks > others {
        let (one, other) = ("what is asked for".to_owned(), "the profile".to_owned());
        return Err(CommandError::OtherRanks { one, ranks, other, others });
    }
    Ok(profile.of(&(0..ranks).map(Rank).collect::<Vec<_>>()))
}

impl Group {
    /// The ranks of a profile; of how many a node is, if that was told.
    pub(super) fn of(profile: Profile, per_node: Option<u32>) -> Self {
        Self { ranks: Some(profile.ranks()), profile: Some(profile), per_node, nodes: OnceCell::new() }
    }

    /// The nodes by which two-level algorithms go: the same ones for whatever names them, also for what the tuner says.
    ///
    /// # Errors
    /// Where it is not known how many ranks there are.
    pub(super) fn nodes(&self) -> Result<&Partition, CommandError> {
        let ranks = self.ranks.ok_or(CommandError::HowManyRanks)?;
        Ok(self.nodes.get_or_init(|| match (self.per_node, &self.profile) {
            (None, Some(profile)) => outermost_clusters(profile),
            (per_node, _) => Partition::blocks(ranks, per_node.unwrap_or(1)),
        }))
    }

    /// The profile.
    ///
    /// # Errors
    /// Where none was named.
    pub(super) fn profile(&self) -> Result<&Profile, CommandError> {
        self.profile.as_ref().ok_or(CommandError::NoProfile)
    }

    /// The barrier that is wanted, for this group.
    ///
    /// # Errors
    /// Where there is none such, or it is for other ranks.
    pub(super) fn barrier(&self, wanted: &Wanted) -> Result<Named, CommandError> {
        let (name, schedule) = match wanted {
            Wanted::Algorithm(algorithm) => (wanted.to_string(), algorithm.schedule_on(self.nodes()?)?),
            Wanted::Composed => {
                let composed = compose(self.profile()?)?.ok_or(CommandError::HowManyRanks)?;
                (wanted.to_string(), composed.schedule)
            }
            Wanted::Tuned => {
                let candidates = tune_on(self.profile()?, self.nodes()?)?;
                let best = candidates.into_iter().next().ok_or(CommandError::HowManyRanks)?;
                let what = best.algorithm.map_or("composed".to_owned(), |algorithm| algorithm.to_string());
                (format!("tuned ({what})"), best.schedule)
            }
            Wanted::File(path) => (wanted.to_string(), self.checked(path)?),
        };
        Ok(Named { name, schedule })
    }

    fn checked(&self, path: &Path) -> Result<Schedule, CommandError> {
        let schedule = schedule_in(path)?;
        match self.ranks {
            Some(others) if others != schedule.ranks() => Err(CommandError::OtherRanks {
                one: path.display().to_string(),
                ranks: schedule.ranks(),
                other: "the group".to_owned(),
                others,
            }),
            _ => Ok(schedule),
        }
    }
}

fn profile_in(path: &Path) -> Result<Profile, CommandError> {
    Profile::load(path).map_err(|error| unreadable(path, "profile", error))
}

fn schedule_in(path: &Path) -> Result<Schedule, CommandError> {
    let read = || serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from);
    read().map_err(|error| unreadable(path, "barrier", error))
}

fn unreadable(path: &Path, what: &'static str, source: io::Error) -> CommandError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            CommandError::NotOfKind { path, what, problem: source.to_string() }
        }
        _ => CommandError::Outside { action: "reading", path, source },
    }
}
