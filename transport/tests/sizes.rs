//! Messages of any size, in every mode, with any numbers and sizes of buffers, between two processes over shared
//! memory and over libfabric's TCP: random programs, against what the sender wrote.
//!
//! Plain `cargo test` goes to 4 MiB over shared memory, and to 64 MiB in a few programs over TCP; with `SVMIO_FULL=1`
//! both go to 64 MiB, in more programs.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::fmt::Write as _;

use proptest::prelude::*;
use svmio_transport::job::{Job, Launcher, Streams};
use svmio_transport::message::{Messenger, Mode, Port};
use svmio_transport::{Error, Rank, Result};

/// Tells a process what to do.
const PROGRAM: &str = "SVMIO_TEST_PROGRAM";

/// Tells a process which fabric it runs on.
const FABRIC: &str = "SVMIO_FABRIC";

const SHARED_MEMORY: [(&str, &str); 1] = [(FABRIC, "shm")];
const TCP: [(&str, &str); 2] = [(FABRIC, "ofi"), ("SVMIO_OFI_PROVIDER", "tcp;ofi_rxm")];

const MODES: [Mode; 7] = [
    Mode::Automatic,
    Mode::Short,
    Mode::Eager,
    Mode::RendezvousStores,
    Mode::RendezvousStaged,
    Mode::RendezvousHalfStaged,
    Mode::RendezvousDirect,
];

/// A message of a program, which both ranks go through in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    from: u32,
    length: usize,
    /// Which of the modes.
    mode: usize,
    sender_waits: bool,
    receiver_waits: bool,
}

fn is_full() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}

/// Sizes from 0 to `longest`, as many of each magnitude, and those beside powers of two, where protocols change.
fn lengths(longest: usize) -> impl Strategy<Value = usize> {
    let magnitudes = longest.ilog2() + 1;
    let any = (0..magnitudes, any::<u32>())
        .prop_map(|(magnitude, more)| (1 << magnitude) + more as usize % (1 << magnitude));
    let edge = (0..magnitudes, 0_usize..3).prop_map(|(magnitude, more)| (1 << magnitude) + more - 1);
    prop_oneof![1 => Just(0), 1 => Just(longest), 8 => any, 6 => edge]
        .prop_map(move |length| length.min(longest))
}

fn messages(longest: usize) -> impl Strategy<Value = Vec<Message>> {
    let message = (0_u32..2, lengths(longest), 0..MODES.len(), any::<(bool, bool)>()).prop_map(
        |(from, length, mode, (sender_waits, receiver_waits))| Message {
            from,
            length,
            mode,
            sender_waits,
            receiver_waits,
        },
    );
    prop::collection::vec(message, 1..9)
}

/// Numbers and sizes of buffers, as the environment tells them to a process. The least are not as small as they may be:
/// 64 MiB would go in too many parts.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let buffers = (64_u32..4096, 4096_u32..65_536, 256_u32..200_000, 1_u32..5, 4096_u32..300_000, 1_u32..5);
    let others = (1_u32..200_000, 65_536_u32..4_000_000, any::<bool>());
    (buffers, others).prop_map(|(buffers, (threshold, chunk, asynchronous))| {
        let (short_packet, ring, eager_buffer, eager_buffers, staging_buffer, staging_buffers) = buffers;
        let bytes = |number: u32| format!("{number}B");
        vec![
            ("SVMIO_MESSAGES_SHORT_PACKET", bytes(short_packet)),
            ("SVMIO_MESSAGES_RING", bytes(ring)),
            ("SVMIO_MESSAGES_EAGER_BUFFER", bytes(eager_buffer)),
            ("SVMIO_MESSAGES_EAGER_BUFFERS", eager_buffers.to_string()),
            ("SVMIO_MESSAGES_RENDEZVOUS_THRESHOLD", bytes(threshold)),
            ("SVMIO_MESSAGES_STAGING_BUFFER", bytes(staging_buffer)),
            ("SVMIO_MESSAGES_STAGING_BUFFERS", staging_buffers.to_string()),
            ("SVMIO_MESSAGES_CHUNK", bytes(chunk)),
            ("SVMIO_MESSAGES_ASYNCHRONOUS", asynchronous.to_string()),
        ]
    })
}

/// The longest write that goes by libfabric's messages: none of its own, the longest that is to arrive whole, any, or
/// what it is by itself.
fn longest_store() -> impl Strategy<Value = Option<(&'static str, String)>> {
    let bytes = prop_oneof![Just(0), Just(256), 0_u32..200_000];
    prop::option::of(bytes.prop_map(|bytes| ("SVMIO_OFI_LONGEST_STORE", format!("{bytes}B"))))
}

/// For the environment: fields are separated by commas, messages by spaces.
fn write(messages: &[Message]) -> String {
    messages.iter().fold(String::new(), |mut text, message| {
        let Message { from, length, mode, sender_waits, receiver_waits } = *message;
        let (sender_waits, receiver_waits) = (u8::from(sender_waits), u8::from(receiver_waits));
        write!(text, "{from},{length},{mode},{sender_waits},{receiver_waits} ").unwrap();
        text
    })
}

fn read(text: &str) -> Vec<Message> {
    let message = |fields: &str| {
        let fields: Vec<usize> = fields.split(',').map(|field| field.parse().unwrap()).collect();
        let [from, length, mode, sender_waits, receiver_waits] = fields[..] else { panic!("{fields:?}") };
        let from = u32::try_from(from).unwrap();
        Message { from, length, mode, sender_waits: sender_waits != 0, receiver_waits: receiver_waits != 0 }
    };
    text.split_whitespace().map(message).collect()
}

