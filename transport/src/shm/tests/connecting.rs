//! Who finds whose segments, and what becomes of those who find nobody.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::super::ask::socket_name;
use super::super::wire::{Address, Answer, Greeting, Wanted};
use super::super::{ShmSettings, prepare, within_process};
use super::{SEGMENT, anonymous, pair};
use crate::back_end::{BackEnd, Provider};
use crate::error::Error;
use crate::membership::Membership;
use crate::secret::JobSecret;
use crate::units::{Rank, SegmentId};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn nobody_is_connected_before_the_first_use() {
    let fabrics = within_process(4);
    assert!(fabrics.iter().all(|fabric| fabric.connected_peers().is_empty()));
    fabrics[0].ring(Rank(3)).unwrap();
    assert_eq!(fabrics[0].connected_peers(), [Rank(3)]);
    assert!(fabrics[3].connected_peers().is_empty());
}

#[test]
fn what_is_not_exported_is_unknown() {
    let (one, other) = pair();
    let unknown = |result| matches!(result, Err(Error::UnknownSegment { id: SEGMENT, .. }));
    assert!(unknown(one.connect(Rank(1), SEGMENT)));
    assert!(unknown(one.connect(Rank(0), SEGMENT)));
    let segment = other.create(SEGMENT, &anonymous(8)).unwrap();
    assert!(matches!(other.create(SEGMENT, &anonymous(8)), Err(Error::SegmentExists { .. })));
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    drop(segment);
    assert!(unknown(one.connect(Rank(1), SEGMENT)));
    // What is mapped stays.
    remote.write(0, &[1; 8]).unwrap();
    drop(other.create(SEGMENT, &anonymous(16)).unwrap());
    assert!(matches!(one.connect(Rank(2), SEGMENT), Err(Error::NoSuchRank { .. })));
}

#[test]
fn a_process_can_connect_to_itself_and_to_empty_segments() {
    let (one, other) = pair();
    let _own = one.create(SEGMENT, &anonymous(8)).unwrap();
    let remote = one.connect(Rank(0), SEGMENT).unwrap();
    assert_eq!(remote.fetch_add(0, 5).unwrap(), 0);
    let _empty = other.create(SEGMENT, &anonymous(0)).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    assert!(remote.is_empty());
    remote.write(0, b"").unwrap();
    assert!(remote.write(0, b"x").is_err());
}

/// Makes segments as long as who asks is high.
struct Maker(Weak<dyn BackEnd>);

impl Provider for Maker {
    fn provide(&self, asker: Rank, id: SegmentId) {
        if let Some(back_end) = self.0.upgrade()
            && id.number < 10
        {
            back_end.create(id, &anonymous(8 * u64::from(asker.0 + 1))).unwrap();
        }
    }
}

#[test]
fn segments_are_made_when_they_are_asked_for() {
    let fabrics = within_process(3);
    let maker = Maker(Arc::downgrade(fabrics[1].back_end()));
    fabrics[1].set_provider(7, Arc::new(maker));
    let connect = |rank: usize, number| fabrics[rank].connect(Rank(1), SegmentId::new(7, number));
    assert_eq!(connect(2, 1).unwrap().len(), 24);
    assert_eq!(connect(0, 1).unwrap().len(), 24);
    assert_eq!(connect(0, 2).unwrap().len(), 8);
    assert_eq!(connect(1, 3).unwrap().len(), 16);
    assert!(matches!(connect(0, 10), Err(Error::UnknownSegment { .. })));
    assert!(fabrics[0].connect(Rank(1), SegmentId::new(8, 1)).is_err());
}

