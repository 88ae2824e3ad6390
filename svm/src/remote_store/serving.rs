//! The side of the store: answers questions until nobody asks any more.

use std::io::{self, Read, Write};

use crate::error::Result;
use crate::finding;
use crate::manifest::Manifest;
use crate::store::Store;
use crate::stored_file::{PartHere, Whereabouts};
use crate::verify::{agreement, look_over_alone, reclaim};

use super::protocol::{self, Answer, Failure, GREETING, Hello, LONGEST_READ, Question};

/// Answers what a [`RemoteStore`](super::RemoteStore) of another process asks of `store`, until `questions` end. What
/// keeps the store from being opened is told to whoever asks.
///
/// # Errors
/// What keeps it from reading questions or writing answers.
pub fn serve(store: Result<Store>, questions: &mut impl Read, answers: &mut impl Write) -> io::Result<()> {
    answers.write_all(GREETING)?;
    let hello = |store: &Store| Hello { node: store.node().clone(), path: protocol::bytes_of(store.path()) };
    let store = match store {
        Ok(store) => {
            protocol::send(answers, &Ok::<_, Failure>(hello(&store)), &[])?;
            store
        }
        Err(error) => return protocol::send(answers, &Err::<Hello, _>(Failure::from(error)), &[]),
    };
    let mut server = Server { store, recent: None, bytes: Vec::new() };
    loop {
        let question = match protocol::receive(questions) {
            Ok((question, _)) => question,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        };
        server.bytes.clear();
        let answer = server.answer(question).map_err(Failure::from);
        if answer.is_err() {
            server.bytes.clear();
        }
        protocol::send(answers, &answer, &server.bytes)?;
    }
}

struct Server {
    store: Store,
    /// The file that was asked for last: most questions follow one another.
    recent: Option<PartHere>,
    /// What was read.
    bytes: Vec<u8>,
}

impl Server {
    fn answer(&mut self, question: Question) -> Result<Answer> {
        let store = &self.store;
        Ok(match question {
            Question::List { name } => {
                let entries = store.list(&protocol::directory_name(&name)?)?;
                Answer::Entries(entries.into_iter().map(protocol::from_entry).collect())
            }
            Question::Lookup { name } => Answer::Id(store.lookup(&protocol::file_name(&name)?)?),
            Question::Remove { name } => {
                store.remove(&protocol::file_name(&name)?)?;
                Answer::Done
            }
            Question::Look { file, name } => {
                let known = finding::look(store, file, &protocol::file_name(&name)?)?;
                Answer::Known(known.map(|(manifest, survived)| (manifest.encode(), survived)))
            }
            Question::Read { of, piece } => {
                let length = piece.within.end.saturating_sub(piece.within.start) as usize;
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.resize(length.min(LONGEST_READ), 0);
                self.part(of.whereabouts()?)?.read(piece.segment, piece.within.start, &mut bytes)?;
                self.bytes = bytes;
                Answer::Bytes
            }
            Question::NextData { of, piece } => {
                Answer::Range(self.part(of.whereabouts()?)?.next_data(&piece)?)
            }
            Question::Stored { of, segments } => {
                Answer::Counts(self.part(of.whereabouts()?)?.stored(&segments)?)
            }
            Question::Check { of, segments } => {
                self.part(of.whereabouts()?)?.check(&segments)?;
                Answer::Done
            }
            Question::IsZero { of, piece } => Answer::IsSo(self.part(of.whereabouts()?)?.is_zero(&piece)?),
            Question::LookOver { name } => {
                look_over_alone(store, &protocol::file_name(&name)?)?;
                Answer::Done
            }
            Question::Repair { own, newest } => {
                let decode = |bytes: Vec<u8>| Manifest::decode(&bytes, store.path(), "a file");
                let own = own.map(decode).transpose()?;
                let repaired = agreement::repair(store, own.as_ref(), &decode(newest)?)?;
                Answer::Paths(repaired.iter().map(|path| protocol::bytes_of(path)).collect())
            }
            Question::EnterName { name, file } => {
                let name = protocol::file_name(&name)?;
                let is_entered = store.enter_name(&name, file, true)?;
                let path = store.names().join(name.as_path());
                Answer::Paths(is_entered.then(|| protocol::bytes_of(&path)).into_iter().collect())
            }
            Question::Reclaim => {
                Answer::Paths(reclaim(store)?.iter().map(|path| protocol::bytes_of(path)).collect())
            }
        })
    }

    fn part(&mut self, of: Whereabouts) -> Result<&PartHere> {
        if self.recent.as_ref().is_none_or(|part| *part.of() != of) {
            let own = finding::look(&self.store, of.id, &of.name)?.map(|(manifest, _)| manifest);
            self.recent = Some(PartHere::new(&self.store, &of, own.as_ref()));
        }
        Ok(self.recent.as_ref().expect("it was just made"))
    }
}
