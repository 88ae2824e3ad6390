//! What is written the one way is read the other way.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::SeekFrom as Place;
use rustix::io::Errno;
use svmio_svm::{FileName, SegmentSize};

use super::{Mounted, alone, number, run};
use crate::setting::{Setting, noise, text, write_sparse};

#[test]
fn what_svmio_copies_in_any_program_reads() {
    let setting = Setting::new();
    let content = noise(3_000_001, 1);
    fs::write(setting.outside("original"), &content).unwrap();
    let mounted = Mounted::of(&setting);
    setting.printed(&["cp", "original", &format!("svm:{}", mounted.name("a/b/file"))]);
    let same = Command::new("cmp").arg(setting.outside("original")).arg(mounted.path("a/b/file")).status();
    assert!(same.unwrap().success());
    assert!(Command::new("cat").arg(mounted.path("a/b/file")).output().unwrap().stdout == content);
    assert_eq!(run("ls", &["-R"], &mounted.path("a")).lines().last(), Some("file"));
}

#[test]
fn what_any_program_writes_svmio_reads() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let content = noise(2_500_000, 2);
    fs::write(setting.outside("original"), &content).unwrap();
    run("cp", &[setting.outside("original").to_str().unwrap()], &mounted.path("file"));
    assert!(setting.run(&["cat", &mounted.name("file")]).stdout == content);
    let stat = setting.json(&["stat", "--json", &mounted.name("file")]);
    assert_eq!(stat[0]["size"], content.len());
    setting.printed(&["verify"]);
}

#[test]
fn a_file_of_many_segments_keeps_its_holes() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let segment = SegmentSize::DEFAULT.bytes();
    let (size, at) = (3 * segment + 12_345, 2 * segment - 5000);
    let pieces = [(0, noise(10_000, 3)), (at, noise(20_000, 4))];
    write_sparse(&mounted.path("file"), size, &pieces);
    write_sparse(&setting.outside("plain"), size, &pieces);
    let same = Command::new("cmp").arg(setting.outside("plain")).arg(mounted.path("file")).status();
    assert!(same.unwrap().success());

    let file = File::open(mounted.path("file")).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), size);
    // Large pages may have been given to what is written.
    assert!(metadata.blocks() * 512 <= 16 << 20, "{} blocks", metadata.blocks());
    let hole = rustix::fs::seek(&file, Place::Hole(0)).unwrap();
    assert!((10_000..at).contains(&hole), "{hole}");
    let data = rustix::fs::seek(&file, Place::Data(segment)).unwrap();
    assert!((segment..=at).contains(&data), "{data}");
    assert_eq!(rustix::fs::seek(&file, Place::Hole(size - 1)).unwrap(), size - 1);
    for beyond in [Place::Data(size - 1), Place::Data(size), Place::Hole(size)] {
        assert_eq!(rustix::fs::seek(&file, beyond), Err(Errno::NXIO), "{beyond:?}");
    }
    setting.printed(&["cp", &format!("svm:{}", mounted.name("file")), "copied"]);
    let same = Command::new("cmp").arg(setting.outside("plain")).arg(setting.outside("copied")).status();
    assert!(same.unwrap().success());
    setting.printed(&["verify"]);
}

#[test]
fn files_are_mapped_as_memory_by_programs_that_know_nothing_of_it() {
    const PROGRAM: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), 0)
    assert mapped[:5] == b'first', mapped[:5]
    mapped[100000:100006] = b'second'
    mapped.flush()
    file.seek(100000)
    assert file.read(6) == b'second'
    mapped.close()
with open(sys.argv[1], 'rb') as file:
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped[100000:100006] == b'second'
";
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let mut file = File::create(mounted.path("file")).unwrap();
    file.set_len(200_000).unwrap();
    file.write_all(b"first").unwrap();
    run("python3", &["-c", PROGRAM], &mounted.path("file"));
    let read = setting.run(&["cat", &mounted.name("file"), "--offset", "100000", "--length", "6"]).stdout;
    assert_eq!(text(&read), "second");
}

#[test]
fn a_removed_file_stays_for_those_who_have_it_open() {
    alone(|| {
        let setting = Setting::new();
        let mounted = Mounted::of(&setting);
        let mut file =
            File::options().read(true).write(true).create_new(true).open(mounted.path("file")).unwrap();
        file.write_all(b"still here").unwrap();
        fs::remove_file(mounted.path("file")).unwrap();
        file.write_all(b", and longer").unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.nlink(), metadata.len()), (0, 22));
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "still here, and longer");
        let again = File::create_new(mounted.path("file")).unwrap();
        assert_ne!(again.metadata().unwrap().ino(), metadata.ino());
        drop((file, again));
        mounted.end();
        assert_eq!(setting.object_count(), 1);
    });
}

#[test]
fn a_directory_that_is_made_where_one_was_removed_is_another_one() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let made = || {
        fs::create_dir(mounted.path("d")).unwrap();
        fs::metadata(mounted.path("d")).unwrap().ino()
    };
    let first = made();
    fs::remove_dir(mounted.path("d")).unwrap();
    assert_ne!(made(), first);
}

