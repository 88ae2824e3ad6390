use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,40}"
}

fn entry() -> impl Strategy<Value = Entry> {
    (text(), any::<Result<[u8; 4], [u8; 16]>>(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..99))
        .prop_map(|(node, ip, port, address)| {
            let ip = ip.map_or_else(IpAddr::from, IpAddr::from);
            Entry { node, control: SocketAddr::new(ip, port), address }
        })
}

fn hello() -> impl Strategy<Value = Hello> {
    let register = (any::<u32>(), "[a-z]{0,9}", entry(), prop::option::of(text())).prop_map(
        |(process, fabric, entry, problem)| {
            Purpose::Register(Registration { process, fabric, entry, problem })
        },
    );
    let purpose = prop_oneof![register, Just(Purpose::Follow), Just(Purpose::Probe)];
    (any::<u32>(), any::<u32>(), purpose).prop_map(|(rank, size, purpose)| Hello {
        rank: Rank(rank),
        size,
        purpose,
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(|nonce| Frame::Challenge { nonce: Nonce(nonce) }),
        any::<(u32, u32)>().prop_map(|(rank, process)| Frame::Knock { rank: Rank(rank), process }),
        (hello(), any::<[u8; 32]>(), any::<[u8; 32]>()).prop_map(|(hello, nonce, proof)| Frame::Hello {
            hello,
            nonce: Nonce(nonce),
            proof: Proof(proof)
        }),
        any::<[u8; 32]>().prop_map(|proof| Frame::Welcome { proof: Proof(proof) }),
        text().prop_map(|problem| Frame::Refusal { problem }),
        prop::collection::vec(entry(), 0..9).prop_map(Frame::Table),
        text().prop_map(|problem| Frame::Failed { problem }),
        (any::<u32>(), text(), any::<bool>()).prop_map(|(rank, reason, had_finished)| Frame::Lost {
            rank: Rank(rank),
            reason,
            had_finished
        }),
        any::<u32>().prop_map(|rank| Frame::Finished { rank: Rank(rank) }),
        (text(), prop::option::of(1_u8..)).prop_map(|(reason, signal)| Frame::Ending { reason, signal }),
        text().prop_map(|reason| Frame::Leave { reason }),
        text().prop_map(|reason| Frame::Expelled { reason }),
        text().prop_map(|reason| Frame::Abandoned { reason }),
        Just(Frame::Heartbeat),
        Just(Frame::Lead),
        Just(Frame::Farewell),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_and_never_before_it_is_whole(frame in frame(), more in any::<[u8; 3]>()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        for length in 0..bytes.len() {
            prop_assert_eq!(decode(&bytes[..length], LARGEST), Ok(None));
        }
        let length = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(decode(&bytes, LARGEST), Ok(Some((frame, length))));
    }

    #[test]
    fn a_changed_byte_gives_a_frame_or_a_problem(frame in frame(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(Some((frame, length))) = decode(&bytes, LARGEST) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..length]);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes, LARGEST);
        let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
        framed.extend(bytes);
        prop_assert_ne!(decode(&framed, LARGEST), Ok(None));
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_anything_of_it_has_come() {
    let problem = WireProblem::TooLong { length: u32::MAX as usize, limit: LARGEST };
    assert_eq!(decode(&[255; 4], LARGEST), Err(problem));
}

#[test]
fn another_version_is_named() {
    let mut bytes = Vec::new();
    Frame::Challenge { nonce: Nonce([7; 32]) }.encode(&mut bytes);
    bytes[13] = 9;
    assert_eq!(decode(&bytes, LARGEST), Err(WireProblem::Version(9)));
    bytes[5] = b'S';
    assert_eq!(decode(&bytes, LARGEST), Err(WireProblem::Magic));
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let mut bytes = Vec::new();
    Frame::Leave { reason: "ä".repeat(LARGEST_TEXT) + "x" }.encode(&mut bytes);
    let Ok(Some((Frame::Leave { reason }, _))) = decode(&bytes, LARGEST) else { panic!("it is a frame") };
    assert_eq!(reason, "ä".repeat(LARGEST_TEXT / 2));
}
