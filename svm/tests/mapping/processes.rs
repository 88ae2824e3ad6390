//! The programs of `litmus` by real processes, on four nodes.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use svmio_svm::team::Team;
use svmio_svm::{Cluster, NodeName};
use svmio_transport::job::{Job, Launcher, Streams, current_node};

use super::litmus::{self, Rank};
use super::*;

/// Tells a process what to do.
pub(super) const PLAN: &str = "SVMIO_TEST_PLAN";
/// Where the nodes' stores are.
const STORES: &str = "SVMIO_TEST_STORES";

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    crate::limit::end_in_time();
    let job = Job::from_environment().unwrap();
    let node = NodeName::new(current_node());
    let path = PathBuf::from(std::env::var_os(STORES).unwrap()).join(node.as_str());
    let store = Store::open_for(&path, &node).unwrap();
    let cluster = Cluster::join(job.fabric().clone(), store, &cache(), &job.settings().messages).unwrap();
    let team = Team::of_cluster(&cluster).unwrap();
    let (rank, size) = (team.member() as u64, team.size() as u64);
    let own = Rank { rank, size, team: &team, cluster: &cluster };
    match &*std::env::var(PLAN).unwrap() {
        "release" => litmus::release::PROGRAMS.iter().for_each(|program| own.run(program)),
        "entry" => litmus::entry::PROGRAMS.iter().for_each(|program| own.run(program)),
        "strict" => litmus::strict::PROGRAMS.iter().for_each(|program| own.run(program)),
        "losses" => lose(&own),
        "home" => lose_home(&own),
        plan => panic!("no such plan: {plan}"),
    }
    drop(team);
    let finished = job.finish();
    assert!(finished.is_ok() || matches!(&*std::env::var(PLAN).unwrap(), "losses" | "home"), "{finished:?}");
    cluster.leave();
}

/// Who dies, of six: the leader of a node, with its agent, and another process.
const DEAD: [u32; 2] = [3, 5];

