//! What the members of a group tell each other.
//!
//! ```text
//!   of all:        sleepers                   how many sleep in the whole group
//!                  refusal                    from which operation on somebody does none
//!                  row 0 │ row 1 │ …          for an operation, a card of each member: its number, and up to 56 bytes
//!                  row 0 │ row 1 │ …          the same for a meeting
//!   of a member:   finished                   up to which operation the member reads nothing any more
//!                  bed                        where it sleeps, and what it awaits there
//!                  reason                     why, of a member that refuses
//! ```
//!
//! Operations of a group are numbered; all members do them in the same order. What a member has for operation `n` it
//! writes into its card of row `n mod CARDS`, if that is no meeting, and closes it with the number. Numbers only grow, so
//! nothing is ever reset, and one number tells of all operations before. Each flag has a single writer, as in XHC
//! (G. Katevenis, M. Ploumidis and M. Marazakis, "A framework for hierarchical single-copy MPI collectives on multicore
//! nodes").
//!
//! A *meeting* is an operation in which each member publishes, and awaits all others before it does anything else: a
//! barrier, an allreduce on cards. Meetings have rows of their own, which take turns, whatever is done between them.
//! When a member is through a meeting, all have come to it, and so finished with the one before: two rows would do. Few
//! rows are faster than many: there are four.
//!
//! The cards of an operation lie side by side, since a member looks at all of them: where members outnumber cores, the
//! processor has forgotten a process's pages whenever its turn comes, and finds each anew. It looks first at the one of
//! the member behind it, and so on: no card is looked at by all at once. Never at its own: once another has read what it
//! has just written, that is far away, too. Where 2, 8 and 16 members have a core each (Intel Xeon, model 207), a barrier
//! takes 0.17, 0.38 and 0.5 µs so, and 0.24, 0.42 and 0.85 where all look from the first on, in as many rows as
//! operations have.
//!
//! A member that cannot do an operation *refuses* it, and all that follow: who waits for something of these ends with
//! that. Operations before it come to their ends. Who waits looks for a refusal before it sleeps, and who refuses wakes
//! all.
//!
//! A card that is no meeting's is written again [`CARDS`] operations later at the earliest, when all have finished with
//! what was on it. Who has published for operation `n` has finished with all before `n - 1`, and who has come to a
//! meeting with all before that.

mod awaited;
mod cards;

use std::time::Duration;

use super::bed::Bed;
use svmio_transport::futex::{AtomicU32, AtomicU64, Ordering, fence};

pub(super) use awaited::{Awaited, Deed, Whom};
pub(super) use cards::{CARDS, Card, CardRow, ROWS, Turn, WORDS, Words, words_of};

/// A word with a cache line to itself.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Alone<T>(T);

/// What all members write. All zeroes before anybody did.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct Notices {
    sleepers: Alone<AtomicU32>,
    refusal: Alone<AtomicU64>,
}

/// What one member tells beside its cards. All zeroes is one that has told nothing yet.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct Line {
    finished: Alone<AtomicU64>,
    bed: Bed,
    reason: Reason,
}

/// Why a member refuses: written once, before the refusal shows.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Reason {
    bytes: AtomicU64,
    text: [AtomicU64; REASON],
}

/// Words that a reason has at most.
#[cfg(not(loom))]
const REASON: usize = 31;
#[cfg(loom)]
const REASON: usize = 1;

/// That a member does no more operations, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) member: usize,
    pub(super) reason: String,
}

impl Line {
    /// Has the member look again, if it sleeps.
    pub(super) fn rouse(&self) {
        self.bed.rouse();
    }
}

/// Where all of that is.
pub(super) trait Places {
    /// How many members there are.
    fn count(&self) -> usize;
    /// The line of a member.
    fn line(&self, member: usize) -> &Line;
    /// What all write.
    fn notices(&self) -> &Notices;
    /// The cards of a row, by member.
    fn cards(&self, row: CardRow) -> &[Card];
}

/// Bits of the member in the word of a refusal; the number is above.
const MEMBER_BITS: u32 = 16;

