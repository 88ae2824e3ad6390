//! Fuzz targets: the decoders of everything that arrives from other processes.
//!
//! Inputs are arbitrary bytes, and valid messages that were changed, cut and prolonged. Nothing may panic, and what is
//! understood must be written back as it came. Plain `cargo test` tries some; `BOLERO_RANDOM_ITERATIONS=10000000` as
//! many as is promised; `cargo bolero test` lets libFuzzer, AFL or honggfuzz search by coverage.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use svmio_transport::back_end::MemoryKey;
use svmio_transport::job::wire as job;
use svmio_transport::message::{HEADER, Sizes, wire as message};
use svmio_transport::ofi::wire as ofi;
use svmio_transport::shm::{machine::Machine, wire as shm};
use svmio_transport::{Interrupt, JobSecret, Rank, SegmentId};

/// What is done to a valid message: which of them, which bytes are changed, where it is cut, what is appended.
type Damage = (u8, Vec<(u16, u8)>, u16, Vec<u8>);

/// One of `valid` after `damage`; arbitrary bytes alone for the highest choice.
fn damaged(valid: &[Vec<u8>], (choice, changes, cut, tail): &Damage) -> Vec<u8> {
    let mut bytes = valid.get(usize::from(*choice) % (valid.len() + 1)).cloned().unwrap_or_default();
    for (place, value) in changes {
        if !bytes.is_empty() {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *value;
        }
    }
    // Most messages stay whole, so that what is behind the first fields is reached too.
    if *cut < 4096 && !bytes.is_empty() {
        bytes.truncate(usize::from(*cut) % bytes.len());
    }
    if tail.len() % 4 == 3 {
        bytes.extend(tail);
    }
    bytes
}

fn addresses() -> Vec<Vec<u8>> {
    let mut address = shm::Address {
        name: [1; 16],
        machine: Machine { boot: [6; 16], network: 8 },
        process: 7,
        user: 0,
        name_spaces: [4, 5],
        opens_memory: true,
        cookie_at: 99,
        cookie: [2; 16],
        processors: vec![3; 16],
    };
    let full = address.encode();
    address.processors.clear();
    vec![full, address.encode()]
}

#[test]
fn addresses_of_shared_memory() {
    let valid = addresses();
    bolero::check!().with_type::<Damage>().for_each(|damage| {
        let bytes = damaged(&valid, damage);
        if let Ok(address) = shm::Address::decode(&bytes) {
            assert_eq!(address.encode(), bytes);
        }
    });
}

#[test]
fn greetings_and_answers_of_shared_memory() {
    let secret: JobSecret = "5a".repeat(32).parse().unwrap();
    let valid = vec![
        shm::Greeting::new(&secret, Rank(3), shm::Wanted::Control).encode(),
        shm::Greeting::new(&secret, Rank(3), shm::Wanted::Segment(SegmentId::new(8, 9))).encode(),
        shm::Greeting::new(&secret, Rank(3), shm::Wanted::Answer([8, 9])).encode(),
        shm::Answer::Said(5).encode(),
        shm::Answer::Here { offset: 4096, length: 1 << 20 }.encode(),
        shm::Answer::Unknown.encode(),
    ];
    bolero::check!().with_type::<Damage>().for_each(|damage| {
        let bytes = damaged(&valid, damage);
        if let Ok(greeting) = shm::Greeting::decode(&bytes) {
            assert_eq!(greeting.encode(), bytes);
        }
        if let Ok(answer) = shm::Answer::decode(&bytes) {
            assert_eq!(answer.encode(), bytes);
        }
    });
}

fn network_messages() -> Vec<Vec<u8>> {
    let header = ofi::Header { sender: Rank(2), tag: 77, number: 5, applied: 4 };
    let writes = [None, Some(Interrupt(3))].map(|interrupt| {
        let begin = ofi::WRITE_HEADER + interrupt.map_or(0, |_| ofi::INTERRUPT);
        let mut write = vec![0; begin + 2 * ofi::PIECE_HEADER + 13];
        let pieces = [(64, &b"eight by"[..]), (0, &b"piece"[..])];
        ofi::encode_write(&header, interrupt, 1, pieces, &mut write);
        write
    });
    let others = [
        ofi::Message::Trigger(Interrupt(3)),
        ofi::Message::Ring,
        ofi::Message::Barrier,
        ofi::Message::Applied { number: 1, refused: 0 },
        ofi::Message::Connect { ticket: 1, id: SegmentId::new(1, 2) },
        ofi::Message::Connected { ticket: 1, key: 2, base: 3, length: 4 },
        ofi::Message::Add { ticket: 1, key: 2, place: 8, amount: 1 },
        ofi::Message::Swap { ticket: 1, key: 2, place: 8, expected: 1, new: 2 },
        ofi::Message::Was { ticket: 1, value: 2 },
        ofi::Message::Refused { ticket: 1 },
        ofi::Message::Read { ticket: 1, key: 2, place: 8, length: 64 },
        ofi::Message::Bytes { ticket: 1, bytes: &[1, 2, 3] },
        ofi::Message::Stop { key: 2 },
        ofi::Message::Stopped { key: 2 },
        ofi::Message::Parted,
        ofi::Message::Inquire { ticket: 1, question: [2, 3] },
    ];
    let encode = |message: &ofi::Message<'_>| {
        let mut bytes = vec![0; message.length()];
        message.encode(&header, &mut bytes);
        bytes
    };
    writes.into_iter().chain(others.iter().map(encode)).collect()
}