/// Some are killed that have pages, and pages' homes: the others hear of it, each once, and go on.
fn lose(own: &Rank<'_>) {
    const FIRST: u64 = 8 * PAGE;
    let file = own.team.open_in(own.cluster, &FileName::new("f").unwrap(), &small_segments()).unwrap();
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let tell = Arc::clone(&told);
    let options = MappingOptions::new().on_loss(move |lost| tell.lock().unwrap().push(lost.range.start.0));
    let mapping = options.map_strictly(&Arc::new(file), all(5 * SEGMENT)).unwrap();
    let word = |at: u64| {
        // SAFETY: it lies in the mapping, is aligned, and is used as an atomic by all.
        unsafe { AtomicU64::from_ptr(mapping.as_mut_ptr().add(at as usize).cast()) }
    };
    let reads = |at: u64| super::failures::kernel_reads(mapping.as_ptr().wrapping_add(at as usize), 8);
    if own.rank < 4 {
        word(own.rank * SEGMENT).store(1, SeqCst);
    }
    own.meet();
    // By memory of which the dead have had nothing: what they are part of is no meeting any more.
    let meet = |number: u64, count: u64| {
        let come = word(SEGMENT + 4 * PAGE + number * 8);
        come.fetch_add(1, SeqCst);
        while come.load(SeqCst) < count {
            std::thread::yield_now();
        }
    };
    for dead in DEAD.map(u64::from).into_iter().filter(|dead| *dead == own.rank) {
        word(FIRST + dead * PAGE).store(7, SeqCst);
        assert_eq!(word(2 * SEGMENT).load(SeqCst), 1);
        own.meet();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    // For some this may be the time at which the others are dead.
    let _ = own.team.agree::<svmio_svm::Error>(Ok(()));
    let begun = Instant::now();
    // A page that both have copies of, and what nobody has stored into but one of them.
    word(2 * SEGMENT).fetch_add(1, SeqCst);
    // Whoever is to die may take his time, and has what he stored until then.
    for dead in DEAD.map(svmio_transport::Rank) {
        while own.cluster.check(&[dead]).is_ok() {
            std::thread::yield_now();
        }
    }
    meet(0, 4);
    assert_eq!(word(2 * SEGMENT).load(SeqCst), 5);
    let mut expected = Vec::new();
    for dead in DEAD.map(u64::from) {
        assert!(!reads(FIRST + dead * PAGE), "it was lost with rank {dead}");
        expected.push(FIRST + dead * PAGE);
    }
    assert!(!reads(3 * SEGMENT + PAGE), "its home was lost");
    expected.push(3 * SEGMENT + PAGE);
    assert_eq!(*told.lock().unwrap(), expected);
    // What the homes have of it. Where the master or a home is gone, a refresh is an error, and does what it can.
    let _ = mapping.refresh();
    meet(1, 4);
    for dead in DEAD.map(u64::from) {
        let after = word(FIRST + dead * PAGE).fetch_add(1, SeqCst);
        assert!(after < 4, "{after}");
    }
    meet(2, 4);
    assert!(DEAD.iter().all(|dead| word(FIRST + u64::from(*dead) * PAGE).load(SeqCst) == 4));
    meet(3, 4);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // Its pages of the lost home cannot go there.
    let _ = mapping.unmap();
}

/// Who dies, of four on a node each.
const DEAD_HOME: u32 = 3;

/// One is killed that has pages which the others have mapped: who touches them hears of it, once for each page, and
/// what is here, or lies with others, stays.
fn lose_home(own: &Rank<'_>) {
    let file =
        Arc::new(own.team.open_in(own.cluster, &FileName::new("f").unwrap(), &small_segments()).unwrap());
    let (dead, at) = (u64::from(DEAD_HOME), |rank: u64, page: u64| rank * SEGMENT + page * PAGE);
    file.write_at(FileOffset(at(own.rank, 0)), &[own.rank as u8 + 1; SEGMENT as usize]).unwrap();
    own.team.sync(&file).unwrap();
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let tell = Arc::clone(&told);
    let options = MappingOptions::new().on_loss(move |lost| {
        assert!(lost.error.to_string().contains("n3"), "{}", lost.error);
        tell.lock().unwrap().push(lost.range.start.0);
    });
    let mapping = map(&file, own.size * SEGMENT, &options);
    let reads = |at: u64| super::failures::kernel_reads(mapping.as_ptr().wrapping_add(at as usize), 8);
    assert_eq!(load(&mapping, at(dead, 0)), dead as u8 + 1);
    // For some this may be the time at which the other is dead.
    let _ = own.team.agree::<svmio_svm::Error>(Ok(()));
    if own.rank == dead {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    let begun = Instant::now();
    while own.cluster.check(&[svmio_transport::Rank(DEAD_HOME)]).is_ok() {
        std::thread::yield_now();
    }
    // Some that may have been fetched ahead lie between.
    let (first, last) = (SEGMENT / PAGE - 2, SEGMENT / PAGE - 1);
    for page in [last, first, last] {
        assert!(!reads(at(dead, page)), "page {page}");
    }
    assert_eq!(*told.lock().unwrap(), [at(dead, last), at(dead, first)]);
    assert!(reads(at(dead, 0)), "it was here");
    assert_eq!(load(&mapping, at(own.rank, 1)), own.rank as u8 + 1);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let _ = mapping.unmap();
}

/// Runs `size` processes by a plan, dealt out to four nodes; the ranks of `dead` must not end well, all others must.
fn run(plan: &str, size: u32, dead: &[u32]) {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "processes::rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Piped)
        .node(|rank| format!("n{}", rank.0 % 4))
        .environment("SVMIO_FABRIC", std::env::var("SVMIO_TEST_FABRIC").unwrap_or("shm".into()))
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(STORES, stores.path())
        .environment(PLAN, plan);
    let outputs = launcher.spawn().unwrap().output().unwrap();
    let all: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    for (rank, output) in (0..).zip(&outputs) {
        if dead.contains(&rank) {
            assert!(output.status.signal().is_some(), "{all}");
            continue;
        }
        assert!(output.status.success(), "rank {rank} of {size}, {plan}, {}: {all}", output.status);
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}

/// How many processes.
fn sizes() -> impl Iterator<Item = u32> {
    let is_full = job::is_full();
    (2..=8).filter(move |size| is_full || [2, 8].contains(size))
}

#[test]
fn release_consistency_is_what_processes_find() {
    sizes().for_each(|size| run("release", size, &[]));
}

#[test]
fn entry_consistency_is_what_processes_find() {
    sizes().for_each(|size| run("entry", size, &[]));
}

#[test]
fn strict_mappings_are_sequentially_consistent_for_processes() {
    sizes().for_each(|size| run("strict", size, &[]));
}

#[test]
fn pages_of_a_process_that_is_killed_are_told_of_and_poisoned() {
    run("home", 4, &[DEAD_HOME]);
}

#[test]
fn processes_that_are_killed_take_no_more_with_them_than_they_had() {
    run("losses", 6, &DEAD);
}
