//! A job on other nodes reads the files of an earlier one, from hosts that serve their stores; all ranks are told why
//! where that cannot be, in time, and nothing is left of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use svmio_tests::hosts::BARE_SHELL;
use svmio_tests::{Hosts, Job, Mpi, Nodes, Program, Scratch, is_full_run};

const NAME: &str = "svm:/out/staged";
/// Ends a job in which something hangs; those here take seconds.
const LIMIT: Duration = Duration::from_secs(100);

/// What an earlier job has left on nodes 0 and 1.
struct Earlier {
    scratch: Scratch,
    program: Program,
}

impl Earlier {
    fn new(mpi: Mpi) -> Earlier {
        let (scratch, program) = (Nodes::Emulated(2).scratch(), Program::c("staged", mpi));
        let earlier = Earlier { scratch, program };
        let output = earlier.job(&[0, 1], "write", None).succeed();
        assert!(output.contains("done: write"), "{output}");
        // Plays the remote shell of hosts n0, n1 and so on; what goes wrong says `HOW`.
        let script = format!(
            "#!/bin/sh\nH=$1; shift; case $H in n[0-9]) ;; *) echo \"shell: no host $H\" >&2; exit 255;; esac\n\
             SVMIO_NODE=$H; SVMIO_STORE={}$H; export SVMIO_NODE SVMIO_STORE; C=\"${{*%% --store*}}\"\n\
             case $HOW in silent) exec sleep 100;; \
             cut) sh -c \"echo \\$\\$ >$SVMIO_STORE-server; $C\" | \
             {{ dd bs=1 count=100000 2>/dev/null; kill -KILL $(cat $SVMIO_STORE-server); }};; \
             *) exec sh -c \"$C\";; esac\n",
            earlier.scratch.file("store-of-").display()
        );
        fs::write(earlier.shell(), script).expect("the scratch directory can be written to");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(earlier.shell(), mode).expect("it was just written");
        earlier
    }

    fn shell(&self) -> PathBuf {
        self.scratch.file("shell")
    }

    /// Two ranks on each of these nodes.
    fn job<'e>(&'e self, nodes: &'e [usize], how: &str, servers: Option<&str>) -> Job<'e> {
        let ranks = 2 * nodes.len() as u32;
        let job = Job::new(&self.scratch, &self.program, ranks).over(Nodes::Chosen(nodes));
        let job = job.argument(NAME).argument(how).variable("SVMIO_RSH", self.shell()).limit(LIMIT);
        servers.into_iter().fold(job, |job, servers| job.variable("SVMIO_SERVERS", servers))
    }

    /// How many objects a node's store has.
    fn objects(&self, node: usize) -> usize {
        objects_in(&Nodes::Chosen(&[node]).store(&self.scratch, 0))
    }

    fn is_refused(&self, job: Job<'_>, words: &[&str]) {
        let since = Instant::now();
        let output = job.succeed();
        tells_of_refusals(&output, words);
        assert!(since.elapsed() < LIMIT, "{output}");
        assert_eq!([2, 3].map(|node| self.objects(node)), [0, 0], "{output}");
    }
}

/// Of releases beside Debian's, a plain run tries only what goes by MPI: an open that stages, and one that is refused.
fn files_of_other_nodes_are_read(mpi: Mpi) {
    let earlier = Earlier::new(mpi);
    let is_whole = is_full_run() || Mpi::DEBIAN.contains(&mpi);
    let read =
        [(&[2, 1][..], "n0,n1"), (&[2], "n0,n1"), (&[2, 3], "n1,n0"), (&[0, 2], "n1"), (&[0, 1], "nowhere")];
    for (nodes, servers) in if is_whole { &read[..] } else { &read[..1] } {
        let output = earlier.job(nodes, "read", Some(*servers)).succeed();
        assert_eq!(output.matches("done: read").count(), 2, "{nodes:?}: {output}");
        assert_eq!([0, 1, 2, 3].map(|node| earlier.objects(node)), [1, 1, 0, 0], "{nodes:?}");
    }
    // By a hint, where the environment names others.
    let output =
        earlier.job(&[2], "read", Some("nowhere")).argument("n0,n1").variable("SVMIO_PROGRAM", tool());
    assert_eq!(output.succeed().matches("done: read").count(), 2);

    if !is_whole {
        let words = ["refused: read only: ", "no file /out/staged", "reading only"];
        return earlier.is_refused(earlier.job(&[2], "update", Some("n0,n1")), &words);
    }
    for nodes in [&[2][..], &[0, 2]] {
        let missing = if nodes.len() == 1 { "no file /out/staged" } else { "lie on node n1" };
        let class = if nodes.len() == 1 { "refused: no such file: " } else { "refused: io: " };
        earlier.is_refused(earlier.job(nodes, "read", None), &[class, missing]);
        for how in ["update", "create"] {
            let words = ["refused: read only: ", missing, "reading only", "svmio cp --hosts"];
            earlier.is_refused(earlier.job(nodes, how, Some("n0,n1")), &words);
        }
        let words = ["refused: exists: ", "n0:"];
        earlier.is_refused(earlier.job(nodes, "exclusive", Some("n0,n1")), &words);
        let words = ["refused: io: ", missing, "on host nowhere: ", "shell: no host nowhere"];
        for how in ["read", "create"] {
            earlier.is_refused(earlier.job(nodes, how, Some("n1,nowhere")), &words);
        }
        let silent = earlier.job(nodes, "read", Some("n1")).variable("HOW", "silent");
        let words = ["refused: io: ", missing, "on host n1: ", "not gone on for 1s"];
        earlier.is_refused(silent.variable("SVMIO_HOSTS_TIMEOUT", "1s"), &words);
        let cut = earlier.job(nodes, "read", Some("n0,n1")).variable("HOW", "cut");
        let words = ["refused: io: ", missing, "on host n", "the connection to svmio there ended"];
        earlier.is_refused(cut, &words);
    }
    earlier
        .is_refused(earlier.job(&[2], "read", Some("n0")), &["refused: io: ", "lie on node n1", "node n0"]);
}

