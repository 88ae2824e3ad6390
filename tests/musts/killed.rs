//! What was synced survives the death of all ranks; the death of one that holds a lock does not stop the others.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use svmio_tests::{Installation, Job, Mpi, Nodes, Program, Random, Reports, Scratch, is_full_run, processes};

const RANKS: u32 = 3;
const SEVERAL: Nodes<'_> = Nodes::Emulated(3);

/// Within what time a lock goes on when its holder was killed, and its waiters' job ends, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// After how long silence would tell of a killed one, whose connection has told of it long before.
const SILENCE: &str = "60s";

/// Kills all ranks at a random moment, on one node or each on one of several.
fn killed(mpi: Mpi, nodes: Option<Nodes<'_>>) {
    let program = Program::c("killed", mpi);
    let scratch = nodes.map_or_else(Scratch::new, Nodes::scratch);
    let new_job = || {
        let job = Job::new(&scratch, &program, RANKS).limit(Duration::from_secs(60));
        nodes.into_iter().fold(job, Job::over)
    };
    let (full, plain) = if nodes.is_some() { (100, 5) } else { (200, 10) };
    for seed in 0..if is_full_run() { full } else { plain } {
        let mut random = Random::new(seed);
        let (name, log) = (format!("svm:/killed/{seed}"), scratch.file(&format!("log-{seed}")));
        let pids = scratch.new_directory(&format!("ranks-{seed}"));
        let mut job = new_job().argument("write").argument(&name).argument(&log).argument(&pids).start();
        job.until("the first sync", || fs::metadata(&log).is_ok_and(|log| log.len() > 0).then_some(()));
        // When is what is random here; it waits for nothing.
        std::thread::sleep(Duration::from_micros(random.below(100_000)));
        let mut ids: Vec<i32> = (0..RANKS).map(|rank| read_id(&pids.join(rank.to_string()))).collect();
        ids.push(job.launcher());
        processes::kill_all(&ids);
        drop(job);

        let synced = last_rounds(&fs::read_to_string(&log).expect("the log can be read"));
        let rounds: Vec<String> =
            (0..RANKS).map(|rank| synced.get(&rank).copied().unwrap_or(-1).to_string()).collect();
        println!("{mpi}, seed {seed}: synced up to rounds {}", rounds.join(", "));
        let path = format!("/killed/{seed}");
        told(&scratch, nodes, &["verify"]);
        let bytes = told(&scratch, nodes, &["cat", &path]);
        for (rank, last) in &synced {
            check_headers(&bytes, *rank, *last, seed);
        }
        let next = new_job().argument("go-on").argument(&name);
        let output = rounds.iter().fold(next, |job, round| job.argument(round)).succeed();
        assert!(output.contains("all is there"), "seed {seed}: {output}");
        told(&scratch, nodes, &["verify"]);
        told(&scratch, nodes, &["rm", &path]);
    }
}

/// What the tool tells of the store, or of all nodes' stores.
fn told(scratch: &Scratch, nodes: Option<Nodes<'_>>, words: &[&str]) -> Vec<u8> {
    let output = match nodes {
        None => Installation::get().ask(scratch, words),
        Some(nodes) => {
            let stores = nodes.stores(scratch).into_iter();
            let stores: Vec<String> = stores.map(|store| format!("--store={}", store.display())).collect();
            let words: Vec<&str> = words.iter().copied().chain(stores.iter().map(String::as_str)).collect();
            nodes.ask(scratch, 0, &words)
        }
    };
    assert!(output.status.success(), "svmio {words:?}: {output:?}");
    output.stdout
}

/// Each block begins with the number of its round (see `programs/killed.c`), as `svmio cat` gives it.
fn check_headers(bytes: &[u8], rank: u32, last: i32, seed: u64) {
    const HEADER: usize = 1000;
    const BLOCK: usize = 5003;
    for round in 0..=last {
        let at = HEADER * RANKS as usize + BLOCK * (round as usize * RANKS as usize + rank as usize);
        let found =
            bytes.get(at..at + 4).map(|four| i32::from_ne_bytes(four.try_into().expect("four bytes")));
        assert_eq!(found, Some(round), "seed {seed}: rank {rank}'s block of round {round}");
    }
}

/// The last round that each rank noted, by whole lines only.
fn last_rounds(log: &str) -> BTreeMap<u32, i32> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<i32>().ok());
    let mut last = BTreeMap::new();
    for line in whole.lines() {
        let mut words = line.split(' ');
        let (rank, round) = (number(words.next()), number(words.next()));
        let (rank, round) = rank.zip(round).unwrap_or_else(|| panic!("'{line}' is no line of the log"));
        last.insert(rank as u32, round);
    }
    last
}

fn read_id(path: &Path) -> i32 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.trim().parse().unwrap_or_else(|error| panic!("{}: '{text}': {error}", path.display()))
}

