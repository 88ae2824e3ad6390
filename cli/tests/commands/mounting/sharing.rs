//! Several who use the same files at the same time, and files of several nodes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Instant;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use svmio_svm::session::Session;
use svmio_svm::{Error, FileName, FileOffset, OpenOptions};
use svmio_transport::Rank;
use svmio_transport::job::{Launcher, Streams};

use super::{LIMIT, Mounted, alone, number, run};
use crate::access::run_as_nobody_by;
use crate::hosts::Hosts;
use crate::setting::{Setting, need_root, noise, text};
use crate::several_stores::Nodes;

#[test]
fn a_program_of_svmio_and_any_other_see_each_others_writes_at_once() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    fs::write(mounted.path("file"), b"begun").unwrap();
    let options = OpenOptions::read_write();
    let inside = setting.store().open_file(&FileName::new(mounted.name("file")).unwrap(), &options).unwrap();
    let outside = File::options().read(true).write(true).open(mounted.path("file")).unwrap();
    for turn in 0..50_u64 {
        let (at, data) = (turn * 3000, noise(4000, turn));
        inside.write_at(FileOffset(at), &data).unwrap();
        let mut seen = vec![0; 4000];
        outside.read_exact_at(&mut seen, at).unwrap();
        assert!(seen == data, "turn {turn}");
        assert_eq!(outside.metadata().unwrap().len(), inside.size());
        outside.write_all_at(b"answer", at + 1000).unwrap();
        let mut answer = [0; 6];
        inside.read_at(FileOffset(at + 1000), &mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
    inside.set_size(10).unwrap();
    assert_eq!(outside.metadata().unwrap().len(), 10);
    assert_eq!(outside.read_at(&mut [0; 100], 0).unwrap(), 10);
    outside.set_len(7).unwrap();
    assert_eq!(inside.size(), 7);
    fs::rename(mounted.path("file"), mounted.path("other")).unwrap();
    inside.write_at(FileOffset(0), b"goes on").unwrap();
    assert_eq!(fs::read(mounted.path("other")).unwrap(), b"goes on");
}

#[test]
fn who_has_a_copy_of_a_closed_descriptor_goes_on() {
    alone(|| {
        let setting = Setting::new();
        let mounted = Mounted::of(&setting);
        let mut file =
            File::options().read(true).write(true).create_new(true).open(mounted.path("file")).unwrap();
        for turn in 0..10 {
            drop(file.try_clone().unwrap());
            writeln!(file, "{turn}").unwrap();
            drop(file.try_clone().unwrap());
            assert_eq!(file.metadata().unwrap().len(), 2 * (turn + 1));
        }
        assert_eq!(setting.printed(&["cat", &mounted.name("file")]).lines().count(), 10);
        drop(file);
        // Also if it loses its name meanwhile.
        for lose in [&|| fs::remove_file(mounted.path("file")).unwrap(), &|| {
            fs::rename(mounted.path("other"), mounted.path("file")).unwrap()
        }] as [&dyn Fn(); 2]
        {
            fs::write(mounted.path("other"), b"other").unwrap();
            fs::write(mounted.path("file"), b"begun").unwrap();
            let file = File::options().read(true).write(true).open(mounted.path("file")).unwrap();
            drop(file.try_clone().unwrap());
            lose();
            drop(file.try_clone().unwrap());
            file.write_all_at(b"ended", 5).unwrap();
            let mut bytes = [0; 10];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!((&bytes, file.metadata().unwrap().nlink()), (b"begunended", 0));
        }
        fs::remove_file(mounted.path("file")).unwrap();
        mounted.end();
        assert_eq!(setting.object_count(), 0);
    });
}

#[test]
fn a_file_stays_for_who_has_a_copy_of_a_closed_descriptor_whoever_removes_it() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let (name, other) = (mounted.name("file"), mounted.name("other"));
    let by_a_process = |arguments: &[&str]| drop(setting.printed(arguments));
    let ways: [&dyn Fn(); 3] = [
        &|| by_a_process(&["rm", &name]),
        &|| by_a_process(&["mv", "-f", &other, &name]),
        // As a job does.
        &|| setting.store().remove(&FileName::new(&name).unwrap()).unwrap(),
    ];
    for (number, remove) in ways.into_iter().enumerate() {
        for is_read_meanwhile in [false, true] {
            fs::write(mounted.path("other"), b"other").unwrap();
            fs::write(mounted.path("file"), b"begun").unwrap();
            let file = File::options().read(true).write(true).open(mounted.path("file")).unwrap();
            let second = File::open(mounted.path("file")).unwrap();
            drop((file.try_clone().unwrap(), second.try_clone().unwrap()));
            remove();
            by_a_process(&["verify"]);
            let inode = file.metadata().unwrap().ino();
            fs::write(mounted.path("file"), b"another").unwrap();
            let mut bytes = [0; 10];
            if is_read_meanwhile {
                assert_eq!((second.read_at(&mut bytes, 0).unwrap(), &bytes[..5]), (5, &b"begun"[..]));
                drop(file.try_clone().unwrap());
            }
            file.write_all_at(b"ended", 5).unwrap();
            file.sync_all().unwrap();
            drop((file.try_clone().unwrap(), file));
            assert_eq!(second.read_at(&mut bytes, 0).unwrap(), 10, "way {number}");
            let metadata = second.metadata().unwrap();
            assert_eq!((&bytes, metadata.nlink(), metadata.ino()), (b"begunended", 0, inode));
            assert_eq!(fs::read(mounted.path("file")).unwrap(), b"another");
            drop(second);
            fs::remove_file(mounted.path("file")).unwrap();
        }
    }
    fs::remove_file(mounted.path("other")).unwrap();
    mounted.unmount();
    assert_eq!(setting.object_count(), 0);
}

