//! Remote writes: how the processor's stores become transactions.

use std::time::Duration;

use crate::back_end::{Piece, Remote};
use crate::error::Result;
use crate::sim::state::{State, Target};
use crate::sim::traffic::{Cargo, Packet, Write};
use crate::units::{Rank, Time};

/// So many transactions of a piece are sent one by one, where they may overtake each other; the transactions of
/// longer pieces travel together, as many as share a link's quantum.
const LOOSE_TRANSACTIONS: u64 = 32;

impl State {
    /// Issues a write of all pieces by a task of `rank`, from the task's own time on.
    pub(crate) fn write(
        &mut self,
        rank: Rank,
        task: Option<usize>,
        remote: &Remote,
        pieces: &[Piece<'_>],
    ) -> Result<()> {
        let mut resolved = Vec::with_capacity(pieces.len());
        for piece in pieces {
            resolved.push(self.resolve(rank, remote, piece.offset, piece.bytes.len() as u64)?);
        }
        let is_near = self.node(rank) == self.node(remote.owner);
        let report = &mut self.rank(rank).report;
        report.writes += 1;
        report.written_bytes += pieces.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        let begun = self.begin_issue(rank, remote.owner, task);
        let mut time = begun;
        for (piece, target) in pieces.iter().zip(resolved) {
            if is_near {
                let injection = self.model.copy_time(piece.bytes.len() as u64);
                self.issue(rank, remote.owner, time, injection, Duration::ZERO, (piece, target));
                time = time.after(injection);
            } else {
                time = self.store(rank, remote.owner, time, piece, &target);
            }
        }
        self.charge(task, time.since(begun));
        self.pair(rank, remote.owner).last_issue = time;
        Ok(())
    }

    /// Stores a piece through the adapter; returns when the processor is done with it.
    fn store(&mut self, rank: Rank, owner: Rank, mut time: Time, piece: &Piece<'_>, target: &Target) -> Time {
        let costs = self.model.store;
        time = time.after(costs.stall_ns.0);
        let transaction = self.model.abilities.transaction_size.bytes() as u64;
        let overtakes = self.model.abilities.reorders_writes || self.faults.options().reorder();
        let is_short = piece.bytes.len() as u64 <= LOOSE_TRANSACTIONS * transaction;
        let block = if overtakes && is_short { transaction } else { self.network.quantum() };
        let mut rest = piece.bytes;
        let mut offset = piece.offset;
        while !rest.is_empty() {
            let length = (block - offset % block).min(rest.len() as u64);
            let (bytes, others) = rest.split_at(length as usize);
            rest = others;
            let injection = costs.bandwidth_mib_per_s.time_for(length);
            let mut late_by = self.faults.up_to(costs.reorder_ns.0);
            let fills_buffer = self
                .model
                .abilities
                .stream_buffer
                .is_none_or(|buffer| (offset + length).is_multiple_of(buffer.bytes() as u64));
            if rest.is_empty() && !fills_buffer {
                late_by += costs.partial_buffer_ns.0;
            }
            self.issue(rank, owner, time, injection, late_by, (&Piece { offset, bytes }, target.clone()));
            time = time.after(injection);
            offset += length;
        }
        time
    }

    /// Issues a transaction at `time`, and leaves to chance what becomes of it.
    fn issue(
        &mut self,
        rank: Rank,
        owner: Rank,
        time: Time,
        injection: Duration,
        late_by: Duration,
        (piece, target): (&Piece<'_>, Target),
    ) {
        let fate = self.faults.fate();
        let late_by = late_by + fate.late_by;
        let again = fate.again.filter(|_| fate.arrives).map(|again| late_by + again);
        for (late_by, arrives) in [(Some(late_by), fate.arrives), (again, true)] {
            let Some(late_by) = late_by else { continue };
            let pair = self.pair(rank, owner);
            let number = pair.issued;
            pair.issued += 1;
            pair.outstanding.insert(number);
            let bytes = piece.bytes.len() as u64;
            let target = target.clone();
            let write =
                Write { target, offset: piece.offset, bytes: piece.bytes.to_vec(), number, arrives, late_by };
            self.send(time, Packet { from: rank, to: owner, bytes, injection, cargo: Cargo::Write(write) });
        }
    }
}
