//! `svmio barrier` and `svmio sim`: real jobs, simulated fabrics, and what is made of their profiles.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::setting::{Setting, text};

/// A profile of sixteen ranks on nodes of four, of a simulated fabric: always the same.
pub(crate) fn with_profile() -> Setting {
    let setting = Setting::new();
    let arguments = ["barrier", "profile", "machine.json", "--ranks", "16", "--per-node", "4"];
    let result = setting.json(&[&arguments[..], &["--fabric", "sim:infiniband-hdr", "--json"]].concat());
    assert_eq!(result["ranks"], 16);
    setting
}

pub(crate) fn names(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["algorithm"].as_str().unwrap()).collect()
}

fn seconds(rows: &Value, key: &str) -> Vec<f64> {
    rows.as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).collect()
}

#[test]
fn what_signals_cost_between_processes_is_measured() {
    let setting = Setting::new();
    let arguments = ["barrier", "profile", "machine.json", "--ranks", "3", "--repeat", "2"];
    let printed = setting.printed(&arguments);
    assert!(printed.starts_with("3 ranks; ") && printed.contains("O, a signal"), "{printed}");
    let profile: Value =
        serde_json::from_str(&fs::read_to_string(setting.outside("machine.json")).unwrap()).unwrap();
    let overhead = profile["overhead_ns"].as_array().unwrap();
    assert_eq!(overhead.len(), 3);
    for (number, row) in overhead.iter().enumerate() {
        for (column, cost) in row.as_array().unwrap().iter().enumerate() {
            let cost = cost.as_f64().unwrap();
            // A process that another one keeps from running can make a line fall: then a cost is zero.
            assert!(cost < 1e8 && (number == column || cost >= 0.0), "{cost} ns");
        }
    }
    // All that can be done with a profile can be done with this one.
    let tuned = setting.json(&["barrier", "tune", "--profile", "machine.json", "--json"]);
    assert!(seconds(&tuned["candidates"], "predicted_seconds").is_sorted());
}

#[test]
fn the_simulated_machine_always_has_the_same_profile_and_its_nodes_are_seen() {
    let setting = with_profile();
    let first = fs::read(setting.outside("machine.json")).unwrap();
    let alike = ["barrier", "profile", "alike.json", "--ranks", "16", "--per-node", "4", "--alike"];
    setting.printed(&[&alike[..], &["--fabric", "sim:infiniband-hdr"]].concat());
    assert_eq!(fs::read(setting.outside("alike.json")).unwrap(), first, "all nodes are alike there");
    let shown = setting.json(&["barrier", "show", "--profile", "machine.json", "--json", "--plot", "m.svg"]);
    let nodes: Vec<Value> = (0..4).map(|node| (4 * node..4 * node + 4).collect()).collect();
    assert_eq!(shown["clusters"], Value::from(nodes));
    let svg = fs::read_to_string(setting.outside("m.svg")).unwrap();
    assert!(svg.contains("O: ") && svg.contains("L: ") && svg.matches("<rect").count() > 2 * 16 * 16);
}

