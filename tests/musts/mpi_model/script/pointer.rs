//! Accesses by the shared pointer.

use super::{Bytes, Call, Event, LONGEST, Records, What, Writer};
use crate::program::{Ordered, Shared};

impl Writer {
    /// Writes records, of which it is open which comes where; finds that out, and reads them.
    pub(super) fn shared(&mut self, shared: &Shared) {
        let Shared { view, at, record, ref writers, ref readers } = *shared;
        let room = view.bytes_before(LONGEST).saturating_sub(at);
        let count = writers.len().min((room / record.max(1)) as usize);
        self.exchange();
        self.set_views(|_| view);
        self.event(&format!("seek_shared {at}"), Event::SeekShared);
        let writes = self.records(&writers[..count], true, record);
        self.exchange();
        if writes.is_empty() {
            return;
        }
        let all = Bytes { at, length: record * writes.len() as u64, is_spaced: false };
        let call = Call { method: "at", writes: false, is_collective: false, patience: None };
        let Some(found_by) = self.call(0, all, call) else { return };
        self.event("barrier", Event::Barrier);
        self.event(&format!("seek_shared {at}"), Event::SeekShared);
        let reads = self.records(&readers[..writes.len().min(readers.len())], false, record);
        self.complete();
        self.event("barrier", Event::Barrier);
        self.script.records.push(Records { view, at, length: record, writes, found_by, reads });
    }

    fn records(&mut self, by: &[(u8, bool)], writes: bool, length: u64) -> Vec<usize> {
        let mut operations = Vec::new();
        for (rank, blocks) in by {
            let rank = usize::from(*rank) % self.ranks();
            let (method, patience) = if *blocks { ("shared", None) } else { ("ishared", Some(Some(1))) };
            self.go_on(rank);
            let bytes = Bytes { at: 0, length, is_spaced: false };
            let call = Call { method, writes, is_collective: false, patience };
            let Some(operation) = self.call(rank, bytes, call) else { break };
            let what = &mut self.script.operations[operation].what;
            *what = match *what {
                What::Write { tag, .. } => What::WriteRecord { tag },
                _ => What::ReadRecord,
            };
            operations.push(operation);
        }
        operations
    }

    /// Each access begins where the one before ended; those that read, where the first began.
    pub(super) fn ordered(&mut self, ordered: &Ordered) {
        let Ordered { view, at, ref accesses, ref lengths } = *ordered;
        let room = view.bytes_before(LONGEST);
        self.complete();
        self.event("barrier", Event::Barrier);
        self.set_views(|_| view);
        self.event(&format!("seek_shared {at}"), Event::SeekShared);
        let mut pointer = at;
        for &(writes, is_split) in accesses {
            if !writes {
                self.event("barrier", Event::Barrier);
                self.event(&format!("seek_shared {at}"), Event::SeekShared);
                pointer = at;
            }
            if self.is_stock {
                // Without collective buffering, ROMIO has one rank's part of an access before another's of the one
                // before.
                self.event("barrier", Event::Barrier);
            }
            let total: u64 = lengths.iter().take(self.ranks()).sum();
            if pointer + total > room {
                continue;
            }
            let (method, patience) = if is_split { ("split_ordered", Some(None)) } else { ("ordered", None) };
            let mut own = Vec::new();
            for rank in 0..self.ranks() {
                let length = lengths.get(rank).copied().unwrap_or(0);
                let call = Call { method, writes, is_collective: true, patience };
                let bytes = Bytes { at: pointer, length, is_spaced: false };
                self.go_on(rank);
                let Some(operation) = self.call(rank, bytes, call) else { continue };
                self.script.operations[operation].is_ordered = true;
                own.push(operation);
                pointer += self.script.operations[operation].what.length();
            }
            self.script.events.push(Event::Ordered);
            if is_split {
                self.end_split(&own);
            } else {
                self.end(&own);
            }
        }
        self.event("barrier", Event::Barrier);
    }
}
