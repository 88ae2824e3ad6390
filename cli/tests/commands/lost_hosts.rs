//! `--hosts` where something is lost on the way: hosts, the command itself, or the patience with a silent host.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::hosts::{Hosts, SEGMENT};
use crate::setting::{noise, text};

#[test]
fn a_host_that_is_lost_in_the_middle_is_named_and_nothing_is_left() {
    for (signal, left) in [(Signal::TERM, 0), (Signal::KILL, 1)] {
        let hosts = Hosts::new();
        let mut process = hosts.half_a_copy();
        // The first segment went to the first host, and the connections to the others are there.
        kill_process(hosts.process("a"), signal).unwrap();
        hosts.wait_for_end("a");
        let mut input = process.stdin.take().unwrap();
        while input.write_all(&[1; 1 << 16]).is_ok() {}
        let output = process.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let words: &[&str] = match signal {
            Signal::TERM => {
                &["a: svmio: interrupted\n", "said last is: svmio: interrupted", "svmio ls --hosts a"]
            }
            _ => &["ended without a word", "svmio ls --hosts a"],
        };
        for word in
            ["copying - to svm:/f: on host a: the connection to svmio there ended"].iter().chain(words)
        {
            assert!(message.contains(word), "{word:?} in {message}");
        }
        assert!(message.contains("after a crash svmio verify with the stores of all does"), "{message}");
        assert_eq!(hosts.nodes.objects(), [left, 0, 0], "{signal:?}");
        assert_eq!(hosts.printed("a,b,c", &["ls", "-R"]), "");
        let verified = hosts.printed("a,b,c", &["verify"]);
        assert!(
            verified.ends_with(&format!(
                "0 files checked, 0 damaged, {left} leftover{} reclaimed\n",
                if left == 1 { "" } else { "s" }
            )),
            "{verified}"
        );
        assert_eq!(hosts.nodes.objects(), [0; 3]);
    }
}

#[test]
fn an_interrupted_copy_leaves_nothing_on_any_host() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let hosts = Hosts::new();
        hosts.nodes.put("/f", b"older");
        let process = hosts.half_a_copy();
        kill_process(Pid::from_child(&process), signal).unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{:?}", output.status);
        let message = text(&output.stderr);
        assert!(
            signal == Signal::KILL || message.contains("interrupted (nothing of the copy was left"),
            "{message}"
        );
        ["a", "b", "c"].into_iter().for_each(|host| hosts.wait_for_end(host));
        assert_eq!(hosts.printed("a,b,c", &["cat", "/f"]), "older", "{signal:?}");
        assert_eq!(hosts.nodes.objects(), [1, 0, 0], "{signal:?}");
    }
}

#[test]
fn an_interrupted_copy_that_lost_a_host_at_its_end_says_what_may_be_left() {
    let hosts = Hosts::new();
    let mut process = hosts.half_a_copy();
    let mut input = process.stdin.take().unwrap();
    // Behind the second segment, which is b's: nothing more is written there.
    input.write_all(&vec![1; 33 << 20]).unwrap();
    let objects = fs::read_dir(hosts.nodes.path("a").join("objects")).unwrap();
    let [object] = &objects.collect::<Vec<_>>()[..] else { panic!("a has not got its part") };
    let manifest = object.as_ref().unwrap().path().join("manifest");
    let before = fs::read(&manifest).unwrap();
    kill_process(hosts.process("b"), Signal::STOP).unwrap();
    drop(input);
    let begin = Instant::now();
    // The others have theirs whole and durable, and b is waited for.
    while fs::read(&manifest).unwrap() == before {
        assert!(begin.elapsed() < Duration::from_secs(60), "the copy does not get to its end");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    kill_process(hosts.process("b"), Signal::KILL).unwrap();
    let output = process.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()), "{:?}: {message}", output.status);
    for word in [
        "copying - to svm:/f: interrupted; on host b: the connection to svmio there ended",
        "after a crash svmio verify with the stores of all does",
    ] {
        assert!(message.contains(word), "{word:?} in {message}");
    }
    assert!(!message.contains("nothing of the copy was left"), "{message}");
    ["a", "c"].into_iter().for_each(|host| hosts.wait_for_end(host));
    assert_eq!(hosts.nodes.objects(), [0, 1, 0]);
    let verified = hosts.printed("a,b,c", &["verify"]);
    assert!(verified.ends_with("1 leftover reclaimed\n"), "{verified}");
}