#[test]
fn who_waits_for_one_file_holds_up_nobody_who_looks_at_another() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    fs::write(mounted.path("slow"), b"slow").unwrap();
    fs::write(mounted.path("other"), b"other").unwrap();
    // As if somebody were about to open the file.
    let state = setting.object(&mounted.name("slow")).join("state");
    let state = File::options().read(true).write(true).open(state).unwrap();
    fcntl_lock(&state, FlockOperation::LockExclusive).unwrap();
    let place = format!(":{} ", state.metadata().unwrap().ino());
    let somebody_waits = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| lock.contains("->") && lock.contains(&place))
    };
    std::thread::scope(|scope| {
        let ((told, heard), other) = (channel(), mounted.path("other"));
        let opening = scope.spawn(|| fs::read(mounted.path("slow")).unwrap());
        let limit = Instant::now() + LIMIT;
        while !somebody_waits() && Instant::now() < limit {
            std::thread::yield_now();
        }
        let waited = somebody_waits();
        scope.spawn(move || told.send(fs::metadata(other).unwrap().len()));
        let length = heard.recv_timeout(LIMIT);
        // Before anything fails: otherwise it would be waited for.
        fcntl_lock(&state, FlockOperation::Unlock).unwrap();
        assert!(waited, "nobody waits for the file");
        assert_eq!(length, Ok(5));
        assert_eq!(opening.join().unwrap(), b"slow");
    });
}

#[test]
fn many_read_and_write_at_the_same_time() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let content = noise(4_000_000, 5);
    fs::write(mounted.path("all"), &content).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..4_u64 {
            let (mounted, content) = (&mounted, &content);
            scope.spawn(move || {
                let file = File::open(mounted.path("all")).unwrap();
                for turn in 0..40 {
                    let at = (reader * 977_777 + turn * 91_193) % 3_800_000;
                    let mut bytes = vec![0; 200_000];
                    file.read_exact_at(&mut bytes, at).unwrap();
                    assert!(bytes == content[at as usize..at as usize + bytes.len()]);
                }
            });
            scope.spawn(move || {
                let (path, own) = (mounted.path(&format!("of-{reader}")), noise(700_000, reader + 9));
                fs::write(&path, &own).unwrap();
                assert!(fs::read(&path).unwrap() == own);
            });
        }
    });
    setting.printed(&["verify"]);
}