/// The bytes of the message that is number `index`: no two parts of a mebibyte are alike, nor two messages.
fn content(index: usize, length: usize) -> Vec<u8> {
    // Not a multiple or divisor of any buffer's size.
    let mut block = vec![0; 1_048_573];
    fastrand::Rng::with_seed(index as u64).fill(&mut block[..length.min(1_048_573)]);
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let rest = (length - bytes.len()).min(block.len());
        bytes.extend_from_slice(&block[..rest]);
        block.rotate_left(1);
    }
    bytes
}

/// What one rank does.
fn play(messenger: &Messenger, messages: &[Message], me: Rank) -> Result<()> {
    let peer = Rank(1 - me.0);
    let is_mine = |message: &Message| message.from == me.0;
    // What waits for nobody lies here until the scope ends.
    let outgoing: Vec<_> = (0_usize..)
        .zip(messages)
        .map(|(index, message)| if is_mine(message) { content(index, message.length) } else { Vec::new() })
        .collect();
    let mut incoming: Vec<_> = (0_usize..)
        .zip(messages)
        .map(
            |(index, message)| {
                if is_mine(message) { Vec::new() } else { vec![0xee; message.length + index % 3] }
            },
        )
        .collect();
    messenger.scope(|scope| {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for ((message, bytes), place) in messages.iter().zip(&outgoing).zip(&mut incoming) {
            let mode = MODES[message.mode];
            // A mode that the fabric does not have is refused, and then the message goes as it likes.
            let is_refused = |error: &Error| matches!(error, Error::Unsupported { .. });
            match (is_mine(message), message.sender_waits, message.receiver_waits) {
                (true, true, _) => match messenger.send_by(mode, peer, bytes) {
                    Err(error) if is_refused(&error) => messenger.send(peer, bytes)?,
                    result => result?,
                },
                (true, false, _) => sends.push(match scope.send_by(mode, peer, bytes) {
                    Err(error) if is_refused(&error) => scope.send(peer, bytes)?,
                    result => result?,
                }),
                (false, _, true) => assert_eq!(messenger.receive(peer, place)?, message.length),
                (false, _, false) => receives.push((scope.receive(peer, place)?, message.length)),
            }
        }
        for (receive, length) in receives {
            assert_eq!(receive.wait()?, length);
        }
        sends.into_iter().try_for_each(|send| send.wait().map(drop))
    })?;
    for ((index, message), place) in (0_usize..).zip(messages).zip(&incoming) {
        if !is_mine(message) {
            let (bytes, behind) = place.split_at(message.length);
            assert!(bytes == content(index, message.length), "message {index}: {message:?}");
            assert!(behind.iter().all(|byte| *byte == 0xee), "bytes behind message {index}");
        }
    }
    // A last message from each: what came twice before would be in its place.
    const LAST: &[u8] = b"the last one";
    messenger.send_kept(peer, LAST.to_vec())?;
    let mut place = vec![0; 1 << 20];
    let length = messenger.receive(peer, &mut place)?;
    assert_eq!(place[..length], *LAST, "behind the messages of rank {peer}");
    Ok(())
}

#[test]
#[ignore = "it is a process of the other tests"]
fn rank_process() {
    // A message that is lost is to end the test, not to keep it waiting.
    const SECONDS: u32 = 300;
    // SAFETY: nothing is demanded of whoever calls it, and nobody here has to do with this signal.
    unsafe { libc::alarm(SECONDS) };
    let job = Job::from_environment().unwrap();
    assert_eq!(job.fabric().capabilities().back_end, std::env::var(FABRIC).unwrap());
    let messenger = Messenger::open(job.fabric(), Port::FIRST, &job.settings().messages).unwrap();
    play(&messenger, &read(&std::env::var(PROGRAM).unwrap()), job.rank()).unwrap();
    drop(messenger);
    job.finish().unwrap();
}

/// Two processes that play a program over a fabric, by its variables.
fn check(fabric: &[(&str, &str)], messages: &[Message], settings: Vec<(&'static str, String)>) {
    let launcher = Launcher::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "rank_process", "--ignored", "--test-threads=1", "--nocapture"])
        .size(2)
        .streams(Streams::Piped)
        // Among busy processes one may have no turn for longer than users' jobs wait for a sign of life.
        .environment("SVMIO_WATCHDOG_TIMEOUT", "60s")
        .environment(PROGRAM, write(messages));
    let launcher = fabric.iter().fold(launcher, |launcher, (name, value)| launcher.environment(name, value));
    let launcher =
        settings.into_iter().fold(launcher, |launcher, (name, value)| launcher.environment(name, value));
    for (rank, output) in launcher.spawn().unwrap().output().unwrap().iter().enumerate() {
        assert!(output.status.success(), "rank {rank}: {}", String::from_utf8_lossy(&output.stderr));
        // A process that ran no test would have nothing to fail with.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "rank {rank} ran nothing");
    }
}

/// So many programs, unless the environment asks for another number.
fn config(few: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { few };
    ProptestConfig { cases, max_shrink_iters: 50, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config(if is_full() { 200 } else { 24 }))]

    #[test]
    fn messages_of_any_size_arrive_in_another_process(
        messages in messages(if is_full() { 64 << 20 } else { 4 << 20 }),
        settings in prop_oneof![Just(Vec::new()), settings()],
    ) {
        assert_eq!(read(&write(&messages)), messages);
        check(&SHARED_MEMORY, &messages, settings);
    }
}

proptest! {
    #![proptest_config(config(if is_full() { 60 } else { 4 }))]

    #[test]
    fn messages_of_any_size_arrive_over_tcp(
        messages in messages(64 << 20),
        settings in prop_oneof![Just(Vec::new()), settings()],
        longest_store in longest_store(),
    ) {
        check(&TCP, &messages, settings.into_iter().chain(longest_store).collect());
    }
}
