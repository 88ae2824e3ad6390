//! Ranks, each with its fabrics, as threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use svmio_collectives::executor::Fabrics;
use svmio_transport::back_end::{BackEnd, Prepared};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::ofi::{self, OfiSettings};
use svmio_transport::{Fabric, JobSecret, Membership, Rank, SegmentId};

/// The space of all groups' segments; the next one is the fabrics'.
pub(crate) const SPACE: u32 = 79;

pub(crate) fn fresh_id() -> SegmentId {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only other numbers for each group and its parts.
    SegmentId::new(SPACE, GROUPS.fetch_add(8, Ordering::Relaxed))
}

/// A rank with what it keeps from one group to the next.
pub(crate) struct Seat {
    pub(crate) fabrics: Fabrics,
    pub(crate) messenger: Arc<Messenger>,
}

impl Seat {
    pub(crate) fn new(fabrics: Fabrics) -> Self {
        let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
        let messenger = Arc::new(Messenger::open(fabrics.job(), Port::FIRST, &settings).unwrap());
        Self { fabrics, messenger }
    }

    pub(crate) fn of_jobs(fabrics: Vec<Fabric>) -> Vec<Self> {
        fabrics.iter().map(|fabric| Self::new(Fabrics::of_job(fabric))).collect()
    }
}

/// Has the members' threads do `body`, and returns what each comes to, in the order of members.
pub(crate) fn on_all<T: Send>(seats: &[Seat], members: &[Rank], body: impl Fn(&Seat) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let start = |member: &Rank| {
            let (seat, body) = (&seats[member.index()], &body);
            scope.spawn(move || body(seat))
        };
        let threads: Vec<_> = members.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Ranks over the loopback interface, on the nodes of those names, with shared memory within each.
pub(crate) fn on_nodes(nodes: &[&str]) -> Vec<Seat> {
    on_nodes_by(nodes, |_, back_end| back_end)
}

/// The same, each over what `wrap` makes of its job's back end.
pub(crate) fn on_nodes_by(
    nodes: &[&str],
    wrap: impl Fn(Rank, Arc<dyn BackEnd>) -> Arc<dyn BackEnd>,
) -> Vec<Seat> {
    let secret = JobSecret::random().unwrap();
    let settings = OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() };
    let prepared: Vec<_> = nodes.iter().map(|_| ofi::prepare(&settings, &secret).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let names: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
    let join = |(rank, prepared): (u32, Box<dyn Prepared>)| {
        let membership = Arc::new(Membership::new(Rank(rank), names.clone()));
        Fabric::new(wrap(Rank(rank), prepared.join(membership, addresses.clone()).unwrap()))
    };
    let jobs: Vec<Fabric> = (0..nodes.len() as u32).zip(prepared).map(join).collect();
    thread::scope(|scope| {
        let seat =
            |job| scope.spawn(move || Seat::new(Fabrics::join(job, SegmentId::new(SPACE + 1, 0)).unwrap()));
        let seats: Vec<_> = jobs.iter().map(seat).collect();
        seats.into_iter().map(|seat| seat.join().unwrap()).collect()
    })
}