#[test]
fn all_may_connect_to_one_at_the_same_time() {
    let fabrics = within_process(24);
    let _segment = fabrics[0].create(SEGMENT, &anonymous(1 << 16)).unwrap();
    std::thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(|| {
                for _ in 0..5 {
                    fabric.connect(Rank(0), SEGMENT).unwrap().fetch_add(0, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(fabrics[1].connect(Rank(0), SEGMENT).unwrap().fetch_add(0, 0).unwrap(), 24 * 5);
}

/// Two back ends that know of each other; only the first has joined.
fn joined_and_silent() -> (Arc<dyn BackEnd>, Box<dyn crate::back_end::Prepared>) {
    let secret = JobSecret::random().unwrap();
    let settings = ShmSettings::default();
    let (one, other) = (prepare(&settings, &secret).unwrap(), prepare(&settings, &secret).unwrap());
    let addresses = vec![one.address(), other.address()];
    let membership = Arc::new(Membership::new(Rank(0), vec!["a".into(), "b".into()]));
    (one.join(membership, addresses).unwrap(), other)
}

#[test]
fn a_silent_peer_is_given_up_at_the_limit() {
    let (one, _silent) = joined_and_silent();
    let began = Instant::now();
    let limit = Duration::from_millis(50);
    let error = one.connect(Rank(1), SEGMENT, limit).unwrap_err();
    assert!(matches!(error, Error::TimedOut { peer: Rank(1), .. }), "{error}");
    assert!(began.elapsed() >= limit);
}

#[test]
fn a_peer_that_is_declared_lost_is_given_up_at_once() {
    let (one, _silent) = joined_and_silent();
    let asker = {
        let one = Arc::clone(&one);
        std::thread::spawn(move || one.connect(Rank(1), SEGMENT, LONG))
    };
    one.membership().declare_lost(Rank(1), "for the test");
    let error = asker.join().unwrap().unwrap_err();
    assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
    assert_eq!(one.ring(Rank(1)).unwrap_err().lost_peer(), Some(Rank(1)));
    assert_eq!(one.store_barrier(Rank(1)).unwrap_err().lost_peer(), Some(Rank(1)));
}

#[test]
fn a_peer_that_is_gone_is_lost_at_once() {
    let (one, silent) = joined_and_silent();
    drop(silent);
    let error = one.connect(Rank(1), SEGMENT, LONG).unwrap_err();
    assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
    let (one, other) = pair();
    other.close();
    other.close();
    assert_eq!(one.connect(Rank(1), SEGMENT).unwrap_err().lost_peer(), Some(Rank(1)));
}

#[test]
fn a_peer_of_another_job_is_refused() {
    let settings = ShmSettings::default();
    let prepare = || prepare(&settings, &JobSecret::random().unwrap()).unwrap();
    let (one, other) = (prepare(), prepare());
    let addresses = vec![one.address(), other.address()];
    let join = |prepared: Box<dyn crate::back_end::Prepared>, rank| {
        let membership = Arc::new(Membership::new(Rank(rank), vec!["a".into(), "b".into()]));
        prepared.join(membership, addresses.clone()).unwrap()
    };
    let (one, other) = (join(one, 0), join(other, 1));
    other.create(SEGMENT, &anonymous(8)).unwrap();
    let error = one.connect(Rank(1), SEGMENT, LONG).unwrap_err();
    assert!(matches!(error, Error::Wire { from: Rank(1), .. }), "{error}");
}

#[test]
fn addresses_that_are_none_are_refused() {
    let secret = JobSecret::random().unwrap();
    let prepare = || prepare(&ShmSettings::default(), &secret).unwrap();
    let membership = || Arc::new(Membership::new(Rank(0), vec!["a".into(), "b".into()]));
    let own = prepare().address();
    let error = prepare().join(membership(), vec![own.clone(), own[1..].to_vec()]).unwrap_err();
    assert!(matches!(error, Error::Wire { from: Rank(1), .. }), "{error}");
    assert!(prepare().join(membership(), vec![own]).is_err());
}

/// At the start, while all are still listened to: not with the first message, as a peer that seems to be gone.
#[test]
fn who_is_elsewhere_is_refused_by_name() {
    let secret = JobSecret::random().unwrap();
    let prepare = || prepare(&ShmSettings::default(), &secret).unwrap();
    let (one, other) = (prepare(), prepare());
    let mut elsewhere = Address::decode(&other.address()).unwrap();
    elsewhere.machine.network += 1;
    let membership = Arc::new(Membership::new(Rank(0), vec!["a".into(), "b".into()]));
    let addresses = vec![one.address(), elsewhere.encode()];
    let Err(Error::StartUp { problem }) = one.join(membership, addresses) else { panic!("it is taken") };
    for word in ["rank 1 (node b)", "another network name space", "rank 0 (node a)", "SVMIO_FABRIC=ofi"] {
        assert!(problem.contains(word), "{word} is not in: {problem}");
    }
}

/// Whoever knows the name of the socket may say what he likes; peers are served all the same.
#[test]
fn strangers_get_nothing_and_disturb_nobody() {
    let secret = JobSecret::random().unwrap();
    let prepared = prepare(&ShmSettings::default(), &secret).unwrap();
    let address = Address::decode(&prepared.address()).unwrap();
    let membership = Arc::new(Membership::new(Rank(0), vec!["a".into()]));
    let addresses = vec![prepared.address()];
    let back_end = prepared.join(membership, addresses).unwrap();
    back_end.create(SEGMENT, &anonymous(8)).unwrap();
    let say = |bytes: &[u8]| {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &socket_name(&address.name).unwrap()).unwrap();
        rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        let mut answer = [0; 100];
        // Who is dropped before all of it was read gets a reset instead of an end.
        let length =
            rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).map_or(0, |(_, length)| length);
        answer[..length].to_vec()
    };
    let right = Greeting::new(&secret, Rank(0), Wanted::Segment(SEGMENT)).encode();
    assert_eq!(Answer::decode(&say(&right)), Ok(Answer::Here { offset: 0, length: 8 }));
    let mut wrong_secret = right.clone();
    wrong_secret[20] ^= 1;
    let no_member = Greeting::new(&secret, Rank(1), Wanted::Control).encode();
    for wrong in [&right[1..], &[right.clone(), vec![0]].concat(), &wrong_secret, &no_member, &[7; 5000]] {
        assert_eq!(say(wrong), [0; 0]);
    }
    let unknown = Greeting::new(&secret, Rank(0), Wanted::Segment(SegmentId::new(1, 9))).encode();
    assert_eq!(Answer::decode(&say(&unknown)), Ok(Answer::Unknown));
    assert!(Answer::decode(&say(&right)).is_ok());
}

#[test]
fn whoever_makes_segments_may_panic_and_others_are_answered() {
    struct Panicking;
    impl crate::back_end::Provider for Panicking {
        fn provide(&self, _: crate::Rank, _: crate::SegmentId) {
            panic!("the test says so");
        }
    }
    let fabrics = crate::shm::within_process(2);
    fabrics[0].set_provider(40, std::sync::Arc::new(Panicking));
    for number in 0..2 {
        let refused = fabrics[1].connect(crate::Rank(0), crate::SegmentId::new(40, number));
        assert!(matches!(refused, Err(crate::Error::UnknownSegment { .. })), "{refused:?}");
    }
}
