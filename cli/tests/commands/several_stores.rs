//! Files that lie in the stores of three nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::json;
use svmio_svm::{FileName, FileOffset, NodeName, OpenOptions, Placement, SegmentSize, Store, StoreSet};

use crate::setting::{PROGRAM, Setting, need_root, noise, text};

const SEGMENT: u64 = 64 << 10;

/// Stores of the nodes a, b and c, beside the store of [`Setting`].
pub(crate) struct Nodes {
    pub(crate) setting: Setting,
}

impl Nodes {
    pub(crate) fn new() -> Nodes {
        let nodes = Nodes { setting: Setting::new() };
        for node in ["a", "b", "c"] {
            nodes.store(node);
        }
        nodes
    }

    pub(crate) fn path(&self, node: &str) -> PathBuf {
        self.setting.outside(&format!("store-{node}"))
    }

    pub(crate) fn store(&self, node: &str) -> Store {
        Store::open_for(&self.path(node), &NodeName::new(node)).unwrap()
    }

    /// Where the file lies on a node.
    pub(crate) fn object(&self, node: &str, name: &str) -> PathBuf {
        let id = self.store(node).lookup(&FileName::new(name).unwrap()).unwrap();
        self.path(node).join("objects").join(id.to_string())
    }

    /// Makes a file whose segments lie on a, b, c, a and so on.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let set = StoreSet::new(self.store("a"), [self.store("b"), self.store("c")]).unwrap();
        let options =
            OpenOptions::read_write().segment_size(Some(SegmentSize::MIN)).placement(Placement::RoundRobin);
        let mut file = set.create(&FileName::new(name).unwrap(), &options, None, false).unwrap();
        file.write_at(FileOffset(0), content).unwrap();
        file.finish(content.len() as u64).unwrap();
    }

    fn run(&self, nodes: &str, arguments: &[&str]) -> Output {
        self.command(nodes, arguments).output().unwrap()
    }

    pub(crate) fn command(&self, nodes: &str, arguments: &[&str]) -> Command {
        let mut command = self.setting.svmio();
        command.arg(arguments[0]);
        for node in nodes.chars() {
            command.arg("--store").arg(self.path(&node.to_string()));
        }
        command.args(&arguments[1..]);
        command
    }

    /// What the program prints with the stores of `nodes`, a letter each; it has to be content.
    pub(crate) fn printed(&self, nodes: &str, arguments: &[&str]) -> String {
        let output = self.run(nodes, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    fn json(&self, nodes: &str, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.printed(nodes, arguments)).unwrap()
    }

    pub(crate) fn complaint(&self, nodes: &str, arguments: &[&str]) -> String {
        let output = self.run(nodes, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        message
    }

    /// How many files, named or not, each of the stores holds.
    pub(crate) fn objects(&self) -> [usize; 3] {
        ["a", "b", "c"].map(|node| fs::read_dir(self.path(node).join("objects")).unwrap().count())
    }
}

#[test]
fn every_command_sees_the_whole_file() {
    let nodes = Nodes::new();
    let content = noise(5 * SEGMENT as usize + 100, 1);
    nodes.put("/d/f", &content);
    nodes.setting.put("/own", b"x");
    assert_eq!(nodes.printed("abc", &["ls"]), "d/\n");
    assert_eq!(nodes.printed("cab", &["ls", "-R"]), "/d/f\n");
    assert!(nodes.printed("abc", &["ls", "-l", "d"]).contains(" 6/6  f\n"));
    let stat = nodes.printed("abc", &["stat", "/d/f"]);
    for expected in ["Home: a: 2 segments, 131072 bytes", "Home: b: 2 segments", "Home: c: 2 segments"] {
        assert!(stat.contains(expected), "{expected:?} in {stat}");
    }
    let map = nodes.json("abc", &["map", "--json", "/d/f"]);
    let homes: Vec<_> = map["segments"].as_array().unwrap().iter().map(|segment| &segment["home"]).collect();
    assert_eq!(homes, ["a", "b", "c", "a", "b", "c"]);
    assert!(nodes.printed("abc", &["map", "/d/f"]).contains("  ABCABC\n"));
    assert!(nodes.run("bca", &["cat", "/d/f"]).stdout == content);
    nodes.printed("abc", &["cp", "svm:/d/f", "out"]);
    assert!(fs::read(nodes.setting.outside("out")).unwrap() == content);
    assert_eq!(nodes.printed("abc", &["verify"]), "1 file checked, 0 damaged, 0 leftovers reclaimed\n");
    nodes.printed("abc", &["rm", "/d/f"]);
    assert_eq!((nodes.printed("abc", &["ls"]).as_str(), nodes.objects()), ("", [0; 3]));
}

#[test]
fn what_is_left_of_a_file_that_was_removed_from_some_stores_is_no_file() {
    let nodes = Nodes::new();
    for name in ["/d/f", "/g"] {
        nodes.put(name, &noise(3 * SEGMENT as usize, 1));
        nodes.printed("ac", &["rm", "-f", name]);
    }
    nodes.printed("ca", &["cp", "/proc/version", "svm:/g"]);
    assert_eq!(nodes.objects(), [0, 2, 1]);
    assert_eq!(nodes.printed("abc", &["ls", "-R"]), "/g\n");
    assert_eq!(nodes.printed("abc", &["cat", "/g"]), fs::read_to_string("/proc/version").unwrap());
    for command in ["stat", "cat", "rm", "ls", "verify"] {
        assert!(nodes.complaint("abc", &[command, "/d/f"]).contains("no file /d/f"), "{command}");
    }
    let printed = nodes.printed("abc", &["verify"]);
    assert!(printed.ends_with("\n1 file checked, 0 damaged, 2 leftovers reclaimed\n"), "{printed}");
    assert_eq!(nodes.objects(), [0, 0, 1]);
}

#[test]
fn the_environment_names_several_stores_and_options_win() {
    let nodes = Nodes::new();
    nodes.put("/f", &noise(3 * SEGMENT as usize, 1));
    nodes.setting.put("/own", b"x");
    let paths = std::env::join_paths(["a", "b", "c"].map(|node| nodes.path(node))).unwrap();
    let output = nodes.setting.svmio().args(["verify"]).env("SVMIO_STORES", &paths).output().unwrap();
    assert_eq!(text(&output.stdout), "1 file checked, 0 damaged, 0 leftovers reclaimed\n");
    let own = nodes.setting.store_path();
    let listed = nodes.setting.svmio().args(["ls", "--store"]).arg(own).env("SVMIO_STORES", &paths).output();
    assert_eq!(text(&listed.unwrap().stdout), "own\n");
    assert_eq!(nodes.setting.printed(&["ls"]), "own\n");
}

#[test]
fn an_environment_that_names_no_store_is_an_error_and_one_that_is_empty_names_the_default() {
    let nodes = Nodes::new();
    nodes.setting.put("/own", b"x");
    for (stores, outcome) in [(":", Some(2)), ("::", Some(2)), ("", Some(0))] {
        let output = nodes.setting.svmio().arg("ls").env("SVMIO_STORES", stores).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), outcome, "{stores:?}: {message}");
        let told = format!("SVMIO_STORES={stores}: it names no store");
        assert_eq!(message.contains(&told), outcome != Some(0), "{message}");
    }
}

