//! Choosing components: all members alike, the best for each function, and what it lacks from the next.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "calls/affine.rs"]
mod affine;
#[path = "components/barriers.rs"]
mod barriers;
#[path = "components/hardware.rs"]
mod hardware;
#[path = "components/refusing.rs"]
mod refusing;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use affine::affine;
use proptest::prelude::*;
use svmio_collectives::components::{
    Basic, Collectives, Component, Components, Error, Function, Functions, Module, Standing, Team, Wish,
};
use svmio_collectives::executor::{Elementwise, Group, GroupSettings, Operation};
use svmio_collectives::hardware::Emulator;
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank, SegmentId, shm};

const SPACE: u32 = 81;

/// What each member of a group of threads makes of `body`, in the order of members.
fn members<R: Send>(size: u32, body: impl Fn(&Team) -> R + Sync) -> Vec<R> {
    static TEAMS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only another number for each team.
    let id = SegmentId::new(SPACE, TEAMS.fetch_add(1, Ordering::Relaxed));
    // The members are not in the order of ranks.
    let members: Vec<Rank> = (0..size).rev().map(Rank).collect();
    let fabrics = shm::within_process(size);
    thread::scope(|scope| {
        let member = |&rank: &Rank| {
            let (fabric, members, body) = (&fabrics[rank.index()], &members, &body);
            scope.spawn(move || body(&team(fabric, members, id)))
        };
        let threads: Vec<_> = members.iter().map(member).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn team(fabric: &Fabric, members: &[Rank], id: SegmentId) -> Team {
    let messenger = Messenger::open(fabric, Port::FIRST, &MessageSettings::default()).unwrap();
    Team::new(fabric, members, id, Arc::new(messenger)).unwrap()
}

fn configured(text: &str) -> Components {
    let mut components = Components::standard();
    components.configure(text).unwrap();
    components
}

fn chosen(collectives: &Collectives) -> Vec<&'static str> {
    Function::ALL.iter().map(|&function| collectives.chosen(function)).collect()
}

fn refusal<'standing>(collectives: &'standing Collectives, component: &str) -> &'standing str {
    let (_, standing) = collectives.standings().iter().find(|(name, _)| *name == component).unwrap();
    match standing {
        Standing::Refused { reason } => reason,
        Standing::Wanted { .. } => panic!("{component} is wanted"),
    }
}

#[test]
fn the_best_that_is_there_is_chosen() {
    for collectives in members(3, |team| chosen(&Components::standard().select(team).unwrap())) {
        assert!(collectives.iter().all(|name| *name == "shared"), "{collectives:?}");
    }
}

#[test]
fn what_the_best_lacks_falls_to_the_next() {
    members(3, |team| {
        let collectives = configured("-shared").select(&beside(team, 4)).unwrap();
        assert!(chosen(&collectives).iter().all(|name| *name == "network"));

        let mut collectives = configured("-shared -network").select(team).unwrap();
        assert_eq!(collectives.chosen(Function::Barrier), "schedule");
        assert!(chosen(&collectives)[1..].iter().all(|name| *name == "basic"));
        assert!(refusal(&collectives, "shared").contains("excludes"));
        collectives.barrier().unwrap();

        let components = configured("schedule.priority=50 alltoall=basic");
        let collectives = components.select(&beside(team, 3)).unwrap();
        assert_eq!(collectives.chosen(Function::Barrier), "schedule");
        assert_eq!(collectives.chosen(Function::Alltoall), "basic");
        assert_eq!(collectives.chosen(Function::Alltoallv), "shared");
    });
}

#[test]
fn members_that_are_set_differently_all_hear_of_it() {
    let texts = ["schedule.algorithm=tree:4", "schedule.algorithm=tree:3", "-shared", "barrier=basic"];
    for text in texts {
        for outcome in members(3, |team| {
            let text = if team.own() == 1 { text } else { "schedule.algorithm=tree:4 bcast=basic" };
            configured(text).select(team).map(|_| ())
        }) {
            let Err(Error::Disagreement { problem }) = outcome else { panic!("{outcome:?}") };
            assert!(problem.contains("member 1 [") && problem.contains("tree:4"), "{problem}");
        }
    }
}

