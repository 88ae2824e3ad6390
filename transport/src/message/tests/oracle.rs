//! Random programs, against what a plain queue per pair would deliver: each message once, whole, and in order.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::worlds::{self, Faults, Ground, Outcome, bad_plan};
use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::faulty::FaultPlan;
use crate::message::outgoing::Sender;
use crate::sim::{Model, SimOptions, World};
use crate::units::Time;

/// A message of a program. All ranks go through the list in the same order, so programs end.
#[derive(Debug, Clone)]
struct Message {
    from: u32,
    to: u32,
    length: usize,
    mode: Mode,
    sender: Sender,
    receiver_waits: bool,
}

#[derive(Debug, Clone)]
struct Program {
    size: u32,
    settings: MessageSettings,
    messages: Vec<Message>,
}

const MODES: [Mode; 7] = [
    Mode::Automatic,
    Mode::Short,
    Mode::Eager,
    Mode::RendezvousStores,
    Mode::RendezvousStaged,
    Mode::RendezvousHalfStaged,
    Mode::RendezvousDirect,
];

fn lengths(longest: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => Just(0),
        4 => Just(8),
        8 => 1_usize..200,
        8 => 1_usize..5000,
        4 => 1_usize..70_000.min(longest),
        1 => 1..longest,
    ]
}

fn settings() -> impl Strategy<Value = MessageSettings> {
    let buffers = (16_u32..3000, 64_u32..5000, 1_u32..5000, 1_u32..4, 1_u32..20_000, 1_u32..4);
    (buffers, 1_u32..20_000, 4096_u32..100_000, any::<bool>()).prop_map(
        |(buffers, threshold, chunk, asynchronous)| {
            let (short_packet, ring, eager_buffer, eager_buffers, staging_buffer, staging_buffers) = buffers;
            MessageSettings {
                short_packet,
                ring,
                eager_buffer,
                eager_buffers,
                staging_buffer,
                staging_buffers,
                chunk,
                rendezvous_threshold: threshold,
                asynchronous,
                ..MessageSettings::default()
            }
        },
    )
}

fn programs(longest: usize, most: usize) -> impl Strategy<Value = Program> {
    (2_u32..4, settings()).prop_flat_map(move |(size, settings)| {
        let mode = prop::sample::select(MODES.to_vec());
        let sender = prop::sample::select(vec![Sender::Waits, Sender::GoesOn, Sender::HasLeft]);
        let message = (0..size, 0..size, lengths(longest), mode, (sender, any::<bool>()));
        let messages = prop::collection::vec(message, 1..most).prop_map(|messages| {
            let message = |(from, to, length, mode, (sender, receiver_waits))| Message {
                from,
                to,
                length,
                mode,
                // To itself, a rank cannot wait before it has done both.
                sender: if from == to && sender == Sender::Waits { Sender::GoesOn } else { sender },
                receiver_waits: receiver_waits && from != to,
            };
            messages.into_iter().map(message).collect()
        });
        (Just(size), Just(settings), messages).prop_map(|(size, settings, messages)| Program {
            size,
            settings,
            messages,
        })
    })
}

/// The bytes of the message that is number `index` of the program.
fn content(index: usize, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(index as u64);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// What one rank does.
fn play(messenger: &Messenger, program: &Program, me: Rank) -> Result<()> {
    let mine = |rank: u32| rank == me.0;
    // What goes out and comes in without waiting lies here until the scope ends.
    let outgoing: BTreeMap<usize, Vec<u8>> = program
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| mine(message.from))
        .map(|(index, message)| (index, content(index, message.length)))
        .collect();
    let mut incoming: BTreeMap<usize, Vec<u8>> = program
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| mine(message.to) && !message.receiver_waits)
        .map(|(index, message)| (index, vec![0xee; message.length + index % 3]))
        .collect();
    // A mode that the fabric does not have is refused, and then the message goes by the settings' mode.
    let refused = |error: &Error| matches!(error, Error::Unsupported { .. });
    messenger.scope(|scope| {
        let mut places = incoming.iter_mut();
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        for (index, message) in program.messages.iter().enumerate() {
            let (from, to) = (Rank(message.from), Rank(message.to));
            if mine(message.to) && !message.receiver_waits {
                let (_, place) = places.next().unwrap();
                receives.push((scope.receive(from, place)?, message.length));
            }
            if mine(message.from) {
                let bytes = &outgoing[&index];
                match message.sender {
                    Sender::Waits => match messenger.send_by(message.mode, to, bytes) {
                        Err(error) if refused(&error) => messenger.send(to, bytes)?,
                        result => result?,
                    },
                    Sender::GoesOn => sends.push(match scope.send_by(message.mode, to, bytes) {
                        Err(error) if refused(&error) => scope.send(to, bytes)?,
                        result => result?,
                    }),
                    // By the settings' mode only.
                    Sender::HasLeft => messenger.send_kept(to, bytes.clone())?,
                }
            }
            if mine(message.to) && message.receiver_waits {
                let mut place = vec![0xee; message.length + index % 3];
                assert_eq!(messenger.receive(from, &mut place)?, message.length);
                assert_eq!(place[..message.length], content(index, message.length), "message {index}");
            }
            if index % 5 == 0
                && let Some((first, _)) = receives.first()
            {
                first.test()?;
            }
        }
        for (receive, length) in receives {
            assert_eq!(receive.wait()?, length);
        }
        sends.into_iter().try_for_each(|send| send.wait().map(|_| ()))
    })?;
    for (index, place) in incoming {
        let length = program.messages[index].length;
        assert_eq!(place[..length], content(index, length), "message {index}");
        assert!(place[length..].iter().all(|byte| *byte == 0xee), "bytes behind message {index}");
    }
    end(messenger, program.size)
}

