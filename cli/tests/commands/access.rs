//! Stores that one may not read, or not write.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use svmio_tests::mounts::{in_own_mounts, tmpfs};

use crate::setting::{PROGRAM, Setting, need_root, noise, text};
use crate::several_stores::Nodes;

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Lets everybody read what is below `path`.
fn open_to_all(path: &Path) {
    set_mode(path, if path.is_dir() { 0o755 } else { 0o644 });
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

fn run_as_nobody(setting: &Setting, arguments: &[&str]) -> Output {
    run_as_nobody_by(setting, arguments, |command| command)
}

/// Runs the program as a user who owns nothing, in an environment as `change` makes it.
pub(crate) fn run_as_nobody_by(
    setting: &Setting,
    arguments: &[&str],
    change: impl FnOnce(&mut Command) -> &mut Command,
) -> Output {
    // Where the program was built, that user may not be able to go.
    let program = setting.outside("svmio");
    if !program.exists() {
        // Not by this process: a child that another test starts meanwhile would inherit the open file, and
        // what is open for writing is not executed.
        assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
        set_mode(&setting.outside(""), 0o755);
        set_mode(&program, 0o755);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(arguments);
    change(&mut setting.with_store(command)).output().expect("setpriv (Debian: util-linux)")
}

#[test]
fn a_foreign_store_is_refused() {
    need_root("runs the program as another user");
    let setting = Setting::new();
    setting.put("/file", b"x");
    for arguments in [
        &["ls"][..],
        &["cat", "/file"],
        &["verify"],
        &["rm", "/file"],
        &["cp", "/proc/version", "svm:/x"],
        &["store", "info"],
    ] {
        let output = run_as_nobody(&setting, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.contains("permission denied") && message.contains("SVMIO_STORE"),
            "{arguments:?}: {message}"
        );
    }
}

#[test]
fn a_name_that_may_not_be_read_is_told_and_the_others_are_looked_at() {
    need_root("runs the program as another user");
    let setting = Setting::new();
    for name in ["/before", "/ours", "/within/after"] {
        setting.put(name, b"x");
    }
    let given = Command::new("chown").args(["-R", "65534:65534"]).arg(setting.store_path()).status().unwrap();
    assert!(given.success());
    setting.put("/foreign", b"of root, in another user's store");
    let verified = run_as_nobody(&setting, &["verify"]);
    let told = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{told}");
    assert!(told.contains("damaged: /foreign: ") && told.contains("permission denied"), "{told}");
    assert!(told.ends_with("4 files checked, 1 damaged, 0 leftovers reclaimed\n"), "{told}");
    let listed = text(&run_as_nobody(&setting, &["ls", "-R"]).stdout);
    assert_eq!(listed, "/before\n/foreign\n/ours\n/within/after\n");
    assert_eq!(setting.printed(&["cat", "/foreign"]), "of root, in another user's store");
}

#[test]
fn a_directory_that_may_not_be_read_is_told_and_the_others_are_looked_at() {
    need_root("runs the program as another user");
    let setting = Setting::new();
    for name in ["/before", "/theirs/within/file", "/theirs/file", "/with/after"] {
        setting.put(name, b"x");
    }
    let given = Command::new("chown").args(["-R", "65534:65534"]).arg(setting.store_path()).status().unwrap();
    assert!(given.success());
    // What a killed program leaves: it would be reclaimed if nothing below that directory could be its file.
    let left = setting.store_path().join("objects").join("0".repeat(32));
    fs::create_dir(&left).unwrap();
    let directory = setting.store_path().join("names/theirs/within");
    assert!(Command::new("chown").arg("0:0").arg(&directory).status().unwrap().success());
    set_mode(&directory, 0o700);
    for (arguments, checked) in [(&["verify"][..], "3 files"), (&["verify", "/theirs"], "1 file")] {
        let verified = run_as_nobody(&setting, arguments);
        let told = text(&verified.stdout);
        assert_eq!(verified.status.code(), Some(1), "{told}");
        assert!(told.contains("not read: /theirs/within: ") && told.contains("permission denied"), "{told}");
        let last = format!("{checked} checked, 0 damaged, 0 leftovers reclaimed, 1 directory not read\n");
        assert!(told.ends_with(&last), "{told}");
    }
    let itself = run_as_nobody(&setting, &["verify", "/theirs/within"]);
    assert_eq!(itself.status.code(), Some(1));
    assert!(text(&itself.stderr).contains("permission denied"), "{}", text(&itself.stderr));
    let json: serde_json::Value =
        serde_json::from_slice(&run_as_nobody(&setting, &["verify", "--json"]).stdout).unwrap();
    assert_eq!((&json["clean"], &json["unread"][0]["path"]), (&false.into(), &"/theirs/within".into()));
    assert!(setting.object("/theirs/within/file").exists() && left.exists());
    set_mode(&directory, 0o755);
    assert!(setting.printed(&["verify"]).ends_with("4 files checked, 0 damaged, 1 leftover reclaimed\n"));
    assert!(!left.exists());
}

#[test]
fn a_copy_into_a_directory_that_may_not_be_opened_leaves_nothing() {
    need_root("runs the program as another user");
    let setting = Setting::new();
    setting.put("/file", b"x");
    open_to_all(&setting.store_path());
    // One may put something into it, but not see whether it has reached the storage device.
    let letters = setting.outside("box");
    fs::create_dir(&letters).unwrap();
    set_mode(&letters, 0o733);
    let output = run_as_nobody(&setting, &["cp", "svm:/file", "box/file"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("nothing of the copy was left"), "{message}");
    assert_eq!(fs::read_dir(&letters).unwrap().count(), 0);
}

#[test]
fn a_file_that_may_only_be_read_can_be_read() {
    need_root("runs the program as another user");
    let setting = Setting::new();
    let content = noise(100_000, 1);
    setting.put("/file", &content);
    setting.put("/secret", b"x");
    open_to_all(&setting.store_path());
    set_mode(&setting.object("/secret"), 0o700);

    let read = run_as_nobody(&setting, &["cat", "/file"]);
    assert!(read.status.success() && read.stdout == content, "{}", text(&read.stderr));
    for arguments in [&["ls"][..], &["stat", "/file"], &["map", "/file"], &["verify", "/file"]] {
        let output = run_as_nobody(&setting, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    for arguments in [
        &["cat", "/secret"][..],
        &["rm", "/file"],
        &["cp", "/proc/version", "svm:/x"],
        &["cp", "-f", "/proc/version", "svm:/file"],
    ] {
        let output = run_as_nobody(&setting, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("permission denied"), "{arguments:?}: {message}");
    }
    assert!(setting.run(&["cat", "/file"]).stdout == content);
}

#[test]
fn a_read_only_store_can_be_read() {
    need_root("mounts a file system");
    let setting = Setting::new();
    let content = noise(100_000, 1);
    setting.put("/d/file", &content);
    let read_only = |arguments: &[&str]| {
        // The mount is the command's own, and goes with it.
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script]).arg(setting.store_path()).arg(PROGRAM).args(arguments);
        setting.with_store(command).output().expect("unshare (Debian: util-linux)")
    };
    for arguments in
        [&["ls", "-l"][..], &["ls", "-R", "--json"], &["stat", "/d/file"], &["map", "/d/file"], &["verify"]]
    {
        let output = read_only(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    let read = read_only(&["cat", "/d/file"]);
    assert!(read.stdout == content, "{}", text(&read.stderr));
    assert!(read_only(&["cp", "svm:/d/file", "out"]).status.success());
    assert!(fs::read(setting.outside("out")).unwrap() == content);

    for arguments in [
        &["rm", "/d/file"][..],
        &["rm", "-r", "/"],
        &["cp", "out", "svm:/x"],
        &["cp", "-f", "out", "svm:/d/file"],
    ] {
        let output = read_only(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("can only be read"), "{arguments:?}: {message}");
    }
    assert!(setting.run(&["cat", "/d/file"]).stdout == content);
}

#[test]
fn a_copy_into_a_full_store_says_so_and_leaves_what_was_there() {
    need_root("mounts a file system");
    let setting = Setting::new();
    fs::create_dir(setting.store_path()).unwrap();
    fs::write(setting.outside("small"), noise(100_000, 1)).unwrap();
    fs::write(setting.outside("large"), noise(24 << 20, 2)).unwrap();
    let script = r#"
        mount -t tmpfs -o size=16m tmpfs "$SVMIO_STORE" || exit 9
        "$0" cp small svm:/d/file || exit 8
        "$0" cp large svm:/d/new; echo "new: $?"
        "$0" cp -f large svm:/d/file; echo "over: $?"
        "$0" cat /d/file | cmp - small && "$0" verify && "$0" ls -R && ls "$SVMIO_STORE/objects" | wc -l
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, PROGRAM]);
    let output = setting.with_store(command).output().expect("unshare (Debian: util-linux)");
    let message = text(&output.stderr);
    let expected = "new: 1\nover: 1\n1 file checked, 0 damaged, 0 leftovers reclaimed\n/d/file\n1\n";
    assert_eq!(text(&output.stdout), expected, "{message}");
    assert_eq!(message.matches("no space left in").count(), 2, "{message}");
    assert_eq!(message.matches("nothing of the copy was left").count(), 2, "{message}");
}

#[test]
fn a_copy_over_stores_one_of_which_is_full_names_it_and_leaves_what_was_there() {
    need_root("mounts a file system");
    let nodes = Nodes { setting: Setting::new() };
    let old = noise(200_000, 1);
    fs::write(nodes.setting.outside("large"), noise(40 << 20, 2)).unwrap();
    let full = nodes.path("b");
    fs::create_dir(&full).unwrap();
    in_own_mounts(|| {
        tmpfs(&full, 4 << 20);
        ["a", "b", "c"].into_iter().for_each(|node| drop(nodes.store(node)));
        nodes.put("/old", &old);
        for to in ["svm:/new", "svm:/old"] {
            let message = nodes.complaint("abc", &["cp", "-f", "--placement", "round_robin", "large", to]);
            assert!(message.contains(&format!("no space left in {}", full.display())), "{to}: {message}");
            assert!(message.contains("nothing of the copy was left"), "{to}: {message}");
        }
        assert_eq!(nodes.objects(), [1; 3]);
        assert_eq!(nodes.printed("abc", &["ls"]), "old\n");
        nodes.printed("abc", &["cp", "svm:/old", "out"]);
        assert!(fs::read(nodes.setting.outside("out")).unwrap() == old);
        assert_eq!(nodes.printed("abc", &["verify"]), "1 file checked, 0 damaged, 0 leftovers reclaimed\n");
    });
}

#[test]
fn a_copy_out_of_a_store_onto_a_full_file_system_leaves_no_half_file() {
    need_root("mounts a file system");
    let setting = Setting::new();
    setting.put("/file", &noise(8 << 20, 1));
    let full = setting.outside("full");
    fs::create_dir(&full).unwrap();
    in_own_mounts(|| {
        tmpfs(&full, 4 << 20);
        fs::write(full.join("older"), "older").unwrap();
        for to in ["full/new", "full/older", "full"] {
            let message = setting.complaint(1, &["cp", "-f", "svm:/file", to]);
            for word in [to, "No space left", "nothing of the copy was left"] {
                assert!(message.contains(word), "{word} is not in {message}");
            }
            let left: Vec<_> = fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["older"], "{to}");
            assert_eq!(fs::read(full.join("older")).unwrap(), b"older", "{to}");
        }
        // Its space is free again.
        fs::write(full.join("next"), noise(3 << 20, 2)).unwrap();
    });
}
