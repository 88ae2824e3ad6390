//! The judge, of what one process would observe that carries out all lines in their order.

use super::*;
use crate::generating;
use crate::operation::Records;
use crate::program::LONGEST;

const RANKS: usize = 8;
const PROMISES: Promises =
    Promises { of_svmio: true, outcome_shared: false, seen_at_once: true, of_special: true };

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