#[test]
fn what_the_user_wants_and_cannot_have_is_an_error_for_all() {
    for outcome in members(2, |team| {
        // Only one member's device is there: devices may differ.
        let directory = tempfile::tempdir().unwrap();
        let _controller =
            (team.own() == 0).then(|| Emulator::create(directory.path(), 1).unwrap().spawn().unwrap());
        let device = format!("hardware.device=emulated:{} barrier=hardware", directory.path().display());
        configured(&device).select(team).map(|_| ())
    }) {
        let Err(Error::Unavailable { function, component, reason }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((function, component.as_str()), (Function::Barrier, "hardware"));
        assert!(reason.starts_with("member 1: ") && reason.contains("svmio barrier controller"), "{reason}");
    }
}

/// Another team of the same members.
fn beside(team: &Team, number: u32) -> Team {
    let messenger =
        Messenger::open(team.fabric(), Port::new(number % Port::COUNT).unwrap(), &MessageSettings::default());
    let id = SegmentId::new(SPACE + 1, number);
    Team::new(team.fabric(), team.members(), id, Arc::new(messenger.unwrap())).unwrap()
}

#[test]
fn why_a_component_cannot_run_is_told() {
    let [fabric] = &shm::within_process(1)[..] else { unreachable!() };
    let told = |text: &str| {
        let available = configured(text).available(fabric);
        available.into_iter().find(|component| component.name == "hardware").unwrap().obstacle
    };
    for (text, expected) in [
        ("", "no device is named: set hardware.device to"),
        ("hardware.device=ppdev:/dev/parport77", "modprobe -a parport_pc ppdev"),
        ("hardware.device=emulated:/nowhere", "svmio barrier controller"),
        ("-hardware", "excludes"),
    ] {
        let obstacle = told(text).unwrap();
        assert!(obstacle.contains(expected), "{text}: {obstacle}");
    }
    let all = Components::standard().available(fabric);
    let basic = all.iter().find(|component| component.name == "basic").unwrap();
    assert_eq!((basic.functions, basic.obstacle.as_deref()), (Functions::ALL, None));
}

/// A component with one function, which some member cannot join or does not want.
#[derive(Debug)]
struct Picky {
    wants: bool,
    joins: bool,
}

#[derive(Debug)]
struct Nothing;

impl Module for Nothing {
    fn do_meanwhile(&mut self, _: fn()) {}

    fn withdraw(&mut self, _: &str) {}
}

impl Component for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn purpose(&self) -> &'static str {
        "to be refused"
    }

    fn functions(&self) -> Functions {
        Functions::only(Function::Scan).and(Function::Exscan)
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        if self.wants { Ok(Wish::of_priority(100)) } else { Err("it does not want to".into()) }
    }

    fn join(&self, _team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>, Error> {
        if self.joins { Ok(Box::new(Nothing)) } else { Err(Error::NotOffered { function: Function::Scan }) }
    }
}

#[test]
fn a_component_that_one_member_cannot_have_none_has() {
    for (wants, joins, reason) in [(false, true, "does not want"), (true, false, "scan is not offered")] {
        members(3, |team| {
            let is_picky = team.own() == 2;
            let mut components = Components::standard();
            components.add(Box::new(Picky { wants: wants || !is_picky, joins: joins || !is_picky }));
            let mut collectives = components.select(team).unwrap();
            assert_eq!(collectives.chosen(Function::Scan), "shared");
            let told = refusal(&collectives, "picky");
            assert!(told.starts_with("member 2: ") && told.contains(reason), "{told}");
            collectives.scan(&mut [1; 8], &sum()).unwrap();
        });
    }
    for collectives in members(2, |team| {
        let mut components = Components::standard();
        components.add(Box::new(Picky { wants: true, joins: true }));
        let mut collectives = components.select(team).unwrap();
        assert!(matches!(collectives.exscan(&mut [], &sum()), Err(Error::NotOffered { .. })));
        (collectives.chosen(Function::Exscan), collectives.chosen(Function::Reduce))
    }) {
        assert_eq!(collectives, ("picky", "shared"));
    }
}

/// A component whose group member 0 does not join, with lists of members that make none.
#[derive(Debug)]
struct Absent;

impl Component for Absent {
    fn name(&self) -> &'static str {
        "absent"
    }

    fn purpose(&self) -> &'static str {
        "to be joined by some"
    }

    fn functions(&self) -> Functions {
        Functions::ALL
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(100))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>, Error> {
        let mut members = team.members().to_vec();
        if team.own() == 0 {
            members[1] = members[0];
        }
        Ok(Box::new(Group::join(team.fabric(), &members, team.segment(7), GroupSettings::default())?))
    }
}

