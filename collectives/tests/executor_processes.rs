//! The executors between real processes: collectives against what one process computes by itself, barriers against
//! counters in a file that all map, millions of barriers, and processes that die.
//!
//! With `SVMIO_FULL=1` (`cargo xtask soak`) there are ten million barriers and more programs.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod calls;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use calls::{Call, MOST, affine, call};
use memmap2::MmapMut;
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::ClockId;
use serde::{Deserialize, Serialize};
use svmio_collectives::Algorithm;
use svmio_collectives::executor::{Barrier, Error, Group, GroupSettings};
use svmio_transport::job::{Job, Launcher, Streams};
use svmio_transport::{Fabric, Rank, SegmentId};

const SPACE: u32 = 80;

/// Tells a process what to do.
const PLAN: &str = "SVMIO_TEST_PLAN";

/// How the process that is killed ends.
const KILLED: i32 = rustix::process::Signal::KILL.as_raw();

#[derive(Debug, Serialize, Deserialize)]
enum Plan {
    /// Carries out the same calls and compares.
    Calls { slot: usize, direct: usize, calls: Vec<Call> },
    /// Does barriers by these algorithms, in which each rank is late in turn; counters are in a file.
    Late { algorithms: Vec<String>, counters: String },
    /// So many barriers of random groups, nested and disjoint, with random delays; counters are in a file.
    Storm { barriers: u64, counters: String },
    /// Rank 1 dies while operations are outstanding.
    Dying,
    /// Rank 2 has no memory left when it has exported its own.
    Short,
    /// Rank 1 has no memory left for what carries operations out in the background.
    Bare,
    /// Nothing is outstanding: nothing runs, and nothing is left of a group that was dropped.
    Idle,
}

fn is_full() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}

fn group(fabric: &Fabric, members: &[u32], number: u32, settings: GroupSettings) -> Group {
    let members: Vec<Rank> = members.iter().copied().map(Rank).collect();
    Group::join(fabric, &members, SegmentId::new(SPACE, number), settings).unwrap()
}

/// Words in a file that all map, each with a line to itself.
struct Counters(MmapMut);

impl Counters {
    const BYTES: usize = 4096;

    fn make(path: &Path) {
        File::create(path).unwrap().set_len(Self::BYTES as u64).unwrap();
    }

    fn open(path: &str) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: a file of the test's own, which keeps its length; it is used by atomics alone.
        Self(unsafe { MmapMut::map_mut(&file) }.unwrap())
    }

    fn of(&self, at: usize) -> &AtomicU64 {
        assert!(64 * at < Self::BYTES);
        // SAFETY: within the mapping, which begins with a page; atomics may be changed by anybody.
        unsafe { &*self.0.as_ptr().add(64 * at).cast::<AtomicU64>() }
    }
}

/// Each rank comes late in turn, when all others are inside, and finds that none has left.
fn late(fabric: &Fabric, algorithms: &[String], counters: &Counters) {
    let (own, size) = (u64::from(fabric.rank().0), u64::from(fabric.size()));
    let members: Vec<Rank> = (0..fabric.size()).map(Rank).collect();
    let (came, left) = (counters.of(0), counters.of(1));
    let mut round = 0;
    for (name, number) in algorithms.iter().zip(0..) {
        let begun = Instant::now();
        let schedule = name.parse::<Algorithm>().unwrap().schedule(fabric.size()).unwrap();
        let mut barrier = Barrier::join(fabric, &members, SegmentId::new(SPACE, number), &schedule).unwrap();
        for _ in 0..2 * size {
            if round % size == own {
                while came.load(Ordering::SeqCst) < round * size + size - 1 {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{name}: the others do not come");
                    std::thread::yield_now();
                }
                for _ in 0..10 {
                    assert!(left.load(Ordering::SeqCst) <= round * size, "{name}: somebody left early");
                    std::thread::yield_now();
                }
            }
            came.fetch_add(1, Ordering::SeqCst);
            barrier.wait().unwrap();
            assert!(came.load(Ordering::SeqCst) >= (round + 1) * size, "{name}: it left before all came");
            left.fetch_add(1, Ordering::SeqCst);
            round += 1;
        }
    }
}

