//! What peers inquire of each other's respondents.

use std::sync::Arc;

use svmio_transport::Rank;
use svmio_transport::back_end::Respondent;

use crate::face::LIMIT;
use crate::face::participant::Participant;

/// Answers by what it was asked, and by whom.
struct Sum;

impl Respondent for Sum {
    fn respond(&self, asker: Rank, [first, second]: [u64; 2]) -> u64 {
        first.wrapping_mul(3).wrapping_add(second).wrapping_add(asker.0.into())
    }
}

/// Each question is answered by the one who is asked, to the one who asks, and nothing is connected for it. The suite
/// opens no messenger, which would need the respondent that this replaces.
pub(super) fn answered(participant: &Participant) {
    let back_end = participant.fabric().back_end();
    back_end.set_respondent(Arc::new(Sum));
    participant.meet();
    let own = u64::from(participant.rank().0);
    for peer in participant.others() {
        for question in [[0, 0], [1, u64::MAX], [u64::MAX, own], [1 << 32 | 7, 5]] {
            let answer = back_end.inquire(peer, question, LIMIT).expect("the peer is there");
            assert_eq!(
                answer,
                Some(Sum.respond(participant.rank(), question)),
                "{question:?} of rank {peer}"
            );
        }
    }
    participant.meet();
}
