//! Profiles that are measured by signalling.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::thread;

use svmio_collectives::executor::Machine;
use svmio_collectives::profile::{Profile, SurveySettings, survey};
use svmio_collectives::{Rank, tune};
use svmio_transport::message::Port;
use svmio_transport::sim::{Model, SimOptions, World};
use svmio_transport::{Fabric, SegmentId, shm};

/// What rank 0 of so many threads that are a job measures.
fn profile(ranks: u32, settings: &SurveySettings) -> Profile {
    let fabrics = shm::within_process(ranks);
    let measure = |fabric: &Fabric| {
        let machine = Machine::join(fabric, Port::FIRST, SegmentId::new(77, 0), settings).unwrap();
        machine.measured_by(|machine| survey(machine, settings)).unwrap()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = fabrics.iter().map(|fabric| scope.spawn(|| measure(fabric))).collect();
        let mut profiles: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(profiles[1..].iter().all(Option::is_none), "only rank 0 has it");
        profiles.swap_remove(0).unwrap()
    })
}

#[test]
fn what_signals_cost_is_measured_between_all() {
    let settings =
        SurveySettings { largest_message: 256, longest_burst: 4, repetitions: 3, ..Default::default() };
    let profile = profile(4, &settings);
    assert_eq!(profile.ranks(), 4);
    for one in (0..4).map(Rank) {
        for other in (0..4).map(Rank).filter(|&other| other != one) {
            // A process that others keep from running can make a line fall: then a cost is zero.
            let costs = [profile.overhead(one, other), profile.latency(one, other)];
            assert!(costs.iter().all(|cost| (0.0..1e8).contains(cost)), "{costs:?} ns");
        }
        assert!(profile.start(one) > 0.0);
    }
    assert!(tune(&profile).unwrap().iter().all(|candidate| candidate.schedule.is_barrier()));
}

/// In virtual time nothing takes any but what goes over the fabric.
#[test]
fn what_it_costs_to_begin_to_signal_has_no_signal_in_it() {
    let settings =
        SurveySettings { largest_message: 256, longest_burst: 4, repetitions: 1, ..Default::default() };
    let options = SimOptions::new(3, Model::named("infiniband-hdr").unwrap());
    let report = World::new(options).run(move |fabric| {
        let machine = Machine::join(&fabric, Port::FIRST, SegmentId::new(77, 0), &settings).unwrap();
        machine.measured_by(|machine| survey(machine, &settings)).unwrap()
    });
    let profile = report.unwrap().results.swap_remove(0).flatten().unwrap();
    for rank in (0..3).map(Rank) {
        assert!(profile.latency(rank, Rank((rank.0 + 1) % 3)) > 100.0, "a store takes longer");
        assert_eq!(profile.start(rank), 0.0);
    }
}

#[test]
fn a_process_alone_has_a_profile_of_nothing() {
    let profile = profile(1, &SurveySettings::default());
    assert_eq!((profile.ranks(), profile.start(Rank(0))), (1, 0.0));
}