/// How many objects a store has, with a name and without.
fn objects_in(store: &Path) -> usize {
    let count = |directory| fs::read_dir(store.join(directory)).map_or(0, Iterator::count);
    count("objects") + count("deleted")
}

/// Ranks on two hosts of four read what was written on others, which they reach by a remote shell that carries no
/// environment, and are told of hosts that are not there.
fn files_of_other_hosts_are_read(mpi: Mpi) {
    let hosts = Hosts::new(4);
    let nodes = Nodes::Hosts(&hosts);
    let (scratch, program) = (nodes.scratch(), Program::c("staged", mpi));
    let addresses = [0, 1].map(|host| hosts.address(host).to_string());
    let job = |first: usize, how: &str, servers: &str| {
        let job = Job::new(&scratch, &program, 2).over(nodes).beginning_with(first).limit(LIMIT);
        let job = job.variable("SVMIO_RSH", hosts.remote_shell()).variable(BARE_SHELL, "1");
        let job = job.argument(NAME).argument(how).variable("SVMIO_SERVERS", servers);
        job.succeed()
    };
    let objects = || [0, 1, 2, 3].map(|host| objects_in(&nodes.store(&scratch, host)));
    assert!(job(0, "write", "").contains("done: write"));
    assert_eq!(objects(), [1, 1, 0, 0]);

    // On hosts 2 and 3, and on 3 and 0, of which one has a part.
    for (first, servers) in [(2, &addresses.join(",")), (3, &addresses[1])] {
        let output = job(first, "read", servers);
        assert_eq!(output.matches("done: read").count(), 2, "{output}");
        assert_eq!(objects(), [1, 1, 0, 0]);
    }
    let absent = format!("{},10.77.0.99", addresses[0]);
    for (servers, words) in [
        ("", &["refused: no such file: ", "no file /out/staged"][..]),
        (&addresses[0], &["refused: io: ", "lie on node svm1"]),
        (&absent, &["refused: io: ", "on host 10.77.0.99: "]),
    ] {
        tells_of_refusals(&job(2, "read", servers), words);
        assert_eq!(objects(), [1, 1, 0, 0]);
    }
    // What served there has ended, and the launchers' helpers are about to.
    let deadline = Instant::now() + LIMIT;
    while let Some(host) = (0..hosts.count()).find(|host| !hosts.processes(*host).is_empty()) {
        assert!(Instant::now() < deadline, "on host {host}: {:?}", hosts.processes(host));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Both opens were refused, in these words.
fn tells_of_refusals(output: &str, words: &[&str]) {
    assert_eq!(output.matches("refused: ").count(), 2, "{output}");
    for word in words {
        assert!(output.contains(word), "{word:?} in {output}");
    }
}

fn tool() -> PathBuf {
    svmio_tests::Installation::get().tool().to_owned()
}

#[test]
fn mpich() {
    files_of_other_nodes_are_read(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    files_of_other_nodes_are_read(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_over_hosts() {
    files_of_other_hosts_are_read(Mpi::DebianMpich);
}

#[test]
fn openmpi_over_hosts() {
    files_of_other_hosts_are_read(Mpi::DebianOpenMpi);
}

#[test]
fn mpich5() {
    files_of_other_nodes_are_read(Mpi::WheelMpich);
}

#[test]
fn openmpi5() {
    files_of_other_nodes_are_read(Mpi::WheelOpenMpi);
}