/// What a group's members tell each other, as one of them sees it.
#[derive(Debug)]
pub(super) struct Board<P> {
    places: P,
    own: usize,
}

impl<P: Places> Board<P> {
    /// That of a group in which this member is `own`.
    pub(super) fn new(places: P, own: usize) -> Self {
        Self { places, own }
    }

    /// Publishes for operation `number`. Who may sleep for it hears of it by [`rouse`](Self::rouse).
    #[inline]
    pub(super) fn publish(&self, number: u64, words: &[u64]) {
        self.places.cards(CardRow::of(number))[self.own].write(number, words);
    }

    /// The same for operation `number`, which is a meeting. To be called when this member is through the one before.
    #[inline]
    pub(super) fn come_to(&self, number: u64, turn: Turn, words: &[u64]) {
        self.places.cards(CardRow::of_meeting(turn))[self.own].write(number, words);
    }

    /// What a member published for operation `number`, which it has.
    #[inline]
    pub(super) fn words(&self, member: usize, number: u64) -> Words {
        self.places.cards(CardRow::of(number))[member].words()
    }

    /// The first bytes of that.
    #[inline]
    pub(super) fn take(&self, member: usize, number: u64, into: &mut [u8]) {
        self.places.cards(CardRow::of(number))[member].copy_to(into);
    }

    /// The first bytes of what a member brought to a meeting, to which it has come.
    #[inline]
    pub(super) fn take_from_meeting(&self, member: usize, turn: Turn, into: &mut [u8]) {
        self.places.cards(CardRow::of_meeting(turn))[member].copy_to(into);
    }

    /// Tells that this member reads nothing of operation `number`, or of any before, any more.
    #[inline]
    pub(super) fn finish(&self, number: u64) {
        // Release: what was read stays before it.
        self.places.line(self.own).finished.0.store(number, Ordering::Release);
    }

    /// The same where this member may have told more already: it does nothing more at all.
    #[cold]
    pub(super) fn finish_for_good(&self, number: u64) {
        // Relaxed: only this member writes it.
        if self.places.line(self.own).finished.0.load(Ordering::Relaxed) < number {
            self.finish(number);
        }
    }

    /// Whether somebody has not done what this member awaits.
    #[inline]
    pub(super) fn is_missing(&self, awaited: Awaited) -> bool {
        self.missing(self.own, awaited, 1).is_some()
    }

    /// Whether all is done that is awaited, to be asked again and again: who was seen once is not looked at again.
    #[inline]
    pub(super) fn watch(&self, awaited: Awaited) -> impl FnMut() -> bool {
        let mut at = 1;
        move || match self.missing(self.own, awaited, at) {
            None => true,
            Some(distance) => {
                at = distance;
                false
            }
        }
    }

    /// The first that has not done what `member` awaits: how far it is behind that one, at least `from`. Where a single
    /// one is awaited, `from`.
    #[inline]
    fn missing(&self, member: usize, awaited: Awaited, from: usize) -> Option<usize> {
        let Awaited { whom, deed, number } = awaited;
        let row = match deed {
            Deed::Met(turn) => CardRow::of_meeting(turn),
            Deed::Published => CardRow::of(number),
            Deed::Finished => {
                // Acquire: pairs with the Release in `finish`.
                let told = |of: usize| self.places.line(of).finished.0.load(Ordering::Acquire);
                return self.first_of(member, whom, from, |of| told(of) < number);
            }
        };
        let cards = self.places.cards(row);
        self.first_of(member, whom, from, |of| !cards[of].has(number))
    }

    /// The same, of those that `is_missing` says it of.
    #[inline]
    fn first_of(
        &self,
        member: usize,
        whom: Whom,
        from: usize,
        is_missing: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let count = self.places.count();
        match whom {
            Whom::Member(of) => is_missing(of).then_some(from),
            Whom::All => (from..count).find(|distance| {
                let of = member + distance;
                is_missing(if of < count { of } else { of - count })
            }),
        }
    }

    /// [Rouses](Self::rouse) where that is `owed` and somebody is seen to sleep; who is about to need not be seen. Then
    /// it is owed no longer.
    #[inline]
    pub(super) fn rouse_seen(&self, owed: &mut bool) {
        if *owed && self.has_sleepers() {
            *owed = false;
            self.rouse();
        }
    }