#[test]
fn a_name_that_no_store_has_is_told_with_all_of_them() {
    let nodes = Nodes::new();
    let path = |node: &str| nodes.path(node).display().to_string();
    let message = nodes.complaint("ab", &["stat", "/none"]);
    assert!(
        message.contains(&format!("no file /none in the stores {}, {} (", path("a"), path("b"))),
        "{message}"
    );
    let message = nodes.complaint("a", &["stat", "/none"]);
    assert!(message.contains(&format!("no file /none in the store {} (", path("a"))), "{message}");
}

#[test]
fn a_store_that_is_not_given_is_named_with_what_is_missing() {
    let nodes = Nodes::new();
    let content = noise(6 * SEGMENT as usize, 1);
    nodes.put("/f", &content);
    // The manifest tells of what is elsewhere, also to a single store.
    for (given, missing) in [("ab", "c"), ("c", "a")] {
        assert_eq!(nodes.printed(given, &["ls"]), "f\n");
        let long = nodes.printed(given, &["ls", "-l"]);
        assert!(long.contains(" >=") && long.contains("  393216  "), "{long}");
        let stat = nodes.printed(given, &["stat", "/f"]);
        assert!(stat.contains(&format!("Home: {missing}: 2 segments, store not given")), "{stat}");
        let record = &nodes.json(given, &["stat", "--json", "/f"])[0];
        let homes = record["homes"].as_array().unwrap();
        let unseen = homes.iter().find(|home| home["node"] == missing).unwrap();
        assert_eq!(*unseen, json!({ "node": missing, "segments": 2, "stored": 0, "missing": true }));
        let map = nodes.printed(given, &["map", "/f"]);
        assert!(map.contains("? store not given"), "{map}");
        for arguments in [&["cat", "/f"][..], &["cp", "svm:/f", "out"], &["rm", "/f"]] {
            let message = nodes.complaint(given, arguments);
            let expected = format!(" lie on node {missing}, ");
            assert!(message.contains(&expected) && message.contains("--store DIR"), "{message}");
        }
        assert!(nodes.setting.names_outside().iter().all(|name| name.starts_with("store-")));
        let verified = nodes.printed(given, &["verify"]);
        let summary = "\n1 file checked, 0 damaged, 0 leftovers reclaimed, 1 not seen whole\n";
        assert!(verified.starts_with("not seen whole: /f: ") && verified.ends_with(summary), "{verified}");
    }
    let map = nodes.json("ab", &["map", "--json", "/f"]);
    assert_eq!(
        (&map["segments"][2]["state"], &map["segments"][2]["stored"]),
        (&json!("unknown"), &json!(null))
    );
    // What is within reach can be read.
    let part = nodes.run("ab", &["cat", "/f", "--length", "128K"]);
    assert!(part.stdout == content[..2 * SEGMENT as usize], "{}", text(&part.stderr));

    let message = nodes.complaint("a", &["rm", "-r", "/"]);
    assert!(message.contains("-f removes what is here"), "{message}");
    assert_eq!(nodes.objects(), [1; 3]);
    nodes.printed("ab", &["rm", "-f", "/f"]);
    assert_eq!(nodes.objects(), [0, 0, 1]);
}

