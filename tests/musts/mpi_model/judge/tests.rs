//! The judge, of what one process would observe that carries out all lines in their order.

use super::*;
use crate::generating;
use crate::operation::Records;
use crate::program::{Access, Bytes, LONGEST, Program, Step, Way};

const RANKS: usize = 8;
const PROMISES: Promises =
    Promises { of_svmio: true, outcome_shared: false, seen_at_once: true, of_special: true };

/// Of several nodes, where a rank sees what others have written behind syncs only.
const ON_NODES: Promises = Promises { seen_at_once: false, ..PROMISES };

fn script(seed: u64) -> Script {
    Script::new(&generating::program(seed), RANKS, "program", false)
}

/// What is observed where the write `lost` has no effect.
fn observed(script: &Script, lost: Option<usize>) -> Log {
    let (mut file, mut size, mut log) = (vec![0_u8; LONGEST as usize], 0, Log::new());
    let record = |number: usize| {
        let of = |records: &Records| {
            let mut all = [&records.writes, &records.reads].into_iter();
            let slot = all.find_map(|all| all.iter().position(|other| *other == number));
            slot.map(|slot| records.view.span(records.at + slot as u64 * records.length, records.length))
        };
        script.records.iter().find_map(of)
    };
    for (number, operation) in script.operations.iter().enumerate() {
        let mut seen = Observed { size, bytes: Vec::new() };
        let span = operation.what.span().or_else(|| record(number));
        match operation.what {
            What::SetSize(new) => {
                size = new;
                file[new as usize..].fill(0);
            }
            What::Preallocate(new) => size = size.max(new),
            What::Size => {}
            What::Read { .. } | What::ReadRecord => {
                let places =
                    span.iter().flat_map(Span::pieces).flat_map(|(from, length)| from..from + length);
                seen.bytes = places.filter(|place| *place < size).map(|place| file[place as usize]).collect();
            }
            What::Write { tag, .. } | What::WriteRecord { tag } if lost != Some(number) => {
                let is_record = matches!(operation.what, What::WriteRecord { .. });
                let places =
                    span.iter().flat_map(Span::pieces).flat_map(|(from, length)| from..from + length);
                for place in places {
                    file[place as usize] = pattern(tag, if is_record { 0 } else { place });
                    size = size.max(place + 1);
                }
            }
            What::Write { .. } | What::WriteRecord { .. } => {}
        }
        log.insert(operation.lines.0, seen);
    }
    log
}

#[test]
fn one_access_after_the_other_is_right() {
    for seed in 0..12 {
        let script = script(seed);
        assert_eq!(check(&script, &observed(&script, None), PROMISES), Ok(()), "seed {seed}");
    }
}

/// Some may be: others wrote there at the same time.
#[test]
fn lost_writes_are_wrong() {
    let (mut lost, mut found) = (0, 0);
    for seed in 0..12 {
        let script = script(seed);
        let all = observed(&script, None);
        let is_write = |number: &usize| matches!(script.operations[*number].what, What::Write { .. });
        for number in (0..script.operations.len()).filter(is_write).step_by(5) {
            let log = observed(&script, Some(number));
            let is_same = |(line, seen): (&usize, &Observed)| {
                all.get(line).is_some_and(|other| other.size == seen.size && other.bytes == seen.bytes)
            };
            if !log.iter().all(is_same) {
                lost += 1;
                found += usize::from(check(&script, &log, PROMISES).is_err());
            }
        }
    }
    assert!(found * 2 > lost && found > 10, "{found} of {lost}");
}

const BYTES: Bytes = Bytes { at: 0, length: 100, is_spaced: false };

/// What the judge says of a read by rank 1, of which `change` says what it saw, around a write by rank 0.
fn judged(steps: &[Step], promises: Promises, change: impl Fn(&mut Observed)) -> Verdict {
    let script = Script::new(&Program { hints: Vec::new(), steps: steps.to_vec() }, RANKS, "program", false);
    let mut log = observed(&script, None);
    let is_read = |operation: &&Operation| matches!(operation.what, What::Read { .. } | What::Size);
    let read = script.operations.iter().find(is_read).expect("one is there");
    change(log.get_mut(&read.lines.0).expect("it was observed"));
    check(&script, &log, promises)
}

fn write() -> Step {
    Step::Alone(vec![(0, Access::Write(BYTES, Way::At))])
}

fn read() -> Step {
    Step::Alone(vec![(1, Access::Read(BYTES, Way::At))])
}

#[test]
fn torn_accesses_are_wrong_in_atomic_mode_only() {
    let torn = |seen: &mut Observed| seen.bytes[50..].fill(0);
    assert_eq!(judged(&[write(), read()], ON_NODES, torn), Ok(()));
    assert!(judged(&[Step::Atomic(true), write(), read()], ON_NODES, torn).is_err());
}

#[test]
fn on_nodes_old_bytes_and_sizes_are_wrong_behind_an_exchange_only() {
    let old = |seen: &mut Observed| seen.bytes.fill(0);
    assert_eq!(judged(&[write(), Step::Barrier, read()], ON_NODES, old), Ok(()));
    assert!(judged(&[write(), Step::Exchange, read()], ON_NODES, old).is_err());
    assert!(judged(&[write(), Step::Barrier, read()], PROMISES, old).is_err());
    let size = Step::Alone(vec![(1, Access::Size)]);
    assert!(judged(&[write(), Step::Exchange, size], ON_NODES, |seen| seen.size = 99).is_err());
}