#[test]
fn what_is_appended_asynchronously_keeps_its_order() {
    // By the system calls of libaio: one write of many pieces, each page with its number.
    const PROGRAM: &str = "
import ctypes, os, platform, struct, sys
setup, getevents, submit = (206, 208, 209) if platform.machine() == 'x86_64' else (0, 4, 2)
function = ctypes.CDLL(None, use_errno=True).syscall
def call(number, *arguments):
    done = function(number, *arguments)
    assert done >= 0, os.strerror(ctypes.get_errno())
    return done
def long(value): return ctypes.c_long(value)
context = ctypes.c_ulong(0)
call(setup, long(1), ctypes.byref(context))
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DIRECT)
size = 16 << 20
for first in 0, 4096:
    data = b''.join(page.to_bytes(4, 'little') * 1024 for page in range(first, first + 4096))
    memory = ctypes.create_string_buffer(data, size)
    place = ctypes.addressof(memory)
    request = ctypes.create_string_buffer(
        struct.pack('<QIIHhIQQqQII', 0, 0, 0, 1, 0, file, place, size, 0, 0, 0, 0))
    assert call(submit, context, long(1), ctypes.byref(ctypes.pointer(request))) == 1
    event = ctypes.create_string_buffer(32)
    assert call(getevents, context, long(1), long(1), event, None) == 1
    assert struct.unpack('<QQqq', event.raw)[2] == size
";
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    run("python3", &["-c", PROGRAM], &mounted.path("file"));
    let content = fs::read(mounted.path("file")).unwrap();
    let pages: Vec<_> =
        content.chunks(4096).map(|page| u32::from_le_bytes(*page.first_chunk().unwrap())).collect();
    assert!(pages == (0..8192).collect::<Vec<_>>());
}

#[test]
fn programs_that_carry_whole_trees_find_what_they_expect() {
    alone(|| {
        let setting = Setting::new();
        let mounted = Mounted::of(&setting);
        let tree = setting.outside("tree");
        fs::create_dir_all(tree.join("a/b/empty")).unwrap();
        fs::write(tree.join("a/one"), noise(100_000, 6)).unwrap();
        fs::write(tree.join("a/b/two"), b"a needle in it\n").unwrap();
        let shell = |script: &str| {
            let output =
                Command::new("sh").args(["-ec", script]).current_dir(setting.outside("")).output().unwrap();
            assert!(output.status.success(), "{script}: {}", text(&output.stderr));
            text(&output.stdout)
        };
        shell("cp -rp tree mounted/copied && diff -r tree mounted/copied");
        shell(
            "mkdir mounted/unpacked && tar c tree | tar x -C mounted/unpacked && diff -r tree mounted/unpacked/tree",
        );
        assert_eq!(shell("grep -rl needle mounted/copied"), "mounted/copied/a/b/two\n");
        shell("mv mounted/copied/a mounted/moved && diff -r tree/a mounted/moved");
        assert_eq!(setting.printed(&["ls", "-R", &mounted.name("moved")]).lines().count(), 2);
        shell("rm -r mounted/moved mounted/copied mounted/unpacked");
        assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), 0);
        mounted.end();
        assert_eq!(setting.object_count(), 0);
    });
}

