//! `svmio cp` and `svmio cat`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use svmio_svm::{FileName, FileOffset, OpenOptions, SegmentSize};

use crate::setting::{PROGRAM, Setting, need_root, noise, text, write_sparse};

#[test]
fn what_is_copied_in_is_what_comes_out() {
    let setting = Setting::new();
    // Over a segment's end.
    let content = noise((16 << 20) + 12_345, 7);
    fs::write(setting.outside("in"), &content).unwrap();
    setting.printed(&["cp", "in", "svm:/a/b"]);
    assert!(setting.run(&["cat", "svm:/a/b"]).stdout == content);
    assert!(setting.run(&["cp", "svm:a/b", "-"]).stdout == content);
    setting.printed(&["cp", "svm:/a/b", "out"]);
    assert!(fs::read(setting.outside("out")).unwrap() == content);
    setting.printed(&["cp", "svm:/a/b", "svm:/c"]);
    assert!(setting.run(&["cat", "/c"]).stdout == content);
    assert_eq!(setting.names_outside(), ["in", "out"]);
    setting.printed(&["verify"]);

    let range = setting.run(&["cat", "/c", "/a/b", "--offset", "16M", "--length", "4"]).stdout;
    let expected = &content[16 << 20..][..4];
    assert_eq!(range, [expected, expected].concat());
    assert_eq!(setting.printed(&["cat", "/c", "--offset", "1T"]), "");
}

#[test]
fn empty_files_are_files() {
    let setting = Setting::new();
    fs::write(setting.outside("in"), "").unwrap();
    setting.printed(&["cp", "in", "svm:/empty"]);
    setting.printed(&["cp", "svm:/empty", "out"]);
    assert_eq!(fs::read(setting.outside("out")).unwrap(), b"");
    assert_eq!(setting.json(&["stat", "--json", "/empty"])[0]["size"], 0);
}

#[test]
fn holes_stay_holes() {
    let setting = Setting::new();
    let size = 1 << 30;
    // The first is behind a hole, one lies over a segment's end, and the end is a hole.
    let pieces = [(1 << 20, noise(4096, 1)), ((16 << 20) - 100, noise(200, 2)), (700 << 20, noise(8192, 3))];
    write_sparse(&setting.outside("in"), size, &pieces);
    let small = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        assert!(metadata.blocks() * 512 < 1 << 20, "{}: {} blocks", path.display(), metadata.blocks());
        metadata.len()
    };
    assert_eq!(small(&setting.outside("in")), size, "the tests' directory must be able to have holes");

    setting.printed(&["cp", "in", "svm:/file"]);
    setting.printed(&["cp", "svm:/file", "svm:/copy"]);
    for name in ["/file", "/copy"] {
        let record = &setting.json(&["stat", "--json", name])[0];
        assert_eq!((&record["size"], &record["segments"]), (&size.into(), &3.into()), "{name}");
        assert!(record["stored"].as_u64().unwrap() < 1 << 20, "{name}: {record}");
        for entry in fs::read_dir(setting.object(name)).unwrap() {
            small(&entry.unwrap().path());
        }
    }
    setting.printed(&["cp", "svm:/copy", "out"]);
    assert_eq!(small(&setting.outside("out")), size);
    let (input, output) =
        (File::open(setting.outside("in")).unwrap(), File::open(setting.outside("out")).unwrap());
    let (mut expected, mut found) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for offset in (0..size).step_by(1 << 20) {
        input.read_exact_at(&mut expected, offset).unwrap();
        output.read_exact_at(&mut found, offset).unwrap();
        assert!(expected == found, "at {offset}");
    }
}

#[test]
fn standard_input_and_what_has_no_size_are_copied() {
    let setting = Setting::new();
    let content = noise(5 << 20, 9);
    let mut process = setting.svmio().args(["cp", "-", "svm:/piped"]).stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(&content).unwrap();
    assert!(process.wait().unwrap().success());
    assert!(setting.run(&["cat", "/piped"]).stdout == content);

    setting.printed(&["cp", "/proc/version", "svm:/version"]);
    assert_eq!(setting.printed(&["cat", "/version"]), fs::read_to_string("/proc/version").unwrap());
    // Of this one the kernel says that it has a page.
    let short = "/sys/devices/system/cpu/online";
    for policy in ["first", "block"] {
        setting.printed(&["cp", "-f", "--placement", policy, short, "svm:/short"]);
        assert_eq!(setting.printed(&["cat", "/short"]), fs::read_to_string(short).unwrap(), "{policy}");
    }
}