#[test]
fn messages_of_the_network() {
    let valid = network_messages();
    for bytes in &valid {
        assert!(ofi::decode(bytes).is_ok());
    }
    // The kind is the fourth byte. Of a known kind, a message with another one's body has at worst a wrong length.
    let seeds: BTreeSet<_> = valid.iter().map(|bytes| bytes[3]).collect();
    let is_known = |kind: &u8| {
        let mut bytes = valid[0].clone();
        bytes[3] = *kind;
        !matches!(ofi::decode(&bytes), Err(ofi::Malformed::Kind))
    };
    assert!(seeds.into_iter().eq((0..=u8::MAX).filter(is_known)), "a kind has no seed");
    bolero::check!().with_type::<Damage>().for_each(|damage| {
        let bytes = damaged(&valid, damage);
        let beginning = ofi::decode_header(&bytes);
        if let Ok((header, message)) = ofi::decode(&bytes) {
            assert_eq!(beginning, Some(header));
            let mut again = vec![0; message.length()];
            message.encode(&header, &mut again);
            assert_eq!(again, bytes);
            if let ofi::Message::Write { pieces, .. } = message {
                assert!(
                    pieces.map(|(_, piece)| piece.len() + ofi::PIECE_HEADER).sum::<usize>() < bytes.len()
                );
            }
        }
    });
}

#[test]
fn addresses_of_the_network() {
    let address = ofi::ProcessAddress {
        provider: "tcp;ofi_rxm".into(),
        format: 2,
        anchor: 5,
        anchor_base: 6,
        message_bytes: 8192,
        name: vec![7; 16],
    };
    let valid = [address.encode()];
    bolero::check!().with_type::<Damage>().for_each(|damage| {
        let bytes = damaged(&valid, damage);
        if let Ok(address) = ofi::ProcessAddress::decode(&bytes) {
            assert_eq!(address.encode(), bytes);
        }
    });
}

/// Control packets, each behind a byte that tells its kind.
fn packets() -> Vec<Vec<u8>> {
    let key = MemoryKey([1, 2, 3]);
    let packets = [
        message::Packet::Eager { length: 100, slot: 1 },
        message::Packet::Request {
            transfer: 1,
            length: 1 << 30,
            offers: message::Ways::default(),
            is_left: true,
            key,
        },
        message::Packet::Ready { transfer: 1, way: message::Way::Shared, slot: 1, chunk: 4096, key },
        message::Packet::Part { transfer: 1, buffer: 2, offset: 3, length: 4 },
        message::Packet::Done { transfer: 1 },
        message::Packet::Taken { transfer: 1, ended: message::Ended::Received },
        message::Packet::Taken { transfer: 1, ended: message::Ended::NoWay },
        message::Packet::Taken { transfer: 1, ended: message::Ended::Withdrawn },
        message::Packet::Withdraw { transfer: 1 },
        message::Packet::Closed,
        message::Packet::GivenUp,
    ];
    let encode = |packet: &message::Packet| {
        let (payload, length) = packet.encode();
        let mut bytes = vec![packet.kind() as u8];
        bytes.extend(&payload[..length]);
        bytes
    };
    packets.iter().map(encode).collect()
}

#[test]
fn packets_of_messages() {
    let valid = packets();
    let seeds: BTreeSet<_> = valid.iter().map(|bytes| bytes[0]).collect();
    // Kind 1 is a message itself, any bytes.
    let kinds = (2..16).filter(|kind| message::Closing::decode(u64::from(*kind), 64).is_ok());
    assert!(seeds.into_iter().eq(kinds), "a kind has no seed");
    bolero::check!().with_type::<(Damage, u64)>().for_each(|(damage, word)| {
        let bytes = damaged(&valid, damage);
        if let Some((kind, payload)) = bytes.split_first() {
            // A closing word brings the kind; its other bits are 0.
            if let Ok(closing) = message::Closing::decode(u64::from(*kind & 0xf), 64)
                && let Ok(packet) = message::Packet::decode(closing.kind, payload)
            {
                let (again, length) = packet.encode();
                assert_eq!(&again[..length], payload);
                assert_eq!(packet.kind(), closing.kind);
            }
        }
        if let Ok(closing) = message::Closing::decode(*word, 64) {
            assert_eq!(closing.encode(), *word);
        }
    });
}

