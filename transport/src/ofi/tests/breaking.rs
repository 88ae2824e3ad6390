//! Connections that the network breaks, and such as do not come about.

use std::fs::File;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::hanging::{quick, ranks_by, within_some_seconds};
use super::{PROVIDERS, SEGMENT, anonymous, until};
use crate::back_end::Sequence;
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::message::{MessageSettings, Messenger, Port};
use crate::ofi::adapter::Token;
use crate::ofi::endpoint::Event;
use crate::ofi::groups::Group;
use crate::ofi::{OfiSettings, within_process};
use crate::{Error, Fabric, Rank};

/// Set in a process that does what a test is about: it breaks all connections that it has.
const ALONE: &str = "SVMIO_TEST_BREAKING";

/// Does `body` in a process of its own, which runs this `test` alone.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([&format!("ofi::tests::breaking::{test}"), "--exact", "--nocapture"]).env(ALONE, "1");
    let output = process.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{output:?}");
}

/// Shuts down all connections of this process over TCP, as a network does that loses them; returns how many.
fn break_connections() -> usize {
    let connections = connections();
    shut_down(&connections);
    connections.len()
}

fn shut_down(connections: &[TcpStream]) {
    for connection in connections {
        // The other end may have closed it over its own.
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// Copies of all connections of this process over TCP.
fn connections() -> Vec<TcpStream> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    let numbers: Vec<RawFd> = descriptors.filter_map(|entry| number(entry.expect("it is listed"))).collect();
    // All before the first is broken: the provider closes those that are, and their numbers come again.
    numbers
        .iter()
        // SAFETY: it is used for one call, which fails where it was closed since.
        .filter_map(|number| unsafe { BorrowedFd::borrow_raw(*number) }.try_clone_to_owned().ok())
        .map(TcpStream::from)
        .filter(|stream| stream.peer_addr().is_ok())
        .collect()
}

fn messengers(fabrics: &[Fabric]) -> Vec<Messenger> {
    let settings = MessageSettings::default();
    fabrics.iter().map(|fabric| Messenger::open(fabric, Port::FIRST, &settings).unwrap()).collect()
}

/// Sends a message, and receives one like it.
fn exchange(messenger: &Messenger, other: Rank, turn: usize, length: usize) -> Result<(), Error> {
    let (bytes, mut into) = (vec![turn as u8 | 1; length], vec![0; length]);
    messenger.send(other, &bytes)?;
    messenger.receive(other, &mut into)?;
    assert!(into == bytes, "turn {turn}, {length} bytes");
    Ok(())
}

const LENGTHS: [usize; 3] = [10, 5000, 60_000];

#[test]
fn a_connection_that_breaks_while_nothing_is_missing_is_made_anew() {
    alone("a_connection_that_breaks_while_nothing_is_missing_is_made_anew", || {
        for provider in PROVIDERS {
            let fabrics = within_process(2, provider).unwrap();
            let messengers = messengers(&fabrics);
            let _segment = fabrics[0].create(SEGMENT, &anonymous(8)).unwrap();
            for turn in 0..2 {
                std::thread::scope(|scope| {
                    for (fabric, messenger) in fabrics.iter().zip(&messengers) {
                        let other = Rank(1 - fabric.rank().0);
                        scope.spawn(move || {
                            for length in LENGTHS {
                                exchange(messenger, other, turn, length).unwrap();
                            }
                            fabric.store_barrier(other).unwrap();
                        });
                    }
                });
                assert!(break_connections() > 0, "{provider}: there was nothing to break");
                // Who asks for it by the connection that was broken, asks again.
                fabrics[1].connect(Rank(0), SEGMENT).unwrap().read(0, &mut [0; 8]).unwrap();
            }
            for fabric in &fabrics {
                assert_eq!(fabric.membership().lost(), [], "{provider}");
            }
        }
    });
}

#[test]
fn a_connection_that_breaks_amid_messages_loses_none_unnoticed() {
    const TURNS: usize = 300;
    alone("a_connection_that_breaks_amid_messages_loses_none_unnoticed", || {
        // Amid messages of each length, where there is time.
        let turns: &[usize] = if std::env::var_os("SVMIO_FULL").is_some() { &[20, 21, 22] } else { &[21] };
        for (provider, &break_after) in
            PROVIDERS.into_iter().flat_map(|it| turns.iter().map(move |turn| (it, turn)))
        {
            let fabrics = within_process(2, provider).unwrap();
            let (messengers, started) = (messengers(&fabrics), Barrier::new(3));
            let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
                let go = |own: usize| {
                    let (messenger, started) = (&messengers[own], &started);
                    let other = Rank(1 - own as u32);
                    move || {
                        (0..TURNS).try_for_each(|turn| {
                            if turn == break_after {
                                started.wait();
                            }
                            exchange(messenger, other, turn, LENGTHS[turn % 3])
                        })
                    }
                };
                let threads = [0, 1].map(|own| scope.spawn(go(own)));
                started.wait();
                assert!(break_connections() > 0, "{provider}: there was nothing to break");
                let began = Instant::now();
                let outcomes = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
                outcomes
            });
            // All has come as it was sent; or each is lost to the other.
            assert_eq!(outcomes[0].is_err(), outcomes[1].is_err(), "{provider}: {outcomes:?}");
            for error in outcomes.into_iter().filter_map(Result::err) {
                assert!(error.lost_peer().is_some(), "{provider}: {error}");
            }
            fabrics.iter().for_each(Fabric::close);
        }
    });
}