#[test]
fn a_copy_that_waits_for_a_host_is_ended_by_a_second_signal() {
    let hosts = Hosts::new();
    let mut process = hosts.half_a_copy();
    // It is waited for until it has undone its part, so that the first signal ends nothing.
    kill_process(hosts.process("b"), Signal::STOP).unwrap();
    let begin = Instant::now();
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break status,
            None => kill_process(Pid::from_child(&process), Signal::TERM).unwrap(),
        }
        assert!(begin.elapsed() < Duration::from_secs(25), "signals do nothing");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status:?}");
    let mut message = String::new();
    process.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(message, "", "it ended by itself");
    kill_process(hosts.process("b"), Signal::CONT).unwrap();
    ["a", "b", "c"].into_iter().for_each(|host| hosts.wait_for_end(host));
    assert_eq!(hosts.printed("a,b,c", &["ls"]), "");
}

#[test]
fn a_host_that_is_silent_or_stops_in_the_middle_is_named_and_not_waited_for_for_ever() {
    let hosts = Hosts::new();
    hosts.nodes.put("/f", &noise(40 * SEGMENT, 1));
    // The one says nothing at all; of what the other says, the beginning of a file's bytes gets through.
    let hang = hosts.nodes.setting.outside("hang");
    let script = format!(
        "#!/bin/sh\ncase $HOW in silent) exec sleep 600;; middle) '{rsh}' \"$@\" | head -c 100000; exec sleep 600;; esac\n\
         exec '{rsh}' \"$@\"\n",
        rsh = hosts.nodes.setting.outside("rsh").display()
    );
    fs::write(&hang, script).unwrap();
    fs::set_permissions(&hang, fs::Permissions::from_mode(0o755)).unwrap();
    for (how, all) in [("silent", "a"), ("middle", "a,b,c")] {
        let mut command = hosts.command(all, &["cat", "/f"]);
        let output = command
            .env("SVMIO_RSH", &hang)
            .env("HOW", how)
            .env("SVMIO_HOSTS_TIMEOUT", "700ms")
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{how}: {message}");
        for word in ["on host ", "has not gone on for 700ms", "SVMIO_HOSTS_TIMEOUT", "svmio ls --hosts "] {
            assert!(message.contains(word), "{how}: {word:?} in {message}");
        }
    }
    // A process that was stopped reads nothing of what is written to it.
    let mut command = hosts.command("a,b,c", &["cp", "-f", "--placement", "round_robin", "-", "svm:/g"]);
    // Long enough for the others to be quicker, however much else there is to do.
    command.env("SVMIO_HOSTS_TIMEOUT", "6s");
    let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    input.write_all(&noise(1 << 20, 1)).unwrap();
    kill_process(hosts.process("b"), Signal::STOP).unwrap();
    while input.write_all(&[1; 1 << 16]).is_ok() {}
    drop(input);
    let output = process.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("on host b: svmio there has not gone on for 6s"), "{message}");
    // It hears of the end when it goes on, unless it was ended.
    let _ = kill_process(hosts.process("b"), Signal::CONT);
    ["a", "b", "c"].into_iter().for_each(|host| hosts.wait_for_end(host));

    let mut command = hosts.command("a", &["ls"]);
    let output = command.env("SVMIO_HOSTS_TIMEOUT", "soon").output().unwrap();
    assert!(text(&output.stderr).contains("SVMIO_HOSTS_TIMEOUT=soon"), "{}", text(&output.stderr));
}
