//! `svmio store`: setting stores up, looking at what they lie on, and taking them away, where nobody else sees it.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount};
use svmio_svm::{Mount, Store};
use svmio_tests::mounts::{in_own_mounts, tmpfs};

use crate::access::{run_as_nobody_by, set_mode};
use crate::setting::{PROGRAM, Setting, need_root, text};

/// Runs `test` with a file system in memory of the test's own, and a setting that has its store in it.
fn in_memory(test: impl FnOnce(&Setting, &Path) + Send) {
    need_root("mounts file systems");
    in_own_mounts(|| {
        let setting = Setting::new();
        let memory = setting.outside("memory");
        fs::create_dir(&memory).unwrap();
        tmpfs(&memory, 256 << 20);
        test(&setting, &memory.join("store"));
        // Mounts within it go with it.
        rustix::mount::unmount(&memory, rustix::mount::UnmountFlags::DETACH).unwrap();
    });
}

fn kind_at(path: &Path) -> (PathBuf, String) {
    let mount = Mount::of(path).unwrap();
    (mount.point, mount.source.into_string().unwrap())
}

fn path_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn root_gets_a_file_system_of_its_own_and_may_take_it_away() {
    in_memory(|setting, store| {
        let dir = path_of(store);
        let said = setting.printed(&["store", "init", "--size", "64M", dir]);
        assert!(said.contains("mounted a file system") && said.contains("made the store"), "{said}");
        assert_eq!(kind_at(store), (store.to_path_buf(), "svmio".into()));
        assert_eq!(fs::metadata(store).unwrap().mode() & 0o777, 0o700);
        let facts = setting.json(&["store", "info", "--json", dir]);
        assert_eq!((&facts["huge"], &facts["total"]), (&"within_size".into(), &(64 << 20).into()));
        assert_eq!(facts["page"], facts["large_page"]);
        assert!(facts["faster"].is_null(), "{facts}");
        // Again: nothing changes, and no file goes.
        setting.printed(&["cp", "--store", dir, "/proc/version", "svm:/kept"]);
        let said = setting.printed(&["store", "init", dir]);
        assert!(said.contains("already"), "{said}");
        assert_eq!(setting.printed(&["ls", "--store", dir]).trim(), "kept");
        // Away: only without files, or by force; and only once.
        assert!(setting.complaint(1, &["store", "unmount", dir]).contains("there are files"));
        setting.printed(&["rm", "--store", dir, "/kept"]);
        // What MPI programs, and copies over files of several stores, leave in each store is no file.
        fs::create_dir(store.join("spare")).unwrap();
        fs::create_dir(store.join("aside")).unwrap();
        // Neither is what tells of files that were removed while other nodes were out of reach.
        fs::create_dir(store.join("removed")).unwrap();
        fs::write(store.join("removed/one"), "x").unwrap();
        let busy = fs::File::open(store.join("store.json")).unwrap();
        assert!(setting.complaint(1, &["store", "unmount", dir]).contains("uses it"));
        drop(busy);
        setting.printed(&["store", "unmount", dir]);
        assert!(!store.exists());
        setting.printed(&["store", "init", dir]);
        setting.printed(&["cp", "--store", dir, "/proc/version", "svm:/lost"]);
        setting.printed(&["store", "unmount", "-f", dir]);
        assert!(!store.exists());
    });
}

