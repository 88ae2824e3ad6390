//! Memory that is taken back while a write of a process that lives is on its way there, over libfabric.
//!
//! The writer is this test program again, told by its environment to run only [`the_writer`]. It writes more than the
//! system keeps on the way, and is stopped when that has begun.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Rank;
use super::lending::open;
use super::stopping::{MARK, Sender, join, key_of_receiver};
use crate::back_end::{Backing, Prepared, Remote, Wait, Waited};
use crate::dma::{Completion, Direction, Transfer};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::wire::Way;
use crate::message::{Mode, Posted};
use crate::ofi::{OfiSettings, prepare, within_process};
use crate::secret::JobSecret;
use crate::units::SegmentId;

const SECRET: &str = "SVMIO_TEST_ARRIVING_SECRET";
const ADDRESS: &str = "SVMIO_TEST_ARRIVING_ADDRESS";
const PROVIDER: &str = "SVMIO_TEST_ARRIVING_PROVIDER";
const TARGET: &str = "SVMIO_TEST_ARRIVING_TARGET";

const PROVIDERS: [&str; 2] = ["net", "tcp;ofi_rxm"];

/// Far more than sockets hold.
const LENGTH: usize = 64 << 20;

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

/// After how long a peer that stands still is not waited for any more.
const SILENCE: Duration = Duration::from_secs(2);

/// The same where it goes on, and is to be waited for though the machine is busy.
const PATIENCE: Duration = Duration::from_secs(30);

const SEGMENT: SegmentId = SegmentId::new(7, 1);

fn listen(provider: &str, secret: &JobSecret, silence: Duration) -> Box<dyn Prepared> {
    let settings = OfiSettings {
        provider: provider.into(),
        address: "127.0.0.1".into(),
        // One write for all: what its key was looked up for comes wholly.
        transfer_bytes: 1 << 30,
        silence,
        ..OfiSettings::default()
    };
    prepare(&settings, secret).unwrap()
}

/// Begins to write ones to rank 0, stops, and goes on when it is continued.
#[test]
#[ignore = "a part of the other tests here, which start it"]
fn the_writer() {
    let variable = |name| std::env::var(name).unwrap();
    let prepared = listen(&variable(PROVIDER), &variable(SECRET).parse().unwrap(), PATIENCE);
    let own = prepared.address();
    println!("{MARK}{own:?}");
    let address: Vec<u8> = serde_json::from_str(&variable(ADDRESS)).unwrap();
    let fabric = join(prepared, 1, [address, own]);
    let bytes = vec![1; LENGTH];
    if variable(TARGET) == "segment" {
        let segment = loop {
            match fabric.connect(Rank(0), SEGMENT) {
                Ok(segment) => break segment,
                Err(error) => assert!(matches!(error, Error::UnknownSegment { .. }), "{error}"),
            }
        };
        write_and_stop(&fabric, segment.remote(), &bytes);
    } else {
        let messenger = open(&fabric, Way::Direct);
        // SAFETY: the process ends before they do.
        let _send =
            unsafe { messenger.post_send(Rank(0), UserMemory::of(&bytes), Mode::RendezvousDirect) }.unwrap();
        let remote = Remote { owner: Rank(0), place: key_of_receiver(&messenger) };
        write_and_stop(&fabric, remote, &bytes);
    }
}

fn write_and_stop(fabric: &Fabric, remote: Remote, bytes: &[u8]) -> ! {
    let done = Arc::new(Completion::new());
    let local = UserMemory::of(bytes);
    let chain = vec![Transfer { direction: Direction::Write, local, remote, offset: 0 }];
    // SAFETY: the process ends before the bytes do.
    unsafe { fabric.post(chain, &done) }.unwrap();
    // SAFETY: no memory is concerned. The signal is for this thread, so it does nothing more before all are stopped.
    assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    // It may fail: rank 0 does not want it any more.
    let (deadline, mut ready) = (Some(fabric.now().after(LIMIT)), || done.test().is_some());
    let waited = fabric.wait_until(Wait { deadline, attends: None, ready: &mut ready });
    assert_eq!(waited, Waited::Ready);
    println!("{MARK}written");
    // Until the other one has looked at its memory.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn start(provider: &str, target: &str, silence: Duration) -> (Fabric, Sender) {
    let secret = JobSecret::random().unwrap();
    let prepared = listen(provider, &secret, silence);
    let own = prepared.address();
    let environment = [
        (SECRET, secret.to_hex()),
        (ADDRESS, format!("{own:?}")),
        (PROVIDER, provider.into()),
        (TARGET, target.into()),
    ];
    let mut writer = Sender::start("message::tests::arriving::the_writer", &environment);
    let address = serde_json::from_str(&writer.hear()).unwrap();
    (join(prepared, 0, [own, address]), writer)
}

