//! `--hosts`: the stores of three hosts, each with a process of its own that answers for it, started by a shell that
//! stands for the remote one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::json;

use crate::setting::{noise, text};
use crate::several_stores::Nodes;

const SEGMENT: usize = 64 << 10;

/// The stores of several nodes as those of hosts `a`, `b` and `c`, each with its store in the same place for itself.
struct Hosts {
    nodes: Nodes,
}

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts { nodes: Nodes::new() };
        // `mute` prints what a badly kept shell does; any other that is not there is not to be reached.
        let script = format!(
            "#!/bin/sh\ncase $1 in [abc]) ;; mute) echo Welcome to this machine; cat >/dev/null; exit;; \
             *) echo \"shell: no host $1\" >&2; exit 255;; esac\n\
             SVMIO_NODE=$1; SVMIO_STORE='{}'/store-$1; export SVMIO_NODE SVMIO_STORE\nshift\nexec sh -c \"$*\"\n",
            hosts.nodes.setting.outside("").display()
        );
        fs::write(hosts.nodes.setting.outside("rsh"), script).unwrap();
        fs::set_permissions(hosts.nodes.setting.outside("rsh"), fs::Permissions::from_mode(0o755)).unwrap();
        hosts
    }

    fn command(&self, hosts: &str, arguments: &[&str]) -> Command {
        let mut command = self.nodes.setting.svmio();
        command.args(arguments).args(["--hosts", hosts]);
        command.env_remove("SVMIO_STORE").env("SVMIO_RSH", self.nodes.setting.outside("rsh"));
        command
    }

    fn run(&self, hosts: &str, arguments: &[&str]) -> Output {
        self.command(hosts, arguments).output().unwrap()
    }

    fn printed(&self, hosts: &str, arguments: &[&str]) -> String {
        let output = self.run(hosts, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    fn complaint(&self, code: i32, hosts: &str, arguments: &[&str]) -> String {
        let output = self.run(hosts, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        message
    }
}

#[test]
fn every_command_tells_the_same_as_where_all_stores_are_here() {
    let hosts = Hosts::new();
    let mut content = noise(40 * SEGMENT + 100, 1);
    content[7 * SEGMENT..20 * SEGMENT].fill(0);
    hosts.nodes.put("/d/f", &content);
    hosts.nodes.put("/d/empty", b"");
    for arguments in [
        &["ls"][..],
        &["ls", "-R"],
        &["ls", "-l", "/d"],
        &["ls", "-l", "/d/f"],
        &["stat", "/d/f", "/d/empty"],
        &["stat", "--json", "/d/f"],
        &["map", "/d/f"],
        &["map", "--json", "/d/f"],
        &["verify"],
        &["verify", "/d/f"],
    ] {
        assert_eq!(hosts.printed("a,b,c", arguments), hosts.nodes.printed("abc", arguments), "{arguments:?}");
    }
    assert!(hosts.run("b,c,a", &["cat", "/d/f"]).stdout == content);
    let part = hosts.run("a,b,c", &["cat", "/d/f", "--offset", "65000", "--length", "200000"]);
    assert!(part.stdout == content[65_000..265_000]);
    hosts.printed("a,b,c", &["cp", "svm:/d/f", "out"]);
    assert!(fs::read(hosts.nodes.setting.outside("out")).unwrap() == content);
    hosts.printed("a,b,c", &["rm", "-r", "/"]);
    assert_eq!((hosts.printed("a,b,c", &["ls"]).as_str(), hosts.nodes.objects()), ("", [0; 3]));
}

#[test]
fn a_file_of_one_host_alone_is_as_it_is_there() {
    let hosts = Hosts::new();
    let content = noise(3 * SEGMENT, 2);
    fs::write(hosts.nodes.setting.outside("here"), &content).unwrap();
    hosts.nodes.printed("b", &["cp", "here", "svm:/own"]);
    for arguments in [&["ls", "-l"][..], &["stat", "/own"], &["map", "/own"], &["verify"]] {
        assert_eq!(hosts.printed("a,b", arguments), hosts.nodes.printed("ab", arguments), "{arguments:?}");
    }
    assert!(hosts.run("b", &["cat", "/own"]).stdout == content);
    // The option wins over the variable.
    let launcher = hosts.nodes.setting.outside("rsh").display().to_string();
    let mut command = hosts.command("b", &["cat", "/own", "--launcher", &launcher]);
    assert!(command.env("SVMIO_RSH", "/bin/false").output().unwrap().stdout == content);
}

#[test]
fn what_is_missing_or_damaged_is_told_with_its_host() {
    let hosts = Hosts::new();
    hosts.nodes.put("/f", &noise(6 * SEGMENT, 1));
    let message = hosts.complaint(1, "a,b", &["cat", "/f"]);
    assert!(message.contains("lies on node c") && message.contains("--hosts"), "{message}");
    let message = hosts.complaint(1, "a,b,c", &["cat", "/g"]);
    let place = format!("a:{}", hosts.nodes.path("a").display());
    assert!(message.contains("no file /g") && message.contains(&place), "{message}");

    fs::write(hosts.nodes.object("b", "/f").join("manifest"), "nonsense").unwrap();
    let message = hosts.complaint(1, "a,b,c", &["stat", "/f"]);
    let place = format!("b:{}", hosts.nodes.path("b").display());
    assert!(message.contains(&place) && message.contains("svmio verify"), "{message}");
    assert!(hosts.printed("a,b,c", &["verify"]).contains(&format!("repaired: {place}")));
    hosts.printed("a,b,c", &["stat", "/f"]);

    fs::remove_file(hosts.nodes.object("c", "/f").join("segment-0000000002")).unwrap();
    let verified = hosts.run("a,b,c", &["verify", "--json"]);
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let error = verified["damaged"][0]["error"].as_str().unwrap();
    assert!(error.contains("on host c: segment 2 of /f is missing"), "{error}");
    assert_eq!(verified["clean"], json!(false));
    let message = hosts.complaint(1, "a,b,c", &["cat", "/f"]);
    assert!(message.contains("on host c: segment 2 of /f is missing"), "{message}");
}

#[test]
fn hosts_that_do_not_answer_are_named() {
    let hosts = Hosts::new();
    let message = hosts.complaint(1, "a,nowhere", &["ls"]);
    assert!(message.contains("shell: no host nowhere") && message.contains("on host nowhere: "), "{message}");
    let message = hosts.complaint(1, "mute,a", &["ls"]);
    assert!(
        message.contains("on host mute: what answered is not this svmio") && message.contains("Welcome"),
        "{message}"
    );
    let message = hosts.complaint(1, "a,b", &["ls", "--store", "/nowhere/at/all"]);
    assert!(message.contains("on host a: /nowhere/at/all is no svmio store"), "{message}");
    let message = hosts.complaint(1, "a", &["ls", "--launcher", "/no/such/program"]);
    assert!(message.contains("/no/such/program") && message.contains("host a"), "{message}");
    assert!(hosts.complaint(2, "a,-oProxyCommand=x", &["ls"]).contains("cannot be the name"), "an option");
    assert!(hosts.complaint(2, "a", &["ls", "--store", "/x", "--store", "/y"]).contains("several times"));
    // The same one twice is one.
    assert_eq!(hosts.printed("a,a", &["ls"]), "");
}

#[test]
fn nothing_is_copied_to_hosts() {
    let hosts = Hosts::new();
    fs::write(hosts.nodes.setting.outside("here"), "x").unwrap();
    let message = hosts.complaint(2, "a,b", &["cp", "here", "svm:/f"]);
    assert!(message.contains("stores of other hosts (a, b)"), "{message}");
    assert_eq!(hosts.nodes.objects(), [0; 3]);
}
