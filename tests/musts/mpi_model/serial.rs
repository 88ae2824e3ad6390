//! Whether accesses in atomic mode can have been made one after the other.
//!
//! What is known of their order, is told by the order of each rank's, by what all wait for, and by the reads: who
//! has seen a write is behind it, and behind it or before the read is who wrote there, too. No access may be before
//! itself.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::judge::{Seen, Verdict};
use super::order::Order;
use super::script::Script;

/// Judges all times of atomic mode; those in which there are special accesses only if these are atomic, too.
pub(crate) fn check(script: &Script, order: &Order, seen: &HashSet<Seen>, of_special: bool) -> Verdict {
    let times: BTreeSet<_> = script.operations.iter().filter_map(|operation| operation.atomic).collect();
    times.into_iter().try_for_each(|time| {
        let is_then = |number: &usize| script.operations[*number].atomic == Some(time);
        let members: Vec<_> = (0..script.operations.len()).filter(is_then).collect();
        if !of_special && members.iter().any(|number| script.operations[*number].what.is_special()) {
            return Ok(());
        }
        let mut graph = Graph::new(script, order, &members);
        let then: Vec<_> = seen.iter().filter(|seen| is_then(&seen.read)).collect();
        graph.learn(&then);
        graph.verdict(script, &members)
    })
}

/// Who is before whom. Number 0 stands for all that was before.
struct Graph {
    numbers: HashMap<usize, usize>,
    /// A bit for each that is behind.
    behind: Vec<Vec<u64>>,
}

impl Graph {
    fn new(script: &Script, order: &Order, members: &[usize]) -> Graph {
        let count = members.len() + 1;
        let mut behind = vec![vec![0; count.div_ceil(64)]; count];
        let numbers = members.iter().zip(1..).map(|(operation, number)| (*operation, number)).collect();
        for (first, one) in members.iter().enumerate() {
            set(&mut behind[0], first + 1);
            for (second, other) in members.iter().enumerate() {
                if one != other && order.is_before(&script.operations[*one], &script.operations[*other]) {
                    set(&mut behind[first + 1], second + 1);
                }
            }
        }
        Graph { numbers, behind }
    }

    fn is_before(&self, one: usize, other: usize) -> bool {
        self.behind[one][other / 64] >> (other % 64) & 1 == 1
    }

    fn add(&mut self, one: usize, other: usize) -> bool {
        let is_new = !self.is_before(one, other);
        set(&mut self.behind[one], other);
        is_new
    }

    fn learn(&mut self, seen: &[&Seen]) {
        let number = |graph: &Graph, operation: usize| graph.numbers.get(&operation).copied().unwrap_or(0);
        for Seen { read, write, .. } in seen {
            let [write, read] = [write.map_or(0, |write| number(self, write)), number(self, *read)];
            self.add(write, read);
        }
        let mut is_new = true;
        while is_new {
            is_new = false;
            self.close();
            for Seen { read, write, others } in seen {
                let [write, read] = [write.map_or(0, |write| number(self, write)), number(self, *read)];
                let others: Vec<_> = others.iter().map(|other| number(self, *other)).collect();
                for other in others.into_iter().filter(|other| *other != 0 && *other != write) {
                    if self.is_before(other, read) {
                        is_new |= self.add(other, write);
                    }
                    if self.is_before(write, other) {
                        is_new |= self.add(read, other);
                    }
                }
            }
        }
    }

    /// Adds whatever follows.
    fn close(&mut self) {
        for through in 0..self.behind.len() {
            let further = self.behind[through].clone();
            for one in 0..self.behind.len() {
                if self.is_before(one, through) {
                    self.behind[one].iter_mut().zip(&further).for_each(|(bits, more)| *bits |= more);
                }
            }
        }
    }

    fn verdict(&self, script: &Script, members: &[usize]) -> Verdict {
        let Some(one) = (0..self.behind.len()).find(|one| self.is_before(*one, *one)) else { return Ok(()) };
        let is_with = |other: &usize| self.is_before(one, *other) && self.is_before(*other, one);
        let told = |number: usize| match number {
            0 => "what was before".to_owned(),
            _ => script.operations[members[number - 1]].tell(script),
        };
        let circle: Vec<_> = (0..self.behind.len()).filter(is_with).map(told).collect();
        Err(format!(
            "in atomic mode, no order of these explains what they have read:\n  {}",
            circle.join("\n  ")
        ))
    }
}

fn set(bits: &mut [u64], number: usize) {
    bits[number / 64] |= 1 << (number % 64);
}