#[test]
fn two_files_of_one_name_are_told_apart() {
    let nodes = Nodes::new();
    fs::write(nodes.setting.outside("here"), "one").unwrap();
    nodes.printed("a", &["cp", "here", "svm:/f"]);
    nodes.printed("b", &["cp", "here", "svm:/f"]);
    assert_eq!(nodes.printed("ab", &["ls"]), "f\n");
    for arguments in [
        &["ls", "-l"][..],
        &["stat", "/f"],
        &["map", "/f"],
        &["cat", "/f"],
        &["cp", "svm:/f", "out"],
        &["cp", "-f", "here", "svm:/f"],
        &["rm", "/f"],
        &["rm", "-f", "/f"],
    ] {
        let message = nodes.complaint("ab", arguments);
        assert!(message.contains("one file on node a and another one on node b"), "{arguments:?}: {message}");
    }
    let verified = nodes.run("ab", &["verify"]);
    assert!(text(&verified.stdout).contains("damaged: /f: /f is one file on node a"), "{verified:?}");
    nodes.printed("b", &["rm", "/f"]);
    assert_eq!(nodes.printed("ab", &["cat", "/f"]), "one");
}

#[test]
fn a_damaged_manifest_is_reported_and_repaired_from_the_others() {
    let nodes = Nodes::new();
    let content = noise(6 * SEGMENT as usize, 1);
    nodes.put("/f", &content);
    fs::write(nodes.object("b", "/f").join("manifest"), "nonsense").unwrap();
    for arguments in [&["cat", "/f"][..], &["map", "/f"], &["stat", "/f"], &["cp", "svm:/f", "out"]] {
        let message = nodes.complaint("abc", arguments);
        let manifest = nodes.path("b").display().to_string();
        assert!(message.contains(&manifest) && message.contains("svmio verify"), "{arguments:?}: {message}");
    }
    let verified = nodes.json("abc", &["verify", "--json"]);
    assert_eq!((&verified["clean"], verified["repaired"].as_array().unwrap().len()), (&json!(true), 1));
    assert!(nodes.run("abc", &["cat", "/f"]).stdout == content);

    // On its own it is just damaged, and can be removed.
    fs::write(nodes.object("b", "/f").join("manifest"), "nonsense").unwrap();
    assert_eq!(nodes.run("b", &["verify"]).status.code(), Some(1));
    nodes.printed("abc", &["rm", "/f"]);
    assert_eq!(nodes.objects(), [0; 3]);
}

