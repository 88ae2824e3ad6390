//! Whether processes that wait for each other have a core each.
//!
//! No process can tell by itself: one that may run on a single core is alone there where each of the others was given
//! another one, as `mpiexec` does by default where there are few, and shares it with all of them where the whole job
//! was confined to that core. So all say where they may run.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = CpuSet::MAX_CPU / WORD_BITS;

/// Where a process may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cores {
    /// A bit for each core; none where the system does not tell.
    cores: [u64; WORDS],
    /// How many can be in use at once: fewer where the process's group has a share of the machine's time.
    most: u64,
}

impl Cores {
    /// As many bytes as [`to_bytes`](Self::to_bytes) has.
    pub(super) const BYTES: usize = size_of::<u64>() * (WORDS + 1);

    /// Those of this thread's process.
    pub(super) fn of_process() -> Self {
        Self::of(None)
    }

    /// Those of the machine, as the first process has them: nobody has bound that one.
    pub(super) fn of_machine() -> Self {
        Self::of(Some(Pid::INIT))
    }

    fn of(process: Option<Pid>) -> Self {
        // A machine with more than the set has room for does not tell.
        let set = sched_getaffinity(process).unwrap_or_default();
        let word =
            |at: usize| (0..WORD_BITS).map(|bit| u64::from(set.is_set(at * WORD_BITS + bit)) << bit).sum();
        let most = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        Self { cores: std::array::from_fn(word), most }
    }

    /// For another process.
    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (to, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.cores.iter().chain([&self.most]))
        {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// What another process has told.
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word =
            |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[size_of::<u64>() * at + byte]));
        Self { cores: std::array::from_fn(word), most: word(WORDS) }
    }

    fn count(&self) -> usize {
        self.cores.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let is_set = |&core: &usize| self.cores[core / WORD_BITS] >> (core % WORD_BITS) & 1 == 1;
        (0..CpuSet::MAX_CPU).filter(is_set)
    }

    /// How many of its cores can be in use at once, where that is fewer than all.
    fn share(&self) -> Option<usize> {
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        (most < self.count()).then_some(most)
    }
}

/// Whether `ranks` processes of one machine, of which some are `members`, are more than can run at the same time. Of
/// the others nothing is known but that they run somewhere on the `machine`.
pub(super) fn are_crowded(members: &[Cores], ranks: usize, machine: &Cores) -> bool {
    let ranks = ranks.max(members.len());
    let least = members.iter().map(|member| member.most).min().unwrap_or(1);
    if members.iter().any(|member| member.count() == 0) {
        return ranks as u64 > least;
    }
    let share = members.iter().filter_map(Cores::share).min().unwrap_or(usize::MAX);
    let mut all = machine.clone();
    for member in members {
        all.cores.iter_mut().zip(member.cores).for_each(|(all, cores)| *all |= cores);
    }
    ranks > share || ranks > all.count() || !have_one_each(members)
}

/// Whether each of the members can have a core of its own: a matching, made larger by one member after the other, each
/// of which may have others move on.
fn have_one_each(members: &[Cores]) -> bool {
    let mut holders = vec![None; CpuSet::MAX_CPU];
    (0..members.len()).all(|member| seat(members, member, &mut holders, &mut vec![false; CpuSet::MAX_CPU]))
}

fn seat(members: &[Cores], member: usize, holders: &mut [Option<usize>], tried: &mut [bool]) -> bool {
    let free = members[member].numbers().find(|&core| holders[core].is_none());
    let mut left = members[member].numbers();
    let found = free.or_else(|| {
        left.find(|&core| {
            let is_new = !std::mem::replace(&mut tried[core], true);
            is_new && holders[core].is_some_and(|holder| seat(members, holder, holders, tried))
        })
    });
    if let Some(core) = found {
        holders[core] = Some(member);
    }
    found.is_some()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use rustix::thread::CpuSet;

    use super::{Cores, WORDS, are_crowded, have_one_each};

    /// Those with these bits among the last cores that there can be.
    fn cores(bits: u8) -> Cores {
        let mut cores = [0; WORDS];
        cores[WORDS - 1] = u64::from(bits) << (u64::BITS - u8::BITS);
        Cores { cores, most: u64::from(bits.count_ones()) }
    }

    fn each(bits: &[u8]) -> Vec<Cores> {
        bits.iter().copied().map(cores).collect()
    }

    #[test]
    fn who_is_bound_is_crowded_only_where_others_are_bound_to_the_same() {
        let machine = cores(0b1111);
        assert!(!are_crowded(&each(&[0b01, 0b10]), 2, &machine));
        assert!(are_crowded(&each(&[0b01, 0b01]), 2, &machine));
        assert!(are_crowded(&each(&[0b11, 0b11, 0b11]), 3, &machine));
        assert!(!are_crowded(&each(&[0b11, 0b11]), 2, &machine));
        assert!(!are_crowded(&each(&[0b11, 0b01]), 2, &machine));
    }

    #[test]
    fn others_than_the_members_need_cores_too() {
        let bound = each(&[0b01, 0b10]);
        assert!(!are_crowded(&bound, 4, &cores(0b1111)));
        assert!(are_crowded(&bound, 5, &cores(0b1111)));
        assert!(are_crowded(&bound, 3, &cores(0b01)));
    }

    #[test]
    fn a_share_of_time_is_not_exceeded() {
        let mut members = each(&[0b1111, 0b1111]);
        members.iter_mut().for_each(|member| member.most = 1);
        assert!(are_crowded(&members, 2, &cores(0b1111)));
    }

    #[test]
    fn where_the_system_does_not_tell_numbers_decide() {
        let members = vec![Cores { most: 2, ..cores(0) }; 2];
        assert!(!are_crowded(&members, 2, &cores(0)));
        assert!(are_crowded(&members, 3, &cores(0)));
    }

    #[test]
    fn this_process_may_run_somewhere() {
        let (own, machine) = (Cores::of_process(), Cores::of_machine());
        assert!(own.count() > 0 && own.most > 0 && own.most <= own.count() as u64);
        assert!(machine.count() > 0);
        assert_eq!(Cores::from_bytes(&own.to_bytes()), own);
        assert!(own.numbers().all(|core| core < CpuSet::MAX_CPU) && own.numbers().count() == own.count());
    }

    /// All ways to give cores out, one member after the other.
    fn can_be_given(members: &[u8], taken: u8) -> bool {
        let Some((first, rest)) = members.split_first() else { return true };
        (0..8)
            .map(|core| 1 << core)
            .any(|core| first & core & !taken != 0 && can_be_given(rest, taken | core))
    }

    proptest! {
        #[test]
        fn a_core_each_is_found_where_there_is_one(members in proptest::collection::vec(any::<u8>(), 1..6)) {
            prop_assert_eq!(have_one_each(&each(&members)), can_be_given(&members, 0));
        }

        #[test]
        fn few_cores_are_enough_where_they_can_be_given_out(
            members in proptest::collection::vec(prop_oneof![Just(1_u8), Just(2), Just(3), Just(6), Just(12), Just(8)], 1..5),
        ) {
            prop_assert_eq!(have_one_each(&each(&members)), can_be_given(&members, 0));
        }
    }
}