#[test]
fn a_file_of_several_nodes_is_read_and_removed_and_not_written() {
    let nodes = Nodes::new();
    let content = noise(1_000_000, 7);
    nodes.put("/shared/file", &content);
    let mut command = nodes.setting.svmio();
    let stores: Vec<_> = ["a", "b", "c"].map(|node| nodes.path(node).to_str().unwrap().to_owned()).into();
    let mut options = vec!["--names", "/shared"];
    stores.iter().for_each(|store| options.extend(["--store", store]));
    let mounted = Mounted::by(&nodes.setting, "mounted", &mut command, &options);
    assert!(fs::read(mounted.path("file")).unwrap() == content);
    let metadata = fs::metadata(mounted.path("file")).unwrap();
    assert_eq!(metadata.len(), content.len() as u64);
    assert!(metadata.blocks() * 512 >= content.len() as u64);
    assert_eq!(number(File::options().write(true).open(mounted.path("file"))), Errno::ROFS);
    assert_eq!(number(File::create(mounted.path("new"))), Errno::ROFS);
    assert_eq!(number(fs::create_dir(mounted.path("new"))), Errno::ROFS);
    assert_eq!(number(fs::rename(mounted.path("file"), mounted.path("new"))), Errno::ROFS);
    // Who has it open sees it grow where it ended.
    let longer = noise(1_100_000, 8);
    let file = File::open(mounted.path("file")).unwrap();
    nodes.put("/shared/other", &longer);
    assert!(fs::read(mounted.path("other")).unwrap() == longer);
    fs::remove_file(mounted.path("file")).unwrap();
    assert_eq!(number(file.read_at(&mut [0; 10], 0)), Errno::NOENT);
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.nlink()), (content.len() as u64, 0));
    for node in ["a", "b", "c"] {
        assert_eq!(nodes.printed(node, &["ls", "-R"]), "/shared/other\n", "{node}");
    }
}

/// Tells a process of a job where the store of the first one's node is mounted.
const POINT: &str = "SVMIO_TEST_MOUNTED";

#[test]
#[ignore = "it is a process of the next test"]
fn process_of_a_job() {
    let Some(point) = std::env::var_os(POINT).map(PathBuf::from) else { return };
    let session = Session::from_environment().unwrap();
    let is_first = session.team().member() == 0;
    let options = OpenOptions::read_write().create(true);
    let file = session.open(&FileName::new("/of-the-job").unwrap(), &options).unwrap();
    if is_first {
        file.write_at(FileOffset(0), b"of two nodes").unwrap();
        assert_eq!(fs::read(point.join("of-the-job")).unwrap(), b"of two nodes");
        assert_eq!(number(File::options().write(true).open(point.join("of-the-job"))), Errno::BUSY);
        assert_eq!(number(fs::rename(point.join("of-the-job"), point.join("other"))), Errno::XDEV);
    }
    session.close(&file, false).unwrap();
    let held = is_first.then(|| File::open(point.join("own")).unwrap());
    let own = FileName::new("/own").unwrap();
    session.team().agree(Ok::<(), Error>(())).unwrap();
    let refused = session.open(&own, &options).unwrap_err();
    assert!(refused.to_string().contains("open in another job"), "{refused}");
    drop(held);
    // Programs look at a file by the operating system, and open it by MPI then.
    for turn in 0..200 {
        if is_first {
            assert_eq!(fs::read(point.join("own")).unwrap(), b"of one node");
        }
        session.team().agree(Ok::<(), Error>(())).unwrap();
        let opened = session.open(&own, &options).unwrap_or_else(|error| panic!("turn {turn}: {error}"));
        session.close(&opened, false).unwrap();
    }
    session.finish().unwrap();
    println!("all is as it should be");
}

#[test]
fn a_job_over_several_nodes_and_programs_at_the_directory_keep_out_of_each_others_way() {
    let nodes = Nodes::new();
    let store = nodes.path("a");
    let options = ["--names", "/", "--store", store.to_str().unwrap()];
    let mounted = Mounted::by(&nodes.setting, "mounted", &mut nodes.setting.svmio(), &options);
    fs::write(mounted.path("own"), b"of one node").unwrap();
    let of = |rank: Rank| ["a", "b"][rank.index()].to_owned();
    let stores = [store.clone(), nodes.path("b")];
    let job = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "mounting::sharing::process_of_a_job", "--ignored", "--nocapture"])
        .size(2)
        .streams(Streams::Piped)
        .node(of)
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(POINT, &mounted.point)
        .prefix(move |rank| {
            let own = [OsStr::new("SVMIO_STORE="), stores[rank.index()].as_os_str()];
            vec!["env".into(), own.into_iter().collect()]
        });
    for output in job.spawn().unwrap().output().unwrap() {
        let told = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && told.0.contains("as it should be"), "{} {}", told.0, told.1);
    }
}

