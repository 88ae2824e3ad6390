//! The side of the store: answers questions until nobody asks any more.

mod making;

use std::io::{self, Read, Write};
use std::path::PathBuf;

use crate::error::Result;
use crate::finding;
use crate::manifest::Manifest;
use crate::store::Store;
use crate::store::aside::Asides;
use crate::stored_file::{PartHere, Whereabouts};
use crate::verify::agreement::{self, Repair};
use crate::verify::{look_over_alone, reclaim};

use super::greeting;
use super::protocol::{
    self, Answer, Failure, Hello, LONGEST_DATA, ManifestBytes, Message, Question, Remembered, SetAside,
};
use making::Making;

type Outcome<T> = std::result::Result<T, Failure>;

/// Answers what a [`RemoteStore`](super::RemoteStore) of another process asks of `store`, until `questions` end. What
/// keeps the store from being opened is told to whoever asks. Files that are being made then are removed.
///
/// # Errors
/// What keeps it from reading questions or writing answers.
pub fn serve(store: Result<Store>, questions: &mut impl Read, answers: &mut impl Write) -> io::Result<()> {
    greeting::send(answers)?;
    let hello = |store: &Store| Hello { node: store.node().clone(), path: protocol::bytes_of(store.path()) };
    let store = match store {
        Ok(store) => {
            protocol::send(answers, &Ok::<_, Failure>(hello(&store)), &[])?;
            store
        }
        Err(error) => return protocol::send(answers, &Err::<Hello, _>(Failure::from(error)), &[]),
    };
    let making = Making::new(&store);
    let mut server = Server { store, recent: None, bytes: Vec::new(), making };
    loop {
        let (message, length) = match protocol::receive(questions, LONGEST_DATA) {
            Ok(received) => received,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        };
        let data = match protocol::take(questions, length) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            data => data?,
        };
        match message {
            Message::Write { file, offset } => server.making.write(file, offset, &data),
            Message::Ask(question) => {
                server.bytes.clear();
                let answer = server.answer(question);
                if answer.is_err() {
                    server.bytes.clear();
                }
                protocol::send(answers, &answer, &server.bytes)?;
            }
        }
    }
}

struct Server {
    store: Store,
    /// The file that was asked for last: most questions follow one another.
    recent: Option<PartHere>,
    /// What was read.
    bytes: Vec<u8>,
    making: Making,
}

impl Server {
    fn answer(&mut self, question: Question) -> Outcome<Answer> {
        let store = &self.store;
        Ok(match question {
            Question::List { name } => {
                let entries = store.list(&protocol::directory_name(&name)?)?;
                Answer::Entries(entries.into_iter().map(protocol::from_entry).collect())
            }
            Question::Lookup { name } => Answer::Id(store.lookup(&protocol::file_name(&name)?)?),
            Question::Remove { name, trace } => {
                store.remove_tracing(&protocol::file_name(&name)?, trace.as_ref())?;
                Answer::Done
            }
            Question::Traces => Answer::Traces(store.traces()?.into()),
            Question::RemoveLeftover { name, file, trace } => {
                paths(store.remove_leftover(&protocol::file_name(&name)?, file, trace.as_ref())?)
            }
            Question::Look { file, name } => {
                let known = finding::look(store, file, &protocol::file_name(&name)?)?;
                let told = |(manifest, survived): (Manifest, Option<_>)| {
                    (manifest.encode().into(), survived.map(Remembered::new))
                };
                Answer::Known(known.map(told))
            }
            Question::Read { of, piece } => {
                let of = of.whereabouts()?;
                protocol::check_piece(&piece, of.segment_size)?;
                let length = piece.within.end - piece.within.start;
                if length > LONGEST_DATA as u64 {
                    return Err(Failure::senseless("more bytes than one answer has"));
                }
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.resize(length as usize, 0);
                self.part(of)?.read(piece.segment, piece.within.start, &mut bytes)?;
                self.bytes = bytes;
                Answer::Bytes
            }
            Question::NextData { of, piece } => {
                let of = of.whereabouts()?;
                protocol::check_piece(&piece, of.segment_size)?;
                Answer::Range(self.part(of)?.next_data(&piece)?)
            }
            Question::Stored { of, segments } => {
                Answer::Counts(self.part(of.whereabouts()?)?.stored(&segments.0)?.into())
            }
            Question::Check { of, segments } => {
                self.part(of.whereabouts()?)?.check(&segments.0)?;
                Answer::Done
            }
            Question::IsZero { of, piece } => {
                let of = of.whereabouts()?;
                protocol::check_piece(&piece, of.segment_size)?;
                Answer::IsSo(self.part(of)?.is_zero(&piece)?)
            }
            Question::LookOver { name } => {
                look_over_alone(store, &protocol::file_name(&name)?)?;
                Answer::Done
            }
            Question::Repair { own, newest } => {
                let decode = |bytes: ManifestBytes| Manifest::decode(&bytes.0, store.path(), "a file");
                let own = own.map(decode).transpose()?;
                match agreement::repair(store, own.as_ref(), &decode(newest)?)? {
                    Repair::Done(path) => paths([path]),
                    Repair::Undone => paths([]),
                    Repair::Against(segment) => Answer::Against(protocol::bytes_of(&segment)),
                }
            }
            Question::EnterName { name, file } => {
                paths(store.give_back_name(&protocol::file_name(&name)?, file)?)
            }
            Question::Reclaim => paths(reclaim(store)?),
            Question::Asides => {
                let Asides { recorded, damaged } = store.asides()?;
                let damaged = damaged.iter().map(|path| protocol::bytes_of(path)).collect();
                Answer::Asides(recorded.iter().map(SetAside::new).collect(), damaged)
            }
            Question::SettleAside { new, stays } => paths(store.settle_aside(new, stays)?),
            Question::Make(file, step) => {
                self.making.take_step(file, step)?;
                Answer::Done
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

fn paths(paths: impl IntoIterator<Item = PathBuf>) -> Answer {
    Answer::Paths(paths.into_iter().map(|path| protocol::bytes_of(&path)).collect())
}
