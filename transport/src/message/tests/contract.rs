//! What the methods promise one by one.

use std::sync::Mutex;
use std::time::Duration;

use super::worlds::{self, Ground};
use super::{MessageSettings, Messenger, Mode, Port, Rank};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::message::context::Context;
use crate::message::engine::Engine;
use crate::message::wire::{Way, Ways};
use crate::shm;
use crate::statistics::Statistics;
use crate::units::Interrupt;

fn on_threads(size: u32, body: impl Fn(Rank, &Messenger) + Sync) {
    worlds::run(&Ground::Threads, size, &MessageSettings::default(), |fabric, messenger| {
        body(fabric.rank(), &messenger);
    });
}

#[test]
fn a_message_that_is_too_long_is_told_and_gone() {
    for length in [100, 5000, 100_000] {
        on_threads(2, |rank, messenger| {
            if rank == Rank(0) {
                messenger.send(Rank(1), &vec![1; length]).unwrap();
                messenger.send(Rank(1), b"next").unwrap();
            } else {
                let error = messenger.receive(Rank(0), &mut [0; 10]).unwrap_err();
                let Error::Truncated { from: Rank(0), length: told, capacity: 10 } = error else {
                    panic!("{error}");
                };
                assert_eq!(told, length as u64);
                let mut next = [0; 4];
                assert_eq!(messenger.receive(Rank(0), &mut next).unwrap(), 4);
                assert_eq!(&next, b"next");
            }
        });
    }
}