/// Whether the first of the bytes that are written there has come, and whether the last has.
fn ends(memory: UserMemory) -> (bool, bool) {
    // SAFETY: within the memory, which is valid, and which the provider may be writing to.
    let [first, last] = [0, LENGTH - 1].map(|at| unsafe { memory.start.add(at).read_volatile() });
    (first == 1, last == 1)
}

/// Waits until the writer has stopped, and the first has come of what it has begun to write.
fn wait_for_the_midst(writer: &Sender, memory: UserMemory, meanwhile: impl Fn()) {
    let (began, mut has_stopped) = (Instant::now(), false);
    while !has_stopped || !ends(memory).0 {
        has_stopped = has_stopped || writer.has_stopped();
        assert!(began.elapsed() < LIMIT, "it has stopped: {has_stopped}, and nothing comes");
        meanwhile();
        std::thread::yield_now();
    }
}

/// Has a receive fail of which the first part has come, and no more comes as its sender is stopped. Then `finish` sees
/// to its end; returns whether the sender goes on. One that does not is not waited for after `silence`.
fn fail_in_the_midst(silence: Duration, finish: impl Fn(&Sender, &Posted<'_>) -> bool) {
    for provider in PROVIDERS {
        // The writer may be held up just before it stops, and all have come by then.
        let is_met = (0..10).any(|_| {
            let (fabric, mut writer) = start(provider, "message", silence);
            let messenger = open(&fabric, Way::Direct);
            let mut into = vec![0; LENGTH];
            let memory = UserMemory::of_mut(&mut into);
            // SAFETY: it ends below, and the memory is left alone until then.
            let receive = unsafe { messenger.post_receive(Rank(1), memory) }.unwrap();
            wait_for_the_midst(&writer, memory, || assert!(receive.test().is_none()));
            if ends(memory).1 {
                return false;
            }
            fabric.membership().declare_lost(Rank(1), "the test says so");
            for _ in 0..100 {
                let early = receive.test();
                assert!(early.is_none(), "{provider}: its memory was given back too early: {early:?}");
            }
            let goes_on = finish(&writer, &receive);
            let error = receive.wait().unwrap_err();
            assert_eq!(error.lost_peer(), Some(Rank(1)), "{provider}: {error}");
            into.fill(7);
            if goes_on {
                writer.signal(Signal::CONT);
                assert_eq!(writer.hear(), "written");
            }
            assert!(into.iter().all(|byte| *byte == 7), "{provider}: something came after the end");
            true
        });
        assert!(is_met, "{provider}");
    }
}

#[test]
fn a_receive_that_fails_has_its_memory_until_what_a_living_peer_has_begun_is_there() {
    fail_in_the_midst(PATIENCE, |writer, receive| {
        writer.signal(Signal::CONT);
        receive.wait().unwrap_err();
        true
    });
}

#[test]
fn a_lost_peer_that_stands_still_is_not_waited_for_for_ever() {
    fail_in_the_midst(SILENCE, |_, receive| {
        receive.wait().unwrap_err();
        false
    });
}

#[test]
fn a_receive_fails_though_its_peer_died_in_the_midst_of_a_write() {
    fail_in_the_midst(PATIENCE, |writer, receive| {
        writer.signal(Signal::KILL);
        receive.wait().unwrap_err();
        false
    });
}

#[test]
fn all_receives_of_a_pair_that_fails_end_while_its_peer_lives() {
    for provider in PROVIDERS {
        let fabrics = within_process(2, provider).unwrap();
        let [zero, one] = [0, 1].map(|rank| open(&fabrics[rank], Way::Direct));
        let (ours, mut theirs) = (vec![1; 1_000_000], [(); 3].map(|()| vec![0; 1_000_000]));
        let receives = theirs.each_mut().map(|into| {
            let memory = UserMemory::of_mut(into);
            // SAFETY: it ends below, and the memory is left alone until then.
            unsafe { zero.post_receive(Rank(1), memory) }.unwrap()
        });
        let sends = [(); 3].map(|()| {
            let memory = UserMemory::of(&ours);
            // SAFETY: as above.
            unsafe { one.post_send(Rank(0), memory, Mode::RendezvousDirect) }.unwrap()
        });
        // Until all have met their messages, and their senders have been told where to write.
        let link = zero.engine().link(Rank(1)).unwrap();
        let began = Instant::now();
        while link.take_turn().receiving.len() < receives.len() {
            assert!(began.elapsed() < LIMIT);
            link.take_turn().process(link);
            std::thread::yield_now();
        }
        fabrics[0].membership().declare_lost(Rank(1), "the test says so");
        for receive in receives {
            assert_eq!(receive.wait().unwrap_err().lost_peer(), Some(Rank(1)), "{provider}");
        }
        fabrics[1].membership().declare_lost(Rank(0), "the test says so");
        for send in sends {
            assert_eq!(send.wait().unwrap_err().lost_peer(), Some(Rank(0)), "{provider}");
        }
    }
}

/// The loss of a third rank, which both watch, ends their messages, and nothing else between them: a connection that
/// were closed over memory that is not there any more would make them take each other for lost.
#[test]
fn a_receive_that_fails_over_another_ranks_loss_costs_its_sender_nothing_else() {
    for provider in PROVIDERS {
        // All may have come before the third one is lost.
        assert!((0..10).any(|_| is_failed_by_a_third(provider)), "{provider}");
    }
}

/// Returns whether the loss came in the middle of the message.
fn is_failed_by_a_third(provider: &str) -> bool {
    let fabrics = within_process(3, provider).unwrap();
    let [zero, one] = [0, 1].map(|rank| open(&fabrics[rank], Way::Direct));
    [&zero, &one].into_iter().for_each(|messenger| messenger.watch(&[Rank(2)]));
    let own = fabrics[0].create(SEGMENT, &Backing::Anonymous { length: 8 }).unwrap();
    let remote = fabrics[1].connect(Rank(0), SEGMENT).unwrap();
    let (ours, mut theirs) = (vec![1; LENGTH], vec![0; LENGTH]);
    let memory = UserMemory::of_mut(&mut theirs);
    // SAFETY: both end below, and the memory is left alone until then.
    let (receive, send) = unsafe {
        let receive = zero.post_receive(Rank(1), memory).unwrap();
        (receive, one.post_send(Rank(0), UserMemory::of(&ours), Mode::RendezvousDirect).unwrap())
    };
    let began = Instant::now();
    while !ends(memory).0 {
        assert!(began.elapsed() < LIMIT, "{provider}: nothing comes");
        let _ = (receive.test(), send.test());
    }
    remote.write(0, &1_u64.to_ne_bytes()).unwrap();
    fabrics[0].membership().declare_lost(Rank(2), "the test says so");
    let received = receive.wait();
    theirs.fill(7);
    let sent = send.wait();
    let is_failed = received.is_err() && sent.is_err();
    if let (Err(received), Err(sent)) = (received, sent) {
        assert_eq!(received.lost_peer(), Some(Rank(2)), "{provider}: {received}");
        assert!(matches!(sent, Error::OutOfBounds { .. }), "{provider}: {sent}");
    }
    remote.write(0, &2_u64.to_ne_bytes()).unwrap();
    fabrics[1].store_barrier(Rank(0)).unwrap();
    assert_eq!(own.memory().word64(0).unwrap().load(std::sync::atomic::Ordering::Acquire), 2);
    [0, 1].into_iter().for_each(|rank| fabrics[rank].membership().check(Rank(1 - rank as u32)).unwrap());
    assert!(theirs.iter().all(|byte| *byte == 7), "{provider}: something came after the end");
    is_failed
}

#[test]
fn a_segment_stays_mapped_until_what_a_peer_has_begun_is_there() {
    for provider in PROVIDERS {
        let is_met = (0..10).any(|_| {
            let (fabric, mut writer) = start(provider, "segment", PATIENCE);
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(LENGTH as u64).unwrap();
            let handle = Arc::new(file.reopen().unwrap());
            let backing = Backing::File { file: handle, offset: 0, length: LENGTH as u64 };
            let segment = fabric.create(SEGMENT, &backing).unwrap();
            let start = std::ptr::NonNull::new(segment.memory().as_ptr()).unwrap();
            let memory = UserMemory { start, length: LENGTH };
            wait_for_the_midst(&writer, memory, || ());
            if ends(memory).1 {
                return false;
            }
            let path = file.path().to_str().unwrap().to_owned();
            let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(&path);
            drop(segment);
            assert!(is_mapped(), "{provider}: it was unmapped too early");
            writer.signal(Signal::CONT);
            assert_eq!(writer.hear(), "written");
            let began = Instant::now();
            while is_mapped() {
                assert!(began.elapsed() < LIMIT, "{provider}: it stays mapped");
                std::thread::yield_now();
            }
            let written = fs::read(file.path()).unwrap();
            assert!(written.iter().all(|byte| *byte == 1), "{provider}: what was begun came before the end");
            true
        });
        assert!(is_met, "{provider}");
    }
}