/// Sends each rank a last message, and receives theirs: what came twice before would be in its place.
fn end(messenger: &Messenger, size: u32) -> Result<()> {
    const LAST: &[u8] = b"the last one";
    for peer in (0..size).map(Rank) {
        messenger.send_kept(peer, LAST.to_vec())?;
    }
    for peer in (0..size).map(Rank) {
        let mut place = vec![0; 1 << 20];
        let length = messenger.receive(peer, &mut place)?;
        assert_eq!(place[..length], *LAST, "behind the messages of rank {peer}");
    }
    Ok(())
}

fn check(ground: &Ground, program: &Program) -> Outcome {
    worlds::run(ground, program.size, &program.settings, |fabric, messenger| {
        play(&messenger, program, fabric.rank()).unwrap();
    })
}

/// What went wrong in the same few programs at each call, and how many writes the messengers repeated.
fn faults_and_repetitions(ground: impl Fn(u64) -> Ground) -> (Faults, u64) {
    const PROGRAMS: u64 = 12;
    let mut runner = TestRunner::deterministic();
    let strategy = programs(1 << 15, 40);
    let mut sums = (Faults::default(), 0);
    for seed in 0..PROGRAMS {
        let program = strategy.new_tree(&mut runner).unwrap().current();
        let Outcome { faults, statistics } = check(&ground(seed), &program);
        sums.0 = sums.0.plus(faults);
        sums.1 += statistics.iter().map(|statistics| statistics.repeated_writes).sum::<u64>();
    }
    sums
}

/// Two ranks, of which one dies or hangs. The other gets done what it could, or learns of it; in no case does it wait
/// for ever.
fn check_with_a_loss(model: &'static str, program: &Program, seed: u64, time: Duration, hangs: bool) {
    let mut program = program.clone();
    program.size = 2;
    program.messages.retain(|message| message.from < 2 && message.to < 2);
    let mut options = SimOptions::new(2, Model::named(model).unwrap());
    options.seed = seed;
    let lost = vec![(Rank(1), Time(0).after(time))];
    *(if hangs { &mut options.faults.hang } else { &mut options.faults.kill }) = lost;
    let body = |fabric: Fabric| {
        let messenger = Messenger::open(&fabric, Port::FIRST, &program.settings).unwrap();
        if let Err(error) = play(&messenger, &program, fabric.rank()) {
            assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
        }
    };
    let run = || World::new(options).run(body).map(drop);
    std::thread::scope(|scope| scope.spawn(run).join().unwrap()).unwrap();
}

