//! A process that meets a rank 0 which says several things in one breath.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::back_end::{Wait, Waited};
use crate::error::Error;
use crate::job::proof::Nonces;
use crate::job::wire::{Entry, Frame, LARGEST, Nonce, Purpose, decode};
use crate::job::{Job, Master, Place};
use crate::secret::JobSecret;
use crate::settings::Settings;
use crate::units::Rank;

/// Says all of `frames` by one write.
fn say(stream: &mut TcpStream, frames: &[Frame]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    stream.write_all(&bytes).unwrap();
}

/// Lets rank 1 of 3 in; right behind the table, it says `news`. Returns the connection.
fn let_in(listener: &TcpListener, secret: &JobSecret, news: &[Frame]) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let called = Nonce::random().unwrap();
    say(&mut stream, &[Frame::Challenge { nonce: called }]);
    let mut bytes = Vec::new();
    let (registration, calling) = 'heard: loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).unwrap();
        assert!(length > 0, "rank 1 hung up");
        bytes.extend_from_slice(&chunk[..length]);
        // It knocks first; both may come at once.
        while let Some((frame, length)) = decode(&bytes, LARGEST).unwrap() {
            bytes.drain(..length);
            if let Frame::Hello { hello, nonce, .. } = frame
                && let Purpose::Register(registration) = hello.purpose
            {
                break 'heard (registration, nonce);
            }
        }
    };
    let entry = |rank: u16| match rank {
        1 => registration.entry.clone(),
        // Nobody listens there, and nobody is to be connected to.
        _ => {
            Entry { control: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), rank), ..registration.entry.clone() }
        }
    };
    let proof = Nonces { called, calling }.prove_welcome(secret);
    let first = [Frame::Welcome { proof }, Frame::Table((0..3).map(entry).collect())];
    say(&mut stream, &[&first[..], news].concat());
    stream
}

#[test]
fn what_is_said_right_behind_the_table_is_heard() {
    let lost = |rank| Frame::Lost { rank: Rank(rank), reason: "it died early".into(), had_finished: false };
    let ending = Frame::Ending { reason: "it was enough".into(), signal: None };
    for (news, is_ending) in [(vec![lost(2)], false), (vec![ending], true)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let secret = JobSecret::random().unwrap();
        let master = Master::At(listener.local_addr().unwrap().to_string());
        let place = Place { rank: Rank(1), size: 3, node: "here".into(), master, secret: secret.clone() };
        std::thread::scope(|scope| {
            let zero = scope.spawn(|| let_in(&listener, &secret, &news));
            let job = Job::start(place, Settings::default()).unwrap();
            let _stream = zero.join().unwrap();
            let membership = job.membership();
            let mut ready =
                || if is_ending { membership.check_job().is_err() } else { !membership.lost().is_empty() };
            let deadline = Some(job.fabric().now().after(Duration::from_secs(20)));
            let waited = job.fabric().wait_until(Wait { deadline, attends: None, ready: &mut ready });
            assert_eq!(waited, Waited::Ready, "{news:?} was not heard");
            let error = membership.check(Rank(2)).unwrap_err();
            let is_it = matches!(error, Error::Ending { .. }) == is_ending;
            assert!(
                is_it && error.to_string().contains(if is_ending { "enough" } else { "died early" }),
                "{error}"
            );
        });
    }
}
