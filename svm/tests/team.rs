//! Teams between real processes: what they agree upon, files that they have open together on one node and on several,
//! over shared memory and over a network, and a member that dies.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod limit;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use svmio_svm::team::Team;
use svmio_svm::{
    CacheSettings, Cluster, Error, ErrorKind, File, FileName, FileOffset, NodeName, OpenOptions, Store,
};
use svmio_transport::job::{Job, Launcher, Streams, current_node};

/// Tells a process what to do.
const PLAN: &str = "SVMIO_TEST_PLAN";
/// Where the nodes' stores are.
const STORES: &str = "SVMIO_TEST_STORES";

/// What all agree upon, whichever of them fails.
fn agree(team: &Team, _: &Arc<Cluster>) {
    let (own, size) = (team.member() as i64, team.size());
    for failing in 0..=size {
        let mine = match team.member() {
            // The one after it fails, too: the first is the one to tell.
            member if member == failing || member == failing + 1 && failing < size => {
                Err(Error::OfMember { kind: ErrorKind::NoSpace, message: format!("{member} is full") })
            }
            _ => Ok(()),
        };
        match team.agree_on(mine, [own, -own]) {
            Ok(largest) => assert_eq!((failing, largest), (size, [size as i64 - 1, 0])),
            Err(error) => {
                let text = format!("rank {failing}: {failing} is full");
                assert_eq!((error.kind(), error.to_string()), (ErrorKind::NoSpace, text));
            }
        }
    }
    for length in [0, 1, 48, 49, 10_000] {
        let text = vec![length as u8; length];
        for root in 0..size {
            let mine = if team.member() == root { text.clone() } else { Vec::new() };
            assert_eq!(team.told::<Error>(root, Ok(mine)).unwrap(), text);
        }
        let all: Vec<Vec<u8>> = (0..size).map(|member| vec![member as u8; length * (member + 1)]).collect();
        assert_eq!(team.all_gather(&all[team.member()]).unwrap(), all);
        for root in [0, size - 1] {
            let gathered =
                team.gather(root, &all[team.member()], usize::MAX).unwrap().expect("that is no limit");
            assert_eq!(gathered, if team.member() == root { all.clone() } else { Vec::new() });
            if size > 1 {
                assert_eq!(team.gather(root, &all[team.member()], length * size * size).unwrap(), None);
            }
        }
        assert_eq!(team.all_gather_equal(&text).unwrap(), vec![text; size]);
    }
    let long = "long ".repeat(1000);
    let failed = team.outcome_of(
        size - 1,
        Err::<(), _>(Error::OfMember { kind: ErrorKind::Quota, message: long.clone() }),
    );
    let failed = failed.unwrap_err();
    assert_eq!((failed.kind(), failed.to_string()), (ErrorKind::Quota, long));
}

/// All write, and read what the next one wrote; then the file is cut, closed, and opened by name.
fn use_file(team: &Team, cluster: &Arc<Cluster>) {
    const OWN: u64 = 100_000;
    let name = FileName::new("/together").unwrap();
    let missing = team.open_in(cluster, &name, &OpenOptions::reading()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoSuchFile, "{missing}");
    let file = team.open_in(cluster, &name, &OpenOptions::read_write().create(true).exclusive(true)).unwrap();
    let bytes = |member: usize| vec![member as u8 + 1; OWN as usize];
    let at = |member: usize| FileOffset(member as u64 * OWN);
    let written = file.write_at(at(team.member()), &bytes(team.member())).map(|_| ());
    team.end_of_write(&file, written).unwrap();
    assert_eq!(file.size(), team.size() as u64 * OWN);
    team.sync(&file).unwrap();
    let next = (team.member() + 1) % team.size();
    let mut read = bytes(team.member());
    file.read_at(at(next), &mut read).unwrap();
    let is_right =
        if read == bytes(next) { Ok(()) } else { Err(Error::Disunited { problem: "misread".into() }) };
    team.agree(is_right).unwrap();
    cut_by_one(team, &file, OWN);
    team.set_size(&file, OWN / 2).unwrap();
    assert_eq!(file.size(), OWN / 2);
    let refused = team
        .change(&file, || Err(Error::OfMember { kind: ErrorKind::Access, message: "it must not be".into() }));
    assert!(refused.unwrap_err().to_string().starts_with("rank 0"));
    team.close(&file, false).unwrap();
    drop(file);
    let again = team.open_in(cluster, &name, &OpenOptions::read_write().create(true).exclusive(true));
    assert_eq!(again.map(|_| ()).unwrap_err().kind(), ErrorKind::Exists);
    let file = team.open_in(cluster, &name, &OpenOptions::reading()).unwrap();
    assert_eq!(file.size(), OWN / 2);
    team.close(&file, false).unwrap();
}

