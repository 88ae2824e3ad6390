//! The first collective write settles the size of a file's segments, so that each rank's data lies on its node, or is
//! spread over the nodes as a hint says, or, where a program gives none, the environment; `svmio map` shows what came
//! of it.

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch};

const NODES: Nodes<'_> = Nodes::Emulated(4);

/// What the program tells, run with such a hint.
fn run(scratch: &Scratch, program: &Program, name: &str, placement: Option<&str>) -> String {
    let job = Job::new(scratch, program, 4).over(NODES).argument(name);
    let job = placement.into_iter().fold(job, |job, placement| job.argument(placement));
    job.variable("SVMIO_STATS", "1").variable("SVMIO_LOG", "info").succeed()
}

/// What the tool shows of a file, to somebody who has all stores.
fn shown(scratch: &Scratch, command: &str, path: &str) -> String {
    let stores = NODES.stores(scratch).into_iter().map(|store| format!("--store={}", store.display()));
    let stores: Vec<String> = stores.collect();
    let words: Vec<&str> = [command, path].into_iter().chain(stores.iter().map(String::as_str)).collect();
    let output = NODES.ask(scratch, 0, &words);
    assert!(output.status.success(), "svmio {command}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

fn chosen_segments(mpi: Mpi) {
    let program = Program::c("chosen_segments", mpi);
    let scratch = NODES.scratch();
    let output = run(&scratch, &program, "svm:/blocks", None);
    assert!(output.contains("segments of 262144 bytes, first_touch\n"), "{output}");
    // It is told why.
    assert!(
        output.contains("/blocks: segments of 262144 bytes: of the first 8388608 bytes 0 are remote"),
        "{output}"
    );
    // What was written stayed where it was, and nobody asked the master where to put it.
    for request in ["write", "reserve", "place"] {
        let is_told = |end| output.contains(&format!(" {request}{end}"));
        assert!(!is_told(',') && !is_told(')'), "{request}: {output}");
    }
    // Who opens the file later finds it as it is.
    let output = run(&scratch, &program, "svm:/blocks", None);
    assert!(output.contains("segments of 262144 bytes, first_touch\n"), "{output}");
    let map = shown(&scratch, "map", "/blocks");
    assert!(map.contains("32 segments of 256.00 KiB") && map.contains(&"ABCD".repeat(8)), "{map}");

    // Segments that a placement spreads are small enough for each node to get some.
    for (placement, expected) in [("round_robin", "ABCD".repeat(4)), ("block", "AAAABBBBCCCCDDDD".to_owned())]
    {
        let name = format!("/{placement}");
        let output = run(&scratch, &program, &format!("svm:{name}"), Some(placement));
        assert!(output.contains(&format!("segments of 524288 bytes, {placement}\n")), "{output}");
        assert!(output.contains("for each of 4 nodes, as the placement spreads them"), "{output}");
        let map = shown(&scratch, "map", &name);
        assert!(map.contains(&format!("  {expected}\n")), "{placement}: {map}");
    }
    let output = run(&scratch, &program, "svm:/one", Some("node=n2"));
    assert!(output.contains("segments of 16777216 bytes, node=n2\n"), "{output}");
    let stat = shown(&scratch, "stat", "/one");
    assert!(stat.contains("Home: n2: 1 segment, 8388608 bytes"), "{stat}");

    let asked = |size, placement| {
        let job = Job::new(&scratch, &program, 4).over(NODES).argument("svm:/asked");
        job.variable("SVMIO_SEGMENT_SIZE", size).variable("SVMIO_PLACEMENT", placement).succeed()
    };
    let output = asked("64K", "node=n1");
    assert!(output.contains("segments of 65536 bytes, node=n1\n"), "{output}");
    let stat = shown(&scratch, "stat", "/asked");
    assert!(stat.contains("Home: n1: 128 segments, 8388608 bytes"), "{stat}");
    let output = asked("three", "anywhere");
    for complaint in ["SVMIO_SEGMENT_SIZE=three is ignored", "SVMIO_PLACEMENT=anywhere is ignored"] {
        assert_eq!(output.matches(complaint).count(), 4, "once for each rank: {output}");
    }
}

/// A write in the background has its segments of the size that it found, whatever a collective write would choose.
fn beside_a_pending_write(mpi: Mpi) {
    let program = Program::c("pending_write", mpi);
    for (rounds, bytes) in [("60", "1048576"), ("4", "67108864")] {
        let scratch = NODES.scratch();
        let job = Job::new(&scratch, &program, 4).over(NODES).argument("svm:/pending");
        let output = job.argument(rounds).argument(bytes).succeed();
        assert!(output.contains("all of it is there"), "{output}");
    }
}

#[test]
fn mpich() {
    chosen_segments(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    chosen_segments(Mpi::DebianOpenMpi);
}

#[test]
fn beside_a_pending_write_of_mpich() {
    beside_a_pending_write(Mpi::DebianMpich);
}

#[test]
fn beside_a_pending_write_of_openmpi() {
    beside_a_pending_write(Mpi::DebianOpenMpi);
}