/// All ranks, halves, pairs and odd ones, by a group and by a schedule: each member of the one that is chosen says how
/// far it is before its barrier, and finds all others as far behind it.
fn storm(fabric: &Fabric, barriers: u64, counters: &Counters) {
    let (own, size) = (fabric.rank().0, fabric.size());
    let half = (size / 2).max(1);
    let ranks = |wanted: &dyn Fn(u32) -> bool| (0..size).filter(|&rank| wanted(rank)).collect::<Vec<_>>();
    let nested = [
        ranks(&|_| true),
        ranks(&|rank| rank / half == own / half),
        ranks(&|rank| rank / 2 == own / 2),
        ranks(&|rank| rank % 2 == own % 2),
    ];
    let mut all: Vec<_> = (0..)
        .zip(&nested)
        .map(|(number, members)| {
            let group = group(fabric, members, 2 * number, GroupSettings::default());
            let schedule = Algorithm::Dissemination.schedule(members.len() as u32).unwrap();
            let places: Vec<Rank> = members.iter().copied().map(Rank).collect();
            let id = SegmentId::new(SPACE, 2 * number + 1);
            (group, Barrier::join(fabric, &places, id, &schedule).unwrap(), members)
        })
        .collect();
    // All ranks choose the same groups, and have different delays.
    let mut chosen = fastrand::Rng::with_seed(1);
    let mut delays = fastrand::Rng::with_seed(2 + u64::from(own));
    let mut sum = 0_u64;
    for round in 1..=barriers {
        let (group, barrier, members) = &mut all[chosen.usize(..4)];
        let way = chosen.u8(..4);
        match delays.u16(..) {
            0..8000 => (0..delays.u32(..200)).for_each(|_| std::hint::spin_loop()),
            8000..8100 => std::thread::yield_now(),
            8100..8103 => std::thread::sleep(Duration::from_micros(delays.u64(..200))),
            _ => {}
        }
        counters.of(own as usize).store(round, Ordering::Release);
        match way {
            0 => barrier.wait().unwrap(),
            1 => group.ibarrier().unwrap().wait().unwrap(),
            _ => group.barrier().unwrap(),
        }
        for &member in &**members {
            let found = counters.of(member as usize).load(Ordering::Acquire);
            assert!(found >= round, "rank {own} left barrier {round}, to which rank {member} has not come");
            sum = sum.wrapping_add(found);
        }
    }
    std::hint::black_box(sum);
}

fn dying(fabric: &Fabric) {
    let mut group = group(fabric, &[0, 1, 2], 0, GroupSettings { slot: 512, ..GroupSettings::default() });
    // Whatever is outstanding, blocking or not, ends.
    let first = group.iallreduce(vec![0; 8 << 10], affine()).unwrap();
    first.wait().unwrap();
    if fabric.rank() == Rank(1) {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    }
    let requests: Vec<_> = (0..4).map(|_| group.iallreduce(vec![0; 8 << 10], affine()).unwrap()).collect();
    let is_lost = |error: Error| match error {
        Error::Fabric(error) => assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}"),
        other => panic!("{other}"),
    };
    if fabric.rank() == Rank(0) {
        is_lost(group.barrier().unwrap_err());
    }
    requests.into_iter().for_each(|request| is_lost(request.wait().unwrap_err()));
}

/// Others are connected to it when it fails: they learn of that all the same.
fn short(fabric: &Fabric) {
    const SLOT: usize = 2 << 20;
    let members: Vec<Rank> = (0..fabric.size()).map(Rank).collect();
    let settings = GroupSettings { slot: SLOT, ..GroupSettings::default() };
    let join = |number| Group::join(fabric, &members, SegmentId::new(SPACE, number), settings);
    let mut first = join(0).unwrap();
    first.barrier().unwrap();
    if fabric.rank() == Rank(2) {
        // Enough for its own segment, of two lanes with eight slots each, and for half of another one.
        let limit = address_space() + 24 * SLOT as u64;
        let limit = Rlimit { current: Some(limit), ..getrlimit(Resource::As) };
        setrlimit(Resource::As, limit).unwrap();
    }
    let begun = Instant::now();
    let error = join(1).expect_err("there is no memory for it");
    assert!(begun.elapsed() < Duration::from_secs(25), "{error} after {:?}", begun.elapsed());
    match error {
        Error::NotJoined { rank, .. } if fabric.rank() != Rank(2) => assert_eq!(rank, Rank(2)),
        Error::Fabric(_) if fabric.rank() == Rank(2) => {}
        other => panic!("{other}"),
    }
    first.barrier().unwrap();
}

/// Who cannot begin an operation in the background at all is waited for by nobody, then and later.
fn bare(fabric: &Fabric) {
    let mut group = group(fabric, &[0, 1, 2], 0, GroupSettings::default());
    group.barrier().unwrap();
    if fabric.rank() == Rank(1) {
        let before = getrlimit(Resource::As);
        // As much as there is, and less than a stack.
        let limit = Rlimit { current: Some(address_space() + (4 << 20)), ..before };
        setrlimit(Resource::As, limit).unwrap();
        let begun = group.ibarrier();
        setrlimit(Resource::As, before).unwrap();
        let error = begun.expect_err("there is no memory for a stack").to_string();
        // The others have heard that it does none: what it begins now would be no part of theirs.
        let later = group.ibarrier().expect_err("it has said that it does none").to_string();
        assert!(later.contains(&error), "{later}, after {error}");
    } else {
        for _ in 0..2 {
            let error = group.ibarrier().unwrap().wait().expect_err("one does none");
            assert!(matches!(error, Error::Refused { member: 1, .. }), "{error}");
        }
    }
    // What is waited for goes on.
    group.barrier().unwrap();
}

/// In bytes.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

