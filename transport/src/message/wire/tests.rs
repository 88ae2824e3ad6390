use proptest::prelude::*;

use super::{Closing, Ended, Kind, Packet, Way, Ways};
use crate::back_end::MemoryKey;

fn packets() -> impl Strategy<Value = Packet> {
    let key = any::<[u64; 3]>().prop_map(MemoryKey);
    let way = prop::sample::select(Way::BEST_FIRST.to_vec());
    let ways = prop::collection::vec(way.clone(), 0..6)
        .prop_map(|ways| ways.into_iter().fold(Ways::default(), Ways::with));
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(length, slot)| Packet::Eager { length, slot }),
        (any::<(u32, u64, bool)>(), ways, key.clone()).prop_map(
            |((transfer, length, is_left), offers, key)| {
                Packet::Request { transfer, length, offers, is_left, key }
            }
        ),
        (any::<(u32, u8, u64)>(), way, key).prop_map(|((transfer, slot, chunk), way, key)| Packet::Ready {
            transfer,
            way,
            slot,
            chunk,
            key
        }),
        any::<(u32, u32, u64, u64)>().prop_map(|(transfer, buffer, offset, length)| Packet::Part {
            transfer,
            buffer,
            offset,
            length
        }),
        any::<u32>().prop_map(|transfer| Packet::Done { transfer }),
        any::<u32>().prop_map(|transfer| Packet::Withdraw { transfer }),
        (any::<u32>(), prop::sample::select(vec![Ended::Received, Ended::NoWay, Ended::Withdrawn]))
            .prop_map(|(transfer, ended)| Packet::Taken { transfer, ended }),
        Just(Packet::Closed),
        Just(Packet::GivenUp),
    ]
}

proptest! {
    #[test]
    fn a_packet_comes_back_from_its_bytes(packet in packets()) {
        let (bytes, length) = packet.encode();
        prop_assert_eq!(Packet::decode(packet.kind(), &bytes[..length]), Ok(packet));
    }

    #[test]
    fn a_payload_that_is_cut_is_refused(packet in packets(), cut in 1_usize..40) {
        let (bytes, length) = packet.encode();
        prop_assert!(Packet::decode(packet.kind(), &bytes[..length.saturating_sub(cut)]).is_err());
    }

    #[test]
    fn a_closing_word_that_is_accepted_is_one_that_is_written(word: u64, part in 16_usize..4096) {
        if let Ok(closing) = Closing::decode(word, part) {
            prop_assert_eq!(closing.encode(), word);
            prop_assert!(usize::from(closing.length) + 8 <= part);
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(code in 1_u32..=10, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(kind) = Kind::decode(code) {
            let _ = Packet::decode(kind, &bytes);
        }
    }
}