#[test]
fn a_directory_that_is_open_is_listed_anew_from_its_beginning() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let directory = mounted.path("d");
    fs::create_dir(&directory).unwrap();
    let mut open = rustix::fs::Dir::new(File::open(&directory).unwrap()).unwrap();
    let mut names = || {
        let read: Result<Vec<_>, _> = open.by_ref().collect();
        open.rewind();
        let names = read.unwrap().into_iter().map(|entry| entry.file_name().to_str().unwrap().to_owned());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    };
    assert_eq!(names(), [""; 0]);
    for number in 0..300 {
        fs::write(directory.join(format!("file {number:03}")), "").unwrap();
    }
    let all = names();
    assert_eq!((all.len(), all.first().unwrap().as_str()), (300, "file 000"));
    fs::remove_file(directory.join("file 000")).unwrap();
    assert_eq!(names(), all[1..]);
}

#[test]
fn directories_that_a_killed_program_has_left_empty_can_be_removed() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let names = setting.store_path().join("names");
    fs::create_dir_all(names.join(mounted.point.strip_prefix("/").unwrap()).join("a/b")).unwrap();
    assert_eq!(number(fs::remove_dir(mounted.path("a"))), Errno::NOTEMPTY);
    fs::remove_dir(mounted.path("a/b")).unwrap();
    fs::remove_dir(mounted.path("a")).unwrap();
    assert_eq!(number(fs::remove_dir(mounted.path("a"))), Errno::NOENT);
    assert_eq!(fs::read_dir(&mounted.point).unwrap().count(), 0);
}

#[test]
fn appended_lines_come_one_after_the_other() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let append = &|word: &str| {
        let mut file = File::options().append(true).create(true).open(mounted.path("log")).unwrap();
        for turn in 0..200 {
            file.write_all(format!("{word} {turn}\n").as_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for word in ["one", "two", "three"] {
            scope.spawn(move || append(word));
        }
    });
    let log = fs::read_to_string(mounted.path("log")).unwrap();
    for word in ["one", "two", "three"] {
        let of_one: Vec<_> = log.lines().filter(|line| line.starts_with(word)).collect();
        let expected: Vec<_> = (0..200).map(|turn| format!("{word} {turn}")).collect();
        assert_eq!(of_one, expected);
    }
}

#[test]
fn times_are_those_of_the_last_change_or_what_was_set() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    let before = SystemTime::now() - Duration::from_secs(1);
    let file = File::create(mounted.path("file")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    assert!(file.metadata().unwrap().modified().unwrap() >= before);
    let set = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(set).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), set);
    drop(file);
    mounted.unmount();
    drop(mounted);
    let mounted = Mounted::of(&setting);
    assert_eq!(fs::metadata(mounted.path("file")).unwrap().modified().unwrap(), set);
    // In place, by the memory that the segment is.
    File::options().write(true).open(mounted.path("file")).unwrap().write_all_at(b"y", 0).unwrap();
    assert!(fs::metadata(mounted.path("file")).unwrap().modified().unwrap() >= before);
}

#[test]
fn what_cannot_be_is_told_by_the_numbers_that_programs_know() {
    let setting = Setting::new();
    let mounted = Mounted::of(&setting);
    fs::write(mounted.path("file"), b"content").unwrap();
    fs::create_dir(mounted.path("directory")).unwrap();
    let create = |name: &str| number(File::create_new(mounted.path(name)));
    assert_eq!(number(File::open(mounted.path("none"))), Errno::NOENT);
    assert_eq!(create("file"), Errno::EXIST);
    assert_eq!(create("file/below"), Errno::NOTDIR);
    assert_eq!(create("none/below"), Errno::NOENT);
    assert_eq!(create(".svmio-x"), Errno::INVAL);
    assert_eq!(create(&"x".repeat(256)), Errno::NAMETOOLONG);
    assert_eq!(number(File::create(mounted.path("directory"))), Errno::ISDIR);
    assert_eq!(number(fs::hard_link(mounted.path("file"), mounted.path("link"))), Errno::PERM);
    assert_eq!(number(std::os::unix::fs::symlink("file", mounted.path("link"))), Errno::PERM);
    assert_eq!(number(std::os::unix::fs::chown(mounted.path("file"), Some(4321), None)), Errno::PERM);
    let file = File::options().write(true).open(mounted.path("file")).unwrap();
    assert_eq!(number(file.write_all_at(b"x", (1 << 62) - 1)), Errno::FBIG);
    assert_eq!(number(File::open(mounted.path("file")).unwrap().write_all_at(b"x", 0)), Errno::BADF);

    setting.put(&mounted.name("damaged"), b"content");
    fs::write(setting.object(&mounted.name("damaged")).join("manifest"), b"nonsense").unwrap();
    assert_eq!(number(File::open(mounted.path("damaged"))), Errno::IO);
    // It can be removed all the same.
    fs::remove_file(mounted.path("damaged")).unwrap();
    assert!(setting.store().lookup(&FileName::new(mounted.name("damaged")).unwrap()).is_err());
}
