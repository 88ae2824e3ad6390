//! Peers that live, and do nothing.

use std::sync::Arc;

use super::{PROVIDERS, SEGMENT, anonymous};
use crate::ofi::adapter::Adapter;
use crate::ofi::back_end::Ofi;
use crate::ofi::{OfiSettings, listen};
use crate::{Fabric, JobSecret, Membership, Rank};

const LENGTH: usize = 32 << 20;

/// Two ranks that give each other up after a second, and their adapters.
fn two(provider: &str) -> [(Fabric, Arc<Adapter>); 2] {
    let secret = JobSecret::random().unwrap();
    let settings = OfiSettings {
        provider: provider.into(),
        address: "127.0.0.1".into(),
        answer_seconds: 1,
        ..OfiSettings::default()
    };
    let listening = [(); 2].map(|()| listen(&settings, &secret).unwrap());
    let addresses = listening.each_ref().map(|listening| listening.address.encode());
    let mut rank = 0;
    listening.map(|listening| {
        let membership = Arc::new(Membership::new(Rank(rank), vec!["here".into(); 2]));
        rank += 1;
        let adapter = listening.attend(&membership, &addresses).unwrap();
        (Fabric::new(Arc::new(Ofi::new(Arc::clone(&adapter)))), adapter)
    })
}

#[test]
fn a_peer_that_takes_nothing_of_a_long_write_is_lost() {
    for provider in PROVIDERS {
        let [(zero, _), (one, its_adapter)] = two(provider);
        let segment = one.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        remote.write(0, &[1; 8]).unwrap();
        zero.store_barrier(Rank(1)).unwrap();

        // From here on, rank 1 does nothing.
        its_adapter.stop_attendant();
        let error = remote.write(0, &vec![1; LENGTH]).unwrap_err();
        assert_eq!(error.lost_peer(), Some(Rank(1)), "{provider}: {error}");
        assert!(error.to_string().contains("it took nothing of a write for 1s"), "{provider}: {error}");
        assert_eq!(zero.membership().lost(), [Rank(1)]);
        drop((remote, segment));
        zero.close();
        one.close();
    }
}