#[test]
fn barriers_are_predicted_and_the_best_is_found() {
    let setting = with_profile();
    let predicted = setting.json(&["barrier", "predict", "--profile", "machine.json", "--json"]);
    let all = seconds(&predicted["barriers"], "predicted_seconds");
    assert!(all.is_sorted() && all[0] > 0.0 && all.len() > 20, "{all:?}");
    let some = ["barrier", "predict", "linear", "tuned", "composed", "two-level:nx2", "--json"];
    let some = setting.json(&[&some[..], &["--profile", "machine.json", "--per-node", "4"]].concat());
    assert!(names(&some["barriers"])[0].starts_with("tuned ("), "{some}");
    assert_eq!(names(&some["barriers"])[3], "linear");
    let path = some["barriers"][3]["critical_path"].as_array().unwrap();
    assert!(path.len() == 3 && path[1] == 0, "to rank 0 and back: {some}");

    let arguments = ["barrier", "tune", "--profile", "machine.json", "--output", "best.json"];
    let printed = setting.printed(&arguments);
    assert!(printed.contains("composed of, from the outermost group on"), "{printed}");
    let best = &setting.json(&[&arguments[..], &["--json"]].concat())["candidates"][0];
    let again = ["barrier", "predict", "best.json", "--profile", "machine.json", "--json"];
    let again = &setting.json(&again)["barriers"][0];
    assert_eq!(again["predicted_seconds"], best["predicted_seconds"], "the file holds the best");
    assert!(all.iter().all(|&other| best["predicted_seconds"].as_f64().unwrap() <= other));

    let messages = ["barrier", "predict", "dissemination", "--profile", "machine.json"];
    let writes = setting.printed(&messages);
    assert_ne!(setting.printed(&[&messages[..], &["--costs", "messages"]].concat()), writes);
}

