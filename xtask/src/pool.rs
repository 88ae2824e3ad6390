//! Running many jobs on few cores: as many at once as there are cores for their ranks.

use std::sync::{Condvar, Mutex, PoisonError};

/// Calls `work` for every item, several at a time, and returns the results in the items' order.
///
/// `cores_of` says how many cores an item keeps busy; items that want more than there are get all
/// of them, and then nothing runs beside them. Items that want many cores come first.
pub(crate) fn run<Item: Sync, Output: Send>(
    items: &[Item],
    cores: usize,
    cores_of: impl Fn(&Item) -> usize,
    work: impl Fn(&Item) -> Output + Sync,
) -> Vec<Output> {
    let wants: Vec<usize> = items.iter().map(|item| cores_of(item).clamp(1, cores)).collect();
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(wants[index]));

    let free = Mutex::new(cores);
    let freed = Condvar::new();
    let results: Vec<Mutex<Option<Output>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for index in order {
            let want = wants[index];
            let unpoisoned = free.lock().unwrap_or_else(PoisonError::into_inner);
            let mut left =
                freed.wait_while(unpoisoned, |left| *left < want).unwrap_or_else(PoisonError::into_inner);
            *left -= want;
            drop(left);
            let held = Held { want, free: &free, freed: &freed };
            let (work, results) = (&work, &results);
            scope.spawn(move || {
                let _held = held;
                let output = work(&items[index]);
                *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
            });
        }
    });
    results
        .into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

/// Cores taken by one item, given back at its end even when its work panics.
struct Held<'a> {
    want: usize,
    free: &'a Mutex<usize>,
    freed: &'a Condvar,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += self.want;
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_keep_the_order_and_cores_are_not_overdrawn() {
        let busy = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let items: Vec<usize> = (0..200).map(|index| index % 5).collect();
        let results = run(
            &items,
            3,
            |item| *item,
            |item| {
                let want = (*item).clamp(1, 3);
                let now = busy.fetch_add(want, Ordering::SeqCst) + want;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                busy.fetch_sub(want, Ordering::SeqCst);
                item * 2
            },
        );
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 3);
    }
}
