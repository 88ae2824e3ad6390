//! A process that is stopped in the middle of a write into another one's memory, and that goes on later.
//!
//! It is this test program again, told by its environment to run only [`the_sender`]. The two talk over its standard
//! streams.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, WaitOptions};

use super::lending::{open, stopped_write};
use super::{Messenger, Mode, Rank};
use crate::back_end::{Piece, Place, Prepared, Remote};
use crate::fabric::Fabric;
use crate::membership::Membership;
use crate::memory::UserMemory;
use crate::message::ring::Peek;
use crate::message::wire::{Packet, Way};
use crate::secret::JobSecret;
use crate::shm::{ShmSettings, prepare};

const SECRET: &str = "SVMIO_TEST_STOPPING_SECRET";
const ADDRESS: &str = "SVMIO_TEST_STOPPING_ADDRESS";
/// What marks a line as ours among those of the test harness.
pub(super) const MARK: &str = "svmio-test:";
const LENGTH: usize = 1_000_000;

pub(super) fn join(prepared: Box<dyn Prepared>, rank: u32, addresses: [Vec<u8>; 2]) -> Fabric {
    let membership = Membership::new(Rank(rank), vec!["here".into(); 2]);
    Fabric::new(prepared.join(Arc::new(membership), addresses.into()).unwrap())
}

/// By which key the receiver wants the message, which this process has not dealt with yet.
pub(super) fn key_of_receiver(messenger: &Messenger) -> Place {
    let link = messenger.engine().link(Rank(0)).unwrap();
    while !link.signs.control.has_arrived() {
        std::thread::yield_now();
    }
    let state = link.take_turn();
    let Ok(Peek::Packet(found)) = state.control.peek() else { panic!("a whole packet is there") };
    let mut payload = vec![0; found.length];
    state.control.copy(found, &mut payload);
    match Packet::decode(found.kind, &payload) {
        Ok(Packet::Ready { way: Way::Direct, key, .. }) => Place::Registered(key),
        other => panic!("{other:?}"),
    }
}

/// Stops in the middle of sending to rank 0, and writes when it is continued.
#[test]
#[ignore = "a part of the other test here, which starts it"]
fn the_sender() {
    let variable = |name| std::env::var(name).unwrap();
    let prepared = prepare(&ShmSettings::default(), &variable(SECRET).parse().unwrap()).unwrap();
    let own = prepared.address();
    println!("{MARK}{own:?}");
    let address: Vec<u8> = serde_json::from_str(&variable(ADDRESS)).unwrap();
    let fabric = join(prepared, 1, [address, own]);
    let messenger = open(&fabric, Way::Direct);
    let bytes = vec![1; LENGTH];
    // SAFETY: the process ends before they do.
    let _send =
        unsafe { messenger.post_send(Rank(0), UserMemory::of(&bytes), Mode::RendezvousDirect) }.unwrap();
    let remote = Remote { owner: Rank(0), place: key_of_receiver(&messenger) };
    let write = stopped_write(&messenger).unwrap();
    // SAFETY: no memory is concerned. The signal is for this thread, so it does nothing more before all are stopped.
    assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    fabric.write(&remote, &[Piece { offset: 0, bytes: &bytes }]).unwrap();
    drop(write);
    println!("{MARK}written");
    // Until the other one has looked at its memory.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

/// This test program again, which is ended whatever happens.
pub(super) struct Sender {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Sender {
    /// Has it run `test`, with `environment`.
    pub(super) fn start(test: &str, environment: &[(&str, String)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", test])
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// The next that it says.
    pub(super) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the sender has ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim().to_owned();
            }
        }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap()
    }

    /// Whether it has stopped itself since this was last asked.
    pub(super) fn has_stopped(&self) -> bool {
        let told = rustix::process::waitpid(Some(self.id()), WaitOptions::UNTRACED | WaitOptions::NOHANG);
        told.unwrap().is_some_and(|(_, status)| status.stopped())
    }

    pub(super) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.id(), signal).unwrap();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_stopped_process_does_not_write_into_memory_that_was_given_back() {
    let secret = JobSecret::random().unwrap();
    let prepared = prepare(&ShmSettings::default(), &secret).unwrap();
    let own = prepared.address();
    let environment = [(SECRET, secret.to_hex()), (ADDRESS, format!("{own:?}"))];
    let mut sender = Sender::start("message::tests::stopping::the_sender", &environment);
    let address = serde_json::from_str(&sender.hear()).unwrap();
    let fabric = join(prepared, 0, [own, address]);
    let messenger = open(&fabric, Way::Direct);
    let mut into = vec![0; LENGTH];
    // SAFETY: it ends below, and the memory is left alone until then.
    let receive = unsafe { messenger.post_receive(Rank(1), UserMemory::of_mut(&mut into)) }.unwrap();
    while !sender.has_stopped() {
        assert!(receive.test().is_none());
        std::thread::yield_now();
    }
    fabric.membership().declare_lost(Rank(1), "the test says so");
    let early = receive.test();
    assert!(early.is_none(), "its memory was given back too early: {early:?}");
    let error = receive.wait().unwrap_err();
    assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
    assert!(into.iter().all(|byte| *byte == 1), "what the sender had begun came before the end");
    into.fill(7);
    assert_eq!(sender.hear(), "written");
    assert!(into.iter().all(|byte| *byte == 7), "what the sender had begun came after the end");
}
