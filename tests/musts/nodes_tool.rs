//! The tool sees a file that lies on four hosts whole, and makes such files, from beside them, through a remote shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use svmio_tests::hosts::BARE_SHELL;
use svmio_tests::{Hosts, Installation, Job, Mpi, Nodes, Program, Scratch};

const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32;
const RANKS: usize = 4;

/// The tool, run beside the hosts.
struct Tool<'t> {
    hosts: &'t Hosts,
    scratch: &'t Scratch,
    shell: PathBuf,
}

impl Tool<'_> {
    fn run(&self, names: &str, arguments: &[&str]) -> Output {
        let mut command = self.hosts.outside(Installation::get().tool());
        // The store is where it is for each of the hosts.
        let store = Nodes::Hosts(self.hosts).store(self.scratch, 0);
        let store = Path::new("/dev/shm").join(store.file_name().expect("a store's directory has a name"));
        command.args(arguments).args(["--hosts", names, "--store"]).arg(store);
        command.env("SVMIO_RSH", &self.shell).env(BARE_SHELL, "1");
        command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"))
    }

    fn printed(&self, names: &str, arguments: &[&str]) -> String {
        let output = self.run(names, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints text")
    }

    fn complaint(&self, names: &str, arguments: &[&str]) -> String {
        let output = self.run(names, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("it prints text")
    }
}

fn the_tool_sees_it_whole(mpi: Mpi) {
    let hosts = Hosts::new(RANKS);
    let nodes = Nodes::Hosts(&hosts);
    let scratch = nodes.scratch();
    let program = Program::c("chosen_segments", mpi);
    Job::new(&scratch, &program, RANKS as u32).over(nodes).argument("svm:/out/blocks").succeed();
    nodes.demand_stores(&scratch);

    let tool = Tool { hosts: &hosts, scratch: &scratch, shell: hosts.remote_shell() };
    let addresses: Vec<_> = (0..RANKS).map(|host| hosts.address(host).to_string()).collect();
    let (all, names) = (addresses.join(","), ["svm0", "svm1", "svm2", "svm3"]);
    let block = |number: usize| {
        let (rank, piece) = (number % RANKS, number / RANKS);
        (0..BLOCK).map(move |at| ((piece * BLOCK + at) % 251 + rank) as u8)
    };
    let expected: Vec<u8> = (0..BLOCKS).flat_map(block).collect();

    assert_eq!(tool.printed(&all, &["ls", "-R"]), "/out/blocks\n");
    let stat = tool.printed(&all, &["stat", "/out/blocks"]);
    for name in names {
        assert!(stat.contains(&format!("Home: {name}: 8 segments, 2097152 bytes")), "{stat}");
    }
    assert!(tool.printed(&all, &["map", "/out/blocks"]).contains(&format!("  {}\n", "ABCD".repeat(8))));
    assert!(tool.run(&all, &["cat", "/out/blocks"]).stdout == expected, "cat, {mpi}");
    let copy = scratch.file("copy");
    tool.printed(
        &all,
        &["cp", "svm:/out/blocks", copy.to_str().expect("a scratch directory's name is text")],
    );
    assert!(fs::read(&copy).expect("it was copied") == expected, "cp, {mpi}");
    let verified = tool.printed(&all, &["verify"]);
    assert_eq!(verified, "1 file checked, 0 damaged, 0 leftovers reclaimed\n");

    // And back: over the hosts as it was, over an older file of one host, and on one of them alone.
    let copy = copy.to_str().expect("a scratch directory's name is text");
    tool.printed(&all, &["cp", "--placement", "node=svm2", copy, "svm:/in/copy"]);
    assert!(tool.printed(&all, &["stat", "/in/copy"]).contains("Home: svm2: 1 segment, 8388608 bytes"));
    let message = tool.complaint(&all, &["cp", copy, "svm:/in/copy"]);
    assert!(
        message.contains(&format!("exists already in the store {}:/dev/shm/", addresses[2])),
        "{message}"
    );
    tool.printed(&all, &["cp", "-f", "--placement", "round_robin", "svm:/out/blocks", "svm:/in/copy"]);
    assert!(tool.printed(&all, &["map", "/in/copy"]).contains(&format!("  {}\n", "ABCD".repeat(8))));
    assert!(tool.run(&all, &["cat", "/in/copy"]).stdout == expected, "cp into the store, {mpi}");
    assert_eq!(tool.printed(&all, &["verify"]), "2 files checked, 0 damaged, 0 leftovers reclaimed\n");
    tool.printed(&all, &["rm", "-r", "/in"]);

    // Only some of the hosts, and one that is not there.
    let message = tool.complaint(&addresses[..2].join(","), &["cat", "/out/blocks"]);
    assert!(message.contains(" lie on node svm2, "), "{message}");
    let message = tool.complaint(&format!("{all},10.77.0.99"), &["ls"]);
    assert!(message.contains("on host 10.77.0.99: "), "{message}");
    // What is wrong on one of them is told with its name.
    let objects = fs::read_dir(nodes.store(&scratch, 3).join("objects")).expect("it is a store");
    let object = objects.flatten().next().expect("it has the file").path();
    fs::remove_file(object.join("segment-0000000003")).expect("it is there");
    for arguments in [["cat", "/out/blocks"], ["stat", "/out/blocks"]] {
        let message = tool.complaint(&all, &arguments);
        let told = format!("on host {}: segment 3 of /out/blocks is missing", addresses[3]);
        assert!(message.contains(&told), "{message}");
    }
    assert_eq!(tool.run(&all, &["verify"]).status.code(), Some(1));
    for host in 0..RANKS {
        assert_eq!(hosts.processes(host), [0; 0], "what answered there has ended");
    }
}

#[test]
fn mpich() {
    the_tool_sees_it_whole(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    the_tool_sees_it_whole(Mpi::DebianOpenMpi);
}
