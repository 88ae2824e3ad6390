//! Ranks that are processes of their own, and that are killed.
//!
//! A process is this test program again, told by its environment to run only [`the_other_process`]. The two talk
//! over its standard streams: addresses in hexadecimal, a line each.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};

use super::super::ask::socket_name;
use super::super::peer::Peer;
use super::super::wire::{Address, Answer, Greeting, Wanted};
use super::super::{ShmSettings, prepare};
use super::{SEGMENT, anonymous, wait_for};
use crate::back_end::{MemoryKey, Place, Prepared, Remote};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::membership::Membership;
use crate::memory::UserMemory;
use crate::secret::JobSecret;
use crate::units::{Interrupt, Rank};

const SECRET: &str = "SVMIO_TEST_SHM_SECRET";
/// What marks a line as ours among those of the test harness.
const MARK: &str = "svmio-test:";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn join(prepared: Box<dyn Prepared>, rank: u32, addresses: Vec<Vec<u8>>) -> Fabric {
    let membership = Membership::new(Rank(rank), vec!["here".into(); 2]);
    Fabric::new(prepared.join(Arc::new(membership), addresses).unwrap())
}

struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn start(secret: &JobSecret) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "shm::tests::processes::the_other_process"])
            .env(SECRET, secret.to_hex())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the other process has ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim().into();
            }
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A rank of its own: echoes each word that is written to its segment back, until it is told to end.
#[test]
#[ignore = "a part of the other tests here, which start it"]
fn the_other_process() {
    let secret: JobSecret = std::env::var(SECRET).unwrap().parse().unwrap();
    let prepared = prepare(&ShmSettings::default(), &secret).unwrap();
    let own = prepared.address();
    println!("{MARK}{}", hex(&own));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let fabric = join(prepared, 1, vec![bytes(line.trim()), own]);
    let segment = fabric.create(SEGMENT, &anonymous(64)).unwrap();
    let mut memory = vec![5_u8; 2 << 20];
    // SAFETY: `memory` is left alone as long as this process lives.
    let registration = unsafe { fabric.register(UserMemory::of_mut(&mut memory)) }.unwrap();
    let [start, length, stamp] = registration.key().0;
    println!("{MARK}{start} {length} {stamp}");
    let word = segment.memory().word64(0).unwrap();
    // Whoever writes a word has made the segment that it comes back to.
    let mut back = None;
    let mut last = 0;
    while last != u64::MAX {
        wait_for(&fabric, || word.load(Ordering::Acquire) != last);
        last = word.load(Ordering::Acquire);
        let back = back.get_or_insert_with(|| fabric.connect(Rank(0), SEGMENT).unwrap());
        back.write(0, &last.to_ne_bytes()).unwrap();
        fabric.ring(Rank(0)).unwrap();
        fabric.trigger(Rank(0), Interrupt(3)).unwrap();
    }
}

fn meet() -> (Fabric, Other, MemoryKey) {
    let secret = JobSecret::random().unwrap();
    let prepared = prepare(&ShmSettings::default(), &secret).unwrap();
    let mut other = Other::start(&secret);
    let address = bytes(&other.hear());
    let own = prepared.address();
    other.say(&hex(&own));
    let fabric = join(prepared, 0, vec![own, address]);
    let words: Vec<u64> = other.hear().split(' ').map(|word| word.parse().unwrap()).collect();
    (fabric, other, MemoryKey(words.try_into().unwrap()))
}

#[test]
fn two_processes_write_ring_trigger_and_reach_each_others_private_memory() {
    let (fabric, mut other, key) = meet();
    let segment = fabric.create(SEGMENT, &anonymous(64)).unwrap();
    let remote = fabric.connect(Rank(1), SEGMENT).unwrap();
    let echo = segment.memory().word64(0).unwrap();
    let mut triggered = 0;
    for round in (1..1000).chain([u64::MAX]) {
        remote.write(0, &round.to_ne_bytes()).unwrap();
        fabric.ring(Rank(1)).unwrap();
        wait_for(&fabric, || echo.load(Ordering::Acquire) == round);
        if round == 500 {
            let private = Remote { owner: Rank(1), place: Place::Registered(key) };
            let mut found = vec![0; 2 << 20];
            fabric.read(&private, 0, &mut found).unwrap();
            assert!(found.iter().all(|&byte| byte == 5));
            fabric.write(&private, &[crate::back_end::Piece { offset: 77, bytes: &[6; 100_000] }]).unwrap();
            fabric.read(&private, 0, &mut found).unwrap();
            assert_eq!(found.iter().position(|&byte| byte == 6), Some(77));
            assert_eq!(found.iter().filter(|&&byte| byte == 6).count(), 100_000);
        }
    }
    while triggered < 1000 {
        triggered += fabric.wait_interrupt(Interrupt(3), None).unwrap();
    }
    assert!(other.process.wait().unwrap().success());
}

#[test]
fn a_killed_process_is_noticed_and_its_number_not_trusted() {
    let (fabric, mut other, key) = meet();
    let _segment = fabric.create(SEGMENT, &anonymous(64)).unwrap();
    let remote = fabric.connect(Rank(1), SEGMENT).unwrap();
    let private = Remote { owner: Rank(1), place: Place::Registered(key) };
    let mut found = [0; 8];
    fabric.read(&private, 0, &mut found).unwrap();
    other.kill();
    // Mapped memory outlives its owner: stores to it go on, and harm nobody.
    remote.write(0, b"too late").unwrap();
    // Its private memory is gone, and nobody of its number is taken for it.
    assert_eq!(fabric.read(&private, 0, &mut found).unwrap_err().lost_peer(), Some(Rank(1)));
    assert_eq!(fabric.connect(Rank(1), SEGMENT).unwrap_err().lost_peer(), Some(Rank(1)));
    fabric.membership().declare_lost(Rank(1), "killed");
    assert!(matches!(remote.write(0, b"too late"), Err(Error::PeerLost { .. })));
}

