//! Exit codes, help, messages.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;

use crate::setting::{Setting, noise, text};

#[test]
fn every_command_tells_its_examples_and_exit_codes() {
    let setting = Setting::new();
    for command in ["ls", "stat", "map", "cp", "cat", "rm", "verify"] {
        for help in ["-h", "--help"] {
            let help = setting.printed(&[command, help]);
            assert!(help.contains(&format!("  svmio {command} ")), "{command}: {help}");
            assert!(help.contains("Exit codes: 0 fine; 1 ") && help.contains("--store"), "{command}: {help}");
        }
    }
    for command in ["ls", "stat", "map", "verify"] {
        let help = setting.printed(&[command, "--help"]);
        assert!(help.contains("--json") && help.contains("path"), "{command}: {help}");
    }
}

#[test]
fn there_is_a_page_for_man_of_every_command() {
    let setting = Setting::new();
    let pages = setting.outside("share/man1");
    assert_eq!(setting.printed(&["manual", pages.to_str().unwrap()]), "");
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let below = |words: &[&str]| {
        let help = setting.printed(&[words, &["--help"]].concat());
        let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
        // Descriptions that go on in a second line are indented further.
        let lines = commands.unwrap_or_default().lines().filter(|line| !line.starts_with("   "));
        lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut expected = vec!["svmio.1".to_owned()];
    for command in below(&[]).into_iter().filter(|command| command != "help") {
        let nested = below(&[&command]).into_iter().filter(|nested| nested != "help");
        expected.extend(nested.map(|nested| format!("svmio-{command}-{nested}.1")));
        expected.push(format!("svmio-{command}.1"));
    }
    assert!(expected.len() > 30, "{expected:?}");
    let written = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name());
    let mut written: Vec<_> = written.map(|name| name.into_string().unwrap()).collect();
    written.sort();
    expected.sort();
    assert_eq!(written, expected);
    for name in &written {
        let page = page(name);
        assert!(page.contains(" 1 \" \" \"svmio 0."), "the source is behind the date: {page}");
        assert!(page.contains("\n.SH NAME\n") && page.contains("\n.SH SYNOPSIS\n"), "{name}: {page}");
        // What begins with one of these is no text.
        let requests = page.lines().filter(|line| line.starts_with(['.', '\'']));
        let known = ["IP", "PP", "RE", "RS", "SH", "TH", "TP", "br", "el", "fi", "ie", "nf"];
        let mut unknown = requests.filter(|line| !known.contains(&line[1..].split(' ').next().unwrap()));
        assert_eq!(unknown.next(), None, "{name}");
        assert!(page.contains(".SH \"EXIT CODES\"") || page.contains(".SH SUBCOMMANDS"), "{name}: {page}");
    }
    let copying = page("svmio-cp.1");
    assert!(
        copying.contains("Holes stay holes.") && copying.contains(".SH EXAMPLES\n.nf\n  svmio cp mesh"),
        "{copying}"
    );
    assert!(setting.printed(&["cp", "--help"]).contains("Holes stay holes."));

    let message = setting.complaint(1, &["manual", "/dev/null/man1"]);
    assert!(message.contains("/dev/null/man1"), "{message}");
}

#[test]
fn a_wrong_command_line_is_told_from_a_failure() {
    let setting = Setting::new();
    setting.put("/file", b"x");
    let wrong: &[&[&str]] = &[
        &["stat"],
        &["cat"],
        &["rm"],
        &["map"],
        &["cp", "file"],
        &["cat", "--length", "many", "/file"],
        &["ls", "--color"],
        &["cat", "../file"],
        &["cp", "here", "there"],
        &["cp", "-", "svm:/"],
        &["cp", "svm:/file", "svm:/../x"],
        &["cp", "svm:/file", "svm:/.svmio-x"],
        &["run", "--servers", "n1,,n2", "-n", "1", "true"],
    ];
    for arguments in wrong {
        let message = setting.complaint(2, arguments);
        assert!(!message.is_empty(), "{arguments:?}");
    }
    let failing: &[&[&str]] = &[
        &["stat", "/none"],
        &["cat", "/none"],
        &["rm", "/none"],
        &["map", "/none"],
        &["ls", "/none"],
        &["verify", "/none"],
        &["cp", "svm:/none", "x"],
    ];
    for arguments in failing {
        let message = setting.complaint(1, arguments);
        let expected = format!("no file /none in the store {}", setting.store_path().display());
        assert!(message.starts_with("svmio: ") && message.contains(&expected), "{arguments:?}: {message}");
    }
}