#[test]
fn files_are_never_hidden() {
    in_memory(|setting, store| {
        let dir = path_of(store);
        setting.printed(&["store", "init", "--mount", "never", dir]);
        setting.printed(&["cp", "--store", dir, "/proc/version", "svm:/kept"]);
        let said = setting.printed(&["store", "init", dir]);
        assert!(said.contains("it would hide"), "{said}");
        assert!(setting.complaint(1, &["store", "init", "--mount", "always", dir]).contains("it would hide"));
        assert_ne!(kind_at(store).0, store);
        assert_eq!(setting.printed(&["ls", "--store", dir]).trim(), "kept");
        // Neither are other programs' files.
        let other = store.with_file_name("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("thesis"), "x").unwrap();
        assert!(
            setting.complaint(1, &["store", "init", path_of(&other)]).contains("it holds something else")
        );
        assert_ne!(kind_at(&other).0, other);
        // What was not mounted is not taken away.
        assert!(setting.complaint(1, &["store", "unmount", "-f", dir]).contains("has not mounted it"));
        assert!(store.join("store.json").exists());
    });
}

#[test]
fn a_user_is_told_what_root_may_do() {
    in_memory(|setting, store| {
        set_mode(setting.outside("").as_path(), 0o755);
        set_mode(store.parent().unwrap(), 0o1777);
        let dir = path_of(store);
        let complaint = |arguments: &[&str]| {
            let output = run_as_nobody_by(setting, arguments, |command| command);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            text(&output.stderr)
        };
        let said = complaint(&["store", "init", "--mount", "always", "--size", "64M", dir]);
        let way_out = format!(
            "only root may: sudo svmio store init --mount always --uid 65534 --size 67108864 {dir}\n"
        );
        assert!(said.ends_with(&way_out), "{said}");
        setting.printed(&["store", "init", "--mount", "always", "--uid", "65534", dir]);
        for force in ["", "-f "] {
            let said = complaint(
                &[&["store", "unmount", dir][..], if force.is_empty() { &[] } else { &["-f"] }].concat(),
            );
            let way_out = format!("only root may: sudo svmio store unmount {force}{dir}\n");
            assert!(said.ends_with(&way_out), "{said}");
        }
        setting.printed(&["store", "unmount", dir]);
    });
}

#[test]
fn a_link_leads_root_nowhere() {
    in_memory(|setting, store| {
        let target = store.with_file_name("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, store).unwrap();
        setting.complaint(1, &["store", "init", path_of(store)]);
        assert_ne!(kind_at(&target).0, target);
        // Nor does another user's directory.
        let foreign = store.with_file_name("foreign");
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
        let complaint = setting.complaint(1, &["store", "init", "--mount", "always", path_of(&foreign)]);
        assert!(complaint.contains("another user"), "{complaint}");
    });
}

#[test]
fn root_sets_a_store_up_for_another_user() {
    in_memory(|setting, store| {
        let said = setting.printed(&["store", "init", "--uid", "65534", path_of(store)]);
        assert!(said.contains("first program of user 65534"), "{said}");
        assert_eq!(fs::metadata(store).unwrap().uid(), 65534);
        assert_eq!(fs::read_dir(store).unwrap().count(), 0);
    });
}

#[test]
fn what_is_missing_on_the_way_to_a_users_store_can_be_gone_through() {
    in_memory(|setting, store| {
        for mask in ["022", "077"] {
            let (outer, dir) = (store.join(mask), store.join(mask).join("deeper/store"));
            let script = format!("umask {mask}; exec \"$0\" store init --mount always --uid 65534 \"$1\"");
            let mut shell = setting.with_store(Command::new("sh"));
            let output = shell.args(["-c", &script, PROGRAM]).arg(&dir).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            for directory in [store, &outer, &outer.join("deeper")] {
                assert_eq!(
                    fs::metadata(directory).unwrap().mode() & 0o7777,
                    0o755,
                    "{}",
                    directory.display()
                );
            }
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
            setting.printed(&["store", "unmount", path_of(&dir)]);
        }
    });
}

#[test]
fn a_size_without_effect_is_told() {
    in_memory(|setting, store| {
        let dir = path_of(store);
        let told = |arguments: &[&str]| {
            let output = setting.run(&[&["store", "init"], arguments, &[dir]].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stderr)
        };
        let said = told(&["--mount", "never", "--size", "64M"]);
        assert!(said.contains("no effect") && said.contains("no file system of its own"), "{said}");
        fs::remove_dir_all(store).unwrap();
        for size in ["64M", "100000000"] {
            // The same again is nothing to complain of.
            for _ in 0..2 {
                assert_eq!(told(&["--size", size]), "");
            }
            let said = told(&["--size", "32M"]);
            assert!(said.contains("no effect") && said.contains("remount,size=33554432"), "{said}");
            setting.printed(&["store", "unmount", dir]);
        }
    });
}

#[test]
fn a_user_gets_the_file_system_whose_pages_are_best() {
    in_memory(|setting, store| {
        let memory = store.parent().unwrap();
        set_mode(setting.outside("").as_path(), 0o755);
        // Away from the real store of this user, if there is one.
        tmpfs(Path::new("/dev/shm"), 128 << 20);
        set_mode(Path::new("/dev/shm"), 0o1777);
        set_mode(memory, 0o755);
        let mounted = |name: &str, options: &CStr| {
            let at = memory.join(name);
            fs::create_dir(&at).unwrap();
            mount("tmpfs", &at, "tmpfs", MountFlags::empty(), options).unwrap();
            at
        };
        let init = || {
            let output =
                run_as_nobody_by(setting, &["store", "init"], |command| command.env_remove("SVMIO_STORE"));
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        let usual = Path::new("/dev/shm/svmio-65534");
        // Neither what others may not write to, nor what anybody may remove things from, nor what has little room.
        let useless = [
            mounted("private", c"huge=always,mode=0755,size=128m"),
            mounted("unsafe", c"huge=always,mode=0777,size=128m"),
            mounted("narrow", c"huge=always,mode=1777,size=32m"),
        ];
        let said = init();
        assert!(said.contains("chose /dev/shm/svmio-65534") && usual.join("store.json").exists(), "{said}");
        let large = mounted("large", c"huge=within_size,mode=1777,size=128m").join("svmio-65534");
        let said = init();
        assert!(said.contains(&format!("export SVMIO_STORE={}", large.display())), "{said}");
        assert!(large.join("store.json").exists() && said.contains("by itself (huge=within_size)"), "{said}");
        for place in useless {
            assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "{}", place.display());
        }
        // Files stay where they are.
        let output = run_as_nobody_by(setting, &["cp", "/proc/version", "svm:/kept"], |command| {
            command.env_remove("SVMIO_STORE")
        });
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = init();
        assert!(said.contains("holds files already") && !said.contains("export"), "{said}");
    });
}

#[test]
fn a_store_on_a_disk_stays_there() {
    let setting = Setting::new();
    let (dir, kind) = (setting.outside("disk"), Mount::of(&setting.outside("")).unwrap().kind);
    let said = setting.printed(&["store", "init", path_of(&dir)]);
    assert!(said.contains("mounted nothing") && said.contains(&kind), "{said}");
    assert!(said.contains(&format!("export SVMIO_STORE={}", dir.display())), "{said}");
    assert_ne!(kind_at(&dir).0, dir);
    Store::open(&dir).unwrap();
    let said = setting.printed(&["store", "info", path_of(&dir)]);
    assert!(said.contains("a store in memory"), "{said}");
    let takes_pieces = ["ext2", "ext3", "ext4", "xfs"].contains(&kind.as_str());
    assert_eq!(said.contains("a system call each"), !takes_pieces, "{said}");
}

#[test]
fn who_has_his_store_on_a_file_system_that_may_copy_is_told_of_others() {
    in_memory(|setting, store| {
        let memory = store.parent().unwrap();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(memory.join(name)).unwrap();
        }
        let directory = |name: &str| format!("{name}dir={}", memory.join(name).display());
        let options = CString::new(["lower", "upper", "work"].map(directory).join(",")).unwrap();
        let merged = memory.join("merged");
        mount("overlay", &merged, "overlay", MountFlags::empty(), options.as_c_str()).unwrap();
        let dir = merged.join("store");
        setting.printed(&["store", "init", "--mount", "never", path_of(&dir)]);
        let said = setting.printed(&["store", "info", path_of(&dir)]);
        assert!(said.contains("a system call each on overlay: a store on ext4 or XFS"), "{said}");
    });
}

#[test]
fn on_a_file_system_of_small_pages_large_ones_are_made_on_demand() {
    in_memory(|setting, store| {
        let dir = path_of(store);
        setting.printed(&["store", "init", "--mount", "never", dir]);
        let facts = setting.json(&["store", "info", "--json", dir]);
        assert_eq!(facts["page"], facts["large_page"]);
        assert!(facts["faster"].as_str().unwrap().contains("store init --uid 0 "), "{facts}");
        // Where they are not wanted it tells how to get them.
        let small =
            setting.svmio().env("SVMIO_LARGE_PAGES", "never").args(["store", "info", dir]).output().unwrap();
        let said = text(&small.stdout);
        assert!(said.contains("4096 bytes") && said.contains("unset SVMIO_LARGE_PAGES"), "{said}");
        assert!(
            setting
                .complaint(1, &["store", "info", &format!("{dir}-not-there")])
                .contains("there is no store")
        );
    });
}

#[test]
fn what_another_user_put_where_the_own_store_would_be_is_not_looked_into() {
    need_root("gives a directory to another user");
    let setting = Setting::new();
    let own_file = setting.outside("own");
    let node = format!("other-{}", std::process::id());
    let name = format!("svmio-0-{node}");
    let store = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in("/dev/shm").unwrap();
    let spares = Store::open(store.path()).unwrap().path().join("spare");
    fs::create_dir(&spares).unwrap();
    std::os::unix::fs::chown(store.path(), Some(65534), None).unwrap();
    let commands: [&[&str]; 4] =
        [&["ls"], &["store", "init"], &["store", "init", "--mount", "never"], &["store", "info"]];
    for arguments in commands {
        fs::write(&own_file, "content").unwrap();
        // As if a killed process had been removing it.
        symlink(&own_file, spares.join("going-1")).unwrap();
        let output = setting
            .svmio()
            .env_remove("SVMIO_STORE")
            .env("SVMIO_NODE", &node)
            .args(arguments)
            .output()
            .unwrap();
        let complaint = text(&output.stderr);
        assert!(complaint.contains("belongs to "), "{arguments:?}: {complaint}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complaint}");
        assert_eq!(fs::read_to_string(&own_file).unwrap(), "content", "{arguments:?}");
        fs::remove_file(spares.join("going-1")).expect("nothing was removed there");
    }
}