#[test]
fn the_steps_of_a_barrier_are_shown_and_drawn() {
    let setting = Setting::new();
    let printed = setting.printed(&["barrier", "show", "linear", "--ranks", "3"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "linear: 3 ranks, 4 signals; proved a barrier");
    assert!(lines[2].ends_with("1→0 2→0") && lines[3].ends_with("0→1 0→2"), "{printed}");
    let arguments = ["barrier", "show", "tree:4", "--ranks", "22", "--json", "--plot", "steps.svg"];
    let shown = setting.json(&arguments);
    assert_eq!((&shown["is_barrier"], &shown["signals"]), (&true.into(), &42.into()));
    let steps = shown["schedule"]["steps"].as_array().unwrap().len();
    let svg = fs::read_to_string(setting.outside("steps.svg")).unwrap();
    assert_eq!(svg.matches(">\nstep ").count(), steps, "{svg}");

    // A matrix of many rows is drawn by its signals: it has more fields than can be looked at.
    let many = ["barrier", "show", "dissemination", "--ranks", "20000", "--plot", "many.svg"];
    assert!(setting.printed(&many).contains("too many ranks to prove it here"));
    assert!(fs::read_to_string(setting.outside("many.svg")).unwrap().contains("step 14: "));

    fs::write(setting.outside("none.json"), r#"{"ranks": 3, "steps": [{"signals": [[0, 1]]}]}"#).unwrap();
    assert!(setting.printed(&["barrier", "show", "none.json"]).contains("NO BARRIER"));
    let refused = setting.complaint(1, &["barrier", "emit", "none.json", "--lang", "c"]);
    assert!(refused.contains("none.json is no barrier"), "{refused}");
    let refused =
        setting.complaint(1, &["barrier", "bench", "none.json", "--ranks", "3", "--fabric", "sim:sci-torus"]);
    assert!(refused.contains("none.json is no barrier"), "{refused}");
}

#[test]
fn source_code_is_written_that_compiles() {
    let setting = with_profile();
    let arguments =
        ["barrier", "emit", "tuned", "--profile", "machine.json", "--lang", "c", "--output", "b.c"];
    assert_eq!(setting.printed(&[&arguments[..], &["--prefix", "mine"]].concat()), "");
    let source = fs::read_to_string(setting.outside("b.c")).unwrap();
    assert!(source.contains("mine_"), "{source}");
    let compiled = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(setting.outside("")).output().unwrap();
        assert!(output.status.success(), "{program}: {}", text(&output.stderr));
    };
    compiled("cc", &["-std=c11", "-Wall", "-Werror", "-c", "b.c", "-o", "b.o"]);
    let rust = setting.printed(&["barrier", "emit", "tree:4", "--ranks", "9", "--lang", "rust"]);
    fs::write(setting.outside("b.rs"), rust).unwrap();
    compiled("rustc", &["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "b.rs"]);
}

#[test]
fn barriers_between_processes_are_measured_beside_what_was_predicted() {
    let setting = Setting::new();
    let arguments = ["barrier", "bench", "linear", "nx2", "x1tree", "tuned", "--ranks", "2,3"];
    let quick = ["--repeat", "2", "--count", "20", "--json", "--plot", "bench.svg"];
    let result = setting.json(&[&arguments[..], &quick].concat());
    let all = result.as_array().unwrap();
    assert_eq!(all.iter().map(|of| of["ranks"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3]);
    for of in all {
        assert_eq!(of["fabric"], "shm");
        let times = seconds(&of["barriers"], "median_seconds");
        assert!(times.len() == 4 && times.is_sorted() && times[0] > 0.0, "{of}");
        let pairs = |which: &str| of[which].as_u64().unwrap();
        assert!(pairs("pairs_in_order") <= pairs("different_pairs"), "{of}");
        assert!(of["barriers"].as_array().unwrap().iter().all(|row| row["as_signals"] == false), "{of}");
    }
    let svg = fs::read_to_string(setting.outside("bench.svg")).unwrap();
    assert!(svg.contains("x1tree, predicted") && svg.contains("ranks"), "over ranks");
}

/// Libfabric's `tcp` counts by messages, so nobody counts over it.
#[test]
fn what_counts_by_messages_is_told_to_run_as_signals() {
    let setting = Setting::new();
    let arguments = ["barrier", "bench", "linear", "x1tree", "--ranks", "2", "--fabric", "ofi:tcp"];
    // Each on a host of its own, as far as svmio is told: otherwise their memory is shared.
    let apart = ["--prefix", "env SVMIO_NODE=one", "--prefix", "env SVMIO_NODE=other"];
    let quick = ["--repeat", "1", "--count", "5"];
    let arguments = [&arguments[..], &apart, &quick].concat();
    let result = setting.json(&[&arguments[..], &["--json"]].concat());
    for row in result[0]["barriers"].as_array().unwrap() {
        assert_eq!(row["as_signals"], row["algorithm"] == "x1tree", "{row}");
    }
    let printed = setting.printed(&arguments);
    assert!(printed.contains("x1tree, as signals ") && !printed.contains("linear, as signals"), "{printed}");
}

#[test]
fn on_a_simulated_fabric_barriers_take_what_is_predicted() {
    let setting = with_profile();
    let arguments =
        ["barrier", "bench", "--ranks", "16", "--per-node", "4", "--fabric", "sim:infiniband-hdr"];
    let result = &setting.json(&[&arguments[..], &["--json", "--plot", "bench.svg"]].concat())[0];
    let barriers = result["barriers"].as_array().unwrap();
    let tuned =
        barriers.iter().find(|row| row["algorithm"].as_str().unwrap().starts_with("tuned (")).unwrap();
    assert_eq!(tuned["median_seconds"], barriers[0]["median_seconds"], "{result}");
    let time = |row: &Value, which: &str| row[which].as_f64().unwrap();
    // It is predicted as signals, and counts here.
    let counts = |row: &Value| row["algorithm"] == "x1tree";
    for row in barriers {
        let ratio = time(row, "median_seconds") / time(row, "predicted_seconds");
        let near = if counts(row) { 0.8..1.25 } else { 0.94..1.06 };
        assert!(near.contains(&ratio), "{row}");
        for other in barriers.iter().filter(|other| !counts(row) && !counts(other)) {
            // What differs by less than predictions are wrong by is in no order that they tell.
            let is_faster = time(row, "median_seconds") < 0.95 * time(other, "median_seconds");
            let is_told = time(row, "predicted_seconds") < time(other, "predicted_seconds");
            assert!(!is_faster || is_told, "{row} {other}");
        }
    }
    let (all, right) =
        (result["different_pairs"].as_u64().unwrap(), result["pairs_in_order"].as_u64().unwrap());
    assert!(right <= all && 10 * right >= 8 * all, "{result}");
    assert!(fs::read_to_string(setting.outside("bench.svg")).unwrap().contains("as predicted"));
    let printed = setting.printed(&arguments);
    assert!(
        printed.contains("PREDICTED  MEASURED  RATIO") && printed.contains("pairs that differ"),
        "{printed}"
    );
}

#[test]
fn simulated_barriers_are_told_as_table_json_and_diagram() {
    let setting = Setting::new();
    let arguments = ["sim", "barrier", "nx2:6", "nx2", "messages", "--nodes", "2..16"];
    let result = setting.json(&[&arguments[..], &["--json", "--plot", "sim.svg"]].concat());
    assert_eq!(setting.json(&[&arguments[..], &["--json"]].concat()), result, "virtual time has no noise");
    assert_eq!(result["nodes"].as_array().unwrap().len(), 15);
    assert_eq!(names(&result["algorithms"]), ["nx2:6", "nx2", "messages"]);
    // The paper's 37 µs of the message-passing barrier on 16 nodes.
    let messages = result["algorithms"][2]["seconds"][14].as_f64().unwrap();
    assert!((30e-6..44e-6).contains(&messages), "{messages}");
    let svg = fs::read_to_string(setting.outside("sim.svg")).unwrap();
    assert!(svg.contains("barriers on sci-torus") && svg.contains("messages"));

    let many =
        ["sim", "barrier", "tree:4", "two-level:nx2:6", "--model", "infiniband-hdr", "--nodes", "2..1000x2"];
    let printed = setting.printed(&[&many[..], &["--per-node", "4"]].concat());
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("infiniband-hdr, 4 ranks on each node"), "{printed}");
    assert!(lines.len() == 2 + 10 && lines[11].starts_with("1000 "), "{printed}");
}

#[test]
fn simulated_collectives_are_told_as_table_json_and_diagram() {
    let setting = Setting::new();
    let sim = ["sim", "collective"];
    let arguments = [&sim[..], &["bcast:binomial", "bcast:pipelined:64", "--nodes", "8,64"]].concat();
    let of = |bytes: &str| {
        let result =
            setting.json(&[&arguments[..], &["--bytes", bytes, "--json", "--plot", "sim.svg"]].concat());
        assert_eq!(names(&result["algorithms"]), ["bcast:binomial", "bcast:pipelined:64"]);
        let time =
            |algorithm: usize, at: usize| result["algorithms"][algorithm]["seconds"][at].as_f64().unwrap();
        [time(0, 1) / time(1, 1), time(0, 1) / time(0, 0)]
    };
    // Short data takes few rounds, long data is not to be passed on whole; a tree of 64 has twice the levels of one of 8.
    let ([short, levels], [long, _]) = (of("8"), of("16M"));
    assert!(short < 0.5 && long > 2.0, "{short} {long}");
    assert!((1.8..2.3).contains(&levels), "{levels}");
    let svg = fs::read_to_string(setting.outside("sim.svg")).unwrap();
    assert!(svg.contains("collectives on infiniband-hdr") && svg.contains("bcast:pipelined:64"));
    let printed =
        setting.printed(&[&sim[..], &["--per-node", "2", "--nodes", "2..8x2", "--bytes", "64K"]].concat());
    assert!(printed.starts_with("infiniband-hdr, 2 ranks on each node, 65536 bytes"), "{printed}");
    assert!(printed.lines().count() == 2 + 3 && printed.contains("allreduce:ring"), "{printed}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let setting = with_profile();
    fs::write(setting.outside("three.json"), r#"{"ranks": 3, "steps": []}"#).unwrap();
    let gather = ["sim", "collective", "gather:linear", "--bytes", "1024T"];
    let wrong: &[(&[&str], &str)] = &[
        (&["barrier", "show", "ring", "--ranks", "3"], "dissemination"),
        (&["barrier", "show", "tree:1", "--ranks", "3"], "from 2 up"),
        (&["barrier", "show", "tree:4"], "--ranks N or --profile FILE"),
        (&["barrier", "show", "tuned", "--ranks", "3"], "--profile FILE"),
        (&["barrier", "predict"], "--profile FILE"),
        (
            &["barrier", "tune", "--profile", "machine.json", "--ranks", "17"],
            "for 17 ranks, the profile for 16",
        ),
        (&["barrier", "tune", "--profile", "machine.json", "--output", "t"], "ends in .json"),
        (&["barrier", "predict", "three.json", "--profile", "machine.json"], "for 3 ranks, the group for 16"),
        (&["barrier", "show", "two-level:two-level:linear", "--ranks", "3"], "two levels"),
        (&["barrier", "emit", "linear", "--ranks", "3"], "--lang"),
        (&["barrier", "emit", "linear", "--ranks", "3", "--lang", "c", "--prefix", "a b"], "no identifier"),
        (&["barrier", "profile", "x.json", "--ranks", "0"], "1..=8192"),
        (&["barrier", "profile", "x.json", "--ranks", "2", "--fabric", "sim:abacus"], "sci-switch"),
        (&["barrier", "bench", "--ranks", "3..2"], "from more to less"),
        (&["barrier", "bench", "--ranks", "2000"], "more than the 1024"),
        (&["barrier", "bench", "--ranks", "131072", "--fabric", "sim:infiniband-hdr"], "--profile FILE"),
        (&["sim", "barrier", "--nodes", "0"], "1 to 1048576"),
        (
            &["sim", "barrier", "dissemination", "--nodes", "1048576", "--per-node", "16"],
            "16777216 ranks are more than the 1048576",
        ),
        (
            &["sim", "collective", "bcast:binomial", "--nodes", "1048576", "--per-node", "2"],
            "2097152 ranks are more than the 1048576",
        ),
        (&["sim", "barrier", "--model", "abacus"], "sci-switch"),
        (&["sim", "barrier", "nx", "--nodes", "100000"], "too many signals"),
        // At once: what could be simulated before it would take minutes.
        (
            &["sim", "barrier", "linear", "nx2", "--nodes", "2..100000x2"],
            "nx2 for 16384 ranks has too many signals",
        ),
        (&["sim", "collective", "allreduce"], "reduce:rabenseifner"),
        (&["sim", "collective", "alltoall:pairwise", "--nodes", "100000"], "too many messages"),
        // At once, as above.
        (
            &["sim", "collective", "alltoall:pairwise", "bcast:pipelined:65536", "--nodes", "2..100000x2"],
            "bcast:pipelined:65536 has too many messages between 1024 ranks",
        ),
        (&["sim", "collective", "alltoall:bruck", "--nodes", "64", "--bytes", "400000T"], "at most 1024T"),
        (
            &[&gather[..], &["--nodes", "4096", "--model", "ethernet-1g"]].concat(),
            "gather:linear between 4096 ranks: it takes more than the 584 years",
        ),
        // Of which there are few, and in each of them half as many ranges as there are ranks.
        (&["sim", "collective", "alltoall:bruck", "--nodes", "65536"], "too many ranges of blocks"),
    ];
    for (arguments, expected) in wrong {
        let message = setting.complaint(2, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let failing: &[(&[&str], &str)] = &[
        (&["barrier", "tune", "--profile", "none.json"], "reading none.json"),
        (&["barrier", "tune", "--profile", "three.json"], "three.json holds no profile"),
        (&["barrier", "show", "machine.json"], "machine.json holds no barrier"),
        // Before processes are started, of which the first fails, and before what would take minutes is simulated.
        (
            &["barrier", "profile", "none/x.json", "--ranks", "2", "--prefix", "false"],
            "writing none/x.json: there is no directory none",
        ),
        (&["sim", "barrier", "nx2", "--nodes", "2..4096", "--plot", "none/x.svg"], "no directory none"),
        (
            &["sim", "collective", "alltoall:pairwise", "--nodes", "2..4096", "--plot", "none/x.svg"],
            "no directory none",
        ),
        (&["barrier", "show", "linear", "--ranks", "2", "--plot", "none/x.svg"], "none/x.svg"),
        (&["barrier", "process", "three.json", "report"], "do not understand"),
        (&["barrier", "profile", "x.json", "--ranks", "2", "--prefix", "false"], "ended with exit status: 1"),
    ];
    for (arguments, expected) in failing {
        let message = setting.complaint(1, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn components_are_listed_with_what_keeps_them_from_running() {
    let setting = Setting::new();
    let listed = setting.json(&["barrier", "components", "--set", "-shared", "--json"]);
    let rows: Vec<_> = listed.as_array().unwrap().iter().collect();
    let components: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(components, ["hardware", "shared", "network", "schedule", "tuned", "basic"]);
    let obstacle = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        row["obstacle"].as_str().unwrap_or("none").to_owned()
    };
    assert!(obstacle("hardware").contains("no device is named"), "{listed}");
    assert!(obstacle("shared").contains("excludes"), "{listed}");
    assert_eq!(obstacle("schedule"), "none");
    assert_eq!(obstacle("basic"), "none");
    let table = setting.printed(&["barrier", "components"]);
    assert!(table.contains("schedule.algorithm") && table.contains("COMPONENT.priority"), "{table}");
    let message = setting.complaint(2, &["barrier", "components", "--set", "hardware.divice=x"]);
    assert!(message.contains("it has priority, device"), "{message}");
    let mut variable = setting.svmio();
    variable.args(["barrier", "components"]).env("SVMIO_COMPONENTS_BARRIER", "hardwear");
    assert_eq!(variable.output().unwrap().status.code(), Some(2));
}

#[test]
fn a_controller_is_there_until_a_signal_ends_it() {
    let setting = Setting::new();
    let lines = setting.outside("lines");
    let device = format!("hardware.device=emulated:{}", lines.display());
    let obstacle =
        || setting.json(&["barrier", "components", "--set", &device, "--json"])[0]["obstacle"].clone();
    assert!(obstacle().as_str().is_some_and(|why| why.contains("svmio barrier controller")));
    // However one has ended, the next one takes its place.
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut controller = setting.svmio();
        controller.args(["barrier", "controller"]).arg(&lines).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut controller = controller.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(controller.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let there = obstacle();
        let again = setting.complaint(1, &["barrier", "controller", &lines.to_string_lossy()]);
        kill_process(Pid::from_child(&controller), signal).unwrap();
        let ended = controller.wait_with_output().unwrap();
        assert!(said.contains("8 circuits"), "{said}");
        assert!(there.is_null(), "{there}");
        assert!(again.contains("has a controller already"), "{again}");
        let complaint = text(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{:?}: {complaint}", ended.status);
        assert_eq!(complaint.contains("interrupted"), signal != Signal::KILL, "{complaint}");
        assert!(obstacle().as_str().is_some_and(|why| why.contains("has ended")));
    }
    setting.complaint(2, &["barrier", "controller", &lines.to_string_lossy(), "--circuits", "0"]);
}

#[test]
fn every_command_tells_its_examples() {
    let setting = Setting::new();
    for command in ["profile", "predict", "tune", "show", "emit", "bench", "components", "controller"] {
        let help = setting.printed(&["barrier", command, "--help"]);
        assert!(
            help.contains(&format!("  svmio barrier {command} ")) && help.contains("Exit codes: 0 fine"),
            "{help}"
        );
    }
    assert!(setting.printed(&["sim", "barrier", "--help"]).contains("figure-6.svg"));
    assert!(
        !text(&setting.run(&["barrier", "--help"]).stdout).contains("process "),
        "what others start is hidden"
    );
}
