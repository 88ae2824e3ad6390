//! New segments go where a file's placement says, whoever writes them and how, in atomic mode, too, and only segments
//! that are written exist; a later job goes on with the file's placement. `svmio map` and `svmio stat` show all that.

use serde_json::Value;
use svmio_tests::{Job, Mpi, Nodes, Program, Scratch, requests};

const NODES: Nodes<'_> = Nodes::Emulated(4);

/// Runs the program over four nodes.
fn run(scratch: &Scratch, program: &Program, arguments: &[&str]) -> String {
    let job = Job::new(scratch, program, 4).over(NODES);
    let job = job.variable("SVMIO_LOG", "info").with_statistics();
    arguments.iter().fold(job, |job, argument| job.argument(argument)).succeed()
}

/// What the tool tells to somebody who has all stores.
fn told(scratch: &Scratch, command: &str, options: &[&str], path: &str) -> String {
    let stores = NODES.stores(scratch).into_iter().map(|store| format!("--store={}", store.display()));
    let stores: Vec<String> = stores.collect();
    let words: Vec<&str> =
        [command, path].iter().chain(options).copied().chain(stores.iter().map(String::as_str)).collect();
    let output = NODES.ask(scratch, 0, &words);
    assert!(output.status.success(), "svmio {command}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// What `svmio map` tells of a file, and the homes of its segments: the nodes' numbers, a dot where there is no
/// segment.
fn map(scratch: &Scratch, path: &str) -> (Value, String) {
    let map: Value = serde_json::from_str(&told(scratch, "map", &["--json"], path)).expect("it is JSON");
    let mut homes = String::new();
    for segment in map["segments"].as_array().expect("there are some") {
        let index = segment["index"].as_u64().expect("it has a number") as usize;
        homes.extend(std::iter::repeat_n('.', index - homes.len()));
        homes.push_str(segment["home"].as_str().expect("it has a home").trim_start_matches('n'));
    }
    (map, homes)
}

fn placement(mpi: Mpi) {
    let program = Program::c("placed_writes", mpi);
    let scratch = NODES.scratch();
    for (placement, whole, gaps, preallocated, again) in [
        ("first_touch", "22222222", "2..2...2", "00112233", "01233012"),
        ("round_robin", "01230123", "0..3...3", "01230123", "01230123"),
        ("block", "00112233", "0..1...3", "00112233", "01230123"),
        ("node=n3", "33333333", "3..3...3", "33333333", "33333333"),
    ] {
        let output = run(&scratch, &program, &[&format!("svm:/{placement}"), "0", "each", placement]);
        // Rank 2 asks once for each of the six files that it alone writes to, however many segments it writes, and each for
        // the one that it writes where ranks do not ask each other.
        let asked = requests(&output, "place");
        assert!(asked <= 6 + 3, "{asked}: {output}");
        let cases = [
            ("whole", whole),
            ("atomic", whole),
            ("begun", whole),
            ("gaps", gaps),
            ("atomic-gaps", gaps),
            ("begun-gaps", gaps),
            ("preallocate", preallocated),
            ("again", again),
        ];
        for (how, expected) in cases {
            let path = format!("/{placement}/{how}");
            assert!(output.contains(&format!("{how}, in force: {placement}\n")), "{output}");
            let logged = format!("{path}: placement {placement}; segments of 65536 bytes: as asked for");
            assert!(output.contains(&logged), "{output}");
            let (map, homes) = map(&scratch, &path);
            assert_eq!(homes, expected, "{placement}, {how}");
            assert_eq!(map["placement"], *placement);
            assert_eq!(map["segment_size_reason"], "asked");
        }
    }

    // Without a hint, a file goes on as it is.
    let file = "/round_robin/atomic";
    let output = run(&scratch, &program, &[&format!("svm:{file}"), "8", "atomic"]);
    assert!(output.contains("in force: round_robin\n"), "{output}");
    assert_eq!(map(&scratch, file).1, "0123012301230123");
    // With one, it is as that says, and stays so.
    let output = run(&scratch, &program, &[&format!("svm:{file}"), "16", "whole", "node=n1"]);
    assert!(output.contains("in force: node=n1\n"), "{output}");
    assert_eq!(map(&scratch, file).0["placement"], "node=n1");
    let output = run(&scratch, &program, &[&format!("svm:{file}"), "24", "atomic-gaps"]);
    assert!(output.contains("in force: node=n1\n"), "{output}");
    let (_, homes) = map(&scratch, file);
    assert_eq!(homes, "0123012301230123111111111..1...1");
    let shown = told(&scratch, "map", &[], file);
    assert!(shown.contains("placement: node=n1; segment size: as asked for\n"), "{shown}");
    let shown = told(&scratch, "stat", &[], file);
    assert!(
        shown.contains("Placement: node=n1\n") && shown.contains("Size chosen: as asked for\n"),
        "{shown}"
    );

    // A node that is not there is told, with the file, and as if it had not been asked for.
    let output = run(&scratch, &program, &["svm:/nowhere", "0", "whole", "node=n9"]);
    assert!(output.contains("/nowhere: new segments cannot go to node n9"), "{output}");
    assert!(output.contains("in force: first_touch\n"), "{output}");
    assert_eq!(map(&scratch, "/nowhere").0["placement"], "first_touch");
    // On one node as on several.
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 4).argument("svm:/alone").argument("0");
    let output = job.argument("whole").argument("node=n9").succeed();
    assert!(output.contains("/alone: new segments cannot go to node n9"), "{output}");
    assert!(output.contains("in force: first_touch\n"), "{output}");
}

#[test]
fn mpich() {
    placement(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    placement(Mpi::DebianOpenMpi);
}
