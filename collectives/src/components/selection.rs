//! Choosing, so that all members choose alike.
//!
//! ```text
//!   each member:   asks its components          ballot
//!   member 0:      has all ballots              standings, which all get
//!   each member:   assigns functions by them, joins the components that have got some
//!   member 0:      hears whether all could      standings again, until all could
//! ```

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Entry;
use super::basic::{self, Basic};
use super::collectives::Collectives;
use super::error::{Error, Result};
use super::function::{Function, Functions};
use super::module::Module;
use super::team::Team;

/// Where a component stands in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// All members want it.
    Wanted {
        /// The least priority that any of them gives it.
        priority: u32,
        /// What all members' proposals have in common.
        proposal: u64,
    },
    /// Some member cannot have it or does not want it.
    Refused {
        /// Who, and why.
        reason: String,
    },
}

/// What a member says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ballot {
    /// Its components and how they are set, as far as that has to be the same everywhere.
    configuration: Vec<String>,
    /// By component.
    votes: Vec<Standing>,
}

/// Chooses among components for a team, for these functions.
///
/// # Errors
/// Those of [`Components::select`](super::Components::select).
pub(super) fn select(
    entries: &[Entry],
    requested: &BTreeMap<Function, usize>,
    functions: Functions,
    team: &Team,
) -> Result<Collectives> {
    let mut basic = Basic::new(team);
    let votes = entries.iter().map(|entry| vote(entry, team)).collect();
    let ballot = Ballot { configuration: configuration(entries, requested), votes };
    let counted = agree(&mut basic, team, &ballot, |ballots| count(&ballots))?;
    let mut standings = counted.map_err(|problem| Error::Disagreement { problem })?;
    let mut joined: Vec<Option<Box<dyn Module>>> = entries.iter().map(|_| None).collect();
    loop {
        let table = assign(entries, requested, functions, &standings)?;
        let next = table.iter().copied().find(|&number| joined[number].is_none());
        let Some(number) = next else { return Ok(collectives(entries, joined, table, standings)) };
        let proposal = match standings[number] {
            Standing::Wanted { proposal, .. } => proposal,
            Standing::Refused { .. } => 0,
        };
        let module = entries[number].component.join(team, &mut basic, proposal);
        let outcome = module.as_ref().err().map(ToString::to_string);
        match agree(&mut basic, team, &outcome, |outcomes| first_obstacle(&outcomes))? {
            None => joined[number] = module.ok(),
            Some(reason) => standings[number] = Standing::Refused { reason },
        }
    }
}

/// What a member says of a component.
fn vote(entry: &Entry, team: &Team) -> Standing {
    if let Some(reason) = entry.obstacle(team.fabric()) {
        return Standing::Refused { reason };
    }
    match entry.component.query(team) {
        Ok(wish) => {
            Standing::Wanted { priority: entry.priority.unwrap_or(wish.priority), proposal: wish.proposal }
        }
        Err(reason) => Standing::Refused { reason },
    }
}

/// What has to be the same everywhere: a line for each component and for each function that the user has assigned.
fn configuration(entries: &[Entry], requested: &BTreeMap<Function, usize>) -> Vec<String> {
    let components = entries.iter().map(|entry| {
        let mut line = String::from(if entry.is_excluded { "-" } else { "" });
        line += entry.component.name();
        for (parameter, value) in &entry.assigned {
            line += &format!(" {parameter}={value}");
        }
        line
    });
    let functions = requested
        .iter()
        .map(|(function, &number)| format!("{function}={}", entries[number].component.name()));
    components.chain(functions).collect()
}

/// The standings, from the ballots of all members in their order; what they disagree on where there are none.
fn count(ballots: &[Ballot]) -> Result<Vec<Standing>, String> {
    let Some((first, others)) = ballots.split_first() else { return Ok(Vec::new()) };
    let mut standings: Vec<Standing> = first.votes.iter().map(|vote| by_member(0, vote)).collect();
    for (member, ballot) in (1..).zip(others) {
        if ballot.configuration != first.configuration || ballot.votes.len() != standings.len() {
            let text = |ballot: &Ballot| ballot.configuration.join("; ");
            return Err(format!("member 0 has [{}], member {member} [{}]", text(first), text(ballot)));
        }
        for (standing, vote) in standings.iter_mut().zip(&ballot.votes) {
            *standing = both(standing, by_member(member, vote));
        }
    }
    Ok(standings)
}

fn by_member(member: usize, vote: &Standing) -> Standing {
    match vote {
        Standing::Refused { reason } => Standing::Refused { reason: format!("member {member}: {reason}") },
        wanted => wanted.clone(),
    }
}

fn both(one: &Standing, other: Standing) -> Standing {
    match (one, other) {
        (
            Standing::Wanted { priority, proposal },
            Standing::Wanted { priority: other_priority, proposal: other_proposal },
        ) => {
            let (priority, proposal) = ((*priority).min(other_priority), proposal & other_proposal);
            if proposal == 0 {
                let reason =
                    "what the members could do has nothing in common: different devices, or no free circuit";
                return Standing::Refused { reason: reason.into() };
            }
            Standing::Wanted { priority, proposal }
        }
        // The first to refuse is the one who is told of.
        (Standing::Refused { .. }, _) => one.clone(),
        (_, refused) => refused,
    }
}

