//! Where records came that were written by the shared pointer, and whether each was read once.

use std::collections::HashMap;

use super::judge::{Log, Verdict};
use super::operation::{Records, What};
use super::program::pattern;
use super::script::Script;
use super::span::Span;

/// Where each of these operations wrote.
///
/// # Errors
/// They are not one behind the other, each once and whole, each rank's in its order; or they were not read so.
pub(crate) fn places(script: &Script, log: &Log) -> Result<HashMap<usize, Span>, String> {
    let mut places = HashMap::new();
    for records in &script.records {
        let bytes = bytes(script, log, records.found_by)?;
        let found = written(script, records, bytes)?;
        for (slot, operation) in found.iter().enumerate() {
            let at = records.at + slot as u64 * records.length;
            places.insert(*operation, records.view.span(at, records.length));
        }
        let contents: Vec<u8> = bytes.chunks(records.length as usize).map(|record| record[0]).collect();
        read(script, log, records, &contents)?;
    }
    Ok(places)
}

fn bytes<'l>(script: &Script, log: &'l Log, operation: usize) -> Result<&'l [u8], String> {
    let operation = &script.operations[operation];
    let observed = log.get(&operation.lines.0);
    Ok(&observed.ok_or_else(|| format!("{}: nothing was observed", operation.tell(script)))?.bytes)
}

/// The operations in the order in which their records are in the file.
fn written(script: &Script, records: &Records, bytes: &[u8]) -> Result<Vec<usize>, String> {
    let told = |what: &str| format!("{}: {what}", script.operations[records.found_by].tell(script));
    if bytes.len() as u64 != records.length * records.writes.len() as u64 {
        return Err(told(&format!("{} bytes came of {} records", bytes.len(), records.writes.len())));
    }
    let content = |operation: usize| match script.operations[operation].what {
        What::WriteRecord { tag } => pattern(tag, 0),
        _ => 0,
    };
    let mut left = records.writes.clone();
    let mut found = Vec::new();
    for (slot, record) in bytes.chunks(records.length as usize).enumerate() {
        let whose = left.iter().position(|operation| content(*operation) == record[0]);
        match whose {
            Some(place) if record.iter().all(|byte| *byte == record[0]) => found.push(left.remove(place)),
            _ => return Err(told(&format!("record {slot} begins with {}: it is torn or none", record[0]))),
        }
    }
    in_order(script, &found).map(|()| found)
}

/// Whether each rank's are in its order.
fn in_order(script: &Script, operations: &[usize]) -> Verdict {
    for (place, later) in operations.iter().enumerate() {
        let later = &script.operations[*later];
        let overtaken = operations[..place].iter().map(|operation| &script.operations[*operation]);
        let mut overtaken =
            overtaken.filter(|other| other.rank == later.rank && later.lines.1 < other.lines.0);
        if let Some(other) = overtaken.next() {
            return Err(format!("{} came behind {}", later.tell(script), other.tell(script)));
        }
    }
    Ok(())
}

/// Whether the records, which are so filled, were read once each.
fn read(script: &Script, log: &Log, records: &Records, contents: &[u8]) -> Verdict {
    let mut by_slot: Vec<Option<usize>> = vec![None; contents.len()];
    for number in &records.reads {
        let told = |what: &str| format!("{}: {what}", script.operations[*number].tell(script));
        let bytes = bytes(script, log, *number)?;
        let is_whole = bytes.len() as u64 == records.length && bytes.iter().all(|byte| *byte == bytes[0]);
        if !is_whole {
            return Err(told(&format!("{} bytes are no whole record", bytes.len())));
        }
        let slot = contents.iter().position(|content| *content == bytes[0]);
        let slot = slot.ok_or_else(|| told(&format!("there is no record of {}", bytes[0])))?;
        if let Some(other) = by_slot[slot].replace(*number) {
            return Err(told(&format!("it was read by {}, too", script.operations[other].tell(script))));
        }
    }
    in_order(script, &by_slot.into_iter().flatten().collect::<Vec<_>>())
}
