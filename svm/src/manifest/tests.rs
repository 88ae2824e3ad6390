use super::*;
use proptest::prelude::*;

fn manifests() -> impl Strategy<Value = Manifest> {
    let present = prop::collection::btree_set(0u32..5000, 0..40);
    (any::<[u8; 16]>(), "[a-z/\u{e9}\"\\\\]{1,20}", 0..=i64::MAX as u64, 16u32..=30, any::<u64>(), present)
        .prop_map(|(id, name, size, shift, epoch, present)| Manifest {
            id: FileId::from_bytes(id),
            name,
            size,
            segment_size: SegmentSize::new(1 << shift).unwrap(),
            epoch,
            nodes: vec![NodeName::current()],
            segments: runs(present.into_iter().map(|i| (SegmentIndex(i), 0))),
            temporary: epoch % 2 == 1,
            placement: match epoch % 5 {
                0 => None,
                1 => Some(Placement::FirstTouch),
                2 => Some(Placement::RoundRobin),
                3 => Some(Placement::Block),
                _ => Some(Placement::Node(NodeName::new("n \u{e9}=\""))),
            },
            segment_size_reason: match epoch % 4 {
                0 => None,
                1 => Some(SizeReason::Default),
                2 => Some(SizeReason::Nearness),
                _ => Some(SizeReason::Spreading),
            },
        })
}

proptest! {
    #[test]
    fn what_is_committed_is_read(manifest in manifests()) {
        let directory = tempfile::tempdir().unwrap();
        manifest.commit(directory.path(), false).unwrap();
        prop_assert_eq!(Manifest::read(directory.path(), "x").unwrap(), manifest);
    }

    #[test]
    fn what_is_packed_is_unpacked(manifest in manifests()) {
        let bytes = manifest.pack();
        prop_assert_eq!(Manifest::unpack(&bytes), Some(manifest));
        for cut in 0..bytes.len() {
            prop_assert_eq!(Manifest::unpack(&bytes[..cut]), None);
        }
    }

    #[test]
    fn any_damage_is_noticed(manifest in manifests(), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = manifest.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let read = Manifest::decode(&bytes, Path::new("m"), "x");
        // A flipped bit of a hexadecimal digit's case changes nothing.
        prop_assert!(read.is_err() || read.unwrap() == manifest);
    }

    #[test]
    fn a_truncated_one_is_noticed(manifest in manifests(), at: prop::sample::Index) {
        let bytes = manifest.encode();
        let read = Manifest::decode(&bytes[..at.index(bytes.len())], Path::new("m"), "x");
        let noticed = matches!(read, Err(Error::CorruptManifest { .. }));
        prop_assert!(noticed);
    }
}

#[test]
fn more_segments_than_a_table_has_room_for_are_damage() {
    let read = |count| {
        let body = format!(
            r#"{{"id":"{}","name":"x","size":0,"segment_size":65536,"epoch":0,"nodes":["n"],
            "segments":[{{"first":1,"count":{count},"home":0}}]}}"#,
            "0".repeat(32)
        );
        let (checksum, length) = (crc32fast::hash(body.as_bytes()), body.len());
        let text = format!("svmio-manifest 1 crc32={checksum:08x} bytes={length}\n{body}");
        Manifest::decode(text.as_bytes(), Path::new("m"), "x")
    };
    assert!(read(MAX_SEGMENTS - 1).is_ok());
    for count in [MAX_SEGMENTS, u32::MAX - 1, u32::MAX] {
        assert!(matches!(read(count), Err(Error::CorruptManifest { .. })), "{count}");
    }
}

#[test]
fn a_manifest_without_policies_is_read() {
    let read = |policies: &str| {
        let body = format!(
            r#"{{"id":"{}","name":"x","size":0,"segment_size":65536,"epoch":0,"nodes":["n"],"segments":[]{policies}}}"#,
            "0".repeat(32)
        );
        let (checksum, length) = (crc32fast::hash(body.as_bytes()), body.len());
        let text = format!("svmio-manifest 1 crc32={checksum:08x} bytes={length}\n{body}");
        Manifest::decode(text.as_bytes(), Path::new("m"), "x")
    };
    assert_eq!(read("").unwrap().policies(), Policies::default());
    let told = read(r#","placement":"node=a","segment_size_reason":"nearness""#).unwrap().policies();
    let placement = Some(Placement::Node(NodeName::new("a")));
    assert_eq!(told, Policies { placement, size_reason: Some(SizeReason::Nearness) });
    assert!(matches!(read(r#","placement":3"#), Err(Error::CorruptManifest { .. })));
    for (field, word) in [("placement", "anywhere"), ("segment_size_reason", "whim")] {
        let error = read(&format!(r#","{field}":"{word}""#)).unwrap_err();
        assert!(matches!(error, Error::NewerWord { .. }), "{error}");
        let told = error.to_string();
        let parts = ["opening x: m has", field, word, "written by a later version", "use the newer release"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
}

#[test]
fn a_newer_format_is_named() {
    let read = Manifest::decode(b"svmio-manifest 7 sha3=abc\n{}", Path::new("m"), "x");
    assert!(matches!(read, Err(Error::NewerFormat { found: 7, supported: MANIFEST_VERSION, .. })));
}