#[test]
fn a_connection_that_breaks_under_direct_transfers_is_none_that_refuses_them() {
    const LENGTH: usize = 64 << 20;
    alone("a_connection_that_breaks_under_direct_transfers_is_none_that_refuses_them", || {
        for provider in PROVIDERS {
            let fabrics = within_process(2, provider).unwrap();
            let segment = fabrics[1].create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
            let remote = fabrics[0].connect(Rank(1), SEGMENT).unwrap();
            let bytes = vec![7; LENGTH];
            let (begun, broken) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let transfers: [&(dyn Fn() + Sync); 2] = [&|| remote.write(0, &bytes).unwrap(), &|| {
                let mut read = vec![0; LENGTH];
                remote.read(0, &mut read).unwrap();
                assert!(read == bytes, "{provider}");
            }];
            for transfer in transfers {
                std::thread::scope(|scope| {
                    let before = begun.load(Ordering::SeqCst);
                    let transferring = scope.spawn(|| {
                        let broken_before = broken.load(Ordering::SeqCst);
                        while broken.load(Ordering::SeqCst) == broken_before {
                            begun.fetch_add(1, Ordering::SeqCst);
                            transfer();
                        }
                    });
                    while begun.load(Ordering::SeqCst) < before + 3 && !transferring.is_finished() {
                        std::thread::yield_now();
                    }
                    assert!(break_connections() > 0, "{provider}: there was nothing to break");
                    broken.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut found = vec![0; LENGTH];
            segment.memory().read(0, &mut found).unwrap();
            assert!(found == bytes, "{provider}");
            fabrics.iter().for_each(|fabric| assert_eq!(fabric.membership().lost(), [], "{provider}"));
        }
    });
}

#[test]
fn a_transfer_that_fails_without_a_reason_costs_nobody_its_peer() {
    for provider in PROVIDERS {
        let [(zero, adapter), (one, _)] = ranks_by(&quick(provider, 20));
        let segment = one.create(SEGMENT, &anonymous(8)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        let (group, mark) = (Group::new(Rank(1), None), zero.mark(Rank(1)));
        group.begin_part();
        // As adapters say of a write to memory that is not there any more.
        let failed = Event::Failed(Token::Part(Arc::clone(&group)), libc::EIO);
        adapter.with_endpoint(|endpoint| Ok(adapter.handle(endpoint, failed))).unwrap();
        until(&zero, || group.has_ended());
        assert!(group.has_failed(), "{provider}");
        remote.write(0, &[1; 8]).unwrap();
        assert_eq!(zero.check_sequence(Rank(1), mark).unwrap(), Sequence::Intact, "{provider}");
        assert_eq!(zero.membership().lost(), [], "{provider}");
        drop((remote, segment));
        [zero, one].iter().for_each(Fabric::close);
    }
}

/// Opens files until this process may open no more.
fn take_all_descriptors() -> Vec<File> {
    let limit = Rlimit { current: Some(512), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let taken = std::iter::from_fn(|| File::open("/dev/null").ok()).collect::<Vec<_>>();
    assert_eq!(File::open("/dev/null").unwrap_err().raw_os_error(), Some(libc::EMFILE));
    taken
}

#[test]
fn who_lacks_descriptors_for_a_connection_takes_nobody_for_lost() {
    alone("who_lacks_descriptors_for_a_connection_takes_nobody_for_lost", || {
        for provider in PROVIDERS {
            let is_reached = |seconds| is_reached_once_there_are_descriptors(provider, seconds);
            assert!(within_some_seconds(is_reached), "{provider}");
        }
    });
}

fn is_reached_once_there_are_descriptors(provider: &str, answer_seconds: u32) -> bool {
    let [(zero, adapter), (one, _)] = ranks_by(&quick(provider, answer_seconds));
    let _segment = one.create(SEGMENT, &anonymous(8)).unwrap();
    let taken = take_all_descriptors();
    let error = zero.connect(Rank(1), SEGMENT).unwrap_err();
    assert!(error.to_string().contains("Too many open files"), "{provider}: {error}");
    // It is tried again until it comes about.
    let written = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| zero.connect(Rank(1), SEGMENT));
        while adapter.wanting_room.load(Ordering::Relaxed) == 0 && !connecting.is_finished() {
            std::thread::yield_now();
        }
        drop(taken);
        connecting.join().unwrap().and_then(|remote| remote.write(0, &[1; 8]))
    });
    let lost = zero.membership().lost();
    println!("{provider}, {answer_seconds} s: {written:?}, lost {lost:?}");
    [zero, one].iter().for_each(Fabric::close);
    written.is_ok() && lost.is_empty()
}

#[test]
fn who_lacks_descriptors_for_a_new_connection_takes_nobody_for_lost() {
    alone("who_lacks_descriptors_for_a_new_connection_takes_nobody_for_lost", || {
        // The numbers that may be opened under the limit below are all taken.
        let files = std::iter::repeat_with(|| File::open("/dev/null").unwrap());
        let taken: Vec<File> = files.take_while(|file| file.as_raw_fd() < 64).collect();
        for provider in PROVIDERS {
            let is_kept = |seconds| is_kept_without_descriptors(provider, seconds);
            assert!(within_some_seconds(is_kept), "{provider}");
        }
        drop(taken);
    });
}

/// Whether a peer whose connection breaks where there are no more descriptors for another one is not lost, and reached
/// again once there are.
fn is_kept_without_descriptors(provider: &str, answer_seconds: u32) -> bool {
    const LENGTH: usize = 64 << 20;
    let [(zero, _), (one, _)] = ranks_by(&quick(provider, answer_seconds));
    let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    let (bytes, done) = (vec![1; LENGTH], Arc::new(Completion::new()));
    remote.write(0, &bytes[..8]).unwrap();
    zero.store_barrier(Rank(1)).unwrap();
    let connections = connections();
    let unlimited = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..unlimited }).unwrap();
    let local = UserMemory::of(&bytes);
    let transfer = Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 };
    // SAFETY: the bytes live longer than the fabric.
    unsafe { zero.post(vec![transfer], &done) }.unwrap();
    shut_down(&connections);
    until(&zero, || done.test().is_some());
    let error = done.test().unwrap().unwrap_err();
    setrlimit(Resource::Nofile, unlimited).unwrap();
    let written = remote.write(0, &bytes);
    let lost = zero.membership().lost();
    println!("{provider}, {answer_seconds} s: {error}; {written:?}, lost {lost:?}");
    drop((remote, segment));
    [zero, one].iter().for_each(Fabric::close);
    error.lost_peer().is_none() && written.is_ok() && lost.is_empty()
}

