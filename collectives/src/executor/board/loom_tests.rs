//! All interleavings: whoever sleeps through what was told would sleep for ever, which loom reports; whoever sees a
//! number sees what it closes.
//!
//! With `SVMIO_FULL=1` (`cargo xtask soak`) with one preemption more where there are most steps.

use loom::sync::Arc;
use loom::thread;

use super::{Awaited, Board, CARDS, Card, CardRow, Deed, Line, Notices, Places, ROWS, Turn, Whom};

struct Shared {
    lines: Vec<Line>,
    notices: Notices,
    rows: [Vec<Card>; ROWS],
}

impl Shared {
    fn new(size: usize) -> Self {
        let rows = std::array::from_fn(|_| (0..size).map(|_| Card::default()).collect());
        Self { lines: (0..size).map(|_| Line::default()).collect(), notices: Notices::default(), rows }
    }
}

impl Places for Arc<Shared> {
    fn count(&self) -> usize {
        self.lines.len()
    }

    fn line(&self, member: usize) -> &Line {
        &self.lines[member]
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn cards(&self, row: CardRow) -> &[Card] {
        &self.rows[row.index()]
    }
}

type Told = Board<Arc<Shared>>;

fn published(number: u64) -> Awaited {
    Awaited { whom: Whom::All, deed: Deed::Published, number }
}

fn finished(number: u64) -> Awaited {
    Awaited { whom: Whom::All, deed: Deed::Finished, number }
}

fn sleep(board: &Told, awaited: Awaited) {
    let go_on = || Ok::<(), ()>(());
    board.sleep(awaited, None, go_on).expect("nothing ends a sleep but what is awaited");
}

/// How many preemptions more there is time for.
fn more() -> usize {
    usize::from(std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1"))
}

/// Has each of `size` members do `body`, in all interleavings with at most so many preemptions.
fn check(size: usize, preemptions: usize, body: fn(usize, &Told)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let shared = Arc::new(Shared::new(size));
        let others: Vec<_> = (1..size)
            .map(|own| {
                let board = Board::new(Arc::clone(&shared), own);
                thread::spawn(move || body(own, &board))
            })
            .collect();
        body(0, &Board::new(Arc::clone(&shared), 0));
        others.into_iter().for_each(|other| other.join().expect("it ends"));
    });
}

fn exchanges(generations: u64, own: usize, board: &Told) {
    for number in 1..=generations {
        board.publish(number, &[10 * number + own as u64]);
        board.rouse();
        sleep(board, published(number));
        for member in 0..board.places.count() {
            assert_eq!(board.words(member, number), [10 * number + member as u64]);
        }
    }
}

/// Meetings, one behind the other: nothing is written before all have read what was there.
fn meetings(generations: u64, own: usize, board: &Told) {
    let mut turn = Turn::default();
    for number in 1..=generations {
        turn = turn.next();
        board.come_to(number, turn, &[10 * number + own as u64]);
        board.rouse();
        sleep(board, Awaited { whom: Whom::All, deed: Deed::Met(turn), number });
        for member in 0..board.places.count() {
            let mut found = [0; 8];
            board.take_from_meeting(member, turn, &mut found);
            assert_eq!(u64::from_ne_bytes(found), 10 * number + member as u64);
        }
    }
}

/// The same as a group's waits do it: who is not seen to sleep is roused only when the operation ends, or when this
/// member sleeps itself.
fn exchanges_rousing_late(generations: u64, own: usize, board: &Told) {
    for number in 1..=generations {
        board.publish(number, &[10 * number + own as u64]);
        let mut owed = true;
        board.rouse_seen(&mut owed);
        let mut is_done = board.watch(published(number));
        if is_done() {
            board.rouse_seen(&mut owed);
        } else {
            if std::mem::take(&mut owed) {
                board.rouse();
            }
            sleep(board, published(number));
        }
        if owed {
            board.rouse();
        }
    }
}

#[test]
fn two_exchange_three_times_and_rouse_late() {
    check(2, 2 + more(), |own, board| exchanges_rousing_late(3, own, board));
}

#[test]
fn three_exchange_and_rouse_late() {
    check(3, 1 + more(), |own, board| exchanges_rousing_late(1, own, board));
}

#[test]
fn two_exchange_three_times() {
    check(2, 2 + more(), |own, board| exchanges(3, own, board));
}

#[test]
fn two_meet_three_times() {
    check(2, 2 + more(), |own, board| meetings(3, own, board));
}

#[test]
fn three_exchange_twice() {
    check(3, 1, |own, board| exchanges(2, own, board));
}

/// The first publishes more often than there are cards, and overwrites none before the other has read it.
#[test]
fn who_runs_ahead_waits_for_room() {
    check(2, 2 + more(), |own, board| {
        for number in 1..=4 {
            if own == 0 {
                if number > CARDS as u64 {
                    sleep(board, finished(number - CARDS as u64));
                }
                board.publish(number, &[7 * number]);
            } else {
                let awaited = Awaited { whom: Whom::Member(0), deed: Deed::Published, number };
                sleep(board, awaited);
                assert_eq!(board.words(0, number), [7 * number]);
            }
            board.finish(number);
            board.rouse();
        }
    });
}

/// Whoever sleeps for what is refused hears of that; operations before it come to their end.
#[test]
fn nobody_sleeps_for_what_is_refused() {
    check(2, 3, |own, board| {
        exchanges(1, own, board);
        if own == 1 {
            board.finish_for_good(1);
            board.refuse(2, "no");
            return;
        }
        let go_on = || board.refusal(2).map_or(Ok(()), Err);
        let refusal = board.sleep(published(2), None, go_on).expect_err("it is refused");
        assert_eq!((refusal.member, refusal.reason.as_str()), (1, "no"));
    });
}

/// Of two who refuse, the earlier operation counts.
#[test]
fn the_earliest_refusal_counts() {
    check(2, 3, |own, board| {
        board.refuse(3 - own as u64, "no");
        assert!(board.refusal(1).is_none());
        assert!(board.refusal(3).is_some());
        if own == 1 {
            assert_eq!(board.refusal(2).map(|refusal| refusal.member), Some(1));
        }
    });
}
