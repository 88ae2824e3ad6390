//! Who meets whom, and what they find.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{SEGMENT, anonymous, connect, on_each, until};
use crate::back_end::Provider;
use crate::ofi::{OfiSettings, prepare};
use crate::{Error, Fabric, Interrupt, JobSecret, Membership, Rank, SegmentId};

#[test]
fn segments_are_provided_when_asked_for_and_missed_when_removed() {
    struct Maker(Fabric, std::sync::Mutex<Vec<crate::LocalSegment>>);
    impl Provider for Maker {
        fn provide(&self, asker: Rank, id: SegmentId) {
            if id.number != asker.0 {
                return;
            }
            let segment = self.0.create(id, &anonymous(4096)).unwrap();
            segment.memory().write(0, &[asker.0 as u8; 8]).unwrap();
            self.1.lock().unwrap().push(segment);
        }
    }
    on_each(3, |fabric| {
        let maker = Arc::new(Maker(fabric.clone(), Default::default()));
        fabric.set_provider(40, maker.clone());
        // Until all have one.
        let own = fabric.create(SEGMENT, &anonymous(8)).unwrap();
        for owner in fabric.membership().ranks() {
            connect(&fabric, owner).fetch_add(0, 1).unwrap();
        }
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::SeqCst) >= 3);
        for owner in fabric.membership().ranks() {
            let mine = fabric.connect(owner, SegmentId::new(40, fabric.rank().0)).unwrap();
            let mut bytes = [0; 8];
            mine.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [fabric.rank().0 as u8; 8]);
            let missing = fabric.connect(owner, SegmentId::new(40, 99));
            assert!(matches!(missing, Err(Error::UnknownSegment { .. })), "{missing:?}");
        }
        assert_eq!(fabric.connected_peers().len(), 3);
        assert!(matches!(fabric.create(SEGMENT, &anonymous(8)), Err(Error::SegmentExists { .. })));
        for owner in fabric.membership().ranks() {
            connect(&fabric, owner).fetch_add(0, 1).unwrap();
        }
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::SeqCst) >= 6);
        // Else they hold each other.
        maker.1.lock().unwrap().clear();
        fabric.set_provider(40, Arc::new(Nobody));
        own
    });

    struct Nobody;
    impl Provider for Nobody {
        fn provide(&self, _: Rank, _: SegmentId) {}
    }
}

#[test]
fn an_address_of_another_machine_is_named() {
    // Of the documentation's range, which no machine has.
    let settings = OfiSettings { address: "203.0.113.7".into(), ..OfiSettings::default() };
    let problem = prepare(&settings, &JobSecret::random().unwrap()).err().unwrap().to_string();
    assert!(problem.contains("203.0.113.7"), "{problem}");
}

#[test]
fn whoever_has_another_secret_is_not_heard() {
    let prepare = |secret: &JobSecret| {
        let settings = OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() };
        prepare(&settings, secret).unwrap()
    };
    let (ours, theirs) = (JobSecret::random().unwrap(), JobSecret::random().unwrap());
    let prepared = [prepare(&ours), prepare(&theirs)];
    let addresses = prepared.each_ref().map(|prepared| prepared.address()).to_vec();
    let mut rank = 0..;
    let [one, stranger] = prepared.map(|prepared| {
        let membership = Membership::new(Rank(rank.next().unwrap()), vec!["here".into(); 2]);
        Fabric::new(prepared.join(Arc::new(membership), addresses.clone()).unwrap())
    });
    let segment = one.create(SEGMENT, &anonymous(64)).unwrap();
    let asked = stranger.back_end().connect(Rank(0), SEGMENT, Duration::from_millis(300));
    assert!(matches!(asked, Err(Error::TimedOut { .. })), "{asked:?}");
    stranger.trigger(Rank(0), Interrupt(1)).unwrap();
    let deadline = Some(one.now().after(Duration::from_millis(100)));
    assert_eq!(one.wait_interrupt(Interrupt(1), deadline).unwrap(), 0);
    drop(segment);
}

#[test]
fn whoever_makes_segments_may_panic_and_others_are_answered() {
    struct Panicking;
    impl Provider for Panicking {
        fn provide(&self, _: Rank, _: SegmentId) {
            panic!("the test says so");
        }
    }
    on_each(2, |fabric| {
        fabric.set_provider(40, Arc::new(Panicking));
        let own = fabric.create(SEGMENT, &anonymous(8)).unwrap();
        let other = super::other(&fabric);
        let both = connect(&fabric, other);
        let refused = fabric.connect(other, SegmentId::new(40, 0));
        assert!(matches!(refused, Err(Error::UnknownSegment { .. })), "{refused:?}");
        both.fetch_add(0, 1).unwrap();
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::SeqCst) == 1);
        own
    });
}
