//! The hardware barrier as a component: of as many nodes as a controller has lines for, two groups at once.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use svmio_collectives::components::{Function, Team};
use svmio_collectives::hardware::{Emulator, MOST_NODES};

use super::{beside, configured, members, refusal};

/// The hardware barrier before all others. A busy machine may hold up its controller for longer than is usual.
fn preferred(directory: &Path) -> String {
    let device = directory.display();
    format!("hardware.device=emulated:{device} hardware.limit=20000 hardware.priority=90")
}

/// The hardware barrier of two groups at once, each of all members.
fn two_groups(team: &Team, again: &Team, directory: &Path, rounds: u32, come: &[AtomicU32; 2]) {
    let components = configured(&preferred(directory));
    let mut groups = [components.select(team).unwrap(), components.select(again).unwrap()];
    for round in 1..=rounds {
        for (group, come) in groups.iter_mut().zip(come) {
            assert_eq!(group.chosen(Function::Barrier), "hardware");
            assert_eq!(group.chosen(Function::Allreduce), "shared");
            // Relaxed: the barrier has to order it.
            come.fetch_add(1, Ordering::Relaxed);
            group.barrier().unwrap();
            assert!(come.load(Ordering::Relaxed) >= round * team.size() as u32);
        }
    }
    // All circuits are taken, which members find out when they join: then the next best has to do.
    let third = components.select(&beside(team, 900)).unwrap();
    assert_eq!(third.chosen(Function::Barrier), "shared");
    assert!(
        refusal(&third, "hardware").contains("in use by other groups"),
        "{}",
        refusal(&third, "hardware")
    );
}

#[test]
fn the_hardware_barrier_serves_two_groups_and_a_third_gets_the_next_best() {
    let most = MOST_NODES as u32;
    for (nodes, rounds) in [(4, 100), (most, 20)] {
        let directory = tempfile::tempdir().unwrap();
        let _controller = Emulator::create(directory.path(), 2).unwrap().spawn().unwrap();
        let come = [AtomicU32::new(0), AtomicU32::new(0)];
        members(nodes, |team| two_groups(team, &beside(team, 3), directory.path(), rounds, &come));
    }
}

#[test]
fn a_controller_has_lines_for_sixty_nodes_and_more_get_the_next_best() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let settings = preferred(directory.path());
    members(MOST_NODES as u32 + 1, |team| {
        let mut group = configured(&settings).select(team).unwrap();
        assert_eq!(group.chosen(Function::Barrier), "shared");
        assert!(refusal(&group, "hardware").contains("lines for 60 nodes, not for 61"));
        group.barrier().unwrap();
    });
}