    #[inline]
    fn has_sleepers(&self) -> bool {
        // Relaxed: who has to see those who are about to sleep has a fence before it.
        self.places.notices().sleepers.0.load(Ordering::Relaxed) != 0
    }

    /// Wakes those who sleep and can go on, now that this member has published or finished something. A fence and a
    /// load where nobody sleeps.
    #[inline]
    pub(super) fn rouse(&self) {
        // Dekker: after what was told, before the look for sleepers; see `Bed`.
        fence(Ordering::SeqCst);
        if self.has_sleepers() {
            self.rouse_sleepers();
        }
    }

    /// Of two who tell at the same time what a third one awaits of both, the one whose fence is the later sees what
    /// the other told: so somebody finds that the sleeper can go on.
    #[cold]
    fn rouse_sleepers(&self) {
        for member in (0..self.places.count()).filter(|&member| member != self.own) {
            let bed = &self.places.line(member).bed;
            let awaits = bed.awaits();
            if awaits != 0 && self.missing(member, Awaited::decode(awaits), 1).is_none() {
                bed.rouse();
            }
        }
    }

    /// Refuses operation `number` and all that follow. To be called by one thread at a time, of a member that has told
    /// all that others need of the operations before.
    #[cold]
    pub(super) fn refuse(&self, number: u64, reason: &str) {
        let own = &self.places.line(self.own).reason;
        let refusal = &self.places.notices().refusal.0;
        // Relaxed: this member alone writes it, and once; the refusal closes it.
        if own.bytes.load(Ordering::Relaxed) == 0 {
            let length = reason.len().clamp(1, 8 * REASON);
            for (word, bytes) in own.text.iter().zip(reason.as_bytes()[..reason.len().min(length)].chunks(8))
            {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
            own.bytes.store(length as u64, Ordering::Relaxed);
        }
        // The earliest one counts: who waits for less than that goes on.
        let word = (number << MEMBER_BITS) | (self.own as u64 + 1);
        let mut found = refusal.load(Ordering::Relaxed);
        while found == 0 || found > word {
            // Release: who sees it sees the reason.
            match refusal.compare_exchange(found, word, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => found = other,
            }
        }
        // Dekker: after the refusal, before the sleepers' look; each sleeps on a count that this changes.
        fence(Ordering::SeqCst);
        (0..self.places.count()).for_each(|member| self.places.line(member).rouse());
    }

    /// Who has refused operation `number`, or one before it.
    pub(super) fn refusal(&self, number: u64) -> Option<Refusal> {
        // Acquire: pairs with the Release in `refuse`.
        let found = self.places.notices().refusal.0.load(Ordering::Acquire);
        if found == 0 || found >> MEMBER_BITS > number {
            return None;
        }
        let member = (found & ((1 << MEMBER_BITS) - 1)) as usize - 1;
        let said = &self.places.line(member).reason;
        let words = said.text.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = words.take(said.bytes.load(Ordering::Relaxed) as usize).collect();
        Some(Refusal { member, reason: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// Has this member itself look again, if one of its threads sleeps.
    pub(super) fn rouse_own(&self) {
        self.places.line(self.own).rouse();
    }

    /// Sleeps until what is awaited was done, or `go_on` has a reason not to. Whoever makes such a reason
    /// [rouses](Line::rouse) the sleeper. Where there is a `nap`, `go_on` is asked at least that often.
    pub(super) fn sleep<E>(
        &self,
        awaited: Awaited,
        nap: Option<Duration>,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let sleepers = &self.places.notices().sleepers.0;
        // Relaxed: the fence that follows in `Bed::sleep` orders it.
        sleepers.fetch_add(1, Ordering::Relaxed);
        let slept = self.places.line(self.own).bed.doze(awaited.encode(), nap, || {
            if !self.is_missing(awaited) { Some(Ok(())) } else { go_on().err().map(Err) }
        });
        sleepers.fetch_sub(1, Ordering::Relaxed);
        slept
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