/// Few cases, as each starts threads or a world; more where the environment asks for them, as usual with proptest.
fn config(few: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { few };
    // Shrinking ends after 20 s: until the test ends nothing is shown, and a failure looks like a wait for ever.
    ProptestConfig {
        cases,
        max_shrink_iters: 1000,
        max_shrink_time: 20_000,
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn programs_on_shared_memory(program in programs(1 << 20, 60)) {
        check(&Ground::Threads, &program);
    }

    #[test]
    fn programs_on_simulated_sci(program in programs(1 << 18, 40), seed: u64) {
        check(&Ground::Simulated { model: "sci-ring", seed, faults: false }, &program);
    }

    #[test]
    fn programs_on_simulated_sci_with_faults(program in programs(1 << 17, 40), seed: u64) {
        check(&Ground::Simulated { model: "sci-ring", seed, faults: true }, &program);
    }

    #[test]
    fn programs_on_simulated_infiniband(program in programs(1 << 20, 40), seed: u64, faults: bool) {
        check(&Ground::Simulated { model: "infiniband-hdr", seed, faults }, &program);
    }

    #[test]
    fn programs_in_which_a_rank_dies_or_hangs(
        program in programs(1 << 18, 40),
        seed: u64,
        microseconds in 0_u64..20_000,
        is_sci: bool,
        hangs: bool,
    ) {
        let (model, time) = if is_sci { ("sci-ring", microseconds) } else { ("infiniband-hdr", microseconds / 20) };
        check_with_a_loss(model, &program, seed, Duration::from_micros(time), hangs);
    }

    #[test]
    fn programs_on_shared_memory_with_faults(program in programs(1 << 17, 40), seed: u64) {
        check(&Ground::FaultyThreads(bad_plan(seed)), &program);
    }
}

proptest! {
    #![proptest_config(config(6))]

    #[test]
    fn programs_on_tcp(program in programs(1 << 20, 40)) {
        check(&Ground::Tcp, &program);
    }
}

/// Else the programs above that have faults would prove no more than those without.
#[test]
fn faults_happen_and_what_they_broke_is_written_again() {
    let simulated = |model| move |seed| Ground::Simulated { model, seed, faults: true };
    let (sci, infiniband) = (simulated("sci-ring"), simulated("infiniband-hdr"));
    let threads = |seed| Ground::FaultyThreads(bad_plan(seed));
    let grounds: [&dyn Fn(u64) -> Ground; 3] = [&sci, &infiniband, &threads];
    for ground in grounds {
        let (faults, repeated_writes) = faults_and_repetitions(ground);
        let told = format!("{:?}: {faults:?}, {repeated_writes} writes repeated", ground(0));
        assert!(faults.dropped > 0 && faults.late > 0 && faults.repeated > 0, "{told}");
        assert!(repeated_writes > 0, "{told}");
    }
}

#[test]
fn without_faults_nothing_is_written_again() {
    let simulated = |model| move |seed| Ground::Simulated { model, seed, faults: false };
    let (sci, infiniband) = (simulated("sci-ring"), simulated("infiniband-hdr"));
    // Nothing goes wrong, but nobody knows, so all is checked.
    let doubted =
        |seed| Ground::FaultyThreads(FaultPlan { dropped: 0.0, late: 0.0, repeated: 0.0, ..bad_plan(seed) });
    let grounds: [&dyn Fn(u64) -> Ground; 4] = [&sci, &infiniband, &doubted, &|_| Ground::Threads];
    for ground in grounds {
        assert_eq!(faults_and_repetitions(ground), (Faults::default(), 0), "{:?}", ground(0));
    }
}

#[test]
fn the_longest_messages_arrive_in_every_mode() {
    let settings = MessageSettings::default();
    let bytes = content(0, 64 << 20);
    worlds::run(&Ground::Threads, 2, &settings, |fabric, messenger| {
        for mode in MODES {
            if fabric.rank() == Rank(0) {
                messenger.send_by(mode, Rank(1), &bytes).unwrap();
            } else {
                let mut place = vec![0; bytes.len()];
                assert_eq!(messenger.receive(Rank(0), &mut place).unwrap(), bytes.len());
                assert!(place == bytes, "{mode:?}");
            }
        }
    });
}

/// In the simulation, a thread's time runs ahead of the clock as it works. Here the program gives credit back and then
/// the turn on, and the service thread, whose time is earlier, gives back more: what came before must not come to lie
/// over it.
#[test]
fn what_threads_of_a_process_write_one_after_the_other_arrives_in_that_order() {
    let settings = MessageSettings {
        short_packet: 64,
        ring: 2170,
        eager_buffer: 2659,
        eager_buffers: 3,
        rendezvous_threshold: 5625,
        staging_buffer: 3525,
        staging_buffers: 1,
        ..MessageSettings::default()
    };
    let message =
        |from, to, length, mode, sender| Message { from, to, length, mode, sender, receiver_waits: false };
    let messages = vec![
        message(1, 0, 0, Mode::Automatic, Sender::Waits),
        message(0, 1, 0, Mode::Automatic, Sender::Waits),
        message(0, 0, 8, Mode::RendezvousDirect, Sender::GoesOn),
        message(0, 0, 2660, Mode::Automatic, Sender::GoesOn),
        message(1, 0, 8, Mode::RendezvousStaged, Sender::GoesOn),
        message(1, 0, 8, Mode::RendezvousStores, Sender::GoesOn),
        message(0, 1, 8, Mode::RendezvousStores, Sender::Waits),
        message(1, 0, 881, Mode::Automatic, Sender::Waits),
    ];
    let program = Program { size: 2, settings, messages };
    let seed = 15_679_090_331_710_665_259;
    check(&Ground::Simulated { model: "infiniband-hdr", seed, faults: false }, &program);
}
