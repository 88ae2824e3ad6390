//! `--hosts`: the stores of three hosts, each with a process of its own that answers for it, started by a shell that
//! stands for the remote one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;

use crate::setting::{noise, text};
use crate::several_stores::Nodes;

pub(super) const SEGMENT: usize = 64 << 10;

/// The stores of several nodes as those of hosts `a`, `b` and `c`, each with its store in the same place for itself.
pub(crate) struct Hosts {
    pub(crate) nodes: Nodes,
}

impl Hosts {
    pub(crate) fn new() -> Hosts {
        let hosts = Hosts { nodes: Nodes::new() };
        // `mute` prints what a badly kept shell does, `old` and `newer` have other releases; any other that is not
        // there is not to be reached.
        let script = format!(
            "#!/bin/sh\ncase $1 in [abc]) ;; mute) echo Welcome to this machine; cat >/dev/null; exit;; \
             old) echo svmio-store 01; cat >/dev/null; exit;; newer) echo svmio-store 77 9.8.7; exit;; \
             *) echo \"shell: no host $1\" >&2; echo >&2; exit 255;; esac\n\
             D='{}'; SVMIO_NODE=$1; SVMIO_STORE=$D/store-$1; export SVMIO_NODE SVMIO_STORE\n\
             echo $$ >$D/process-$1; shift\nexec sh -c \"$*\"\n",
            hosts.nodes.setting.outside("").display()
        );
        fs::write(hosts.nodes.setting.outside("rsh"), script).unwrap();
        fs::set_permissions(hosts.nodes.setting.outside("rsh"), fs::Permissions::from_mode(0o755)).unwrap();
        hosts
    }

    pub(super) fn command(&self, hosts: &str, arguments: &[&str]) -> Command {
        let mut command = self.nodes.setting.svmio();
        command.args(arguments).args(["--hosts", hosts]);
        command.env_remove("SVMIO_STORE").env("SVMIO_RSH", self.nodes.setting.outside("rsh"));
        command
    }

    pub(super) fn run(&self, hosts: &str, arguments: &[&str]) -> Output {
        self.command(hosts, arguments).output().unwrap()
    }

    /// A copy over `/f` of what the test still has to say, of which the better part of a megabyte has been taken.
    pub(super) fn half_a_copy(&self) -> Child {
        let mut command = self.command("a,b,c", &["cp", "-f", "--placement", "round_robin", "-", "svm:/f"]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.as_mut().unwrap();
        // More than the pipe holds: when it is written, the copy has begun.
        input.write_all(&noise(1 << 20, 1)).unwrap();
        process
    }

    /// The process that answers for a host, or did.
    pub(crate) fn process(&self, host: &str) -> Pid {
        let number = fs::read_to_string(self.nodes.setting.outside(&format!("process-{host}"))).unwrap();
        Pid::from_raw(number.trim().parse().unwrap()).unwrap()
    }

    /// Waits until nobody answers for a host any more.
    pub(crate) fn wait_for_end(&self, host: &str) {
        match pidfd_open(self.process(host), PidfdFlags::empty()) {
            Ok(process) => {
                let limit = Duration::from_secs(60).try_into().unwrap();
                let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).unwrap();
                assert_ne!(ended, 0, "what answers for {host} does not end");
            }
            Err(error) => assert_eq!(error, Errno::SRCH),
        }
    }