/// The fields of a header that are 32 bits long, as they lie behind the magic number.
fn fields(sizes: &Sizes) -> [u32; 10] {
    let Sizes { part, packet_parts, ring_parts, control_parts, .. } = *sizes;
    let Sizes { eager_buffer, eager_buffers, staging_buffer, staging_buffers, .. } = *sizes;
    let flags = u32::from(sizes.asynchronous);
    [
        part,
        packet_parts,
        ring_parts,
        control_parts,
        eager_buffer,
        eager_buffers,
        staging_buffer,
        staging_buffers,
        flags,
        sizes.eager_slot,
    ]
}

/// A header of these fields and what the word behind them holds, except for its magic number.
fn header(fields: &[u32; 10], ways: u64, messenger: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    for (place, field) in bytes[8..48].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    bytes[48..56].copy_from_slice(&(ways | u64::from(messenger) << 32).to_le_bytes());
    bytes
}

#[test]
fn headers_of_inboxes() {
    const SOUND: [u32; 10] = [64, 9, 256, 64, 64 << 10, 4, 128 << 10, 4, 1, 1 << 10];
    let understood = |mut bytes: [u8; HEADER]| {
        assert!(Sizes::decode(&bytes).is_ok_and(|sizes| sizes.is_none()), "a header that is not written yet");
        bytes[..8].copy_from_slice(&Sizes::magic().to_le_bytes());
        Sizes::decode(&bytes)
    };
    assert!(matches!(understood(header(&SOUND, 0, 0)), Ok(Some(sizes)) if fields(&sizes) == SOUND));
    // Fields as sound ones, doubled or halved a few times, or arbitrary; and the word behind them.
    bolero::check!().with_type::<([u8; 10], [u32; 10], (u8, u8, u32), u16)>().for_each(
        |(shifts, values, (flags, ways, messenger), arbitrary)| {
            let mut words = SOUND;
            for (index, word) in words.iter_mut().enumerate() {
                *word = match arbitrary >> index & 1 {
                    1 if *arbitrary > 0xf000 => values[index],
                    _ => word.rotate_left(u32::from(shifts[index] % 8)).rotate_right(3),
                };
            }
            words[8] = u32::from(*flags % 3);
            let bytes = header(&words, u64::from(*ways % 0x41), *messenger);
            if let Ok(sizes) = understood(bytes) {
                let sizes = sizes.expect("the magic number is there");
                assert_eq!(header(&fields(&sizes), sizes.receives.encode(), sizes.messenger), bytes);
            }
        },
    );
}

fn frames() -> Vec<Vec<u8>> {
    let control: [SocketAddr; 2] = ["127.0.0.1:9".parse().unwrap(), "[::1]:65535".parse().unwrap()];
    let entry = |control| job::Entry { node: "alpha".into(), control, address: addresses().swap_remove(0) };
    let registration = job::Registration {
        process: 17,
        fabric: "shm".into(),
        entry: entry(control[0]),
        problem: Some("no memory".into()),
    };
    let hello = |purpose| job::Frame::Hello {
        hello: job::Hello { rank: Rank(1), size: 4, purpose },
        nonce: job::Nonce([3; 32]),
        proof: job::Proof([4; 32]),
    };
    let frames = [
        job::Frame::Challenge { nonce: job::Nonce([1; 32]) },
        job::Frame::Knock { rank: Rank(1), process: 77 },
        hello(job::Purpose::Register(registration)),
        hello(job::Purpose::Follow),
        hello(job::Purpose::Probe),
        job::Frame::Welcome { proof: job::Proof([2; 32]) },
        job::Frame::Refusal { problem: "no".into() },
        job::Frame::Table(control.map(entry).to_vec()),
        job::Frame::Heartbeat,
        job::Frame::Lost { rank: Rank(1), reason: "gone".into(), had_finished: false },
        job::Frame::Ending { reason: "rank 1 got SIGTERM".into(), signal: Some(15) },
        job::Frame::Ending { reason: "the others took it for lost".into(), signal: None },
        job::Frame::Finished { rank: Rank(2) },
        job::Frame::Failed { problem: "3 of 4 came".into() },
        job::Frame::Lead,
        job::Frame::Leave { reason: "it panicked".into() },
        job::Frame::Farewell,
        job::Frame::Expelled { reason: "no heartbeat".into() },
        job::Frame::Abandoned { reason: "no heartbeat".into() },
    ];
    let encode = |frame: &job::Frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    frames.iter().map(encode).collect()
}

#[test]
fn frames_of_control_connections() {
    let valid = frames();
    // The kind stands behind the length of 32 bits.
    let kinds: BTreeSet<_> = valid.iter().map(|bytes| bytes[4]).collect();
    assert!(kinds.into_iter().eq(0..=15), "a kind has no seed");
    for bytes in &valid {
        assert!(matches!(job::decode(bytes, job::LARGEST), Ok(Some((_, length))) if length == bytes.len()));
    }
    bolero::check!().with_type::<Damage>().for_each(|damage| {
        let bytes = damaged(&valid, damage);
        if let Ok(Some((frame, length))) = job::decode(&bytes, job::LARGEST) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            assert_eq!(again, bytes[..length]);
        }
    });
}
