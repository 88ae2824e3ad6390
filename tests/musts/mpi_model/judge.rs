//! Whether ranks may have observed what they did.
//!
//! A byte that is read is what one of those writes put there that the read may see: those that are not before
//! another one that is before the read, and not behind the read in time ([`order`](super::order)). New files are
//! zeros, and changes of the size write zeros behind it. Where several writes are before a read, and none of them
//! before the other, the read decides which of them is the last, for all that follow. In atomic mode, what all
//! reads have seen is to be the outcome of whole accesses, one after the other ([`serial`](super::serial)).

mod sizes;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use super::operation::{Operation, What};
use super::order::{Order, Promises};
use super::program::pattern;
use super::records;
use super::script::Script;
use super::serial;
use super::span::Span;

/// What was observed, by line.
pub(crate) type Log = HashMap<usize, Observed>;

#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The file's, bytes, where it was asked for.
    pub(crate) size: u64,
    /// What was read.
    pub(crate) bytes: Vec<u8>,
}

/// What went wrong, for a person.
pub(crate) type Verdict = Result<(), String>;

/// Judges what the ranks observed.
pub(crate) fn check(script: &Script, log: &Log, promises: Promises) -> Verdict {
    let places = records::places(script, log)?;
    let mut judge = Judge::new(script, log, promises, &places)?;
    for (number, operation) in script.operations.iter().enumerate() {
        let verdict = match operation.what {
            What::Read { span, is_plain } => judge.read(number, &span, is_plain),
            What::Size => judge.size(number),
            _ => Ok(()),
        };
        verdict.map_err(|wrong| format!("{}: {wrong}", operation.tell(script)))?;
    }
    serial::check(script, &judge.order, &judge.seen, promises.of_special)
}

/// Who has put bytes into the file.
struct Writer {
    /// None for what a new file has.
    operation: Option<usize>,
    span: Span,
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    Zeros,
    Tag(u8),
    /// Each byte is the same, wherever it comes.
    Record(u8),
}

impl Writer {
    fn byte(&self, place: u64) -> u8 {
        match self.content {
            Content::Zeros => 0,
            Content::Tag(tag) => pattern(tag, place),
            Content::Record(tag) => pattern(tag, 0),
        }
    }
}

/// That a read has seen a write, where others wrote, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) read: usize,
    /// None for what was there before.
    pub(crate) write: Option<usize>,
    pub(crate) others: Rc<Vec<usize>>,
}

struct Judge<'s> {
    script: &'s Script,
    log: &'s Log,
    promises: Promises,
    order: Order,
    writers: Vec<Writer>,
    /// Which of two writers is the last, and where that was found out.
    decided: HashMap<(usize, usize), Vec<Range<u64>>>,
    /// In atomic mode.
    seen: HashSet<Seen>,
}

/// Which writers there are to some bytes, as a read sees them.
struct Cover {
    /// Those whose bytes may be read.
    allowed: Vec<usize>,
    /// Those of them that are before the read.
    last: Vec<usize>,
    /// The operations of all.
    operations: Rc<Vec<usize>>,
}

impl<'s> Judge<'s> {
    fn new(
        script: &'s Script,
        log: &'s Log,
        promises: Promises,
        places: &HashMap<usize, Span>,
    ) -> Result<Judge<'s>, String> {
        let mut writers = vec![Writer { operation: None, span: Span::from(0), content: Content::Zeros }];
        for (number, operation) in script.operations.iter().enumerate() {
            let (span, content) = match operation.what {
                What::Write { span, tag, .. } => (span, Content::Tag(tag)),
                What::SetSize(size) => (Span::from(size), Content::Zeros),
                What::WriteRecord { tag } => {
                    let span = places.get(&number).copied();
                    (span.ok_or("a record is nowhere")?, Content::Record(tag))
                }
                _ => continue,
            };
            writers.push(Writer { operation: Some(number), span, content });
        }
        let order = Order::new(&script.events, promises);
        let (decided, seen) = (HashMap::new(), HashSet::new());
        Ok(Judge { script, log, promises, order, writers, decided, seen })
    }

    fn operation(&self, number: usize) -> &'s Operation {
        &self.script.operations[number]
    }

    fn observed(&self, number: usize) -> Result<&'s Observed, String> {
        self.log.get(&self.operation(number).lines.0).ok_or_else(|| "nothing was observed".to_owned())
    }

    /// Whether `before` has written when `reader` reads.
    fn is_past(&self, before: &Writer, reader: usize) -> bool {
        before
            .operation
            .is_none_or(|before| self.order.is_seen(self.operation(before), self.operation(reader)))
    }

    fn size(&self, number: usize) -> Verdict {
        let size = self.observed(number)?.size;
        let right = self.sizes(number);
        if right.contains(&size) { Ok(()) } else { Err(format!("the size is {size}, not in {right:?}")) }
    }

    fn read(&mut self, number: usize, span: &Span, is_plain: bool) -> Verdict {
        let bytes = &self.observed(number)?.bytes[..];
        let sizes = self.sizes(number);
        let [least, most] = [sizes.start(), sizes.end()].map(|size| span.bytes_before(*size));
        let mut count = bytes.len() as u64;
        if self.promises.of_special || is_plain {
            if !(least..=most).contains(&count) {
                return Err(format!("{count} bytes came of a file of {sizes:?}"));
            }
        } else {
            count = count.min(least);
        }
        self.bytes(number, span, &bytes[..count as usize])
    }
}
