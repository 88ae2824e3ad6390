//! The barriers of all components: nobody leaves before all have come, who waits goes on with other things, and nobody
//! waits for one who has withdrawn.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use svmio_collectives::components::{Function, Functions};
use svmio_collectives::hardware::Emulator;

use super::{beside, configured, members};

const COMPONENTS: [&str; 6] = ["hardware", "shared", "network", "schedule", "tuned", "basic"];

/// Has a barrier of each component, and of so many members, shown to `body`.
fn barriers(size: u32, body: impl Fn(&str, &svmio_collectives::components::Team, &str) + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    for component in COMPONENTS {
        let device = directory.path().display();
        // A busy machine may hold up the controller for longer than is usual.
        let hardware = format!("hardware.device=emulated:{device} hardware.limit=20000");
        let settings = format!("barrier={component} {hardware} tuned.every=20");
        members(size, |team| body(component, team, &settings));
    }
}

#[test]
fn nobody_leaves_before_all_have_come() {
    let counts: Vec<[AtomicU32; 2]> = COMPONENTS.iter().map(|_| Default::default()).collect();
    barriers(4, |component, team, settings| {
        let [come, left] = &counts[COMPONENTS.iter().position(|name| *name == component).unwrap()];
        let size = team.size() as u32;
        let barrier = Functions::only(Function::Barrier);
        let mut collectives = configured(settings).select_for(team, barrier).unwrap();
        assert_eq!(collectives.chosen(Function::Barrier), component);
        assert_eq!(collectives.chosen(Function::Bcast), "basic");
        for round in 1..=100 {
            // Each is late in turn, and looks whether another one waits for it.
            if round as usize % team.size() == team.own() {
                while come.load(Ordering::Relaxed) < round * size - 1 {
                    std::thread::yield_now();
                }
                for _ in 0..20 {
                    assert!(
                        left.load(Ordering::Relaxed) <= (round - 1) * size,
                        "{component}: somebody left early"
                    );
                    std::thread::yield_now();
                }
            }
            // Relaxed: the barrier has to order it.
            come.fetch_add(1, Ordering::Relaxed);
            collectives.barrier().unwrap();
            assert!(come.load(Ordering::Relaxed) >= round * size, "{component}");
            left.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Nobody but the test of it sets this.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

fn call() {
    IS_CALLED.store(true, Ordering::Relaxed);
}

#[test]
fn who_waits_goes_on_with_other_things() {
    barriers(2, |component, team, settings| {
        let mut collectives = configured(settings).select(team).unwrap();
        let mut others = configured("").select(&beside(team, 5)).unwrap();
        if team.own() == 0 {
            IS_CALLED.store(false, Ordering::Relaxed);
            collectives.do_meanwhile(call);
        }
        others.barrier().unwrap();
        if team.own() == 1 {
            // It comes when the other has been seen at something else.
            while !IS_CALLED.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
        collectives.barrier().unwrap();
        assert!(IS_CALLED.load(Ordering::Relaxed), "{component}");
        others.barrier().unwrap();
    });
}

#[test]
fn nobody_waits_for_one_who_has_withdrawn() {
    barriers(3, |component, team, settings| {
        let mut collectives = configured(settings).select(team).unwrap();
        if team.own() == 1 {
            (0..3).for_each(|_| collectives.barrier().unwrap());
            return collectives.withdraw("it has something better to do");
        }
        (0..3).for_each(|_| collectives.barrier().unwrap());
        let error = collectives.barrier().unwrap_err();
        // Who has heard of it has those hear who wait for this member.
        collectives.withdraw(&error.to_string());
        let told = error.to_string();
        assert!(
            ["left", "closed", "withdrawn", "better"].iter().any(|word| told.contains(word)),
            "{component}: {told}"
        );
    });
}
