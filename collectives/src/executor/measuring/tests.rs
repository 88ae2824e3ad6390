//! A member that fails while signals are measured, wherever it is at that time: nobody waits for it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use svmio_transport::back_end::BackEnd;
use svmio_transport::message::Port;
use svmio_transport::{Fabric, SegmentId, shm};

use super::Machine;
use crate::Rank;
use crate::executor::error::Error;
use crate::executor::failing::Failing;
use crate::executor::network::Fabrics;
use crate::profile::{Measure, SurveyError, SurveySettings, survey};

/// Nobody waits so long for anybody who comes.
const LIMIT: Duration = Duration::from_secs(25);

const SIZE: u32 = 3;

/// At how many points of the whole way a member fails.
const CASES: u64 = 12;

const SETTINGS: SurveySettings = SurveySettings {
    largest_message: 8,
    longest_burst: 2,
    repetitions: 1,
    weights: crate::profile::Weights::Relative,
};

type Measured = Result<Option<()>, SurveyError<Error>>;

/// What each member comes to, in the order of ranks, where one measures and `failing` has a write fail after so many;
/// and how many that one has made.
fn measured(
    measure: fn(&mut Machine) -> Result<(), SurveyError<Error>>,
    failing: u32,
    writes: u64,
) -> (Vec<Measured>, u64) {
    let (sender, ended) = mpsc::channel();
    for fabric in shm::within_process(SIZE) {
        let sender = sender.clone();
        thread::spawn(move || {
            let back_end = Failing::new(Arc::clone(fabric.back_end()));
            let fabric = Fabric::new(Arc::clone(&back_end) as Arc<dyn BackEnd>);
            let fabrics = Fabrics::of_job(&fabric);
            let machine =
                Machine::join_across(&fabrics, Port::FIRST, SegmentId::new(77, 0), &SETTINGS).unwrap();
            let own = fabric.rank().0;
            if own == failing {
                back_end.fail_after(writes);
            }
            let measured = machine.measured_by(measure);
            // The process lives on, whatever it has come to.
            sender.send((own, measured, back_end.made_of(writes), fabric)).unwrap();
        });
    }
    let come = |_| {
        let come = ended.recv_timeout(LIMIT);
        come.unwrap_or_else(|_| panic!("one waits for ever, after {writes} writes of member {failing}"))
    };
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let made = all[failing as usize].2;
    (all.into_iter().map(|(_, measured, ..)| measured).collect(), made)
}

#[test]
fn who_fails_in_measuring_has_nobody_wait() {
    for member in 0..SIZE {
        let all_pairs = |machine: &mut Machine| survey(machine, &SETTINGS).map(|_| ());
        let (all, made) = measured(all_pairs, member, u64::MAX);
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        let mut failures = 0;
        for writes in (0..made).step_by((made / CASES).max(1) as usize) {
            let (all, _) = measured(all_pairs, member, writes);
            failures += u32::from(all.iter().all(Result::is_err));
        }
        // The last of its writes may be what lets the others go, or says that it is let go.
        assert!(u64::from(failures) >= CASES - 2, "member {member}, {failures} times");
    }
}

#[test]
fn who_leaves_in_the_midst_of_an_exchange_of_two_others_than_rank_0_is_named_to_all() {
    let others = |machine: &mut Machine| {
        let time = machine.one_way(Rank(1), Rank(2), 8, 1000).map_err(SurveyError::Measure)?;
        assert!(time > 0.0);
        Ok(())
    };
    let (all, _) = measured(others, 2, 50);
    assert!(matches!(all[2], Err(SurveyError::Measure(Error::Fabric(_)))), "{all:?}");
    for told in &all[..2] {
        let is_told = matches!(told, Err(SurveyError::Measure(Error::Refused { member: 2, .. })));
        assert!(is_told, "{all:?}");
    }
}

#[test]
fn what_makes_no_profile_is_an_error_to_the_one_who_measures_and_lets_the_others_go() {
    let without_a_line = |machine: &mut Machine| {
        machine.one_way(Rank(0), Rank(1), 8, 1).map_err(SurveyError::Measure)?;
        Err(SurveyError::NoLine { from: Rank(0), to: Rank(1) })
    };
    let (all, _) = measured(without_a_line, 0, u64::MAX);
    assert!(matches!(all[0], Err(SurveyError::NoLine { .. })), "{all:?}");
    assert!(all[1..].iter().all(Result::is_ok), "{all:?}");
}
