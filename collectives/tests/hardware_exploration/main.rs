//! The hardware barrier's machine, searched exhaustively: all interleavings of the steps of up to five nodes and the
//! controller. Nobody leaves a barrier before all have come to it, from each state each node can still leave, and there
//! are only so many states. Machines with a mistake in them are found out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod machines;
mod mutants;
mod search;

use machines::{AllAtOnce, Cables};
use mutants::{
    DeafToTheFirst, FirstReleasesAll, ForgetsTheLast, Hasty, NeverToggles, OneState, ResetsEarly, StaysHigh,
};
use search::{Fault, MOST, Report, explore};
use svmio_collectives::hardware::{Controller, Node};

#[test]
fn the_machine_is_a_barrier() {
    for nodes in 1..=MOST {
        let Report { states, .. } = explore::<Node, Controller>(nodes).unwrap();
        println!("{nodes} nodes, line by line: {states} states");
    }
}

#[test]
fn so_it_is_with_a_controller_that_sees_all_lines_at_once() {
    for nodes in 1..=MOST {
        let Report { states, .. } = explore::<Node, AllAtOnce>(nodes).unwrap();
        println!("{nodes} nodes, all at once: {states} states");
    }
}

#[test]
fn so_it_is_with_cables_that_take_their_time() {
    for nodes in 1..=MOST {
        let Report { states, .. } = explore::<Node, Cables>(nodes).unwrap();
        println!("{nodes} nodes, slow cables: {states} states");
    }
}

#[test]
fn nodes_run_ahead_by_one_barrier_at_most() {
    for nodes in 2..=MOST {
        assert_eq!(explore::<Node, Controller>(nodes).unwrap().furthest_ahead, 1);
    }
}

#[test]
fn nodes_with_a_mistake_are_found_out() {
    for nodes in 2..=MOST {
        // One state instead of two: who comes again finds its line in still high.
        assert_eq!(explore::<OneState, Controller>(nodes), Err(Fault::ReleasedEarly));
        assert_eq!(explore::<StaysHigh, Controller>(nodes), Err(Fault::ReleasedEarly));
        assert_eq!(explore::<NeverToggles, Controller>(nodes), Err(Fault::ReleasedEarly));
        assert_eq!(explore::<Hasty, Controller>(nodes), Err(Fault::ReleasedEarly));
    }
}

#[test]
fn controllers_with_a_mistake_are_found_out() {
    for nodes in 2..=MOST {
        assert_eq!(explore::<Node, FirstReleasesAll>(nodes), Err(Fault::ReleasedEarly));
        assert_eq!(explore::<Node, DeafToTheFirst>(nodes), Err(Fault::ReleasedEarly));
        assert_eq!(explore::<Node, ForgetsTheLast>(nodes), Err(Fault::Stuck));
        // Back to low before all have seen high: who was slow waits for ever, or is released from the next one early.
        assert!(explore::<Node, ResetsEarly>(nodes).is_err());
    }
}
