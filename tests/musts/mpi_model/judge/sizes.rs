//! How long the file may be.

use std::ops::RangeInclusive;

use super::{Judge, What};

impl Judge<'_> {
    /// Between what an operation may see the file's size, bytes.
    ///
    /// It is what one of the changes of the size made it, or what a new file has, or where a write ends that may be
    /// behind that change.
    pub(super) fn sizes(&self, number: usize) -> RangeInclusive<u64> {
        let operation = self.operation(number);
        let all = || self.script.operations.iter().filter(|other| !self.order.is_before(operation, other));
        let sets: Vec<_> = all().filter(|other| matches!(other.what, What::SetSize(_))).collect();
        let is_past = |other: &_| self.order.is_seen(other, operation);
        let last = sets.iter().copied().rfind(|set| is_past(set));
        let open = sets.iter().copied().filter(|set| !is_past(set)).map(Some);
        let (mut least, mut most) = (u64::MAX, 0);
        for set in open.chain([last]) {
            let start = match set.map(|set| set.what) {
                Some(What::SetSize(size)) => size,
                _ => 0,
            };
            let (mut shortest, mut longest) = (start, start);
            for other in all().filter(|other| !std::ptr::eq(*other, operation)) {
                let end = match other.what {
                    What::Write { span, .. } => span.end(),
                    What::Preallocate(size) => size,
                    What::WriteRecord { .. } => self.record_end(other),
                    _ => continue,
                };
                let surely_behind = set.is_none_or(|set| self.order.is_seen(set, other));
                if is_past(other) && surely_behind {
                    shortest = shortest.max(end);
                }
                if set.is_none_or(|set| !self.order.is_seen(other, set)) {
                    longest = longest.max(end);
                }
            }
            least = least.min(shortest);
            most = most.max(longest);
        }
        least..=most
    }

    /// Where a record ends.
    fn record_end(&self, record: &super::Operation) -> u64 {
        let is_its = |writer: &&super::Writer| {
            writer.operation.is_some_and(|number| std::ptr::eq(self.operation(number), record))
        };
        self.writers.iter().find(is_its).map_or(0, |writer| writer.span.end())
    }
}