#[test]
fn a_lost_segment_is_found_on_its_node() {
    let nodes = Nodes::new();
    nodes.put("/f", &noise(6 * SEGMENT as usize, 1));
    fs::remove_file(nodes.object("c", "/f").join("segment-0000000002")).unwrap();
    let verified = nodes.run("abc", &["verify", "/f"]);
    let printed = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{printed}");
    let path = nodes.path("c").display().to_string();
    assert!(printed.contains("segment 2 of /f is missing") && printed.contains(&path), "{printed}");
    assert!(nodes.complaint("abc", &["cat", "/f"]).contains("segment 2 of /f is missing"));
}

#[test]
fn a_copy_goes_where_it_is_told() {
    let nodes = Nodes::new();
    // A copy has segments as large as those of the file that it is a copy of.
    let content = noise(20 * SEGMENT as usize + 5, 1);
    nodes.put("/here", &content);
    fs::write(nodes.setting.outside("here"), &content).unwrap();
    let homes = |name: &str| {
        let map = nodes.json("abc", &["map", "--json", name]);
        let segments = map["segments"].as_array().unwrap().clone();
        segments
            .iter()
            .map(|segment| segment["home"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .concat()
    };
    let segments = content.len().div_ceil(SEGMENT as usize);
    for (policy, name, expected) in [
        ("first", "/first", "b".repeat(segments)),
        ("round_robin", "/turn", "bca".repeat(segments)[..segments].to_owned()),
        ("node=c", "/c", "c".repeat(segments)),
    ] {
        nodes.printed("bca", &["cp", "--placement", policy, "svm:/here", &format!("svm:{name}")]);
        assert_eq!(homes(name), expected, "{policy}");
        assert!(nodes.run("abc", &["cat", name]).stdout == content, "{policy}");
    }
    nodes.printed("abc", &["cp", "--placement", "block", "svm:/here", "svm:/block"]);
    let block = homes("/block");
    assert!(block.len() == segments && block.starts_with('a') && block.as_bytes().is_sorted(), "{block}");
    // Only stores that hold parts know of a file.
    assert_eq!(nodes.printed("a", &["ls"]), "block\nhere\nturn\n");
    assert_eq!(nodes.printed("abc", &["verify"]), "5 files checked, 0 damaged, 0 leftovers reclaimed\n");

    // Over what is there only by force, wherever that is.
    let message = nodes.complaint("abc", &["cp", "here", "svm:/c"]);
    assert!(message.contains("exists already") && message.contains("store-c"), "{message}");
    nodes.printed("abc", &["cp", "-f", "svm:/turn", "svm:/c"]);
    assert_eq!(homes("/c"), "a".repeat(segments));
    assert_eq!(nodes.printed("c", &["ls", "-R"]), "/block\n/here\n/turn\n");
    let message = nodes.complaint("ab", &["cp", "-f", "here", "svm:/turn"]);
    assert!(message.contains("on node c"), "{message}");

    let message = nodes.complaint("abc", &["cp", "--placement", "node=d", "here", "svm:/d"]);
    assert!(message.contains("node d"), "{message}");
    for arguments in
        [["cp", "--placement", "block", "-", "svm:/x"], ["cp", "--placement", "odd", "here", "svm:/x"]]
    {
        let output = nodes.run("abc", &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(nodes.printed("abc", &["verify"]), "5 files checked, 0 damaged, 0 leftovers reclaimed\n");
}

#[test]
fn a_small_file_is_spread_over_all_stores_that_are_to_get_parts() {
    let nodes = Nodes::new();
    let content = noise(20 * SEGMENT as usize + 5, 1);
    fs::write(nodes.setting.outside("here"), &content).unwrap();
    for policy in ["round_robin", "block"] {
        let name = format!("/{policy}");
        nodes.printed("abc", &["cp", "--placement", policy, "here", &format!("svm:{name}")]);
        let record = &nodes.json("abc", &["stat", "--json", &name])[0];
        let homes = record["homes"].as_array().unwrap();
        assert!(homes.len() == 3 && homes.iter().all(|home| home["segments"] == 7), "{policy}: {record}");
        assert!(nodes.run("abc", &["cat", &name]).stdout == content, "{policy}");
    }
    // Where there is nothing to spread, segments stay large.
    for (given, policy) in [("abc", "first"), ("a", "round_robin")] {
        let name = format!("/{policy}-{given}");
        nodes.printed(given, &["cp", "--placement", policy, "here", &format!("svm:{name}")]);
        assert_eq!(nodes.json(given, &["stat", "--json", &name])[0]["segments"], 1, "{policy}");
    }
}

#[test]
fn stores_have_to_be_there_and_of_different_nodes() {
    let nodes = Nodes::new();
    assert!(nodes.complaint("abd", &["ls"]).contains("no store at"));
    assert!(!nodes.path("d").exists());
    fs::write(nodes.setting.outside("here"), "x").unwrap();
    assert!(nodes.complaint("ad", &["cp", "here", "svm:/x"]).contains("no store at"));
    assert!(!nodes.path("d").exists());
    Store::open_for(&nodes.path("e"), &NodeName::new("a")).unwrap();
    let message = nodes.complaint("ae", &["ls"]);
    assert!(message.contains("are both stores of node a"), "{message}");
    // The same one twice is one.
    nodes.printed("aa", &["ls"]);
}

#[test]
fn a_store_in_another_mount_namespace_is_found_through_proc() {
    need_root("mounts a file system");
    let nodes = Nodes::new();
    // The other node sees its own store at the very path where this one has another.
    let script = "mount -t tmpfs tmpfs \"$1\" && SVMIO_NODE=far \"$2\" cp --store \"$1\" \"$3\" svm:/far && echo ready && cat";
    fs::write(nodes.setting.outside("here"), "from afar").unwrap();
    let mut far = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([nodes.path("a"), Path::new(PROGRAM).into(), nodes.setting.outside("here")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("unshare (Debian: util-linux)");
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(far.stdout.take().unwrap()), &mut ready)
        .unwrap();
    assert_eq!(ready, "ready\n");
    let there = format!("/proc/{}/root{}", far.id(), nodes.path("a").display());
    let listed = nodes
        .setting
        .svmio()
        .args(["cat", "/far", "--store"])
        .arg(nodes.path("a"))
        .args(["--store", &there])
        .output();
    let listed = listed.unwrap();
    assert_eq!(text(&listed.stdout), "from afar", "{}", text(&listed.stderr));
    assert_eq!(nodes.printed("a", &["ls"]), "");
    drop(far.stdin.take());
    assert!(far.wait().unwrap().success());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_is_copied_in_comes_out(
        pieces in prop::collection::btree_map(0u64..40, (1usize..200_000, any::<u64>()), 0..5),
        policy in prop::sample::select(vec!["first", "round_robin", "block", "node=b"]),
        at in 0u64..3_000_000,
    ) {
        let nodes = Nodes::new();
        let mut oracle = Vec::new();
        for (at, (length, seed)) in pieces {
            let start = at as usize * 70_000;
            oracle.resize(oracle.len().max(start + length), 0);
            oracle[start..start + length].copy_from_slice(&noise(length, seed));
        }
        fs::write(nodes.setting.outside("in"), &oracle).unwrap();
        // Small segments come by a file that has them.
        nodes.put("/small", b"");
        nodes.printed("abc", &["cp", "--placement", policy, "in", "svm:/f"]);
        nodes.printed("cab", &["cp", "svm:/f", "out"]);
        prop_assert!(fs::read(nodes.setting.outside("out")).unwrap() == oracle);
        nodes.printed("abc", &["rm", "/small"]);
        nodes.put("/small", &oracle);
        let rest = nodes.run("bac", &["cat", "/small", "--offset", &at.to_string()]);
        prop_assert!(rest.stdout == oracle[oracle.len().min(at as usize)..]);
        nodes.printed("abc", &["cp", "--placement", policy, "svm:/small", "svm:/again"]);
        prop_assert!(nodes.run("abc", &["cat", "/again"]).stdout == oracle);
        prop_assert!(nodes.printed("abc", &["verify"]).contains("3 files checked, 0 damaged, 0 leftovers"));
    }
}
