//! Of which ranks a barrier is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_collectives::profile::Profile;
use svmio_collectives::{Partition, Rank, Schedule, compose, tune};

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

    /// How many consecutive ranks are a node, for two-level algorithms
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    per_node: u32,
}

/// Of which ranks.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) profile: Option<Profile>,
    pub(super) ranks: Option<u32>,
    pub(super) per_node: u32,
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
        let ranks = self.ranks.or(profile.as_ref().map(Profile::ranks));
        Ok(Group { profile, ranks, per_node: self.per_node })
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
            Wanted::Algorithm(algorithm) => {
                let ranks = self.ranks.ok_or(CommandError::HowManyRanks)?;
                let nodes = Partition::blocks(ranks, self.per_node);
                (wanted.to_string(), algorithm.schedule_on(&nodes)?)
            }
            Wanted::Composed => {
                let composed = compose(self.profile()?)?.ok_or(CommandError::HowManyRanks)?;
                (wanted.to_string(), composed.schedule)
            }
            Wanted::Tuned => {
                let best = tune(self.profile()?)?.into_iter().next().ok_or(CommandError::HowManyRanks)?;
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
