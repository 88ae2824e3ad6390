//! What is typed, what is shown, and what is complained of.

use std::fs::{self, File};

use rustix::io::Errno;

use super::{Mounted, is_mounted, need_fuse, number};
use crate::setting::{Setting, text};

#[test]
fn a_mount_point_shows_the_files_that_have_its_path() {
    let setting = Setting::new();
    setting.put("/elsewhere/file", b"elsewhere");
    let mounted = Mounted::of(&setting);
    setting.put(&mounted.name("file"), b"here");
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"here");
    assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), 1);
    fs::write(mounted.path("new"), b"new").unwrap();
    let name = mounted.name("new");
    assert_eq!(setting.printed(&["cat", &format!("svm:{name}")]), "new");

    let all = Mounted::by(&setting, "all", &mut setting.svmio(), &["--names", "/"]);
    assert_eq!(fs::read(all.path("elsewhere/file")).unwrap(), b"elsewhere");
    assert_eq!(fs::read(all.path(&name[1..])).unwrap(), b"new");
    let some = Mounted::by(&setting, "some", &mut setting.svmio(), &["--names", "svm:/elsewhere/"]);
    fs::write(some.path("other"), b"through another").unwrap();
    assert_eq!(fs::read(all.path("elsewhere/other")).unwrap(), b"through another");
    fs::remove_file(some.path("file")).unwrap();
    fs::remove_file(some.path("other")).unwrap();
    assert_eq!(number(fs::metadata(all.path("elsewhere"))), Errno::NOENT);
    assert!(some.point.exists());
}

#[test]
fn a_mount_point_is_named_by_whatever_path_leads_there() {
    let setting = Setting::new();
    fs::create_dir(setting.outside("mounted")).unwrap();
    std::os::unix::fs::symlink("mounted", setting.outside("link")).unwrap();
    // Where the program is, and what it is told.
    let mounted = Mounted::by(&setting, "link/../link", &mut setting.svmio(), &[]);
    let name = setting.outside("link").join("file");
    setting.put(name.to_str().unwrap(), b"by the link");
    assert_eq!(fs::read(setting.outside("mounted/file")).unwrap(), b"by the link");
    drop(Mounted { point: setting.outside("mounted") });
    drop(mounted);
}

#[test]
fn svmio_itself_copies_into_a_mounted_directory() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    setting.put("/file", b"new");
    let to = mounted.name("deeper/copy");
    fs::create_dir(mounted.path("deeper")).unwrap();
    setting.printed(&["cp", "svm:/file", &to]);
    assert_eq!(fs::read(&to).unwrap(), b"new");
    setting.put("/newer", b"newer");
    setting.printed(&["cp", "-f", "svm:/newer", &to]);
    assert_eq!(setting.printed(&["cat", &to]), "newer");
    assert_eq!(fs::read_dir(mounted.path("deeper")).unwrap().count(), 1);
}

#[test]
fn for_reading_only_nothing_is_changed() {
    let setting = Setting::new();
    setting.put("/file", b"content");
    let options = ["--names", "/", "--read-only"];
    let mounted = Mounted::by(&setting, "mounted", &mut setting.svmio(), &options);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
    assert_eq!(number(File::create(mounted.path("new"))), Errno::ROFS);
    assert_eq!(number(File::options().write(true).open(mounted.path("file"))), Errno::ROFS);
    assert_eq!(number(fs::remove_file(mounted.path("file"))), Errno::ROFS);
    assert_eq!(number(fs::rename(mounted.path("file"), mounted.path("new"))), Errno::ROFS);
    assert_eq!(number(fs::create_dir(mounted.path("new"))), Errno::ROFS);
}

#[test]
fn where_it_cannot_be_mounted_the_way_out_is_told() {
    need_fuse();
    let setting = Setting::new();
    setting.store();
    let complaint = |arguments: &[&str]| setting.complaint(1, &[&["mount"], arguments].concat());
    assert!(complaint(&["none"]).contains("mkdir makes it"));
    fs::write(setting.outside("file"), b"x").unwrap();
    assert!(complaint(&["file"]).contains("is no directory"));
    fs::create_dir_all(setting.outside("full/inner")).unwrap();
    assert!(complaint(&["full"]).contains("--nonempty"));
    assert!(complaint(&["--nonempty", "."]).contains("is in"), "the store lies there");
    fs::create_dir(setting.outside("empty")).unwrap();
    assert!(complaint(&["--read-only", "--store", "none", "empty"]).contains("svmio store init"));
    assert!(complaint(&["--log", "none/log", "empty"]).contains("none/log"));
    assert!(!is_mounted(&setting.outside("empty")));
    setting.complaint(2, &["mount"]);
    for place in [&["--foreground"][..], &[]] {
        setting.complaint(2, &[&["mount", "--names", ".."], place, &["empty"]].concat());
    }

    let mounted = Mounted::by(&setting, "full", &mut setting.svmio(), &["--nonempty"]);
    assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), 0);
    assert!(complaint(&["full"]).contains("mounted by svmio already"));
}

#[test]
fn what_the_background_complains_of_is_in_the_log() {
    let setting = Setting::new();
    let mounted = Mounted::by(&setting, "mounted", &mut setting.svmio(), &["--log", "log"]);
    setting.put(&mounted.name("file"), b"x");
    fs::write(setting.object(&mounted.name("file")).join("manifest"), b"nonsense").unwrap();
    assert_eq!(number(fs::read(mounted.path("file"))), Errno::IO);
    let log = fs::read_to_string(setting.outside("log")).unwrap();
    assert!(log.contains("svmio verify") && log.contains(&mounted.name("file")), "{log}");
}

#[test]
fn what_is_wrong_in_the_environment_is_told_once() {
    need_fuse();
    let setting = Setting::new();
    fs::create_dir(setting.outside("mounted")).unwrap();
    let mounted = Mounted { point: setting.outside("mounted") };
    let mut command = setting.svmio();
    command.env("SVMIO_STAT", "1").env("SVMIO_LOG", "loud").arg("mount").arg(&mounted.point);
    let output = command.output().unwrap();
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    for name in ["SVMIO_STAT is ignored", "SVMIO_LOG=loud"] {
        assert_eq!(told.matches(name).count(), 1, "{told}");
    }
    assert_eq!(told.lines().count(), 2, "{told}");
}