/// One makes the file shorter by itself: what others tell who have not heard of that does not make it longer again, and
/// what is written when all have does.
fn cut_by_one(team: &Team, file: &File, own: u64) {
    // On another node than the master's, where there are several.
    let cutter = 1;
    let cut =
        if team.member() == cutter { file.set_size(own / 4).and_then(|()| file.refresh()) } else { Ok(()) };
    team.agree(cut).unwrap();
    team.end_of_write::<Error>(file, Ok(())).unwrap();
    if team.member() == cutter {
        assert_eq!(file.size(), own / 4);
    }
    team.sync(file).unwrap();
    assert_eq!(file.size(), own / 4);
    team.agree::<Error>(Ok(())).unwrap();
    let written =
        if team.member() == cutter { file.write_at(FileOffset(own), &[1]).map(|_| ()) } else { Ok(()) };
    team.end_of_write(file, written).unwrap();
    assert_eq!(file.size(), own + 1);
    team.agree::<Error>(Ok(())).unwrap();
}

/// Two threads have a team each, and come first in turns, in other turns on each member.
fn use_threads(team: &Team, cluster: &Arc<Cluster>) {
    let other = Team::of_cluster(cluster).unwrap();
    std::thread::scope(|scope| {
        for (number, team) in [(0, team), (1, &other)] {
            scope.spawn(move || {
                for round in 0..2000 {
                    if (round + team.member() + number) % 7 == 0 {
                        std::thread::yield_now();
                    }
                    let told = (round * 2 + number) as i64;
                    assert_eq!(team.maxima([told, -told]).unwrap(), [told, -told]);
                }
            });
        }
    });
}

/// Member 1 dies, and all others hear who it was, now and later.
fn lose(team: &Team, _: &Arc<Cluster>) {
    team.agree::<Error>(Ok(())).unwrap();
    if team.member() == 1 {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    let since = Instant::now();
    let error = loop {
        // Whoever broadcasts has not to wait for anybody at once.
        if let Err(error) = team.told::<Error>(0, Ok(vec![1])).and_then(|_| team.maxima([0])) {
            break error.to_string();
        }
    };
    assert!(error.contains("rank 1"), "{error}");
    assert!(since.elapsed().as_secs() < 20, "it took {:?}", since.elapsed());
    let later = team.agree::<Error>(Ok(())).unwrap_err().to_string();
    assert!(later.contains("rank 1"), "{later}");
}

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    limit::end_in_time();
    let job = Job::from_environment().unwrap();
    let node = NodeName::new(current_node());
    let path = PathBuf::from(std::env::var_os(STORES).unwrap()).join(node.as_str());
    let store = Store::open_for(&path, &node).unwrap();
    let (cache, messages) = (CacheSettings::default(), &job.settings().messages);
    let cluster = Cluster::join(job.fabric().clone(), store, &cache, messages).unwrap();
    let team = Team::of_cluster(&cluster).unwrap();
    match &*std::env::var(PLAN).unwrap() {
        "agree" => agree(&team, &cluster),
        "use" => use_file(&team, &cluster),
        "threads" => use_threads(&team, &cluster),
        "lose" => lose(&team, &cluster),
        plan => panic!("no such plan: {plan}"),
    }
    // Another one, of the same processes, beside it.
    if !matches!(&*std::env::var(PLAN).unwrap(), "lose") {
        let other = Team::of_cluster(&cluster).unwrap();
        assert_eq!(other.maxima([7]).unwrap(), [7]);
        assert_eq!(team.maxima([8]).unwrap(), [8]);
    }
    drop(team);
    // After a loss, the end of the job is an error.
    let _ = job.finish();
    cluster.leave();
}

/// Runs `size` processes by a plan, dealt out to `nodes`; the ranks of `dead` must not end well, all others must.
fn run(plan: &str, fabric: &str, size: u32, nodes: u32, dead: &[usize]) {
    let stores = tempfile::tempdir_in("/dev/shm").unwrap();
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(size)
        .streams(Streams::Piped)
        .node(move |rank| format!("n{}", rank.0 % nodes))
        .environment("SVMIO_FABRIC", fabric)
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(STORES, stores.path())
        .environment(PLAN, plan);
    let outputs = launcher.spawn().unwrap().output().unwrap();
    let all: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    for (rank, output) in outputs.iter().enumerate() {
        if dead.contains(&rank) {
            assert!(output.status.signal().is_some(), "{all}");
            continue;
        }
        assert!(output.status.success(), "rank {rank} of {size}, {plan} over {fabric}: {all}");
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}

#[test]
fn all_hear_the_same_over_shared_memory() {
    for size in [1, 2, 5] {
        run("agree", "shm", size, 2, &[]);
    }
}

#[test]
fn all_hear_the_same_over_a_network() {
    for (size, nodes) in [(2, 2), (5, 2)] {
        run("agree", "ofi", size, nodes, &[]);
    }
}

#[test]
fn files_are_used_together() {
    for (fabric, size, nodes) in [("shm", 3, 1), ("shm", 4, 2), ("shm", 4, 3), ("ofi", 4, 2)] {
        run("use", fabric, size, nodes, &[]);
    }
}

#[test]
fn teams_in_different_threads_do_not_meet() {
    run("threads", "shm", 3, 2, &[]);
}

#[test]
fn a_lost_member_is_named() {
    for (fabric, nodes) in [("shm", 1), ("shm", 2), ("ofi", 2)] {
        run("lose", fabric, 4, nodes, &[1]);
    }
}