#[test]
fn what_is_there_is_used_though_something_else_is_not() {
    let setting = Setting::new();
    setting.put("/a", b"1");
    setting.put("/b", b"2");
    let output = setting.run(&["cat", "/a", "/none", "/b"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), "12"));
    let output = setting.run(&["stat", "--json", "/a", "/none", "/b"]);
    let records: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), records.as_array().unwrap().len()), (Some(1), 2));
    let output = setting.run(&["rm", "/a", "/none", "/b"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(setting.printed(&["ls"]), "");
}

#[test]
fn unusable_names_are_explained() {
    let setting = Setting::new();
    setting.put("/file", b"x");
    let long = "x".repeat(300);
    for arguments in [["cat", &long], ["ls", &long], ["rm", &long]] {
        let message = setting.complaint(1, &arguments);
        assert!(message.contains("too long") && message.contains("255"), "{arguments:?}: {message}");
    }
    let to = format!("svm:/directory/{long}");
    fs::write(setting.outside("here"), "x").unwrap();
    assert!(setting.complaint(1, &["cp", "here", &to]).contains("too long"));
    assert_eq!(setting.printed(&["ls"]), "file\n", "no directory is left");
    for arguments in
        [&["cat", "/file/x"][..], &["ls", "/file/x"], &["ls", "/file/"], &["cp", "here", "svm:/file/x"]]
    {
        let message = setting.complaint(1, arguments);
        assert!(message.contains("is a file"), "{arguments:?}: {message}");
    }
    setting.put("/directory/inner", b"x");
    for arguments in [&["cat", "/directory"][..], &["map", "directory"], &["cp", "svm:directory", "x"]] {
        let message = setting.complaint(1, arguments);
        assert!(message.contains("/directory is a directory"), "{arguments:?}: {message}");
    }
}

#[test]
fn a_store_is_not_made_by_looking_for_it() {
    let setting = Setting::new();
    let elsewhere = setting.outside("elsewhere");
    let message = setting.complaint(1, &["ls", "--store", elsewhere.to_str().unwrap()]);
    assert!(message.contains("no store at") && !elsewhere.exists(), "{message}");
    fs::write(setting.outside("here"), "x").unwrap();
    setting.printed(&["cp", "--store", elsewhere.to_str().unwrap(), "here", "svm:/there"]);
    assert_eq!(setting.printed(&["ls", "--store", elsewhere.to_str().unwrap()]), "there\n");
    // Neither the default one nor the environment's.
    assert!(!setting.store_path().exists());
    let message = setting.complaint(1, &["ls", "--store", setting.outside("here").to_str().unwrap()]);
    assert!(message.contains("no svmio store"), "{message}");
}

#[test]
fn what_svmio_log_asks_for_is_told_and_what_makes_no_sense_there_is_named() {
    let setting = Setting::new();
    setting.put("/here", b"something");
    let told = |level: &str| {
        let output = setting.svmio().args(["ls"]).env("SVMIO_LOG", level).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "here\n"), "{level}");
        text(&output.stderr)
    };
    assert_eq!((told("warn"), told("svmio_svm=error"), told("")), Default::default());
    for (level, named) in [("wran", "'wran'"), ("smvio_svm=debug", "'smvio_svm'")] {
        let message = told(level);
        assert!(message.contains("SVMIO_LOG") && message.contains(named), "{message}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_device_is_one() {
    let setting = Setting::new();
    setting.put("/large", &noise(3 << 20, 1));
    let mut process = setting
        .svmio()
        .args(["cat", "/large"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    process.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(first, noise(10, 1)[..]);
    let mut completions = setting.svmio();
    completions.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = completions.spawn().unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));

    for arguments in [&["cat", "/large"][..], &["ls"], &["stat", "/large"], &["cp", "svm:/large", "-"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = setting.svmio().args(arguments).stdout(full).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("standard output: No space left"), "{arguments:?}: {message}");
    }
}