    pub(super) fn printed(&self, hosts: &str, arguments: &[&str]) -> String {
        let output = self.run(hosts, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    pub(super) fn complaint(&self, code: i32, hosts: &str, arguments: &[&str]) -> String {
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
fn options_of_the_launcher_are_quoted_as_for_a_shell() {
    let hosts = Hosts::new();
    let [told, launcher] = ["told", "with options"].map(|name| hosts.nodes.setting.outside(name));
    let rsh = hosts.nodes.setting.outside("rsh");
    let script = format!(
        "#!/bin/sh\nprintf '<%s>' \"$1\" \"$2\" >'{}'\nshift 2\nexec '{}' \"$@\"\n",
        told.display(),
        rsh.display()
    );
    fs::write(&launcher, script).unwrap();
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("'{}' -o \"ProxyCommand=ssh -W %h:%p gate\"", launcher.display());
    let by_option = hosts.command("a", &["ls", "--launcher", &command]).output().unwrap();
    assert!(by_option.status.success(), "{}", text(&by_option.stderr));
    assert_eq!(fs::read_to_string(&told).unwrap(), "<-o><ProxyCommand=ssh -W %h:%p gate>");
    fs::remove_file(&told).unwrap();
    let by_variable = hosts.command("a", &["ls"]).env("SVMIO_RSH", &command).output().unwrap();
    assert!(by_variable.status.success(), "{}", text(&by_variable.stderr));
    assert_eq!(fs::read_to_string(&told).unwrap(), "<-o><ProxyCommand=ssh -W %h:%p gate>");

    let unfinished = hosts.command("a", &["ls"]).env("SVMIO_RSH", "ssh -o \"x").output().unwrap();
    assert_eq!(unfinished.status.code(), Some(2));
    assert!(
        text(&unfinished.stderr).contains("SVMIO_RSH=ssh -o \"x: a quotation mark"),
        "{}",
        text(&unfinished.stderr)
    );
}

#[test]
fn what_is_missing_or_damaged_is_told_with_its_host() {
    let hosts = Hosts::new();
    hosts.nodes.put("/f", &noise(6 * SEGMENT, 1));
    let message = hosts.complaint(1, "a,b", &["cat", "/f"]);
    assert!(message.contains(" lie on node c, which is") && message.contains("--hosts"), "{message}");
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
    assert!(message.contains("nowhere: shell: no host nowhere\n"), "{message}");
    let words = "on host nowhere: the connection to svmio there ended; what was said last is: shell: no host nowhere (see";
    assert!(message.contains(words), "{message}");
    let message = hosts.complaint(1, "mute,a", &["ls"]);
    assert!(
        message.contains("on host mute: what answered is not svmio") && message.contains("Welcome"),
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
fn a_copy_goes_to_the_hosts_that_it_is_told() {
    let hosts = Hosts::new();
    let content = noise(20 * SEGMENT + 5, 1);
    hosts.nodes.put("/here", &content);
    fs::write(hosts.nodes.setting.outside("here"), &content).unwrap();
    for (policy, name) in
        [("first", "/first"), ("round_robin", "/turn"), ("block", "/block"), ("node=c", "/c")]
    {
        let (far, near) = (format!("svm:/far{name}"), format!("svm:/near{name}"));
        hosts.printed("b,c,a", &["cp", "--placement", policy, "svm:/here", &far]);
        hosts.nodes.printed("bca", &["cp", "--placement", policy, "svm:/here", &near]);
        let map = |path: &str| hosts.nodes.printed("abc", &["map", path]).replace(path, "");
        assert_eq!(map(&far[4..]), map(&near[4..]), "{policy}");
        hosts.printed("a,b,c", &["cp", &far, "out"]);
        assert!(fs::read(hosts.nodes.setting.outside("out")).unwrap() == content, "{policy}");
        fs::remove_file(hosts.nodes.setting.outside("out")).unwrap();
        // From outside, in segments of the usual size.
        hosts.printed("a,b,c", &["cp", "--placement", policy, "here", &format!("svm:/in{name}")]);
        assert!(hosts.run("a,b,c", &["cat", &format!("/in{name}")]).stdout == content, "{policy}");
    }
    assert_eq!(hosts.printed("a,b,c", &["verify"]), "13 files checked, 0 damaged, 0 leftovers reclaimed\n");

    // Into a directory, without bytes, from a stream.
    hosts.printed("a,b,c", &["cp", "here", "svm:/far"]);
    fs::write(hosts.nodes.setting.outside("empty"), "").unwrap();
    hosts.printed("a,b,c", &["cp", "empty", "svm:/new/"]);
    hosts.printed("a,b,c", &["cp", "/proc/version", "svm:/new/version"]);
    assert_eq!(hosts.printed("a,b,c", &["ls", "/new"]), "empty\nversion\n");
    assert_eq!(hosts.printed("a", &["cat", "/new/version"]), fs::read_to_string("/proc/version").unwrap());
    assert!(hosts.run("a", &["cat", "/far/here"]).stdout == content);
}

#[test]
fn a_long_copy_with_holes_keeps_them() {
    let hosts = Hosts::new();
    let pieces =
        [(1 << 20, noise(4096, 1)), ((32 << 20) - 100, noise(200, 2)), (150 << 20, vec![7; 90 << 20])];
    crate::setting::write_sparse(&hosts.nodes.setting.outside("in"), 300 << 20, &pieces);
    hosts.printed("a,b,c", &["cp", "--placement", "round_robin", "in", "svm:/f"]);
    let record: serde_json::Value =
        serde_json::from_str(&hosts.printed("a,b,c", &["stat", "--json", "/f"])).unwrap();
    assert_eq!((&record[0]["size"], &record[0]["segments"]), (&json!(300 << 20), &json!(9)), "{record}");
    assert!(record[0]["stored"].as_u64().unwrap() < 92 << 20, "{record}");
    hosts.printed("a,b,c", &["cp", "svm:/f", "out"]);
    let same = Command::new("cmp").args(["in", "out"].map(|name| hosts.nodes.setting.outside(name))).status();
    assert!(same.expect("cmp (Debian: diffutils)").success());
}

#[test]
fn a_copy_is_put_over_what_is_there_only_by_force() {
    let hosts = Hosts::new();
    let content = noise(6 * SEGMENT, 1);
    hosts.nodes.put("/f", &content);
    fs::write(hosts.nodes.setting.outside("new"), "new").unwrap();
    let message = hosts.complaint(1, "b,a,c", &["cp", "new", "svm:/f"]);
    let place = format!("b:{}", hosts.nodes.path("b").display());
    assert!(message.contains(&format!("svm:/f exists already in the store {place} (-f")), "{message}");
    assert!(hosts.run("a,b,c", &["cat", "/f"]).stdout == content);
    // Parts of the old one are elsewhere.
    let message = hosts.complaint(1, "a,b", &["cp", "-f", "new", "svm:/f"]);
    assert!(message.contains("on node c") && message.contains("--hosts"), "{message}");
    assert!(hosts.run("a,b,c", &["cat", "/f"]).stdout == content);

    hosts.printed("b,a,c", &["cp", "-f", "new", "svm:/f"]);
    assert_eq!((hosts.printed("a,b,c", &["cat", "/f"]).as_str(), hosts.nodes.objects()), ("new", [0, 1, 0]));
    let message = hosts.complaint(1, "a,b,c", &["cp", "-f", "svm:/f", "svm:f"]);
    assert!(message.contains("same file"), "{message}");

    let message = hosts.complaint(1, "a,b", &["cp", "--placement", "node=c", "new", "svm:/x"]);
    assert!(message.contains("node c, they are those of a, b") && message.contains("--hosts"), "{message}");
    hosts.complaint(2, "a,b", &["cp", "--placement", "block", "-", "svm:/x"]);
    assert_eq!(hosts.nodes.objects(), [0, 1, 0]);
}

#[test]
fn a_copy_that_fails_on_one_host_leaves_nothing_on_any() {
    let hosts = Hosts::new();
    hosts.nodes.put("/small", &noise(6 * SEGMENT, 1));
    // Nothing can be made there.
    fs::remove_dir_all(hosts.nodes.path("c").join("deleted")).unwrap();
    let objects = hosts.nodes.path("c").join("objects");
    fs::rename(&objects, hosts.nodes.setting.outside("aside")).unwrap();
    fs::write(&objects, "").unwrap();
    for (hosts_of_copy, expected) in [("b,a,c", [1, 1]), ("c,a,b", [1, 1])] {
        let mut command =
            hosts.command(hosts_of_copy, &["cp", "--placement", "round_robin", "-", "svm:/d/f"]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It need not take all of it.
        let _ = process.stdin.take().unwrap().write_all(&noise(40 << 20, 1));
        let output = process.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        for word in ["copying - to svm:/d/f: on host c: ", "/d/f", "nothing of the copy was left there"] {
            assert!(message.contains(word), "{word:?} in {message}");
        }
        let objects =
            ["a", "b"].map(|node| fs::read_dir(hosts.nodes.path(node).join("objects")).unwrap().count());
        assert_eq!(objects, expected);
        assert_eq!(hosts.printed("a,b,c", &["ls", "-R"]), "/small\n");
    }
}

#[test]
fn another_release_is_told_with_both_versions() {
    let hosts = Hosts::new();
    let own = env!("CARGO_PKG_VERSION");
    for (host, words) in [
        ("old", &["an older svmio", "version 1 of the protocol"][..]),
        ("newer", &["svmio \"9.8.7\"", "version 77 of the protocol"]),
    ] {
        let message = hosts.complaint(1, &format!("a,{host}"), &["ls"]);
        for word in [&format!("on host {host}: "), own, "install the same svmio"].iter().chain(words) {
            assert!(message.contains(word), "{word:?} in {message}");
        }
    }
}

#[test]
fn progress_of_a_copy_to_hosts_is_shown_on_a_terminal_only() {
    let hosts = Hosts::new();
    fs::write(hosts.nodes.setting.outside("in"), noise(1 << 20, 1)).unwrap();
    let line = format!("{} cp --hosts a,b in svm:/shown", crate::setting::PROGRAM);
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    let mut script = hosts.nodes.setting.with_store(script);
    script
        .env_remove("SVMIO_STORE")
        .env("SVMIO_RSH", hosts.nodes.setting.outside("rsh"))
        .env("TERM", "xterm");
    let output = script.output().expect("script (Debian: bsdutils)");
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains(" of 1.00 MiB ["), "{:?}", text(&output.stdout));
}
