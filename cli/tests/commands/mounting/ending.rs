//! How a mount ends, and what is left then: nothing but the files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Signal, getsid, kill_process};

use super::{End, LIMIT, Mounted, alone, is_mounted, is_root, kind_at, need_fuse, number};
use crate::setting::{Setting, noise, text};

#[test]
fn unmounting_ends_the_process_and_leaves_an_empty_directory() {
    alone(|| {
        let setting = Setting::new();
        let mounted = Mounted::of(&setting);
        let end = End::of(mounted.server());
        fs::write(mounted.path("file"), b"stays").unwrap();
        mounted.unmount();
        end.wait();
        assert!(!is_mounted(&mounted.point));
        assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), 0);
        assert_eq!(setting.printed(&["cat", &mounted.name("file")]), "stays");
    });
}

#[test]
fn it_is_mounted_again_at_once() {
    alone(|| {
        let setting = Setting::new();
        for turn in 0..10 {
            let mounted = Mounted::of(&setting);
            assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), turn);
            fs::write(mounted.path(&turn.to_string()), b"stays").unwrap();
            mounted.unmount();
        }
        let mounted = Mounted::of(&setting);
        let begun = std::time::Instant::now();
        while mounted.servers().len() > 1 {
            assert!(begun.elapsed() < LIMIT, "those that served it before have not ended");
            std::thread::yield_now();
        }
        assert!(is_mounted(&mounted.point), "one that served it before has taken this mount away");
        assert_eq!(fs::read(mounted.path("9")).unwrap(), b"stays");
    });
}

#[test]
fn a_signal_unmounts_whether_files_are_open_or_not() {
    for signal in [Signal::TERM, Signal::INT] {
        for is_open in [false, true] {
            let setting = Setting::new();
            let mounted = Mounted::of(&setting);
            let (server, end) = (mounted.server(), End::of(mounted.server()));
            let mut file = File::create(mounted.path("file")).unwrap();
            file.write_all(b"written before").unwrap();
            let file = is_open.then_some(file);
            kill_process(server, signal).unwrap();
            end.wait();
            assert!(!is_mounted(&mounted.point), "{signal:?} {is_open}");
            if let Some(file) = file {
                assert_eq!(number(file.write_all_at(b"after", 0)), Errno::NOTCONN);
            }
            assert_eq!(setting.printed(&["cat", &mounted.name("file")]), "written before");
            setting.printed(&["verify"]);
        }
    }
}

