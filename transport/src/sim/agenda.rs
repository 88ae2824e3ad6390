//! What happens when: events in the order of their times, and of their coming for equal times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::units::Time;

/// A queue of events. Of two at the same time the one that was entered first comes first, so that a run depends on
/// nothing but what was entered.
#[derive(Debug)]
pub struct Agenda<E> {
    entries: BinaryHeap<Entry<E>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<E> {
    time: Time,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { entries: BinaryHeap::new(), entered: 0 }
    }

    /// Enters `event` at `time`.
    pub fn enter(&mut self, time: Time, event: E) {
        self.entries.push(Entry { time, number: self.entered, event });
        self.entered += 1;
    }

    /// When the next event is.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.entries.peek().map(|entry| entry.time)
    }

    /// Takes the next event out.
    pub fn take(&mut self) -> Option<(Time, E)> {
        self.entries.pop().map(|entry| (entry.time, entry.event))
    }

    /// How many events are entered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is to happen any more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops all events.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self::new()
    }
}

// `BinaryHeap` gives the greatest: the earliest entry is the greatest here.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Agenda;
    use crate::units::Time;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_by_entry(times in prop::collection::vec(0_u64..8, 0..64)) {
            let mut agenda = Agenda::new();
            for (number, &time) in times.iter().enumerate() {
                agenda.enter(Time(time), number);
            }
            let mut expected: Vec<_> = times.iter().copied().enumerate().collect();
            expected.sort_by_key(|&(number, time)| (time, number));
            for (number, time) in expected {
                prop_assert_eq!(agenda.next_time(), Some(Time(time)));
                prop_assert_eq!(agenda.take(), Some((Time(time), number)));
            }
            prop_assert!(agenda.is_empty());
        }
    }
}
