//! Collectives over what a host library has: a send and a receive.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use proptest::prelude::*;
use svmio_collectives::executor::network::MessageCosts;
use svmio_collectives::executor::{Error, NetworkGroup, NetworkSettings, PointToPoint};
use svmio_collectives::{Algorithm, Partition, Schedule};

use crate::calls::{MOST, choices, done, expected, operation, plan};
use crate::channels::{Channels, LIMIT, each};
use crate::settings;

/// Turns that others get to leave a barrier too early.
const TURNS: usize = 200;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Channels that hold no message have each sender wait for its receiver.
    #[test]
    fn collectives_over_channels_give_what_one_process_computes(
        (size, calls) in plan(MOST),
        choices in choices(),
        held in 0_usize..3,
    ) {
        each(Channels::between(size, held), |channels| {
            let mut group = NetworkGroup::over(channels, settings(choices)).unwrap();
            let own = group.member();
            for (number, call) in calls.iter().enumerate() {
                let found = done(&mut group, call, number).unwrap();
                assert!(found == expected(own, size, call, number), "call {number}, member {own}: {call:?}");
            }
        });
    }
}

/// All constructors, with any parameters.
fn algorithm() -> impl Strategy<Value = String> {
    let flat = prop_oneof![
        Just("linear".to_owned()),
        Just("dissemination".to_owned()),
        Just("hsb".to_owned()),
        Just("nx".to_owned()),
        Just("nx2".to_owned()),
        (2_u32..6).prop_map(|arity| format!("tree:{arity}")),
        (1_u32..5, 1_u32..5).prop_map(|(fan_in, fan_out)| format!("hsb:{fan_in},{fan_out}")),
        (2_u32..7).prop_map(|group| format!("nx:{group}")),
        (2_u32..7).prop_map(|radix| format!("nx2:{radix}")),
    ];
    prop_oneof![
        flat.clone(),
        Just("x1tree".to_owned()),
        flat.clone().prop_map(|masters| format!("two-level:{masters}")),
        (1_u32..5, flat).prop_map(|(block, masters)| format!("two-level:{block}:{masters}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn barriers_by_messages_hold_every_rank_until_the_last_has_come(
        name in algorithm(),
        nodes in prop::collection::vec(0_u32..4, 1..12),
        held in 0_usize..2,
    ) {
        let schedule = name.parse::<Algorithm>().unwrap().schedule_on(&Partition::of_nodes(nodes)).unwrap();
        let size = schedule.ranks() as usize;
        let (came, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        each(Channels::between(size, held), |channels| {
            let mut group = NetworkGroup::over(channels, by(&schedule)).unwrap();
            // Each is late in turn.
            for late in 0..size {
                if group.member() == late {
                    until(&came, size * late + size - 1);
                    for _ in 0..TURNS {
                        thread::yield_now();
                        assert_eq!(left.load(Ordering::SeqCst), size * late, "{name}: it left without {late}");
                    }
                }
                came.fetch_add(1, Ordering::SeqCst);
                group.barrier().unwrap();
                assert!(came.load(Ordering::SeqCst) >= size * (late + 1), "{name}: it left before all came");
                left.fetch_add(1, Ordering::SeqCst);
                // Nobody is late for the next one before all have left this one.
                until(&left, size * (late + 1));
            }
        });
    }
}

/// Waits until so many are counted.
fn until(count: &AtomicUsize, least: usize) {
    let begun = Instant::now();
    while count.load(Ordering::SeqCst) < least {
        assert!(begun.elapsed() < LIMIT, "somebody has failed");
        thread::yield_now();
    }
}

fn by(schedule: &Schedule) -> NetworkSettings {
    NetworkSettings { barrier: Some(schedule.clone()), ..NetworkSettings::default() }
}

#[test]
fn costs_are_measured_where_the_first_knows_none() {
    let learned = |known: [Option<MessageCosts>; 3]| {
        each(Channels::between(3, 0), |channels| {
            let known = known[PointToPoint::member(&channels)];
            NetworkGroup::over(channels, NetworkSettings::default()).unwrap().learn_costs(known).unwrap()
        })
    };
    let known = MessageCosts { latency: 1.5, per_short_byte: 0.5, per_byte: 2.5, per_copied_byte: 3.5 };
    let found = learned([None, Some(known), Some(known)]);
    assert!(found[0].latency > 0.0 && found[0].per_byte >= 0.0 && found[0].per_copied_byte > 0.0);
    assert!(found.iter().all(|costs| *costs == found[0] && *costs != known), "{found:?}");
    assert_eq!(learned([Some(known), None, None]), [known; 3]);
}

#[test]
fn settings_for_others_make_no_group() {
    let schedule = Algorithm::Dissemination.schedule(4).unwrap();
    let none = NetworkSettings { segment: 0, ..NetworkSettings::default() };
    for settings in [by(&schedule), none] {
        for channels in Channels::between(3, 0) {
            let refused = NetworkGroup::over(channels, settings.clone()).unwrap_err();
            assert!(matches!(refused, Error::Settings { .. }), "{refused}");
        }
    }
}

#[test]
fn who_leaves_is_waited_for_by_nobody() {
    for held in [0, 4] {
        each(Channels::between(5, held), |channels| {
            let mut group = NetworkGroup::over(channels, NetworkSettings::default()).unwrap();
            group.barrier().unwrap();
            let own = group.member();
            if own == 1 {
                group.withdraw("the test says so");
            }
            let sum = operation(true);
            let first = group.allreduce(&mut [0; 80], &*sum).unwrap_err();
            let reason = if own == 1 { "the test says so" } else { "has left" };
            assert!(first.to_string().contains(reason), "member {own}: {first}");
            // Of no more use from then on.
            assert_eq!(group.barrier().unwrap_err().to_string(), first.to_string());
        });
    }
}
