//! Messages are read as they were written, and nothing else is taken for one.

use proptest::prelude::*;

use super::*;

fn message() -> impl Strategy<Value = Message<'static>> {
    let words = any::<[u64; 5]>();
    (1..=18u8, words).prop_map(|(kind, [ticket, a, b, c, d])| match kind {
        TRIGGER => Message::Trigger(Interrupt(a as u32)),
        RING => Message::Ring,
        BARRIER => Message::Barrier,
        APPLIED => Message::Applied { number: a, refused: b },
        CONNECT => Message::Connect { ticket, id: SegmentId::new(a as u32, b as u32) },
        CONNECTED => Message::Connected { ticket, key: a, base: b, length: c },
        ADD => Message::Add { ticket, key: a, place: b, amount: c },
        SWAP => Message::Swap { ticket, key: a, place: b, expected: c, new: d },
        WAS => Message::Was { ticket, value: a },
        REFUSED => Message::Refused { ticket },
        STOP => Message::Stop { key: a },
        STOPPED => Message::Stopped { key: a },
        PARTED => Message::Parted,
        INQUIRE => Message::Inquire { ticket, question: [a, b] },
        READ => Message::Read { ticket, key: a, place: b, length: c },
        BYTES => Message::Bytes { ticket, bytes: &[1, 2, 3][..(a % 4) as usize] },
        WRITE => Message::Write { interrupt: None, key: a, pieces: Pieces(&[]) },
        _ => Message::Write { interrupt: Some(Interrupt(b as u32)), key: a, pieces: Pieces(&[]) },
    })
}

fn header() -> impl Strategy<Value = Header> {
    any::<(u32, u64, u64, u64)>().prop_map(|(sender, tag, number, applied)| Header {
        sender: Rank(sender),
        tag,
        number,
        applied,
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(header in header(), message in message()) {
        let mut bytes = vec![0; message.length()];
        message.encode(&header, &mut bytes);
        prop_assert_eq!(decode(&bytes), Ok((header, message)));
        prop_assert_eq!(decode_header(&bytes[..HEADER]), Some(header));
        prop_assert_eq!(decode_header(&bytes[..HEADER - 1]), None);
    }

    #[test]
    fn writes_keep_their_pieces(
        header in header(),
        key: u64,
        interrupt in prop::option::of(any::<u32>().prop_map(Interrupt)),
        pieces in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
    ) {
        let length = pieces.iter().map(|(_, bytes)| PIECE_HEADER + bytes.len()).sum::<usize>();
        let mut bytes = vec![0; WRITE_HEADER + interrupt.map_or(0, |_| INTERRUPT) + length];
        encode_write(&header, interrupt, key, pieces.iter().map(|(offset, bytes)| (*offset, &bytes[..])), &mut bytes);
        let (_, message) = decode(&bytes).unwrap();
        let Message::Write { interrupt: triggered, key: found, pieces: read } = message else { panic!("{message:?}") };
        prop_assert_eq!((triggered, found), (interrupt, key));
        let read: Vec<_> = read.map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
        prop_assert_eq!(read, pieces);
    }

    #[test]
    fn who_writes_and_who_is_written_to_know_alike_which_writes_are_silent(
        interrupt in prop::option::of(any::<u32>().prop_map(Interrupt)),
        lengths in prop::collection::vec(prop_oneof![0..40_usize, SILENT - 100..SILENT + 100], 0..4),
    ) {
        let pieces: Vec<_> = lengths.iter().map(|length| (0, vec![7; *length])).collect();
        let body = lengths.iter().map(|length| PIECE_HEADER + length).sum::<usize>();
        let mut bytes = vec![0; WRITE_HEADER + interrupt.map_or(0, |_| INTERRUPT) + body];
        let header = Header { sender: Rank(1), tag: 2, number: 3, applied: 4 };
        encode_write(&header, interrupt, 5, pieces.iter().map(|(offset, bytes)| (*offset, &bytes[..])), &mut bytes);
        prop_assert_eq!(is_silent(&bytes), is_silent_write(bytes.len(), pieces.len(), interrupt));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), looks_ours: bool) {
        if looks_ours && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[b's', b'v', VERSION]);
            bytes[3] %= 18;
        }
        if let Ok((header, message)) = decode(&bytes) {
            let mut again = vec![0; message.length()];
            message.encode(&header, &mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}
