//! Members that leave because of something that is none of their node's, or none of their group's: all others end.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use svmio_collectives::Algorithm;
use svmio_collectives::executor::{
    Elementwise, Error, GroupSettings, NetworkGroup, NetworkSettings, TwoLevelGroup,
};
use svmio_transport::back_end::BackEnd;
use svmio_transport::{Rank, SegmentId, shm};

use crate::failing::Failing;
use crate::seats::{Seat, fresh_id, on_nodes, on_nodes_by};

/// Nobody waits so long for anything that comes.
const LIMIT: Duration = Duration::from_secs(30);

fn sum() -> Elementwise<u64, fn(u64, u64) -> u64> {
    Elementwise::commutative(u64::wrapping_add)
}

/// What each of the seats' ranks comes to, in their order. All of them stay until all have come to something.
fn come_to<T: Send + 'static>(
    seats: Vec<Seat>,
    body: impl Fn(Rank, &Seat) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let (size, body) = (seats.len(), Arc::new(body));
    let (sender, outcomes) = mpsc::channel();
    for (rank, seat) in (0..).map(Rank).zip(seats) {
        let (sender, body) = (sender.clone(), Arc::clone(&body));
        thread::spawn(move || {
            let outcome = body(rank, &seat);
            sender.send((rank, outcome, seat)).unwrap();
        });
    }
    drop(sender);
    let come =
        |_| outcomes.recv_timeout(LIMIT).unwrap_or_else(|problem| panic!("one does not end: {problem}"));
    let mut all: Vec<_> = (0..size).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    all.into_iter().map(|(_, outcome, _)| outcome).collect()
}

fn ranks(count: u32) -> Vec<Rank> {
    (0..count).map(Rank).collect()
}

fn join(seat: &Seat, members: &[Rank], id: SegmentId, between: NetworkSettings) -> TwoLevelGroup {
    let within = GroupSettings::default();
    TwoLevelGroup::join(&seat.fabrics, &seat.messenger, members, id, within, between).unwrap()
}

/// Who only sends by messages does not hear there of one of its node who fails.
#[test]
fn who_fails_by_messages_alone_is_waited_for_by_nobody_of_its_node() {
    let id = fresh_id();
    let ended = come_to(on_nodes(&["a", "a", "b"]), move |rank, seat| {
        let mut group = join(seat, &ranks(3), id, NetworkSettings::default());
        // Who has to do with each other has exchanged messages before.
        group.flat(|all| all.gather(2, &[1; 8], &mut [0; 24])).unwrap();
        group.allreduce(&mut [1; 8], &sum()).unwrap();
        let root = if rank == Rank(0) { 99 } else { 2 };
        let gathered = group.flat(|all| all.gather(root, &[1; 8], &mut [0; 24]));
        let error = group.allreduce(&mut [1; 8], &sum()).expect_err("one has left");
        (gathered, error, group)
    });
    assert!(matches!(ended[0].0, Err(Error::NoSuchMember { member: 99, .. })), "{:?}", ended[0]);
    assert!(matches!(ended[1].1, Error::Refused { member: 0, .. }), "{:?}", ended[1]);
}

/// An error is one although whoever has met it goes on.
#[test]
fn nor_where_the_failure_is_passed_over() {
    let id = fresh_id();
    come_to(on_nodes(&["a", "a", "b"]), move |rank, seat| {
        let mut group = join(seat, &ranks(3), id, NetworkSettings::default());
        // Who has to do with each other has exchanged messages before.
        group.flat(|all| all.gather(2, &[1; 8], &mut [0; 24])).unwrap();
        group.allreduce(&mut [1; 8], &sum()).unwrap();
        if rank == Rank(0) {
            let passed_over = group.flat(|all| Ok(all.bcast(99, &mut [1; 8]).is_err()));
            assert!(passed_over.unwrap());
        }
        let error = group.allreduce(&mut [1; 8], &sum()).expect_err("one has left");
        (error, group)
    });
}