#[test]
fn probing_tells_the_length_and_leaves_the_message() {
    on_threads(1, |me, messenger| {
        assert_eq!(messenger.probe(me).unwrap(), None);
        messenger
            .scope(|scope| {
                for length in [0, 7, 1000, 10_000, 100_000] {
                    let bytes = vec![3; length];
                    let bytes: &[u8] = bytes.leak();
                    let send = scope.send(me, bytes)?;
                    assert_eq!(messenger.probe(me)?, Some(length));
                    assert_eq!(messenger.probe(me)?, Some(length));
                    assert_eq!(messenger.receive(me, &mut vec![0; length])?, length);
                    send.wait()?;
                    assert_eq!(messenger.probe(me)?, None);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn receiving_from_anybody_gets_all_and_each_in_order() {
    const EACH: u32 = 200;
    on_threads(4, |rank, messenger| {
        if rank == Rank(0) {
            let mut next = [0; 4];
            for _ in 0..3 * EACH {
                let mut word = [0; 20_000];
                let (from, length) = messenger.receive_any(&mut word).unwrap();
                let count = u32::from_le_bytes(word[..4].try_into().unwrap());
                assert_eq!(count, next[from.index()], "from {from}");
                assert!(length >= 4);
                next[from.index()] += 1;
            }
            assert_eq!(next, [0, EACH, EACH, EACH]);
        } else {
            for count in 0..EACH {
                let mut bytes = vec![0; [4, 2000, 19_000][count as usize % 3]];
                bytes[..4].copy_from_slice(&count.to_le_bytes());
                messenger.send(Rank(0), &bytes).unwrap();
            }
        }
    });
}

#[test]
fn whoever_is_first_is_told() {
    on_threads(3, |rank, messenger| {
        if rank == Rank(0) {
            let (mut one, mut two) = ([0; 1], [0; 1]);
            messenger
                .scope(|scope| {
                    assert_eq!(scope.wait_any(&[])?, None);
                    let requests = vec![scope.receive(Rank(1), &mut one)?, scope.receive(Rank(2), &mut two)?];
                    // Only rank 2 sends before it is told to.
                    assert_eq!(scope.wait_any(&requests)?, Some(1));
                    assert_eq!(requests[0].test()?, None);
                    messenger.send(Rank(1), b"go")?;
                    requests.into_iter().try_for_each(|request| request.wait().map(|_| ()))
                })
                .unwrap();
            assert_eq!((one, two), ([1], [2]));
        } else {
            if rank == Rank(1) {
                messenger.receive(Rank(0), &mut [0; 2]).unwrap();
            }
            messenger.send(Rank(0), &[rank.0 as u8]).unwrap();
        }
    });
}

#[test]
fn a_scope_that_fails_gives_up_what_has_not_begun() {
    on_threads(2, |rank, messenger| {
        if rank == Rank(0) {
            let mut never = [0; 4];
            let failed: Result<(), Error> = messenger.scope(|scope| {
                scope.receive(Rank(1), &mut never)?;
                Err(Error::Ending { reason: "the test".into() })
            });
            assert!(matches!(failed, Err(Error::Ending { .. })));
            messenger.send(Rank(1), b"now").unwrap();
            let mut late = [0; 4];
            assert_eq!(messenger.receive(Rank(1), &mut late).unwrap(), 4);
            assert_eq!(&late, b"late");
        } else {
            messenger.receive(Rank(0), &mut [0; 3]).unwrap();
            messenger.send(Rank(0), b"late").unwrap();
        }
    });
}

#[test]
fn a_scope_that_fails_takes_back_what_nobody_has_received() {
    on_threads(2, |rank, messenger| {
        let bytes = vec![7; 100_000];
        if rank == Rank(0) {
            for mode in [Mode::RendezvousDirect, Mode::RendezvousStaged] {
                let failed: Result<(), Error> = messenger.scope(|scope| {
                    scope.send_by(mode, Rank(1), &bytes)?;
                    scope.send_by(mode, Rank(0), &bytes)?;
                    Err(Error::Ending { reason: "the test".into() })
                });
                assert!(matches!(failed, Err(Error::Ending { .. })));
            }
            messenger.send(Rank(1), b"now").unwrap();
            messenger.send(Rank(0), b"me too").unwrap();
            assert_eq!(messenger.probe(Rank(0)).unwrap(), Some(6));
            assert_eq!(messenger.receive(Rank(0), &mut [0; 6]).unwrap(), 6);
        } else {
            let mut now = [0; 3];
            // The messages that were taken back are between.
            while messenger.probe(Rank(0)).unwrap() != Some(3) {
                messenger.progress();
            }
            assert_eq!(messenger.receive(Rank(0), &mut now).unwrap(), 3);
        }
    });
}

#[test]
fn what_was_begun_ends_with_its_scope() {
    on_threads(2, |rank, messenger| {
        let (ours, mut theirs) = (vec![rank.0 as u8; 300_000], vec![9; 300_000]);
        let other = Rank(1 - rank.0);
        messenger
            .scope(|scope| {
                scope.receive(other, &mut theirs)?;
                scope.send(other, &ours)?;
                Ok(())
            })
            .unwrap();
        assert!(theirs.iter().all(|byte| *byte == other.0 as u8));
    });
}

#[test]
fn a_receiver_that_computes_does_not_hold_up_a_sender() {
    for mode in [Mode::RendezvousDirect, Mode::RendezvousStaged, Mode::RendezvousHalfStaged] {
        worlds::run(&Ground::Threads, 2, &MessageSettings::default(), |fabric, messenger| {
            let bytes = vec![5; 1 << 20];
            if fabric.rank() == Rank(0) {
                messenger.receive(Rank(1), &mut [0; 1]).unwrap();
                messenger.send_by(mode, Rank(1), &bytes).unwrap();
                messenger.send(Rank(1), b"sent").unwrap();
            } else {
                let mut into = vec![0; 1 << 20];
                messenger
                    .scope(|scope| {
                        let receive = scope.receive(Rank(0), &mut into)?;
                        messenger.send(Rank(0), b"!")?;
                        // In no call of the messenger until the sender is through: its next message lies there.
                        let link = messenger.engine().link(Rank(0))?;
                        while !link.signs.messages.has_arrived() {
                            fabric.back_end().compute(Duration::from_micros(100));
                        }
                        receive.wait()
                    })
                    .unwrap();
                assert!(into == bytes);
                messenger.receive(Rank(0), &mut [0; 4]).unwrap();
            }
        });
    }
}

#[test]
fn a_sender_that_computes_does_not_hold_up_a_receiver() {
    for mode in [Mode::RendezvousDirect, Mode::RendezvousStaged, Mode::RendezvousHalfStaged] {
        worlds::run(&Ground::Threads, 2, &MessageSettings::default(), |fabric, messenger| {
            if fabric.rank() == Rank(0) {
                let bytes = vec![5; 1 << 20];
                messenger
                    .scope(|scope| {
                        let send = scope.send_by(mode, Rank(1), &bytes)?;
                        let link = messenger.engine().link(Rank(1))?;
                        while !link.signs.messages.has_arrived() {
                            fabric.back_end().compute(Duration::from_micros(100));
                        }
                        send.wait()
                    })
                    .unwrap();
                messenger.receive(Rank(1), &mut [0; 3]).unwrap();
            } else {
                let mut into = vec![0; 1 << 20];
                messenger.receive(Rank(0), &mut into).unwrap();
                assert!(into.iter().all(|byte| *byte == 5));
                messenger.send(Rank(0), b"got").unwrap();
            }
        });
    }
}

#[test]
fn more_messages_at_once_than_there_are_claim_words() {
    const COUNT: usize = 40;
    on_threads(2, |rank, messenger| {
        let other = Rank(1 - rank.0);
        let ours: Vec<Vec<u8>> = (0..COUNT).map(|count| vec![count as u8 + 1; 300_000]).collect();
        let mut theirs = vec![vec![0; 300_000]; COUNT];
        messenger
            .scope(|scope| {
                for place in &mut theirs {
                    scope.receive(other, place)?;
                }
                for bytes in &ours {
                    scope.send_by(Mode::RendezvousDirect, other, bytes)?;
                }
                Ok(())
            })
            .unwrap();
        assert!(theirs == ours);
    });
}

#[test]
fn dma_goes_to_user_memory_where_only_the_receiver_registers_it() {
    let fabrics = shm::within_process(2);
    let settings = MessageSettings { staging_buffer: 10_000, ..MessageSettings::default() };
    worlds::run_threads(&fabrics, |fabric| {
        let mut context = Context::new(fabric.clone(), settings.clone(), 1000, Interrupt(40));
        // A fabric that does DMA from its own segments only.
        context.sends = Ways::default().with(Way::ToUser);
        let messenger = Messenger::over(Engine::new(context));
        let bytes: Vec<u8> = (0..1_000_000).map(|byte| byte as u8).collect();
        if fabric.rank() == Rank(0) {
            messenger.send_by(Mode::RendezvousHalfStaged, Rank(1), &bytes).unwrap();
            assert_eq!(fabric.statistics().posts, 100);
        } else {
            let mut into = vec![0; bytes.len()];
            messenger.receive(Rank(0), &mut into).unwrap();
            assert!(into == bytes);
        }
    });
}

#[test]
fn a_mode_that_the_fabric_does_not_have_is_refused() {
    let ground = Ground::Simulated { model: "sci-ring", seed: 0, faults: false };
    worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
        if fabric.rank() == Rank(0) {
            for mode in [Mode::RendezvousDirect, Mode::RendezvousHalfStaged] {
                let error = messenger.send_by(mode, Rank(1), &[0; 100]).unwrap_err();
                assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            }
            messenger.send(Rank(1), &[1; 100]).unwrap();
        } else {
            assert_eq!(messenger.receive(Rank(0), &mut [0; 100]).unwrap(), 100);
        }
    });
}

#[test]
fn buffers_shrink_to_what_there_is() {
    let fabric = shm::within_process(1).remove(0);
    let settings = MessageSettings { memory_cap: 50_000, ..MessageSettings::default() };
    let messenger = Messenger::open(&fabric, Port::FIRST, &settings).unwrap();
    messenger.send(Rank(0), b"fits").unwrap();
    let buffers = messenger.buffers();
    assert_eq!(buffers.len(), 1);
    assert!(buffers[0].eager_buffer < settings.eager_buffer);
    assert!(u64::from(buffers[0].eager_buffer * buffers[0].eager_buffers) + buffers[0].ring < 50_000);
    let mut into = [0; 4];
    messenger.receive(Rank(0), &mut into).unwrap();

    let settings = MessageSettings { memory_cap: 1000, ..MessageSettings::default() };
    let messenger = Messenger::open(&fabric, Port::new(1).unwrap(), &settings).unwrap();
    let error = messenger.send(Rank(0), b"fits not").unwrap_err();
    assert!(error.to_string().contains("memory_cap"), "{error}");
}

#[test]
fn only_those_who_talk_are_connected() {
    on_threads(5, |rank, messenger| {
        match rank.0 {
            1 => messenger.send(Rank(3), b"hello").unwrap(),
            3 => assert_eq!(messenger.receive(Rank(1), &mut [0; 5]).unwrap(), 5),
            _ => {}
        }
        let expected = match rank.0 {
            1 => vec![Rank(3)],
            3 => vec![Rank(1)],
            _ => vec![],
        };
        let peers: Vec<_> = messenger.buffers().iter().map(|buffers| buffers.peer).collect();
        assert_eq!(peers, expected);
    });
}

#[test]
fn several_threads_of_a_process_use_one_messenger() {
    const EACH: usize = 300;
    on_threads(2, |rank, messenger| {
        let other = Rank(1 - rank.0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for count in 0..EACH {
                    messenger.send(other, &vec![1; count * 97 % 40_000]).unwrap();
                }
            });
            scope.spawn(|| {
                let mut into = vec![0; 40_000];
                for count in 0..EACH {
                    assert_eq!(messenger.receive(other, &mut into).unwrap(), count * 97 % 40_000);
                }
            });
        });
    });
}

#[test]
fn what_was_sent_is_counted_by_protocol() {
    worlds::run(&Ground::Threads, 1, &MessageSettings::default(), |fabric, messenger| {
        let me = fabric.rank();
        messenger
            .scope(|scope| {
                for (mode, length) in
                    [(Mode::Automatic, 8), (Mode::Short, 400), (Mode::Eager, 8), (Mode::RendezvousDirect, 8)]
                {
                    let bytes: &[u8] = vec![0; length].leak();
                    let send = scope.send_by(mode, me, bytes)?;
                    messenger.receive(me, &mut vec![0; length])?;
                    send.wait()?;
                }
                Ok(())
            })
            .unwrap();
        let counted = fabric.statistics();
        let counts = (counted.short_messages, counted.eager_messages, counted.rendezvous_messages);
        assert_eq!(counts, (2, 1, 1));
    });
}

#[test]
fn every_byte_of_a_message_is_counted_once_by_whatever_way_it_goes() {
    /// What connecting and the packets of a rendezvous come to, at most.
    const BESIDE: u64 = 8 << 10;
    let ways = [
        (Mode::Short, 500),
        (Mode::Eager, 60 << 10),
        (Mode::RendezvousStores, 1 << 20),
        (Mode::RendezvousStaged, 1 << 20),
        (Mode::RendezvousHalfStaged, 1 << 20),
        (Mode::RendezvousDirect, 1 << 20),
    ];
    for ground in [Ground::Threads, Ground::Tcp] {
        for (mode, length) in ways {
            let fabrics = Mutex::new(Vec::new());
            worlds::run(&ground, 2, &MessageSettings::default(), |fabric, messenger| {
                fabrics.lock().unwrap().push(fabric.clone());
                if fabric.rank() == Rank(0) {
                    // Three, so that what goes beside them does not pass for a message.
                    (0..3).for_each(|_| messenger.send_by(mode, Rank(1), &vec![1; length]).unwrap());
                    messenger.flush(Rank(1)).unwrap();
                } else {
                    (0..3).for_each(|_| {
                        messenger.receive(Rank(0), &mut vec![0; length]).unwrap();
                    });
                }
            });
            let counted: Vec<_> = fabrics.into_inner().unwrap().iter().map(Fabric::statistics).collect();
            let messages: u64 = counted.iter().map(Statistics::messages).sum();
            let bytes: u64 = counted.iter().map(Statistics::bytes).sum();
            assert_eq!(messages, 3, "{mode:?}: {counted:?}");
            let sent = 3 * length as u64;
            assert!((sent..sent + BESIDE).contains(&bytes), "{ground:?}, {mode:?}: {bytes}, {counted:?}");
        }
    }
}

#[test]
fn flushing_one_who_was_never_sent_to_returns() {
    on_threads(2, |rank, messenger| messenger.flush(Rank(1 - rank.0)).unwrap());
}