#[test]
fn a_process_that_lives_has_not_ended_and_a_killed_one_has() {
    let (fabric, mut other, _) = meet();
    assert!(!fabric.back_end().has_ended(Rank(1)));
    other.kill();
    assert!(fabric.back_end().has_ended(Rank(1)));
}

/// Runs one of the bodies below in a process of its own: it takes that its descriptors.
fn succeeds_alone(body: &str) {
    let outcome = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", &format!("shm::tests::processes::{body}")])
        .output()
        .unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    // A process that ran no test would have nothing to fail with.
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(said.contains("1 passed"), "{body}: {said}");
}

fn limit_descriptors(current: u64) {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

#[test]
fn the_end_of_a_process_is_seen_without_a_descriptor_to_spare() {
    succeeds_alone("without_descriptors");
}

#[test]
fn peers_connect_again_after_a_shortage_of_descriptors() {
    succeeds_alone("short_of_descriptors_for_a_while");
}

#[test]
fn who_has_no_descriptor_for_memory_says_so_and_connects_when_it_has() {
    succeeds_alone("short_of_descriptors_for_memory");
}

/// A rank that has a descriptor to ask with, and for a while none for what it asks for.
#[test]
#[ignore = "a part of another test here, which starts it"]
fn short_of_descriptors_for_memory() {
    let (fabric, _other, _) = meet();
    fabric.connect(Rank(1), SEGMENT).unwrap();
    let before = rustix::process::getrlimit(Resource::Nofile).current.unwrap();
    for spare in [0, 1] {
        let lowest = [(); 2].map(|()| std::fs::File::open("/dev/null").unwrap());
        limit_descriptors(lowest[spare].as_raw_fd().try_into().unwrap());
        drop(lowest);
        let error = fabric.connect(Rank(1), SEGMENT).unwrap_err();
        assert!(matches!(error, Error::System { .. }), "{spare}: {error}");
        assert!(error.to_string().contains("rank 1"), "{spare}: {error}");
        thread::scope(|scope| {
            let connecting = scope.spawn(|| fabric.connect(Rank(1), SEGMENT).map(|_| ()));
            limit_descriptors(before);
            connecting.join().unwrap().unwrap();
        });
    }
}

/// A rank that has used up its descriptors.
#[test]
#[ignore = "a part of another test here, which starts it"]
fn without_descriptors() {
    let (fabric, mut other, key) = meet();
    let own = prepare(&ShmSettings::default(), &JobSecret::random().unwrap()).unwrap().address();
    let own = Address::decode(&own).unwrap();
    limit_descriptors(3);
    assert!(std::fs::File::open("/dev/null").is_err());
    // Its private memory is reached all the same.
    let private = Remote { owner: Rank(1), place: Place::Registered(key) };
    let mut found = [0; 8];
    fabric.read(&private, 0, &mut found).unwrap();
    assert_eq!(found, [5; 8]);
    assert!(!fabric.back_end().has_ended(Rank(1)));
    other.kill();
    assert!(fabric.back_end().has_ended(Rank(1)));
    assert_eq!(fabric.read(&private, 0, &mut found).unwrap_err().lost_peer(), Some(Rank(1)));
    // One whose number somebody else has now: this process.
    let earlier = Address { cookie: [0; 16], ..own.clone() };
    assert!(!Peer::new(Rank(1), own).has_ended());
    assert!(Peer::new(Rank(1), earlier).has_ended());
}

/// A rank that may have fewer descriptors, for a while, than it has callers to wait for.
#[test]
#[ignore = "a part of another test here, which starts it"]
fn short_of_descriptors_for_a_while() {
    let secret = JobSecret::random().unwrap();
    let prepared = prepare(&ShmSettings::default(), &secret).unwrap();
    let own = prepared.address();
    let name = socket_name(&Address::decode(&own).unwrap().name).unwrap();
    let membership = Arc::new(Membership::new(Rank(0), vec!["here".into()]));
    let fabric = Fabric::new(prepared.join(membership, vec![own]).unwrap());
    let before = rustix::process::getrlimit(Resource::Nofile).current.unwrap();

    // They say nothing. Whoever calls after them has been answered when they were let in.
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let callers = [(); 4].map(|()| {
        let caller = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&caller, &name).unwrap();
        caller
    });
    let ask = || {
        let asker = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&asker, &name).unwrap();
        let greeting = Greeting::new(&secret, Rank(0), Wanted::Control).encode();
        rustix::net::send(&asker, &greeting, SendFlags::NOSIGNAL).unwrap();
        let mut answer = [0; 100];
        let (_, length) = rustix::net::recv(&asker, &mut answer[..], RecvFlags::empty()).unwrap();
        assert!(matches!(Answer::decode(&answer[..length]), Ok(Answer::Here { .. })));
    };
    ask();
    // Now the next look at them fails; what the first one says ends this one.
    limit_descriptors(3);
    rustix::net::send(&callers[0], b"nonsense", SendFlags::NOSIGNAL).unwrap();
    // The first is dropped for what it says, the last because the look at so many fails.
    for caller in [&callers[0], &callers[3]] {
        let heard = rustix::net::recv(caller, &mut [0_u8; 8][..], RecvFlags::empty());
        assert!(heard.map_or(true, |(_, length)| length == 0));
    }
    limit_descriptors(before);
    ask();
    fabric.close();
}