/// Members 1 and 3 end in a barrier that members 0 and 2 get through: of 1, who has failed in nothing itself, 0 hears
/// by their node's memory.
#[test]
fn who_is_told_in_a_barrier_tells_its_node() {
    const FAILING: Rank = Rank(3);
    let id = fresh_id();
    let (sender, failing) = mpsc::channel();
    let seats = on_nodes_by(&["a", "a", "b", "b"], move |rank, back_end| {
        if rank != FAILING {
            return back_end;
        }
        let back_end = Failing::new(back_end);
        sender.send(Arc::clone(&back_end)).unwrap();
        back_end as Arc<dyn BackEnd>
    });
    let failing = failing.recv().unwrap();
    let ended = come_to(seats, move |rank, seat| {
        let schedule = Algorithm::Dissemination.schedule(4).unwrap();
        let between = NetworkSettings { barrier: Some(schedule), ..NetworkSettings::default() };
        let mut group = join(seat, &ranks(4), id, between);
        group.bcast(1, &mut [1; 8]).unwrap();
        group.barrier().unwrap();
        if rank == FAILING {
            // Of its signals to members 0 and 1, the second.
            failing.fail_after(1);
        }
        let barrier = group.barrier();
        let error = group.bcast(1, &mut [1; 8]).err();
        (barrier, error, group)
    });
    let [passes, told, passes_too, fails] = &ended[..] else { panic!("there are four") };
    assert!(passes.0.is_ok() && passes_too.0.is_ok(), "{ended:?}");
    assert!(
        matches!(told.0, Err(Error::Refused { .. })) && matches!(fails.0, Err(Error::Fabric(_))),
        "{ended:?}"
    );
    assert!(matches!(passes.1, Some(Error::Refused { member: 1, .. })), "{:?}", passes.1);
    assert!(ended.iter().all(|(_, error, _)| error.is_some()), "{ended:?}");
}

fn lose(seat: &Seat, lost: Rank) {
    seat.fabrics.job().membership().declare_lost(lost, "the test says so");
}

#[test]
fn the_loss_of_one_of_another_group_of_the_same_messenger_ends_this_one_for_all() {
    let (id, another, joined) = (fresh_id(), fresh_id(), Barrier::new(3));
    let ended = come_to(Seat::of_jobs(shm::within_process(3)), move |rank, seat| {
        let watched: &[Rank] = if rank == Rank(0) { &[Rank(1), Rank(2)] } else { &[Rank(0)] };
        seat.messenger.watch(watched);
        let join = |members: [Rank; 2], id| {
            let settings = NetworkSettings::default();
            NetworkGroup::join(&seat.fabrics, &seat.messenger, &members, id, settings).unwrap()
        };
        let mut group = (rank != Rank(2)).then(|| join([Rank(0), Rank(1)], id));
        let other = (rank != Rank(1)).then(|| join([Rank(0), Rank(2)], another));
        if let Some(group) = &mut group {
            group.allreduce(&mut [1; 8], &sum()).unwrap();
        }
        joined.wait();
        lose(seat, Rank(2));
        let error =
            group.as_mut().map(|group| group.allreduce(&mut [1; 8], &sum()).expect_err("one is lost"));
        (error, group, other)
    });
    let Some(Error::Fabric(error)) = &ended[0].0 else { panic!("{:?}", ended[0].0) };
    assert_eq!(error.lost_peer(), Some(Rank(2)), "{error}");
}

#[test]
fn and_for_all_of_its_node() {
    const LOST: Rank = Rank(3);
    let (id, another, joined) = (fresh_id(), fresh_id(), Barrier::new(4));
    let ended = come_to(on_nodes(&["a", "a", "b", "c"]), move |rank, seat| {
        let watched = if rank == Rank(0) { ranks(4) } else { ranks(3) };
        seat.messenger.watch(&watched);
        let mut group = (rank != LOST).then(|| join(seat, &ranks(3), id, NetworkSettings::default()));
        let is_of_other = rank == Rank(0) || rank == LOST;
        let other = is_of_other.then(|| join(seat, &[Rank(0), LOST], another, NetworkSettings::default()));
        if let Some(group) = &mut group {
            group.allreduce(&mut [1; 8], &sum()).unwrap();
        }
        joined.wait();
        lose(seat, LOST);
        let error =
            group.as_mut().map(|group| group.allreduce(&mut [1; 8], &sum()).expect_err("one is lost"));
        (error, group, other)
    });
    assert!(matches!(ended[1].0, Some(Error::Refused { member: 0, .. })), "{:?}", ended[1].0);
}
