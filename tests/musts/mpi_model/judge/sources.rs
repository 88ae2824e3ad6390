//! Whose bytes a read has seen.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::{Cover, Judge, Seen, Span, Verdict};
use crate::judge::Content;

/// The writers that a read may have to do with, with whether they are before it.
type Near = Vec<(usize, bool)>;

impl Judge<'_> {
    /// Judges the bytes that an operation has read; behind them the file has ended.
    pub(super) fn bytes(&mut self, number: usize, span: &Span, bytes: &[u8]) -> Verdict {
        let operation = self.operation(number);
        let is_near = |(index, writer): (usize, &super::Writer)| {
            let is_later = writer.operation.is_some_and(|other| {
                other == number || self.order.is_before(operation, self.operation(other))
            });
            let is_near = !is_later && writer.span.may_overlap(span);
            is_near.then(|| (index, self.is_past(writer, number)))
        };
        let near: Near = self.writers.iter().enumerate().filter_map(is_near).collect();
        let mut covers: HashMap<Vec<usize>, Rc<Cover>> = HashMap::new();
        let mut rest = bytes;
        for (start, length) in span.pieces() {
            let mut place = start;
            while place < start + length {
                let writers = || near.iter().map(|(index, _)| *index);
                let border = writers().map(|index| self.writers[index].span.border_behind(place)).min();
                let mut border = border.unwrap_or(u64::MAX).min(start + length);
                if !rest.is_empty() {
                    border = border.min(place + rest.len() as u64);
                }
                let key: Vec<_> = writers().filter(|index| self.writers[*index].span.covers(place)).collect();
                let cover = match covers.get(&key) {
                    Some(cover) => cover.clone(),
                    None => {
                        let cover = Rc::new(self.cover(&key, &near));
                        covers.insert(key, cover.clone());
                        cover
                    }
                };
                if rest.is_empty() {
                    self.nothing(number, &cover);
                } else {
                    let these;
                    (these, rest) = rest.split_at((border - place) as usize);
                    self.range(number, place, these, &cover)?;
                }
                place = border;
            }
        }
        Ok(())
    }

    fn cover(&self, writers: &[usize], near: &Near) -> Cover {
        let is_past = |index: &usize| near.iter().any(|(other, is_past)| other == index && *is_past);
        let (past, open): (Vec<usize>, Vec<usize>) = writers.iter().copied().partition(is_past);
        let is_before =
            |one: usize, other: usize| match (self.writers[one].operation, self.writers[other].operation) {
                (None, _) => one != other,
                (_, None) => false,
                (Some(one), Some(other)) => self.order.is_seen(self.operation(one), self.operation(other)),
            };
        let last: Vec<_> =
            past.iter().copied().filter(|one| !past.iter().any(|other| is_before(*one, *other))).collect();
        let operations = writers.iter().filter_map(|index| self.writers[*index].operation).collect();
        Cover { allowed: [&last[..], &open].concat(), last, operations: Rc::new(operations) }
    }

    /// Judges bytes that the same writers have to do with.
    fn range(&mut self, number: usize, start: u64, bytes: &[u8], cover: &Rc<Cover>) -> Verdict {
        let mut done = 0;
        while done < bytes.len() {
            let place = start + done as u64;
            let alike = |index: &usize| {
                let writer = &self.writers[*index];
                let is_alike = |(byte, place): &(&u8, u64)| writer.byte(*place) == **byte;
                bytes[done..].iter().zip(place..).take_while(is_alike).count()
            };
            let lengths: Vec<_> = cover.allowed.iter().map(|index| (alike(index), *index)).collect();
            let longest = lengths.iter().map(|(length, _)| *length).max().unwrap_or(0);
            if longest == 0 {
                return Err(self.wrong(place, bytes[done], cover));
            }
            let mut sources = lengths.iter().filter(|(length, _)| *length == longest);
            // Bytes of two writes may be alike where one of them is a record's.
            if let (Some((_, source)), None) = (sources.next(), sources.next()) {
                self.note(number, place..place + longest as u64, *source, cover)?;
            }
            done += longest;
        }
        Ok(())
    }

    /// Notes whose bytes these are.
    fn note(&mut self, number: usize, places: Range<u64>, source: usize, cover: &Rc<Cover>) -> Verdict {
        if cover.last.contains(&source) {
            for other in cover.last.iter().filter(|other| **other != source) {
                let overlaps = |range: &&Range<u64>| range.start < places.end && places.start < range.end;
                if let Some(before) = self.decided.get(&(source, *other)).into_iter().flatten().find(overlaps)
                {
                    let [source, other] = [source, *other].map(|index| self.tell(index));
                    return Err(format!("{places:?} are of {source}; {before:?} were of {other} before"));
                }
                let ranges = self.decided.entry((*other, source)).or_default();
                match ranges.last_mut() {
                    Some(range) if range.end == places.start => range.end = places.end,
                    _ => ranges.push(places.clone()),
                }
            }
        }
        if self.operation(number).atomic.is_some() {
            let (write, others) = (self.writers[source].operation, cover.operations.clone());
            self.seen.insert(Seen { read: number, write, others });
        }
        Ok(())
    }

    /// Notes that the file had ended before bytes that these writers have to do with.
    fn nothing(&mut self, number: usize, cover: &Rc<Cover>) {
        if self.operation(number).atomic.is_none() || !self.promises.of_special {
            return;
        }
        let is_nothing = |index: &&usize| matches!(self.writers[**index].content, Content::Zeros);
        let mut zeros = cover.allowed.iter().filter(is_nothing);
        if let (Some(source), None) = (zeros.next(), zeros.next()) {
            let (write, others) = (self.writers[*source].operation, cover.operations.clone());
            self.seen.insert(Seen { read: number, write, others });
        }
    }

    fn tell(&self, writer: usize) -> String {
        match self.writers[writer].operation {
            None => "a new file".to_owned(),
            Some(number) => self.operation(number).tell(self.script),
        }
    }

    fn wrong(&self, place: u64, byte: u8, cover: &Cover) -> String {
        let told = |index: &usize| format!("{} of {}", self.writers[*index].byte(place), self.tell(*index));
        let allowed: Vec<_> = cover.allowed.iter().map(told).collect();
        let is_it = |writer: &&super::Writer| writer.span.covers(place) && writer.byte(place) == byte;
        let found = self.writers.iter().position(|writer| is_it(&writer));
        let found = found.map_or("nobody's".to_owned(), |index| format!("that of {}", self.tell(index)));
        format!("byte {place} is {byte}, {found}; not\n  {}", allowed.join("\n  "))
    }
}