#[test]
fn files_of_other_hosts_are_read_until_a_host_is_lost() {
    let hosts = Hosts::new();
    let content = noise(500_000, 10);
    hosts.nodes.put("/d/file", &content);
    let options = ["--names", "/", "--hosts", "a,b,c"];
    let mut command = hosts.nodes.setting.svmio();
    command.env_remove("SVMIO_STORE").env("SVMIO_RSH", hosts.nodes.setting.outside("rsh"));
    let mounted = Mounted::by(&hosts.nodes.setting, "mounted", &mut command, &options);
    assert!(fs::read(mounted.path("d/file")).unwrap() == content);
    let metadata = fs::metadata(mounted.path("d/file")).unwrap();
    assert!(metadata.blocks() * 512 >= content.len() as u64);
    assert_eq!(number(File::create(mounted.path("d/file"))), Errno::ROFS);
    let file = File::open(mounted.path("d/file")).unwrap();
    kill_process(hosts.process("b"), Signal::KILL).unwrap();
    hosts.wait_for_end("b");
    // The second segment is b's, the first is not.
    assert_eq!(number(file.read_at(&mut [0; 10], 64 << 10)), Errno::HOSTDOWN);
    let mut bytes = vec![0; 1000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content[..1000]);
    assert_eq!(number(fs::metadata(mounted.path("d/file"))), Errno::HOSTDOWN);
}

#[test]
fn of_a_file_of_several_nodes_one_store_gives_what_it_has() {
    let nodes = Nodes::new();
    let content = noise(200_000, 8);
    nodes.put("/file", &content);
    let store = nodes.path("b");
    let options = ["--names", "/", "--store", store.to_str().unwrap()];
    let mounted = Mounted::by(&nodes.setting, "mounted", &mut nodes.setting.svmio(), &options);
    let file = File::open(mounted.path("file")).unwrap();
    let mut bytes = vec![0; 1000];
    // The second segment is b's.
    file.read_exact_at(&mut bytes, 64 << 10).unwrap();
    assert!(bytes == content[64 << 10..][..1000]);
    assert_eq!(number(file.read_at(&mut bytes, 0)), Errno::REMOTEIO);
    assert_eq!(number(File::options().write(true).open(mounted.path("file"))), Errno::ROFS);
    // Its other nodes would keep the old name.
    assert_eq!(number(fs::rename(mounted.path("file"), mounted.path("other"))), Errno::XDEV);
    fs::write(mounted.path("own"), b"of b alone").unwrap();
    assert_eq!(nodes.printed("b", &["cat", "/own"]), "of b alone");
}

#[test]
fn others_are_let_in_if_that_is_said() {
    need_root("runs a program as another user");
    let setting = Setting::new();
    setting.put("/file", b"for all");
    let as_nobody = |mounted: &Mounted, script: &str| {
        let path = mounted.path("");
        let run = run_as_nobody_by(&setting, &[], |command| {
            *command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script])
                .current_dir("/")
                .arg("sh");
            command.arg(&path)
        });
        (run.status.success(), text(&run.stdout))
    };
    let options = ["--names", "/"];
    let mounted = Mounted::by(&setting, "closed", &mut setting.svmio(), &options);
    assert!(!as_nobody(&mounted, "cat $1/file").0);
    drop(mounted);
    let mounted = Mounted::by(&setting, "open", &mut setting.svmio(), &["--names", "/", "--allow-other"]);
    assert_eq!(as_nobody(&mounted, "cat $1/file"), (true, "for all".to_owned()));
    assert!(!as_nobody(&mounted, "echo x > $1/file").0);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"for all");
    assert_eq!(run("stat", &["-c", "%a"], &mounted.path("file")), "644\n");
}
