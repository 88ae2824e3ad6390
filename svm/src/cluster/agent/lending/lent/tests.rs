//! Who asks back what another one has asked back already.

use std::sync::mpsc;
use std::time::Duration;

use super::*;

fn lent(lock: LockNumber) -> Lent {
    let lent = Lent::default();
    let presence = Arc::new(Presence::enter(tempfile::tempfile().unwrap(), 1).unwrap());
    lent.ranks().loans.insert(lock, kept_by_one(3, Wanted::new(0..10, true), &presence));
    lent
}

fn kept_by_one(place: u32, wanted: Wanted, presence: &Arc<Presence>) -> Loan {
    let kept = Some(Kept { node: NodeIndex(1), place, is_asked_back: false });
    let (holder, token) = (Rank(2), LockToken::of_nothing());
    Loan { holder, token, wanted, kept, presence: Arc::clone(presence) }
}

/// Two requests that are in its way: the first asks it back, the second waits for what comes of that.
fn second_after(outcome: impl FnOnce(&Lent, LockNumber)) -> usize {
    let lock = LockNumber(7);
    let (lent, wanted) = (lent(lock), Wanted::new(5..6, true));
    assert_eq!(lent.begin(LockNumber(8), (Rank(0), NodeIndex(0)), &wanted, None).due.len(), 1);
    assert!(lent.begin(LockNumber(9), (Rank(4), NodeIndex(2)), &wanted, None).due.is_empty());
    let (told, answer) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| told.send(lent.still_due(&wanted).len()).unwrap());
        assert!(answer.recv_timeout(Duration::from_millis(50)).is_err(), "it is still being asked back");
        outcome(&lent, lock);
        answer.recv().unwrap()
    })
}

#[test]
fn what_one_asked_back_in_vain_the_next_asks_back() {
    assert_eq!(second_after(|lent, lock| lent.ask_again(lock)), 1);
}

#[test]
fn what_one_was_given_back_nobody_asks_back_again() {
    let given_back = |lent: &Lent, lock| assert!(lent.take_off(lock).is_some());
    assert_eq!(second_after(given_back), 0);
}

#[test]
fn who_wants_something_else_waits_for_nobody() {
    let lent = lent(LockNumber(7));
    let _ = lent.begin(LockNumber(8), (Rank(0), NodeIndex(0)), &Wanted::new(5..6, true), None);
    assert!(lent.still_due(&Wanted::new(10..20, true)).is_empty());
}

#[test]
fn no_more_is_kept_than_leaves_room_for_others_in_the_table() {
    let lent = Lent::default();
    let presence = Arc::new(Presence::enter(tempfile::tempfile().unwrap(), 1).unwrap());
    let give = |number: u64| {
        let wanted = Wanted::new(number..number + 1, true);
        // From the second time on.
        let mut may_keep = false;
        for _ in 0..2 {
            let rank = (Rank(2), NodeIndex(1));
            may_keep = lent.begin(LockNumber(number), rank, &wanted, Some(number as u32)).may_keep;
        }
        let loan = kept_by_one(number as u32, wanted, &presence);
        (may_keep, lent.lend(LockNumber(number), loan, Rank(2)))
    };
    let most = LockTable::CAPACITY as u64 / 2;
    assert!((1..=most).all(|number| give(number) == (true, true)));
    assert_eq!(give(most + 1), (false, false));
    assert!([7, most + 1].iter().all(|number| lent.take_off(LockNumber(*number)).is_some()));
    assert_eq!(give(most + 2), (true, true));
}

#[test]
fn what_is_granted_for_a_place_that_was_reserved_anew_is_not_kept_be_it_granted_before_or_after() {
    let (before, waiting, anew, beside) = (LockNumber(7), LockNumber(8), LockNumber(9), LockNumber(10));
    let (lent, presence) =
        (lent(before), Arc::new(Presence::enter(tempfile::tempfile().unwrap(), 1).unwrap()));
    let wanted = |number: LockNumber| Wanted::new(number.0 * 10..number.0 * 10 + 10, true);
    let begin = |number, rank, node, place| {
        lent.begin(number, (Rank(rank), NodeIndex(node)), &wanted(number), Some(place)).vacated.len()
    };
    // In the place in which another one is kept: whoever reserves it knows that nothing is.
    assert_eq!(begin(waiting, 2, 1, 3), 1);
    assert!(lent.take_off(before).is_none());
    // Whoever waited with it has died.
    assert_eq!(begin(anew, 4, 1, 3), 0);
    // The same one of another node, and another one.
    assert_eq!(begin(beside, 4, 2, 3) + begin(LockNumber(11), 4, 1, 2), 0);
    let lend = |number, place| lent.lend(number, kept_by_one(place, wanted(number), &presence), Rank(1));
    assert!(!lend(waiting, 3));
    assert_eq!(lent.take_off(waiting).map(|loan| loan.holder), Some(Rank(2)), "it goes with who waited");
    assert!(lend(anew, 3));
    assert_eq!(lent.take_off(anew).map(|loan| loan.holder), Some(Rank(1)));
}