/// Kills one rank that holds a lock for which the others wait.
fn lock_holder_killed(mpi: Mpi) {
    const RANKS: u32 = 4;
    let program = Program::c("lock_holder", mpi);
    for kind in ["contiguous", "strided"] {
        let scratch = Scratch::new();
        let reports = Reports::new(&scratch, kind);
        let directory = reports.path();
        let job = Job::new(&scratch, &program, RANKS).argument("svm:/locked").argument(kind);
        let job = job.argument(directory).argument("for-ever");
        let mut job = job.limit(2 * SOON).start();
        let holder = job.until("lock", || id_in(&directory.join("holding")));
        for rank in 1..RANKS {
            let waiter = job.until("waiter", || id_in(&directory.join(format!("waiting-{rank}"))));
            job.until("sleep of a waiter", || processes::waits_for_others(waiter).then_some(()));
        }
        let killed_at = Instant::now();
        processes::kill_all(&[holder]);
        // What the launchers think of ranks that end without MPI_Finalize is no matter here.
        let finished = job.wait();
        let lines = reports.read(RANKS);
        for (rank, lines) in lines.iter().enumerate().skip(1) {
            let told = format!("{mpi}, {kind}, rank {rank}: {lines:?}\n{}", finished.account());
            let has_written = lines.iter().any(|line| line.what == "access" && line.result == "MPI_SUCCESS");
            assert!(has_written, "{told}");
        }
        println!("{mpi}, {kind}: the job ended {:?} after the holder was killed", killed_at.elapsed());
        assert!(killed_at.elapsed() < SOON, "{}", finished.account());
    }
}

/// The same on several nodes, where the lock is another node's, and the holder is its node's first rank, or not.
fn lock_holder_of_another_node_killed(mpi: Mpi) {
    const RANKS: u32 = 8;
    let nodes = Nodes::Emulated(4);
    let program = Program::c("lock_holder", mpi);
    const FIRST_OF_NODE: u32 = 2;
    const ANOTHER: u32 = 6;
    let cases = [
        (FIRST_OF_NODE, "contiguous"),
        (ANOTHER, "strided"),
        (ANOTHER, "contiguous"),
        (FIRST_OF_NODE, "strided"),
    ];
    for (holder, kind) in cases {
        let scratch = nodes.scratch();
        let reports = Reports::new(&scratch, kind);
        let directory = reports.path();
        let job = Job::new(&scratch, &program, RANKS).over(nodes).argument("svm:/locked").argument(kind);
        let job = job.argument(directory).argument("for-ever").argument(holder.to_string());
        let home = format!("node={}", nodes.name(1));
        let job = job.variable("SVMIO_PLACEMENT", home).variable("SVMIO_WATCHDOG_TIMEOUT", SILENCE);
        let mut job = job.limit(2 * SOON).start();
        let killed = job.until("lock", || id_in(&directory.join("holding")));
        for rank in (0..RANKS).filter(|&rank| rank != holder) {
            job.until("waiter", || id_in(&directory.join(format!("waiting-{rank}"))));
        }
        let killed_at = Instant::now();
        processes::kill_all(&[killed]);
        let finished = job.wait();
        for (rank, lines) in (0..).zip(reports.read(RANKS)).filter(|&(rank, _)| rank != holder) {
            let told = format!("{mpi}, {kind}, rank {rank}: {lines:?}\n{}", finished.account());
            let Some(access) = lines.iter().find(|line| line.what == "access") else {
                panic!("it waits, or ended otherwise: {told}")
            };
            // A node that has lost its first rank reaches no other one: it is told so, if the lock did not come before.
            let may_fail = holder == FIRST_OF_NODE && nodes.of_rank(rank) == nodes.of_rank(holder);
            assert!(may_fail || access.result == "MPI_SUCCESS", "{told}");
        }
        println!("{mpi}, {kind}: the job ended {:?} after rank {holder} was killed", killed_at.elapsed());
        assert!(killed_at.elapsed() < SOON, "{}", finished.account());
    }
}

/// The number in a file, once it is there.
fn id_in(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')).map(|_| read_id(path))
}

#[test]
fn mpich() {
    killed(Mpi::DebianMpich, None);
}

#[test]
fn mpich_on_several_nodes() {
    killed(Mpi::DebianMpich, Some(SEVERAL));
}

#[test]
fn openmpi() {
    killed(Mpi::DebianOpenMpi, None);
}

#[test]
fn openmpi_on_several_nodes() {
    killed(Mpi::DebianOpenMpi, Some(SEVERAL));
}

#[test]
fn mpich_lock_holder() {
    lock_holder_killed(Mpi::DebianMpich);
}

#[test]
fn openmpi_lock_holder() {
    lock_holder_killed(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_lock_holder_of_another_node() {
    lock_holder_of_another_node_killed(Mpi::DebianMpich);
}

#[test]
fn openmpi_lock_holder_of_another_node() {
    lock_holder_of_another_node_killed(Mpi::DebianOpenMpi);
}
