//! Groups with messengers of their own, formed and left one after another.

use std::sync::Arc;

use svmio_collectives::executor::{GroupSettings, NetworkSettings, TwoLevelGroup};
use svmio_transport::message::{MessageSettings, Messenger, Port};

use crate::backwards;
use crate::calls::{Call, done_on_two_levels, expected};
use crate::seats::{fresh_id, on_all, on_nodes};

/// Some members give back the memory of one group while others already write into that of the next.
#[test]
fn groups_come_and_go_without_waiting_for_each_other() {
    let seats = on_nodes(&["a", "b", "c", "a"]);
    let members = backwards(seats.len());
    let ids: Vec<_> = (0..10).map(|_| fresh_id()).collect();
    let call = Call::Allreduce { length: 3000, commutes: true };
    let costs = on_all(&seats, &members, |seat| {
        let mut known = None;
        for (number, id) in (0..).zip(&ids) {
            let port = Port::silent(number).unwrap();
            let settings = NetworkSettings::messages(MessageSettings::default());
            let messenger = Arc::new(Messenger::open(seat.fabrics.job(), port, &settings).unwrap());
            messenger.watch(&members);
            let (within, between) = (GroupSettings::default(), NetworkSettings::default());
            let joined = TwoLevelGroup::join(&seat.fabrics, &messenger, &members, *id, within, between);
            let mut group = joined.unwrap_or_else(|error| panic!("group {number}: {error}"));
            known = group.learn_costs(known).unwrap();
            let found = done_on_two_levels(&mut group, &call, number as usize).unwrap();
            let own = group.member();
            assert!(found == expected(own, members.len(), &call, number as usize), "group {number}, {own}");
        }
        known
    });
    assert!(costs[0].is_some() && costs.iter().all(|one| *one == costs[0]), "{costs:?}");
}