/// Takes memory by the mebibyte until this process may have no more.
fn take_all_memory() -> Vec<Vec<u8>> {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64;
    let limit = Rlimit { current: Some(used + (64 << 20)), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, limit).unwrap();
    let take = || {
        let mut block = Vec::new();
        block.try_reserve_exact(1 << 20).is_ok().then_some(block)
    };
    std::iter::from_fn(take).collect()
}

#[test]
fn who_lacks_memory_for_a_message_takes_nobody_for_lost() {
    alone("who_lacks_memory_for_a_message_takes_nobody_for_lost", || {
        assert!(within_some_seconds(is_reached_once_there_is_memory));
    });
}

fn is_reached_once_there_is_memory(answer_seconds: u32) -> bool {
    // That provider has room for messages that take more than any piece of what is left.
    let quick = quick(PROVIDERS[0], answer_seconds);
    let [(zero, _), (one, _)] =
        ranks_by(&OfiSettings { message_bytes: 1 << 20, receive_buffers: 8, ..quick });
    let _segment = one.create(SEGMENT, &anonymous(1000)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    let bytes = vec![1; 1000];
    let unlimited = getrlimit(Resource::As);
    let taken = take_all_memory();
    let error = remote.write(0, &bytes).unwrap_err();
    drop(taken);
    setrlimit(Resource::As, unlimited).unwrap();
    assert!(error.to_string().contains("Cannot allocate memory"), "{error}");
    let written = remote.write(0, &bytes).and_then(|()| zero.store_barrier(Rank(1)));
    let lost = zero.membership().lost();
    println!("{answer_seconds} s: {written:?}, lost {lost:?}");
    drop(remote);
    [zero, one].iter().for_each(Fabric::close);
    written.is_ok() && lost.is_empty()
}
