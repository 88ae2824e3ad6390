//! Providers that have less for those who wait than those of sockets.

use super::hanging::{join, quick};
use super::{PROVIDERS, SEGMENT, anonymous};
use crate::ofi::domain::Domain;
use crate::ofi::endpoint::Waiting;
use crate::ofi::provider::Offer;
use crate::ofi::{Listening, OfiSettings, listen_in, sys};
use crate::{Fabric, Interrupt, JobSecret, Rank};

/// What a provider lacks.
#[derive(Debug, Clone, Copy)]
struct Lack {
    /// Ways to wait for a queue that it refuses.
    ways: &'static [sys::fi_wait_obj],
    /// What a call that is to sleep answers at once.
    answer: Option<i32>,
}

const DESCRIPTOR: sys::fi_wait_obj = sys::fi_wait_obj_FI_WAIT_FD;
const ANY: sys::fi_wait_obj = sys::fi_wait_obj_FI_WAIT_UNSPEC;

/// One that listens by a provider that lacks this.
fn listening(settings: &OfiSettings, lack: Lack, secret: &JobSecret) -> Listening {
    let (offer, at) = Offer::choose(settings, None).unwrap();
    let domain = Domain::open(offer).unwrap();
    domain.faults().refuse_queues(lack.ways);
    if let Some(answer) = lack.answer {
        domain.faults().answer_waits(answer);
    }
    listen_in(domain, &at, settings, secret).unwrap()
}

#[test]
fn who_waits_does_so_in_the_way_that_the_provider_has() {
    let none = Lack { ways: &[], answer: None };
    let cases = [
        (Lack { ways: &[DESCRIPTOR], ..none }, true, Waiting::Call),
        (Lack { ways: &[DESCRIPTOR, ANY], ..none }, true, Waiting::Blind),
        // A call that returns at once, whatever it says.
        (Lack { ways: &[DESCRIPTOR], answer: Some(-libc::ENOSYS) }, true, Waiting::Blind),
        (Lack { ways: &[DESCRIPTOR], answer: Some(0) }, true, Waiting::Blind),
        (none, false, Waiting::Blind),
    ];
    for (provider, (lack, wait_objects, expected)) in
        PROVIDERS.into_iter().flat_map(|provider| cases.map(|case| (provider, case)))
    {
        let settings = OfiSettings { wait_objects, ..quick(provider, 20) };
        let secret = JobSecret::random().unwrap();
        let listening = [(); 2].map(|()| listening(&settings, lack, &secret));
        let ways = listening.each_ref().map(|listening| listening.endpoint.waiting());
        assert_eq!(ways, [expected; 2], "{provider}: {lack:?}");
        let [(zero, _), (one, _)] = join(listening);
        exchange(&zero, &one);
        for fabric in [&zero, &one] {
            assert_eq!(fabric.membership().lost(), [], "{provider}: {lack:?}");
        }
        [zero, one].iter().for_each(Fabric::close);
    }
}

/// Each calls the other, which sleeps, and writes to it, shortly and at length.
fn exchange(zero: &Fabric, one: &Fabric) {
    const ROUNDS: u64 = 20;
    let call = Interrupt(3);
    let segment = one.create(SEGMENT, &anonymous(1 << 20)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                assert_eq!(one.wait_interrupt(call, None).unwrap(), 1);
                one.trigger(Rank(0), call).unwrap();
            }
        });
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        for round in 1..=ROUNDS {
            remote.write(0, &[round as u8; 200]).unwrap();
            remote.write(4096, &vec![round as u8; 200_000]).unwrap();
            zero.trigger(Rank(1), call).unwrap();
            assert_eq!(zero.wait_interrupt(call, None).unwrap(), 1);
            let mut found = vec![0; 204_096];
            segment.memory().read(0, &mut found).unwrap();
            assert!(found[..200].iter().chain(&found[4096..]).all(|byte| *byte == round as u8));
        }
    });
    drop(segment);
}