#[test]
fn a_directory_is_copied_into() {
    let setting = Setting::new();
    fs::write(setting.outside("in"), "content").unwrap();
    fs::create_dir(setting.outside("there")).unwrap();
    setting.printed(&["cp", "in", "svm:"]);
    setting.printed(&["cp", "in", "svm:/new/"]);
    setting.printed(&["cp", "svm:/in", "svm:/new/deeper/"]);
    setting.put("/old/x", b"");
    setting.printed(&["cp", "in", "svm:/old"]);
    assert_eq!(setting.printed(&["ls", "-R"]), "/in\n/new/deeper/in\n/new/in\n/old/in\n/old/x\n");
    setting.printed(&["cp", "svm:/new/in", "there"]);
    assert_eq!(fs::read(setting.outside("there/in")).unwrap(), b"content");
    let message = setting.complaint(1, &["cp", "svm:/new/in", "nowhere/"]);
    assert!(message.contains("nowhere/ is no directory"), "{message}");
    let message = setting.complaint(1, &["cp", "there", "svm:/x"]);
    assert!(message.contains("there is a directory"), "{message}");
}

#[test]
fn nothing_is_overwritten_without_force() {
    let setting = Setting::new();
    let old = noise(100_000, 1);
    fs::write(setting.outside("in"), "new").unwrap();
    fs::write(setting.outside("out"), "old").unwrap();
    fs::set_permissions(setting.outside("out"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("out", setting.outside("link")).unwrap();
    setting.put_segmented("/file", &old, SegmentSize::MIN);

    let message = setting.complaint(1, &["cp", "in", "svm:/file"]);
    assert!(message.contains("svm:/file exists already") && message.contains("-f"), "{message}");
    assert!(setting.run(&["cat", "/file"]).stdout == old);
    let message = setting.complaint(1, &["cp", "svm:/file", "out"]);
    assert!(message.contains("out exists already") && message.contains("-f"), "{message}");
    assert_eq!(fs::read(setting.outside("out")).unwrap(), b"old");

    setting.printed(&["cp", "-f", "in", "svm:/file"]);
    assert_eq!(setting.printed(&["cat", "/file"]), "new");
    assert_eq!(setting.object_count(), 1, "the old file is gone");
    setting.printed(&["cp", "--force", "svm:/file", "link"]);
    assert_eq!(fs::read(setting.outside("out")).unwrap(), b"new");
    assert!(setting.outside("link").is_symlink());
    assert_eq!(fs::metadata(setting.outside("out")).unwrap().mode() & 0o777, 0o640);

    // A link that leads nowhere is itself what is there.
    symlink("nowhere", setting.outside("dangling")).unwrap();
    let message = setting.complaint(1, &["cp", "svm:/file", "dangling"]);
    assert!(message.contains("dangling exists already") && message.contains("-f"), "{message}");
    setting.printed(&["cp", "-f", "svm:/file", "dangling"]);
    assert!(!setting.outside("dangling").is_symlink() && !setting.outside("nowhere").exists());
    assert_eq!(fs::read(setting.outside("dangling")).unwrap(), b"new");

    let message = setting.complaint(1, &["cp", "-f", "svm:/file", "svm:file"]);
    assert!(message.contains("same file"), "{message}");
    assert_eq!(setting.printed(&["cat", "/file"]), "new");
}

#[test]
fn what_is_overwritten_keeps_its_owner_or_loses_set_user_id() {
    need_root("gives a file to somebody else");
    let setting = Setting::new();
    setting.put("/file", b"new");
    let out = setting.outside("out");
    fs::write(&out, "old").unwrap();
    chown(&out, Some(12_345), Some(23_456)).unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o6751)).unwrap();
    let old = fs::metadata(&out).unwrap();
    setting.printed(&["cp", "-f", "svm:/file", "out"]);
    let new = fs::metadata(&out).unwrap();
    assert_eq!(fs::read(&out).unwrap(), b"new");
    assert_eq!((new.uid(), new.gid()), (old.uid(), old.gid()));
    assert_eq!(new.mode() & 0o7777, 0o6751);

    // One who may not give files away gets one of its own, without these rights.
    let mut unprivileged = setting.with_store(Command::new("setpriv"));
    unprivileged.args(["--bounding-set", "-chown", "--inh-caps", "-chown", PROGRAM]);
    let status = unprivileged.args(["cp", "-f", "svm:/file", "out"]).status().unwrap();
    assert!(status.success());
    let new = fs::metadata(&out).unwrap();
    assert_ne!(new.uid(), old.uid());
    assert_eq!(new.mode() & 0o7777, 0o751);
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let setting = Setting::new();
    setting.put("/file", b"x");
    setting.printed(&["cp", "svm:/file", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let message = setting.complaint(1, &["cp", "svm:/file", "/dev/full"]);
    assert!(message.contains("/dev/full") && message.contains("No space left"), "{message}");
}

#[test]
fn a_copy_that_fails_leaves_nothing() {
    let setting = Setting::new();
    fs::write(setting.outside("in"), "x").unwrap();
    let message = setting.complaint(1, &["cp", "in", "svm:/in", "--store", "/dev/null/store"]);
    assert!(message.contains("/dev/null/store"), "{message}");
    setting.put_segmented("/file", &noise(3 << 16, 1), SegmentSize::MIN);
    setting.put("/older", b"older");
    fs::write(setting.outside("older"), "older").unwrap();
    // Its second segment is cut off: the copy fails half-way, when the file has been opened.
    let keep_open = setting
        .store()
        .open_file(&svmio_svm::FileName::new("/file").unwrap(), &svmio_svm::OpenOptions::reading())
        .unwrap();
    File::options()
        .write(true)
        .open(setting.object("/file").join("segment-0000000001"))
        .unwrap()
        .set_len(100)
        .unwrap();
    for (to, flag) in [("svm:/new", "-f"), ("svm:/older", "-f"), ("new", "-f"), ("older", "-f")] {
        let message = setting.complaint(1, &["cp", flag, "svm:/file", to]);
        assert!(message.contains("100 bytes instead of 65536"), "{to}: {message}");
        assert!(message.contains("nothing of the copy was left"), "{to}: {message}");
    }
    drop(keep_open);
    assert_eq!(setting.printed(&["ls"]), "file\nolder\n");
    assert_eq!(setting.printed(&["cat", "/older"]), "older");
    assert_eq!(setting.object_count(), 2);
    assert_eq!(setting.names_outside(), ["in", "older"]);
    assert_eq!(fs::read(setting.outside("older")).unwrap(), b"older");
}

/// Where it may have few files open: fewer than the file has segments, or than it takes to open one.
#[test]
fn what_may_open_no_more_files_says_how_it_could() {
    let setting = Setting::new();
    let content = noise(100 << 16, 1);
    fs::write(setting.outside("in"), &content).unwrap();
    setting.put_segmented("/file", &content, SegmentSize::MIN);
    let limited = |files: u32, mappings: u32, arguments: &[&str]| {
        let mut shell = setting.with_store(Command::new("sh"));
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), PROGRAM]).args(arguments);
        shell.env("SVMIO_MAPPINGS", mappings.to_string()).output().unwrap()
    };
    let refused = |files: u32, arguments: &[&str]| {
        let output = limited(files, 256, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        for word in ["too many open files", "ulimit -n", "SVMIO_MAPPINGS", "/file"] {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        assert!(output.stdout.is_empty());
    };
    refused(6, &["cat", "/file"]);
    refused(6, &["cp", "svm:/file", "out"]);
    assert!(!setting.outside("out").exists());
    refused(6, &["cp", "svm:/file", "svm:/copy"]);
    // Whatever it is that finds no descriptor, the last one the manifest's: none of the copy is left.
    for files in 4..16 {
        let output = limited(files, 8, &["cp", "in", "svm:/new"]);
        if output.status.success() {
            setting.printed(&["rm", "/new"]);
        }
        assert_eq!(setting.object_count(), 1, "{}", text(&output.stderr));
    }
    for mappings in [8, 256] {
        assert!(limited(60, mappings, &["cat", "/file"]).stdout == content);
        assert!(limited(60, mappings, &["cp", "-f", "svm:/file", "svm:/copy"]).status.success());
        assert!(setting.run(&["cat", "/copy"]).stdout == content);
    }
}

#[test]
fn a_file_that_somebody_writes_to_is_copied_as_long_as_it_was_at_first() {
    let setting = Setting::new();
    let content = noise(9 << 20, 1);
    setting.put_segmented("/file", &content, SegmentSize::MIN);
    let options = OpenOptions::read_write();
    let file = setting.store().open_file(&FileName::new("/file").unwrap(), &options).unwrap();
    // What has come out of the copy when it has begun, and cannot go on: the pipe is full.
    let copied = |change: &dyn Fn()| {
        let mut command = setting.svmio();
        command.args(["cp", "svm:/file", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut first = [0];
        process.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        change();
        let output = process.wait_with_output().unwrap();
        (output.status.code(), [&first[..], &output.stdout].concat(), text(&output.stderr))
    };
    let (code, bytes, _) = copied(&|| file.write_at(FileOffset(9 << 20), &noise(5 << 20, 2)).unwrap());
    assert_eq!(code, Some(0));
    assert!(bytes == content, "{} bytes", bytes.len());

    let (code, bytes, message) = copied(&|| file.set_size(6 << 20).unwrap());
    assert_eq!((code, content.starts_with(&bytes)), (Some(1), true), "{message}");
    assert!(message.contains("svm:/file became shorter while it was copied"), "{message}");
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let setting = Setting::new();
    setting.put("/older", b"older");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut process = setting
            .svmio()
            .args(["cp", "-f", "-", "svm:/older"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // More than the pipe holds: when it is written, the copy has begun, and watches for signals.
        let mut input = process.stdin.take().unwrap();
        input.write_all(&noise(1 << 20, 1)).unwrap();
        kill_process(Pid::from_child(&process), signal).unwrap();
        let output = process.wait_with_output().unwrap();
        drop(input);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{:?}", output.status);
        assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
        assert_eq!(setting.printed(&["cat", "/older"]), "older");
        assert_eq!(setting.object_count(), 1);
    }
}

#[test]
fn a_copy_under_nohup_outlives_its_terminal() {
    let setting = Setting::new();
    let content = noise(1 << 20, 1);
    let mut shell = setting.with_store(Command::new("sh"));
    shell.args(["-c", "trap '' HUP; exec \"$0\" cp - svm:/new", PROGRAM]);
    let mut process = shell.stdin(Stdio::piped()).spawn().unwrap();
    // More than the pipe holds: when it is written, the copy has begun.
    let mut input = process.stdin.take().unwrap();
    input.write_all(&content).unwrap();
    kill_process(Pid::from_child(&process), Signal::HUP).unwrap();
    drop(input);
    assert!(process.wait().unwrap().success());
    assert!(setting.run(&["cat", "/new"]).stdout == content);
}

#[test]
fn a_killed_copy_is_reclaimed() {
    let setting = Setting::new();
    let mut process = setting.svmio().args(["cp", "-", "svm:/new"]).stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(&noise(1 << 20, 1)).unwrap();
    // Its input has ended, so it may be at any point of the copy, or have ended.
    process.kill().unwrap();
    let ended = process.wait().unwrap().success();
    let found = setting.printed(&["verify"]);
    let left = setting.object_count();
    assert_eq!(left, usize::from(setting.printed(&["ls"]) == "new\n"), "{found}");
    assert!(!ended || left == 1);
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let setting = Setting::new();
    fs::write(setting.outside("in"), noise(1 << 20, 1)).unwrap();
    assert!(setting.run(&["cp", "in", "svm:/quiet"]).stderr.is_empty());
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{PROGRAM} cp in svm:/shown"), "/dev/null"]);
    let output = setting.with_store(script).env("TERM", "xterm").output().expect("script (Debian: bsdutils)");
    assert!(output.status.success());
    assert!(text(&output.stdout).contains(" of 1.00 MiB ["), "{:?}", text(&output.stdout));
}
