//! A member's part of a collective schedule, as it is done by messages.
//!
//! ```text
//!   step        a message to one, a message from another     exchange: side by side
//!               messages to several, or from several         all under way at once
//!               within the member's memory
//!   message     blocks that lie one behind the other go from there, and come there, others are packed
//!               what is combined comes beside what is there
//! ```
//!
//! Nobody waits for ever, also where a send waits for its receiver. Of the steps that somebody has not done look at the
//! first: whoever has a part in it is at it, since all before are done. Its messages make paths, circles and stars. On
//! a path whoever comes first only sends and whoever comes last only receives, so somewhere one who sends first meets
//! the next one, who receives first; on a circle this is so by
//! [`PointToPoint::exchange`](super::PointToPoint::exchange); and those around the centre of a star have nothing else
//! to do. Without the message that is done, what is left is paths and stars again.

use super::group::NetworkGroup;
use super::memory::Memory;
use crate::collective::{CollectiveAlgorithm, Part, Receipt, Transfer};
use crate::executor::error::Result;
use crate::executor::operation::Operation;
use crate::rank::Rank;

impl NetworkGroup {
    /// This member's part of an algorithm.
    pub(super) fn part_of(&self, algorithm: &CollectiveAlgorithm) -> Part {
        algorithm.part_of(self.size() as u32, Rank(self.own as u32))
    }

    /// Does this member's part of a collective that combines nothing.
    pub(super) fn carry_out(&self, part: &Part, memory: &mut Memory<'_>) -> Result<()> {
        self.combine(part, memory, &Nothing)
    }

    /// Does this member's part of a collective.
    pub(super) fn combine(
        &self,
        part: &Part,
        memory: &mut Memory<'_>,
        operation: &dyn Operation,
    ) -> Result<()> {
        let mut work = Work { group: self, memory, operation, packed: Vec::new(), coming: Vec::new() };
        part.steps().try_for_each(|step| work.take(step))
    }
}

/// For collectives that combine nothing.
struct Nothing;

impl Operation for Nothing {
    fn width(&self) -> usize {
        1
    }

    fn combine(&self, _: &[u8], _: &mut [u8]) {
        unreachable!("a schedule that is for moving data combines nothing")
    }

    fn is_commutative(&self) -> bool {
        true
    }
}

/// A part under way.
struct Work<'w, 'm> {
    group: &'w NetworkGroup,
    memory: &'w mut Memory<'m>,
    operation: &'w dyn Operation,
    /// For what does not lie together, on its way out.
    packed: Vec<u8>,
    /// For what comes and cannot come where it belongs.
    coming: Vec<u8>,
}

impl Work<'_, '_> {
    fn take(&mut self, step: &[(u32, Transfer)]) -> Result<()> {
        match step {
            [(_, only)] if only.is_local() => {
                self.move_within(only);
                Ok(())
            }
            [(_, only)] if self.sends(only) => self.send(only),
            [(_, only)] => self.receive(None, only),
            [(_, one), (_, other)] if self.sends(one) != self.sends(other) => {
                let (sent, received) = if self.sends(one) { (one, other) } else { (other, one) };
                self.receive(Some(sent), received)
            }
            [(_, first), ..] if self.sends(first) => self.send_each(step),
            several => several.iter().try_for_each(|(_, received)| self.receive(None, received)),
        }
    }

    fn sends(&self, transfer: &Transfer) -> bool {
        transfer.from.index() == self.group.own
    }

    fn send(&mut self, sent: &Transfer) -> Result<()> {
        self.group.send(sent.to.index(), self.memory.read(&sent.blocks, &mut self.packed))
    }

    fn send_each(&self, step: &[(u32, Transfer)]) -> Result<()> {
        let mut packed = vec![Vec::new(); step.len()];
        let messages: Vec<(usize, &[u8])> = step
            .iter()
            .zip(&mut packed)
            .map(|((_, sent), packed)| (sent.to.index(), self.memory.read(&sent.blocks, packed)))
            .collect();
        self.group.messages.send_each(&messages)
    }

    /// Receives a message, and sends another one side by side if there is one to be sent.
    fn receive(&mut self, sent: Option<&Transfer>, received: &Transfer) -> Result<()> {
        let target = received.target();
        let (group, from) = (self.group, received.from.index());
        if received.receipt == Receipt::Store
            && let Some(room) = self.memory.place(&target)
        {
            let Some(sent) = sent else { return group.receive(from, self.memory.at_mut(&room)) };
            let to = sent.to.index();
            match self.memory.place(&sent.blocks) {
                Some(place) => {
                    if let Some((bytes, into)) = self.memory.both(&place, &room) {
                        return group.exchange(to, bytes, from, into);
                    }
                }
                None => {
                    self.memory.read(&sent.blocks, &mut self.packed);
                    return group.exchange(to, &self.packed, from, self.memory.at_mut(&room));
                }
            }
        }
        let length = self.memory.length(&target);
        if self.coming.len() < length {
            self.coming.resize(length, 0);
        }
        let coming = &mut self.coming[..length];
        match sent {
            Some(sent) => {
                let bytes = self.memory.read(&sent.blocks, &mut self.packed);
                group.exchange(sent.to.index(), bytes, from, coming)?;
            }
            None => group.receive(from, coming)?,
        }
        let operation = self.operation;
        self.memory.take(&target, coming, |coming, own| put(operation, received.receipt, coming, own));
        Ok(())
    }

    fn move_within(&mut self, transfer: &Transfer) {
        let (operation, target) = (self.operation, transfer.target());
        if transfer.receipt != Receipt::CombineRight
            && let (Some(from), Some(into)) =
                (self.memory.place(&transfer.blocks), self.memory.place(&target))
            && let Some((bytes, own)) = self.memory.both(&from, &into)
        {
            return match transfer.receipt {
                Receipt::Store => own.copy_from_slice(bytes),
                _ => operation.combine(bytes, own),
            };
        }
        let mut coming = self.memory.read(&transfer.blocks, &mut self.packed).to_vec();
        self.memory.take(&target, &mut coming, |coming, own| put(operation, transfer.receipt, coming, own));
    }
}

/// Does with what has come what is to be done; it is used up.
fn put(operation: &dyn Operation, receipt: Receipt, coming: &mut [u8], own: &mut [u8]) {
    match receipt {
        _ if own.is_empty() => {}
        Receipt::Store => own.copy_from_slice(coming),
        Receipt::CombineLeft => operation.combine(coming, own),
        Receipt::CombineRight => {
            operation.combine(own, coming);
            own.copy_from_slice(coming);
        }
    }
}