#[test]
fn members_do_not_wait_for_one_that_cannot_join_a_component() {
    members(4, |team| {
        let begun = Instant::now();
        let mut components = Components::standard();
        components.add(Box::new(Absent));
        let mut collectives = components.select(team).unwrap();
        // The time limit of joining is half as long again.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let told = refusal(&collectives, "absent");
        assert!(told.starts_with("member 0: ") && told.contains("twice"), "{told}");
        assert_eq!(collectives.chosen(Function::Barrier), "shared");
        collectives.barrier().unwrap();
    });
}

fn sum() -> impl Operation {
    Elementwise::<u64, _>::commutative(u64::wrapping_add)
}

/// Blocks of these lengths, one behind the other with a byte between, and the bytes up to the end of the last.
fn blocks(lengths: impl IntoIterator<Item = usize>) -> (Vec<Range<usize>>, usize) {
    let mut end = 0;
    let blocks = lengths.into_iter().map(|length| {
        end += length + 1;
        end - length - 1..end - 1
    });
    (blocks.collect(), end)
}

/// What a member has after all functions, by these collectives.
fn all_functions(collectives: &mut Collectives, team: &Team, root: usize, length: usize) -> Vec<Vec<u8>> {
    let (own, size) = (team.own(), team.size());
    let mut seed = fastrand::Rng::with_seed((own * 1000 + length) as u64);
    let mut give = |length: usize| (0..length).map(|_| seed.u8(..)).collect::<Vec<u8>>();
    let of_member = |member: usize| 8 * ((length + 3 * member) % 5);
    let mut found = Vec::new();

    collectives.barrier().unwrap();
    let mut data = give(length);
    collectives.bcast(root, &mut data).unwrap();
    found.push(data);
    let mut all = vec![0; length * size];
    collectives.gather(root, &give(length), &mut all).unwrap();
    found.push(all.clone());
    collectives.allgather(&give(length), &mut all).unwrap();
    found.push(all.clone());
    collectives.alltoall(&give(length * size), &mut all).unwrap();
    found.push(all);
    let mut part = vec![0; length];
    collectives.scatter(root, &give(length * size), &mut part).unwrap();
    found.push(part);

    let (by_member, end) = blocks((0..size).map(of_member));
    let mut into = vec![0; end];
    collectives.gatherv(root, &give(of_member(own)), &mut into, &by_member).unwrap();
    found.push(into.clone());
    let mut part = vec![0; of_member(own)];
    collectives.scatterv(root, &give(end), &by_member, &mut part).unwrap();
    found.push(part);
    into[by_member[own].clone()].copy_from_slice(&give(of_member(own)));
    collectives.allgatherv(&mut into, &by_member).unwrap();
    found.push(into);
    let (sent, given) = blocks((0..size).map(|to| of_member(own + 2 * to)));
    let (received, end) = blocks((0..size).map(|from| of_member(from + 2 * own)));
    let mut into = vec![0; end];
    collectives.alltoallv(&give(given), &sent, &mut into, &received).unwrap();
    found.push(into);

    let counts: Vec<usize> = (0..size).map(of_member).collect();
    let mut into = vec![0; counts[own]];
    collectives.reduce_scatter(&give(counts.iter().sum()), &counts, &mut into, &affine()).unwrap();
    found.push(into);
    let mut reduce = |function: &mut dyn FnMut(&mut [u8])| {
        let mut data = give(length / 8 * 8);
        function(&mut data);
        found.push(data);
    };
    reduce(&mut |data| collectives.reduce(root, data, &affine()).unwrap());
    reduce(&mut |data| collectives.allreduce(data, &affine()).unwrap());
    reduce(&mut |data| collectives.scan(data, &affine()).unwrap());
    reduce(&mut |data| collectives.exscan(data, &affine()).unwrap());
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn basic_functions_give_what_the_others_give(
        size in 1_u32..6,
        root in 0_usize..6,
        length in prop_oneof![4 => 0_usize..40, 1 => Just(70_000_usize)],
    ) {
        members(size, |team| {
            let root = root % team.size();
            let mut shared = Components::standard().select(team).unwrap();
            let expected = all_functions(&mut shared, team, root, length);
            for (number, excluded) in [(3, "-shared -network -schedule -tuned"), (4, "-shared")] {
                let mut others = configured(excluded).select(&beside(team, number)).unwrap();
                let found = all_functions(&mut others, team, root, length);
                for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    assert!(found == expected, "{excluded}: number {number} of member {} of {size}", team.own());
                }
            }
        });
    }
}
