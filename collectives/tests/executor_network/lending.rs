//! Who leaves with an error keeps the memory that it has lent: one of its node that comes later copies to or from it.
//! One that knows of the error copies nothing.

use std::sync::Mutex;
use std::thread;

use svmio_collectives::executor::{Error, GroupSettings, NetworkSettings, TwoLevelGroup};
use svmio_transport::{Error as FabricError, Fabric, Rank};

use crate::seats::{Seat, fresh_id, on_nodes};

/// Bytes of each member, which go straight from one's memory into another's.
const LENGTH: usize = 512 << 10;

/// What members have where nothing came.
const NOTHING: u8 = 0;

/// What the first member has, which others may get.
const OF_FIRST: u8 = 0x17;

/// What the late member has.
const OF_LATE: u8 = 0xAB;

/// The first member of its node, which leaves; one of its node that comes later; and one that is lost.
struct Scene {
    nodes: [&'static str; 3],
    late: usize,
    lost: Rank,
}

const ON_TWO_NODES: Scene = Scene { nodes: ["a", "a", "b"], late: 1, lost: Rank(2) };
const OUT_OF_ORDER: Scene = Scene { nodes: ["a", "b", "a"], late: 2, lost: Rank(1) };
const ON_ONE_NODE: Scene = Scene { nodes: ["a", "a", "a"], late: 1, lost: Rank(2) };

/// When the late member hears of the loss.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    Before,
    /// When it waits for others.
    Waiting,
}

/// A collective of a member that gives such bytes: what it gets.
type Call = fn(&mut TwoLevelGroup, u8) -> (Vec<u8>, Result<(), Error>);

/// What the first and the late member get, and how it ends for the late one. For the first one it ends with the loss.
fn after_a_loss(scene: &Scene, hears: Hears, call: Call) -> (Vec<u8>, Vec<u8>, Result<(), Error>) {
    let seats = on_nodes(&scene.nodes);
    let (members, id) = ([0, 1, 2].map(Rank), fresh_id());
    let mut groups: Vec<TwoLevelGroup> = thread::scope(|scope| {
        let join = |seat: &Seat| {
            seat.messenger.watch(&members);
            let (within, between) = (GroupSettings::default(), NetworkSettings::default());
            TwoLevelGroup::join(&seat.fabrics, &seat.messenger, &members, id, within, between).unwrap()
        };
        let threads: Vec<_> = seats.iter().map(|seat| scope.spawn(move || join(seat))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    lose(seats[0].fabrics.job(), scene.lost);
    let (first, ended) = call(&mut groups[0], OF_FIRST);
    assert!(is_lost(&ended), "{ended:?}");
    // Whoever asks for memory now gets what was given back, if any was.
    let others: Vec<Vec<u8>> = [1, 2, 3].map(|parts| vec![OF_FIRST; parts * LENGTH]).into();
    let job = seats[scene.late].fabrics.job();
    match hears {
        Hears::Before => lose(job, scene.lost),
        Hears::Waiting => {
            *NEWS.lock().unwrap() = Some((job.clone(), scene.lost));
            groups[scene.late].do_meanwhile(hear);
        }
    }
    let (late, ended) = call(&mut groups[scene.late], OF_LATE);
    assert!(others.iter().flatten().all(|&byte| byte == OF_FIRST), "it wrote into what was somebody else's");
    (first, late, ended)
}

/// What a member hears when it waits. Used by one test.
static NEWS: Mutex<Option<(Fabric, Rank)>> = Mutex::new(None);

fn hear() {
    if let Some((job, lost)) = NEWS.lock().unwrap().take() {
        lose(&job, lost);
    }
}

fn lose(job: &Fabric, lost: Rank) {
    job.membership().declare_lost(lost, "the test says so");
}

fn is_lost(ended: &Result<(), Error>) -> bool {
    matches!(ended, Err(Error::Fabric(FabricError::PeerLost { .. })))
}

fn allgather(group: &mut TwoLevelGroup, given: u8) -> (Vec<u8>, Result<(), Error>) {
    let mut into = vec![NOTHING; 3 * LENGTH];
    let ended = group.allgather(&[given; LENGTH], &mut into);
    (into, ended)
}

fn scatter(group: &mut TwoLevelGroup, given: u8) -> (Vec<u8>, Result<(), Error>) {
    let mut into = vec![NOTHING; LENGTH];
    let ended = group.scatter(0, &vec![given; 3 * LENGTH], &mut into);
    (into, ended)
}

#[test]
fn who_comes_after_an_error_finds_what_was_lent() {
    // It gets its part from the root, which has left.
    let (_, late, ended) = after_a_loss(&ON_ONE_NODE, Hears::Waiting, scatter);
    assert!(ended.is_ok() && late == [OF_FIRST; LENGTH], "{ended:?}");
    // It gives its part, and then waits for all.
    let (_, _, ended) = after_a_loss(&OUT_OF_ORDER, Hears::Waiting, allgather);
    assert!(is_lost(&ended), "{ended:?}");
}

#[test]
fn who_knows_of_the_error_copies_nothing() {
    let (_, late, ended) = after_a_loss(&ON_ONE_NODE, Hears::Before, scatter);
    assert!(is_lost(&ended) && late == [NOTHING; LENGTH], "{ended:?}");
    // The first one's own buffer, which its caller may have again.
    let (first, _, ended) = after_a_loss(&ON_TWO_NODES, Hears::Before, allgather);
    assert!(is_lost(&ended) && !first.contains(&OF_LATE), "{ended:?}");
}