/// Which component each function gets: what the user wants, else the one of the highest priority, the first of equals.
/// Functions that nobody asks for get what is always there.
fn assign(
    entries: &[Entry],
    requested: &BTreeMap<Function, usize>,
    functions: Functions,
    standings: &[Standing],
) -> Result<[usize; Function::ALL.len()]> {
    let basic = entries.iter().position(|entry| entry.component.name() == basic::NAME);
    let mut table = [0; Function::ALL.len()];
    for &function in Function::ALL {
        if let (false, Some(basic)) = (functions.contains(function), basic) {
            table[function as usize] = basic;
            continue;
        }
        table[function as usize] = match requested.get(&function) {
            Some(&number) => match &standings[number] {
                Standing::Wanted { .. } => number,
                Standing::Refused { reason } => {
                    let (component, reason) = (entries[number].component.name().into(), reason.clone());
                    return Err(Error::Unavailable { function, component, reason });
                }
            },
            None => best(entries, standings, function)?,
        };
    }
    Ok(table)
}

fn best(entries: &[Entry], standings: &[Standing], function: Function) -> Result<usize> {
    let priority = |number: usize| match standings[number] {
        Standing::Wanted { priority, .. } => Some(priority),
        Standing::Refused { .. } => None,
    };
    let offered = (0..entries.len())
        .filter(|&number| entries[number].component.functions().contains(function))
        .filter_map(|number| Some((priority(number)?, number)));
    // Of equals, `max_by_key` takes the last.
    let best = offered.rev().max_by_key(|&(priority, _)| priority);
    best.map(|(_, number)| number).ok_or_else(|| Error::Unavailable {
        function,
        component: basic::NAME.into(),
        reason: "no component is left that offers it".into(),
    })
}

fn collectives(
    entries: &[Entry],
    joined: Vec<Option<Box<dyn Module>>>,
    table: [usize; Function::ALL.len()],
    standings: Vec<Standing>,
) -> Collectives {
    let name = |number: usize| entries[number].component.name();
    let chosen = table.map(name);
    // Modules that were joined before another one could not be are there for nothing.
    let is_used = |number: usize| table.contains(&number);
    let mut place = vec![0; entries.len()];
    let mut modules = Vec::new();
    for (number, module) in joined.into_iter().enumerate().filter(|&(number, _)| is_used(number)) {
        place[number] = modules.len() as u8;
        modules.extend(module);
    }
    let standings = standings.into_iter().enumerate().map(|(number, standing)| (name(number), standing));
    Collectives::new(modules, table.map(|number| place[number]), chosen, standings.collect())
}

fn first_obstacle(outcomes: &[Option<String>]) -> Option<String> {
    let mut obstacles = outcomes
        .iter()
        .enumerate()
        .filter_map(|(member, outcome)| outcome.as_ref().map(|reason| format!("member {member}: {reason}")));
    obstacles.next()
}

/// What member 0 decides on what all have.
fn agree<T: Serialize + DeserializeOwned, D: Serialize + DeserializeOwned>(
    basic: &mut Basic,
    team: &Team,
    own: &T,
    decide: impl FnOnce(Vec<T>) -> D,
) -> Result<D> {
    let misunderstood = |member: usize| {
        move |error: serde_json::Error| Error::Misunderstanding { member, problem: error.to_string() }
    };
    let own = serde_json::to_vec(own).map_err(misunderstood(team.own()))?;
    let all = basic.collect(&own)?;
    let decision = if team.own() == 0 {
        let all = all.iter().enumerate().map(|(member, bytes)| {
            serde_json::from_slice(bytes).map_err(|error| (member, error.to_string()))
        });
        // Also what cannot be read is told to all: they wait.
        let decided: Result<D, (usize, String)> = all.collect::<Result<_, _>>().map(decide);
        serde_json::to_vec(&decided).map_err(misunderstood(0))?
    } else {
        Vec::new()
    };
    let decided: Result<D, (usize, String)> =
        serde_json::from_slice(&basic.spread(&decision)?).map_err(misunderstood(0))?;
    decided.map_err(|(member, problem)| Error::Misunderstanding { member, problem })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::{Ballot, Standing, count};

    fn ballot(votes: Vec<Option<(u32, u64)>>) -> Ballot {
        let vote = |vote| match vote {
            Some((priority, proposal)) => Standing::Wanted { priority, proposal },
            None => Standing::Refused { reason: "no".into() },
        };
        Ballot { configuration: vec!["a".into()], votes: votes.into_iter().map(vote).collect() }
    }

    proptest! {
        #[test]
        fn a_component_stands_where_all_want_it(
            votes in prop::collection::vec(
                prop::collection::vec(prop::option::weighted(0.9, (0_u32..100, 1_u64..16)), 3), 1..6),
        ) {
            let ballots: Vec<_> = votes.iter().cloned().map(ballot).collect();
            let standings = count(&ballots).unwrap();
            for (number, standing) in standings.iter().enumerate() {
                let all: Option<Vec<_>> = votes.iter().map(|votes| votes[number]).collect();
                let expected = all.map(|all| all.into_iter().fold(
                    (u32::MAX, u64::MAX), |(priority, bits), vote| (priority.min(vote.0), bits & vote.1)));
                match (standing, expected) {
                    (Standing::Wanted { priority, proposal }, Some(expected)) => {
                        prop_assert_eq!((*priority, *proposal), expected);
                        prop_assert_ne!(*proposal, 0);
                    }
                    (Standing::Refused { .. }, expected) => {
                        prop_assert!(expected.is_none_or(|(_, proposal)| proposal == 0));
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }

    #[test]
    fn who_refuses_first_is_told_of() {
        let ballots = [ballot(vec![Some((1, 1))]), ballot(vec![None]), ballot(vec![None])];
        let refused = Standing::Refused { reason: "member 1: no".into() };
        assert_eq!(count(&ballots), Ok(vec![refused]));
    }

    #[test]
    fn different_settings_are_told_of() {
        let mut ballots = [ballot(vec![Some((1, 1))]), ballot(vec![Some((1, 1))])];
        ballots[1].configuration = vec!["-a".into()];
        assert_eq!(count(&ballots), Err("member 0 has [a], member 1 [-a]".into()));
    }
}