#[test]
fn what_a_running_program_has_stored_into_mapped_memory_is_there_after_a_signal() {
    const PROGRAM: &str = "
import mmap, os, sys
file = open(sys.argv[1], 'r+b')
mapped = mmap.mmap(file.fileno(), 0)
mapped[100000:100006] = b'stored'
os.rename(sys.argv[1], sys.argv[2])
print('stored', flush=True)
sys.stdin.read()
";
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let (server, end) = (mounted.server(), End::of(mounted.server()));
    fs::write(mounted.path("file"), noise(200_000, 1)).unwrap();
    let program = Command::new("python3")
        .args(["-c", PROGRAM])
        .args([mounted.path("file"), mounted.path("renamed")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut program = program.unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "stored\n");
    kill_process(server, Signal::TERM).unwrap();
    end.wait();
    let read = ["cat", &mounted.name("renamed"), "--offset", "100000", "--length", "6"];
    assert_eq!(setting.printed(&read), "stored");
    assert!(!is_mounted(&mounted.point));
    drop(program.stdin.take());
    program.wait().unwrap();
    setting.printed(&["verify"]);
}

#[test]
fn unmounting_leaves_what_was_mounted_there_before() {
    assert!(is_root(), "this test mounts a tmpfs: run it as root");
    alone(|| {
        let setting = Setting::new();
        let below = Mounted { point: setting.outside("mounted") };
        fs::create_dir(&below.point).unwrap();
        mount("tmpfs", &below.point, "tmpfs", MountFlags::empty(), None).unwrap();
        for by_signal in [false, true] {
            let options = ["--names", "/"];
            let mounted = Mounted::by(&setting, "mounted", &mut setting.svmio(), &options);
            let (server, end) = (mounted.server(), End::of(mounted.server()));
            match by_signal {
                true => kill_process(server, Signal::TERM).unwrap(),
                false => mounted.unmount(),
            }
            end.wait();
            assert_eq!(kind_at(&mounted.point).as_deref(), Some("tmpfs"), "by a signal: {by_signal}");
            // Not to be taken away twice.
            std::mem::forget(mounted);
        }
    });
}

#[test]
fn a_mount_that_is_cut_off_is_taken_away() {
    assert!(is_root(), "this test unmounts by force: run it as root");
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let end = End::of(mounted.server());
    let file = File::create(mounted.path("file")).unwrap();
    // A file is open, and so only the connection goes.
    assert_eq!(unmount(&mounted.point, UnmountFlags::FORCE), Err(Errno::BUSY));
    end.wait();
    assert!(!is_mounted(&mounted.point));
    drop(file);
}

#[test]
fn in_the_foreground_it_ends_by_a_signal_with_success() {
    need_fuse();
    let setting = Setting::new();
    let point = setting.outside("mounted");
    fs::create_dir(&point).unwrap();
    let mounted = Mounted { point };
    let mut command = setting.svmio();
    let mut server =
        command.args(["mount", "--foreground", "mounted"]).stderr(Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !is_mounted(&mounted.point) {
        assert!(server.try_wait().unwrap().is_none() && begun.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    fs::write(mounted.path("file"), b"x").unwrap();
    kill_process(rustix::process::Pid::from_child(&server), Signal::INT).unwrap();
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    assert!(!is_mounted(&mounted.point));
}

#[test]
fn killed_it_damages_nothing_and_tells_how_to_go_on() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let (server, end) = (mounted.server(), End::of(mounted.server()));
    let content = noise(1_000_000, 1);
    let file = File::create(mounted.path("file")).unwrap();
    file.write_all_at(&content, 0).unwrap();
    kill_process(server, Signal::KILL).unwrap();
    end.wait();
    assert_eq!(number(fs::metadata(mounted.path("file"))), Errno::NOTCONN);
    assert!(setting.complaint(1, &["mount", "mounted"]).contains("takes it away"));
    drop(file);
    assert!(setting.run(&["cat", &mounted.name("file")]).stdout == content);
    setting.printed(&["verify"]);
    mounted.unmount();
    let again = Mounted::of(&setting);
    assert!(fs::read(again.path("file")).unwrap() == content);
}

#[test]
fn what_it_kept_of_removed_files_goes_when_it_is_killed() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let (server, end) = (mounted.server(), End::of(mounted.server()));
    fs::write(mounted.path("file"), b"begun").unwrap();
    let file = File::open(mounted.path("file")).unwrap();
    drop(file.try_clone().unwrap());
    setting.printed(&["rm", &mounted.name("file")]);
    setting.printed(&["verify"]);
    assert_eq!(setting.object_count(), 1);
    kill_process(server, Signal::KILL).unwrap();
    end.wait();
    setting.printed(&["verify"]);
    assert_eq!(setting.object_count(), 0);
}

#[test]
fn the_process_in_the_background_keeps_no_terminal_and_no_directory() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let server = mounted.server();
    let link = |name: &str| fs::read_link(format!("/proc/{}/{name}", server.as_raw_nonzero())).unwrap();
    assert_eq!(link("cwd"), std::path::Path::new("/"));
    for stream in 0..3 {
        assert_eq!(link(&format!("fd/{stream}")), std::path::Path::new("/dev/null"));
    }
    assert_eq!(getsid(Some(server)).unwrap(), server);
}