fn idle(fabric: &Fabric) {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // One that ends after it was listed has no name any more.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with("svmio-progress")).count()
    };
    let mut group = group(fabric, &[0, 1], 0, GroupSettings::default());
    group.barrier().unwrap();
    assert_eq!(threads(), 0, "only who begins operations has a thread");
    group.iallreduce(vec![0; 80], affine()).unwrap().wait().unwrap();
    // A thread names itself, and is listed until the system has cleared away behind it.
    let come_to = |expected: usize| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while threads() != expected {
            assert!(Instant::now() < deadline, "{} threads instead of {expected}", threads());
            std::thread::yield_now();
        }
    };
    come_to(1);
    // The turns after the last operation.
    std::thread::sleep(Duration::from_millis(20));
    let now = || {
        let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    std::thread::sleep(Duration::from_millis(300));
    let used = now() - before;
    assert!(used < Duration::from_millis(3), "it used {used:?} of 300 ms for nothing");
    drop(group);
    come_to(0);
}

/// Ends this process should it take longer than any test does: whoever waits for it goes on, and hears of that.
fn end_in_time() {
    let limit = Duration::from_secs(if is_full() { 3 * 3600 } else { 300 });
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("it has not ended after {limit:?}");
        std::process::abort();
    });
}

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    end_in_time();
    let job = Job::from_environment().unwrap();
    let fabric = job.fabric();
    match serde_json::from_str(&std::env::var(PLAN).unwrap()).unwrap() {
        Plan::Calls { slot, direct, calls } => {
            let members: Vec<u32> = (0..fabric.size()).rev().collect();
            let settings = GroupSettings { slot, direct, ..GroupSettings::default() };
            calls::compare(&mut group(fabric, &members, 0, settings), &calls).unwrap();
        }
        Plan::Late { algorithms, counters } => late(fabric, &algorithms, &Counters::open(&counters)),
        Plan::Storm { barriers, counters } => storm(fabric, barriers, &Counters::open(&counters)),
        Plan::Dying => dying(fabric),
        Plan::Short => short(fabric),
        Plan::Bare => bare(fabric),
        Plan::Idle => idle(fabric),
    }
    // After a loss, the end of the job is an error.
    let _ = job.finish();
}

/// Runs processes by a plan; the ranks of `dead` must not end well, all others must.
fn run(size: u32, fabric: &str, plan: &Plan, dead: &[usize]) {
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Piped)
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment("SVMIO_FABRIC", fabric)
        .environment(PLAN, serde_json::to_string(plan).unwrap());
    for (rank, output) in launcher.spawn().unwrap().output().unwrap().iter().enumerate() {
        if dead.contains(&rank) {
            let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
            assert_eq!(signal, Some(KILLED));
            continue;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank} of {size}, {plan:?}: {said}");
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}

/// Runs processes that share counters.
fn run_with_counters(size: u32, fabric: &str, plan: impl FnOnce(String) -> Plan) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("counters");
    Counters::make(&path);
    run(size, fabric, &plan(path.to_str().unwrap().to_owned()), &[]);
}

fn size_and_calls() -> impl Strategy<Value = (u32, Vec<Call>)> {
    // Up to pieces that are copied between private memories, and several slots.
    let calls = |size| prop::collection::vec(call(size, 40_000), 1..60);
    (1..=MOST).prop_flat_map(move |size| (Just(size as u32), calls(size)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if is_full() { 1000 } else { 10 },
        max_shrink_iters: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn collectives_of_processes_give_what_one_process_computes(
        (size, calls) in size_and_calls(),
        slot in prop_oneof![Just(512_usize), Just(1 << 16)],
        direct in prop_oneof![Just(usize::MAX), Just(4096_usize)],
    ) {
        run(size, "shm", &Plan::Calls { slot, direct, calls }, &[]);
    }
}

#[test]
fn every_barrier_of_processes_holds_each_rank_until_the_last_has_come() {
    let algorithms =
        ["linear", "tree:2", "dissemination", "hsb:3,2", "nx:3", "nx2", "x1tree", "two-level:2:nx"];
    for (fabric, sizes) in [("shm", &[2, 5][..]), ("ofi", &[2, 5])] {
        for &size in sizes {
            run_with_counters(size, fabric, |counters| Plan::Late {
                algorithms: algorithms.map(String::from).to_vec(),
                counters,
            });
        }
    }
}

#[test]
fn barriers_of_nested_and_disjoint_groups_with_random_delays_never_hang() {
    let barriers = if is_full() { 10_000_000 } else { 60_000 };
    run_with_counters(4, "shm", |counters| Plan::Storm { barriers, counters });
}

#[test]
fn a_process_that_dies_ends_what_is_outstanding() {
    run(3, "shm", &Plan::Dying, &[1]);
}

#[test]
fn a_process_that_cannot_join_ends_that_for_all() {
    for size in [3, 5] {
        run(size, "shm", &Plan::Short, &[]);
    }
}

#[test]
fn a_process_without_memory_for_its_background_keeps_no_other_waiting() {
    run(3, "shm", &Plan::Bare, &[]);
}

#[test]
fn a_group_with_nothing_outstanding_uses_no_time_and_leaves_no_thread() {
    run(2, "shm", &Plan::Idle, &[]);
}
