//! What is asked for by its name, and is not there: not every program is run with every number of ranks, nor has an aim.

use super::{Wanted, workloads};
use crate::figures::joined;
use crate::files::place::Kind;

/// A program that is wanted, and with some numbers of ranks has no workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// It, with these ranks, on that place.
    pub what: String,
    /// Whether it has none with any number of ranks that is wanted: then nothing of it is measured.
    pub is_all: bool,
}

/// The programs that are wanted by name and, on a place of that kind, are not measured with each number of ranks.
pub fn lacking(wanted: &Wanted, kind: Kind) -> Vec<Lacking> {
    let all = workloads(wanted, kind);
    let of_program = |program: &String| {
        let is_there =
            |ranks: u32| all.iter().any(|workload| workload.program == program && workload.ranks == ranks);
        let ranks: Vec<u32> = wanted.ranks.iter().copied().filter(|ranks| !is_there(*ranks)).collect();
        let what = format!("{program} with {} ranks on {}", joined(&ranks), kind.name());
        (!ranks.is_empty()).then_some(Lacking { what, is_all: ranks.len() == wanted.ranks.len() })
    };
    wanted.programs.iter().filter_map(of_program).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Amount, BtClass};
    use super::*;

    fn of(programs: &[&str], ranks: &[u32], amount: Amount, class: BtClass) -> Vec<(String, bool)> {
        let programs = programs.iter().map(|name| (*name).to_owned()).collect();
        let wanted = Wanted { programs, ranks: ranks.to_vec(), amount, classes: vec![class] };
        lacking(&wanted, Kind::Shm).into_iter().map(|lacking| (lacking.what, lacking.is_all)).collect()
    }

    #[test]
    fn bt_is_not_there_for_numbers_that_are_no_squares() {
        let all = |ranks: &[u32]| of(&["btio", "ior"], ranks, Amount::Aims, BtClass::A);
        assert_eq!(all(&[2, 8]), [("btio with 2,8 ranks on shm".to_owned(), true)]);
        assert_eq!(all(&[2, 4]), [("btio with 2 ranks on shm".to_owned(), false)]);
        assert_eq!(all(&[4]), []);
    }

    #[test]
    fn what_has_no_aim_is_not_there_to_be_judged() {
        let smallest = |amount| of(&["btio"], &[4], amount, BtClass::S);
        assert_eq!(smallest(Amount::Aims), [("btio with 4 ranks on shm".to_owned(), true)]);
        assert_eq!(smallest(Amount::All), []);
        let short = of(&["memory", "small"], &[2], Amount::Short, BtClass::A);
        assert_eq!(short, [("memory with 2 ranks on shm".to_owned(), true)]);
    }

    #[test]
    fn who_names_nothing_misses_nothing() {
        assert_eq!(of(&[], &[2], Amount::Aims, BtClass::A), []);
    }
}
