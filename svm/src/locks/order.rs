//! The decisions of the lock table, as functions of what is claimed: who must wait for whom.

use super::claim::{Claim, Mode, Standing};

/// Whether the two may not be held at the same time.
pub(super) fn conflict(one: &Claim, other: &Claim) -> bool {
    let overlap = one.start < other.end && other.start < one.end;
    overlap && (one.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
}

/// Whether `request` has to wait for `claim`: an earlier one that conflicts with it.
fn blocks(claim: &Claim, request: &Claim) -> bool {
    // What is held counts as earlier in any case.
    let earlier = claim.standing == Standing::Held || claim.ticket < request.ticket;
    claim.ticket != request.ticket && earlier && conflict(claim, request)
}

/// The claims that `request` has to wait for.
pub(super) fn blockers(claims: impl Iterator<Item = Claim>, request: &Claim) -> impl Iterator<Item = Claim> {
    claims.filter(move |claim| blocks(claim, request))
}

/// Whether `request` has nobody to wait for.
pub(super) fn grantable(claims: impl Iterator<Item = Claim>, request: &Claim) -> bool {
    blockers(claims, request).next().is_none()
}

/// A lock of the owner of `request` that `request` would wait for, perhaps by way of others'
/// requests, so that the wait would never end.
///
/// `request` is the latest one, so a circle of waiters can only close through it.
pub(super) fn deadlock(claims: impl Iterator<Item = Claim> + Clone, request: &Claim) -> Option<Claim> {
    // Nearly always an owner has no other lock, and then there is nothing to search for.
    if !claims.clone().any(|claim| claim.owner == request.owner) {
        return None;
    }
    let claims: Vec<Claim> = claims.collect();
    let mut seen = vec![false; claims.len()];
    let mut to_follow = vec![*request];
    while let Some(waiting) = to_follow.pop() {
        for (at, blocker) in claims.iter().enumerate() {
            if seen[at] || !blocks(blocker, &waiting) {
                continue;
            }
            seen[at] = true;
            if blocker.owner == request.owner {
                return Some(*blocker);
            }
            // The blocker goes when its owner goes on, so what its owner waits for is waited for.
            for (at, claim) in claims.iter().enumerate() {
                let waits = claim.owner == blocker.owner && claim.standing == Standing::Waiting;
                if waits && (claim == blocker || !seen[at]) {
                    seen[at] = true;
                    to_follow.push(*claim);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::claim::{Owner, ThreadId, Ticket};
    use super::*;
    use crate::presence::ProcessSlot;
    use proptest::prelude::*;

    fn claim(thread: u32, bytes: std::ops::Range<u64>, mode: Mode, ticket: u64) -> Claim {
        Claim {
            owner: Owner { slot: ProcessSlot(0), thread: ThreadId(thread) },
            start: bytes.start,
            end: bytes.end,
            mode,
            ticket: Ticket(ticket),
            standing: Standing::Waiting,
        }
    }

    fn held(claim: Claim) -> Claim {
        Claim { standing: Standing::Held, ..claim }
    }

    use Mode::{Exclusive, Shared};

    #[test]
    fn a_reader_does_not_overtake_an_earlier_writer() {
        let reader = held(claim(1, 0..10, Shared, 1));
        let writer = claim(2, 5..15, Exclusive, 2);
        let late_reader = claim(3, 8..20, Shared, 3);
        let late_reader_elsewhere = claim(4, 0..5, Shared, 4);
        let claims = [reader, writer];
        assert!(!grantable(claims.into_iter(), &writer));
        assert!(!grantable(claims.into_iter(), &late_reader));
        assert!(grantable(claims.into_iter(), &late_reader_elsewhere));
    }

    #[test]
    fn an_endless_range_conflicts_with_everything_behind_its_start() {
        let endless = held(claim(1, 100..u64::MAX, Exclusive, 1));
        for (bytes, free) in [(0..100, true), (0..101, false), (1 << 62..u64::MAX, false)] {
            let request = claim(2, bytes, Shared, 2);
            assert_eq!(grantable([endless].into_iter(), &request), free);
        }
    }

    #[test]
    fn a_request_that_conflicts_with_ones_own_lock_is_a_deadlock() {
        let own = held(claim(1, 0..10, Shared, 1));
        let request = claim(1, 9..12, Exclusive, 2);
        assert_eq!(deadlock([own].into_iter(), &request), Some(own));
    }

    #[test]
    fn waiting_behind_a_writer_who_waits_for_me_is_a_deadlock() {
        let own = held(claim(1, 0..10, Shared, 1));
        let writer = claim(2, 0..20, Exclusive, 2);
        let request = claim(1, 15..20, Shared, 3);
        assert_eq!(deadlock([own, writer].into_iter(), &request), Some(own));
    }

    #[test]
    fn two_owners_that_each_want_what_the_other_has_are_a_deadlock() {
        let own = held(claim(1, 0..10, Exclusive, 1));
        let others = held(claim(2, 10..20, Exclusive, 2));
        let wants_mine = claim(2, 0..1, Exclusive, 3);
        let request = claim(1, 10..11, Exclusive, 4);
        let claims = [own, others, wants_mine];
        assert_eq!(deadlock(claims.into_iter(), &request), Some(own));
        let harmless = claim(1, 30..31, Exclusive, 4);
        assert_eq!(deadlock(claims.into_iter(), &harmless), None);
    }

    /// A sequential oracle: bytes 0..SPAN as lists of who has asked for each, in order. A request
    /// may go when on each of its bytes it stands in front, or among readers in front.
    mod oracle {
        use super::*;

        pub(super) const SPAN: u64 = 24;

        #[derive(Default)]
        pub(super) struct Bytes {
            asked: Vec<Vec<(Ticket, Mode)>>,
        }

        impl Bytes {
            pub(super) fn new() -> Self {
                Bytes { asked: vec![Vec::new(); SPAN as usize] }
            }

            pub(super) fn ask(&mut self, claim: &Claim) {
                for byte in claim.start..claim.end.min(SPAN) {
                    self.asked[byte as usize].push((claim.ticket, claim.mode));
                }
            }

            pub(super) fn forget(&mut self, ticket: Ticket) {
                for byte in &mut self.asked {
                    byte.retain(|(other, _)| *other != ticket);
                }
            }

            pub(super) fn may_go(&self, ticket: Ticket) -> bool {
                self.asked.iter().all(|byte| match byte.iter().position(|(other, _)| *other == ticket) {
                    None | Some(0) => true,
                    Some(place) => byte[..=place].iter().all(|(_, mode)| *mode == Shared),
                })
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask {
            start: u64,
            len: u64,
            endless: bool,
            mode: Mode,
        },
        /// A release, or the death of a waiter: the claim in this place, counted round, goes.
        Go(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let ask = (0..oracle::SPAN, 1u64..8, prop::bool::weighted(0.1), prop::bool::ANY).prop_map(
            |(start, len, endless, shared)| Step::Ask {
                start,
                len,
                endless,
                mode: if shared { Shared } else { Exclusive },
            },
        );
        prop::collection::vec(prop_oneof![3 => ask, 2 => (0usize..64).prop_map(Step::Go)], 1..80)
    }

    proptest! {
        /// What is granted one by one as claims come and go is, after each step, exactly what the
        /// oracle says may go.
        #[test]
        fn grants_are_those_of_the_sequential_oracle(steps in steps()) {
            let mut claims: Vec<Claim> = Vec::new();
            let mut oracle = oracle::Bytes::new();
            for (ticket, step) in (1..).zip(steps) {
                match step {
                    Step::Ask { start, len, endless, mode } => {
                        let end = if endless { u64::MAX } else { start + len };
                        let mut request = claim(ticket as u32, start..end, mode, ticket);
                        oracle.ask(&request);
                        if grantable(claims.iter().copied(), &request) {
                            request.standing = Standing::Held;
                        }
                        claims.push(request);
                    }
                    Step::Go(_) if claims.is_empty() => {}
                    Step::Go(which) => {
                        let gone = claims.swap_remove(which % claims.len());
                        oracle.forget(gone.ticket);
                        for at in 0..claims.len() {
                            let waiting = claims[at];
                            if waiting.standing == Standing::Waiting
                                && conflict(&gone, &waiting)
                                && grantable(claims.iter().copied(), &waiting)
                            {
                                claims[at].standing = Standing::Held;
                            }
                        }
                    }
                }
                for claim in &claims {
                    let granted = claim.standing == Standing::Held;
                    prop_assert_eq!(granted, oracle.may_go(claim.ticket), "{:?}", claim);
                }
            }
        }

        /// As long as no request is let in that would close a circle, somebody can always go on:
        /// not all owners wait.
        #[test]
        fn without_deadlocks_somebody_goes_on(
            requests in prop::collection::vec((0u32..5, 0u64..12, 1u64..6, prop::bool::ANY), 1..60)
        ) {
            let mut claims: Vec<Claim> = Vec::new();
            for (ticket, (thread, start, len, shared)) in (1..).zip(requests) {
                let waits = claims.iter().any(|claim| {
                    claim.owner.thread == ThreadId(thread) && claim.standing == Standing::Waiting
                });
                if waits {
                    continue;
                }
                let mode = if shared { Shared } else { Exclusive };
                let mut request = claim(thread, start..start + len, mode, ticket);
                if grantable(claims.iter().copied(), &request) {
                    request.standing = Standing::Held;
                } else if deadlock(claims.iter().copied(), &request).is_some() {
                    continue;
                }
                claims.push(request);
            }
            // Who does not wait releases everything; so, round after round, all must get away.
            while !claims.is_empty() {
                let waiting: Vec<Claim> = claims
                    .iter()
                    .copied()
                    .filter(|claim| claim.standing == Standing::Waiting)
                    .collect();
                let before = claims.len();
                claims.retain(|claim| waiting.iter().any(|other| other.owner == claim.owner));
                prop_assert!(claims.len() < before, "all wait: {:?}", claims);
                for at in 0..claims.len() {
                    if grantable(claims.iter().copied(), &claims[at].clone()) {
                        claims[at].standing = Standing::Held;
                    }
                }
            }
        }

        /// A refused request really would have closed a circle: with it let in, the owners that
        /// can go on do not suffice to bring its owner forward.
        #[test]
        fn a_refused_request_would_never_have_been_granted(
            requests in prop::collection::vec((0u32..5, 0u64..12, 1u64..6, prop::bool::ANY), 1..60)
        ) {
            let mut claims: Vec<Claim> = Vec::new();
            for (ticket, (thread, start, len, shared)) in (1..).zip(requests) {
                let waits = claims.iter().any(|claim| {
                    claim.owner.thread == ThreadId(thread) && claim.standing == Standing::Waiting
                });
                if waits {
                    continue;
                }
                let mode = if shared { Shared } else { Exclusive };
                let mut request = claim(thread, start..start + len, mode, ticket);
                if grantable(claims.iter().copied(), &request) {
                    request.standing = Standing::Held;
                } else if deadlock(claims.iter().copied(), &request).is_some() {
                    let mut left = claims.clone();
                    left.push(request);
                    loop {
                        let waiting: Vec<Claim> = left
                            .iter()
                            .copied()
                            .filter(|claim| claim.standing == Standing::Waiting)
                            .collect();
                        let before = left.len();
                        left.retain(|claim| waiting.iter().any(|other| other.owner == claim.owner));
                        for at in 0..left.len() {
                            if grantable(left.iter().copied(), &left[at].clone()) {
                                left[at].standing = Standing::Held;
                            }
                        }
                        if left.len() == before {
                            break;
                        }
                    }
                    let stuck = left.iter().any(|claim| {
                        claim.ticket == request.ticket && claim.standing == Standing::Waiting
                    });
                    prop_assert!(stuck, "{:?} was refused for nothing among {:?}", request, claims);
                    continue;
                }
                claims.push(request);
            }
        }
    }
}
