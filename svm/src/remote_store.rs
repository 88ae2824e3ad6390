//! A store on another host, asked through a process there that [serves](serve) it.
//!
//! ```text
//!   StoreSet ─ Member ─ RemoteStore ── questions ──►  serve ─ Store
//!   (names, manifests, parts)        ◄── answers ──   (what a StoreSet does with a store of its own machine)
//! ```
//!
//! What carries the bytes is the caller's business: two streams are all that this takes, and the last words of whatever
//! was started, to tell why they ended. A [`StoreLauncher`] starts the process there by a remote shell. What the stores
//! know together is put together on this side, as for stores that are all on this machine.
//!
//! A file that is being made there ([`RemotePart`]) is the serving process's until it is whole, and goes with it. Its
//! bytes are sent without an answer to each piece, so that a long way costs no time; from time to time they are asked
//! for.

mod greeting;
mod launching;
mod new_part;
mod protocol;
mod serving;

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Survived;
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::store::Entry;
use crate::store::aside::{Asides, Stays};
use crate::store::traces::{Removal, Trace};
use crate::stored_file::{Piece, Whereabouts};
use crate::units::{FileId, SegmentIndex};
use crate::verify::agreement::Repair;

pub use launching::{LaunchError, StoreLauncher};
pub(crate) use launching::{can_be_host, inherited, inherited_directory};
pub(crate) use new_part::RemotePart;
use protocol::{
    Answer, AtMost, Failure, Hello, LONGEST_DATA, MOST_SEGMENTS, Message, PartOf, PathBytes, Question,
    SetAside,
};
pub use serving::serve;

/// A store on another host.
pub struct RemoteStore {
    host: String,
    node: NodeName,
    /// The store's directory there, with the host before it.
    label: PathBuf,
    channel: Mutex<Channel>,
}

/// What leads to a process that [serves](serve) a store. How long it may be silent, or read nothing, is for the streams
/// to say, by an error of the kind [`TimedOut`](io::ErrorKind::TimedOut) that tells the whole story: nothing here has a
/// deadline of its own.
pub struct Connection {
    /// Where its answers come.
    pub answers: Box<dyn Read + Send>,
    /// Where it reads questions.
    pub questions: Box<dyn Write + Send>,
    /// What was said last beside the answers, by it or by what was to start it; asked when the streams have ended.
    pub last_words: Box<dyn Fn() -> Option<String> + Send>,
}

struct Channel {
    connection: Connection,
    /// An answer was not read to its end: what comes next makes no sense.
    is_broken: bool,
}

impl RemoteStore {
    /// The store that a process on `host` [serves](serve).
    ///
    /// # Errors
    /// [`Error::HostLost`]: nobody serves there. [`Error::OnHost`]: somebody else does; what the store there says.
    pub fn connect(host: &str, mut connection: Connection) -> Result<RemoteStore> {
        let lost =
            |connection: &Connection, e| Error::HostLost { host: host.into(), reason: ended(connection, &e) };
        let line = greeting::receive(&mut connection.answers).map_err(|e| lost(&connection, e))?;
        greeting::check(&line).map_err(|message| Error::OnHost {
            host: host.into(),
            kind: ErrorKind::Other,
            message,
        })?;
        let hello = protocol::receive::<std::result::Result<Hello, Failure>>(&mut connection.answers, 0);
        let (hello, _) = hello.map_err(|e| lost(&connection, e))?;
        let Hello { node, path } = hello.map_err(|failure| failure.into_error(host))?;
        let label = protocol::path_on(host, &protocol::path_of(path));
        let channel = Mutex::new(Channel { connection, is_broken: false });
        Ok(RemoteStore { host: host.into(), node, label, channel })
    }

    /// The host, as it was called when it was connected.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The node that the store belongs to.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Host and directory, for people.
    pub(crate) fn label(&self) -> &Path {
        &self.label
    }

    pub(crate) fn list(&self, name: &DirectoryName) -> Result<Vec<Entry>> {
        match self.ask(Question::List { name: protocol::bytes_of(name.as_path()) })? {
            Answer::Entries(entries) => {
                let entries = entries.0.into_iter().map(protocol::entry).collect::<Result<Vec<_>>>()?;
                // Whoever walks through directories, or removes what is in one, relies on it.
                let is_there = |entry: &Entry| match entry {
                    Entry::Directory(inner) => inner.as_path().parent() == Some(name.as_path()),
                    Entry::File(file, _) => file.as_path().parent() == Some(name.as_path()),
                };
                entries.iter().all(is_there).then_some(entries).ok_or_else(|| self.out_of_place())
            }
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn lookup(&self, name: &FileName) -> Result<FileId> {
        match self.ask(Question::Lookup { name: protocol::bytes_of(name.as_path()) })? {
            Answer::Id(id) => Ok(id),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn remove(&self, name: &FileName, trace: Option<&Removal>) -> Result<()> {
        let name = protocol::bytes_of(name.as_path());
        self.demand(Question::Remove { name, trace: trace.cloned() })
    }

    pub(crate) fn traces(&self) -> Result<Vec<Trace>> {
        match self.ask(Question::Traces)? {
            Answer::Traces(traces) => Ok(traces.0),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn remove_leftover(
        &self,
        name: &FileName,
        file: FileId,
        trace: Option<&Removal>,
    ) -> Result<Option<PathBuf>> {
        let (name, trace) = (protocol::bytes_of(name.as_path()), trace.cloned());
        Ok(self.paths(Question::RemoveLeftover { name, file, trace })?.into_iter().next())
    }

    pub(crate) fn look(&self, file: FileId, name: &FileName) -> Result<Option<(Manifest, Option<Survived>)>> {
        match self.ask(Question::Look { file, name: protocol::bytes_of(name.as_path()) })? {
            Answer::Known(None) => Ok(None),
            Answer::Known(Some((manifest, survived))) => {
                let manifest = Manifest::decode(&manifest.0, &self.label, &name.to_string())?;
                Ok(Some((manifest, survived.map(|told| told.by(&self.node)))))
            }
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn lost_object(&self, name: &FileName) -> Error {
        let reason = "the object that its name leads to is gone".into();
        Error::CorruptManifest { name: name.to_string(), path: self.label.clone(), reason }
    }

    pub(crate) fn read(
        &self,
        of: &Whereabouts,
        segment: SegmentIndex,
        within: u64,
        to: &mut [u8],
    ) -> Result<()> {
        for (number, portion) in to.chunks_mut(LONGEST_DATA).enumerate() {
            let start = within + (number * LONGEST_DATA) as u64;
            let piece = Piece { segment, within: start..start + portion.len() as u64 };
            let question = Question::Read { of: PartOf::new(of), piece };
            let answer = self.ask_for_bytes(question, portion)?;
            if answer != (Answer::Bytes, portion.len()) {
                return Err(self.out_of_place());
            }
        }
        Ok(())
    }

    pub(crate) fn next_data(&self, of: &Whereabouts, piece: &Piece) -> Result<Option<Range<u64>>> {
        match self.ask(Question::NextData { of: PartOf::new(of), piece: piece.clone() })? {
            Answer::Range(None) => Ok(None),
            Answer::Range(Some(range))
                if piece.within.start <= range.start
                    && range.start < range.end
                    && range.end <= piece.within.end =>
            {
                Ok(Some(range))
            }
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn stored(&self, of: &Whereabouts, segments: &[SegmentIndex]) -> Result<Vec<u64>> {
        let mut counts = Vec::with_capacity(segments.len());
        for some in segments.chunks(MOST_SEGMENTS) {
            match self.ask(Question::Stored { of: PartOf::new(of), segments: AtMost(some.to_vec()) })? {
                Answer::Counts(bytes) if bytes.0.len() == some.len() => counts.extend(bytes.0),
                _ => return Err(self.out_of_place()),
            }
        }
        Ok(counts)
    }

    pub(crate) fn check(&self, of: &Whereabouts, segments: &[SegmentIndex]) -> Result<()> {
        segments.chunks(MOST_SEGMENTS).try_for_each(|some| {
            self.demand(Question::Check { of: PartOf::new(of), segments: AtMost(some.to_vec()) })
        })
    }

    pub(crate) fn is_zero(&self, of: &Whereabouts, piece: &Piece) -> Result<bool> {
        match self.ask(Question::IsZero { of: PartOf::new(of), piece: piece.clone() })? {
            Answer::IsSo(is_so) => Ok(is_so),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn look_over_alone(&self, name: &FileName) -> Result<()> {
        self.demand(Question::LookOver { name: protocol::bytes_of(name.as_path()) })
    }

    pub(crate) fn repair(&self, own: Option<&Manifest>, newest: &Manifest) -> Result<Repair> {
        let own = own.map(|own| own.encode().into());
        match self.ask(Question::Repair { own, newest: newest.encode().into() })? {
            Answer::Paths(paths) => {
                Ok(paths.0.into_iter().next().map_or(Repair::Undone, |path| Repair::Done(self.path(path))))
            }
            Answer::Against(segment) => Ok(Repair::Against(self.path(segment))),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn enter_name(&self, name: &FileName, file: FileId) -> Result<Option<PathBuf>> {
        let paths = self.paths(Question::EnterName { name: protocol::bytes_of(name.as_path()), file })?;
        Ok(paths.into_iter().next())
    }

    pub(crate) fn reclaim(&self) -> Result<Vec<PathBuf>> {
        self.paths(Question::Reclaim)
    }

    pub(crate) fn asides(&self) -> Result<Asides> {
        match self.ask(Question::Asides)? {
            Answer::Asides(asides, damaged) => Ok(Asides {
                recorded: asides.0.into_iter().map(SetAside::recorded).collect::<Result<_>>()?,
                damaged: damaged.0.into_iter().map(|path| self.path(path)).collect(),
            }),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn settle_aside(&self, new: FileId, stays: Stays) -> Result<Option<PathBuf>> {
        Ok(self.paths(Question::SettleAside { new, stays })?.into_iter().next())
    }

    fn paths(&self, question: Question) -> Result<Vec<PathBuf>> {
        match self.ask(question)? {
            Answer::Paths(paths) => Ok(paths.0.into_iter().map(|path| self.path(path)).collect()),
            _ => Err(self.out_of_place()),
        }
    }

    /// A path there, for people.
    fn path(&self, path: PathBytes) -> PathBuf {
        protocol::path_on(&self.host, &protocol::path_of(path))
    }

    /// Asks for something that is done or fails.
    fn demand(&self, question: Question) -> Result<()> {
        match self.ask(question)? {
            Answer::Done => Ok(()),
            _ => Err(self.out_of_place()),
        }
    }

    fn ask(&self, question: Question) -> Result<Answer> {
        self.ask_for_bytes(question, &mut []).map(|(answer, _)| answer)
    }

    /// Asks for an answer with bytes behind it, which come into `room`, and says how many these are.
    fn ask_for_bytes(&self, question: Question, room: &mut [u8]) -> Result<(Answer, usize)> {
        let (answer, length) = self.through(|connection| {
            protocol::send(&mut connection.questions, &Message::Ask(question), &[])?;
            let answers = &mut connection.answers;
            let (answer, length) =
                protocol::receive::<std::result::Result<Answer, Failure>>(answers, room.len())?;
            // No more than there is room for, as was just seen.
            answers.read_exact(&mut room[..length])?;
            Ok((answer, length))
        })?;
        Ok((answer.map_err(|failure| failure.into_error(&self.host))?, length))
    }

    /// Sends what has no answer.
    fn tell(&self, message: &Message, data: &[u8]) -> Result<()> {
        self.through(|connection| protocol::send(&mut connection.questions, message, data))
    }

    /// Carries `act` out, after which nothing more is if it fails.
    fn through<T>(&self, act: impl FnOnce(&mut Connection) -> io::Result<T>) -> Result<T> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let Channel { connection, is_broken } = &mut *channel;
        let reason = if *is_broken {
            "the connection to svmio there was lost before".into()
        } else {
            match act(connection) {
                Ok(answer) => return Ok(answer),
                Err(e) => ended(connection, &e),
            }
        };
        *is_broken = true;
        Err(Error::HostLost { host: self.host.clone(), reason })
    }

    fn out_of_place(&self) -> Error {
        let message = "it answered something else: use the same svmio on all hosts".into();
        Error::OnHost { host: self.host.clone(), kind: ErrorKind::Other, message }
    }
}

/// Why a connection ended, for people.
fn ended(connection: &Connection, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the connection to svmio there ended".to_owned()
        }
        io::ErrorKind::TimedOut => error.to_string(),
        _ => format!("the connection to svmio there failed: {error}"),
    };
    match (connection.last_words)() {
        Some(words) => format!("{what}; what was said last is: {words}"),
        None if error.kind() == io::ErrorKind::TimedOut => what,
        None => format!("{what} without a word"),
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RemoteStore").field("label", &self.label).field("node", &self.node).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::store_set::StoreSet;

    /// A store that answers a question with these entries.
    fn answering(entries: &[(&str, bool)]) -> RemoteStore {
        let entries = entries.iter().map(|(path, is_directory)| {
            let id = (!is_directory).then_some(None);
            (protocol::bytes_of(Path::new(path)), id)
        });
        let mut answers = Vec::new();
        greeting::send(&mut answers).unwrap();
        let hello = Hello { node: NodeName::new("n0"), path: protocol::bytes_of(Path::new("/s")) };
        protocol::send(&mut answers, &Ok::<_, Failure>(hello), &[]).unwrap();
        let answer = Answer::Entries(AtMost(entries.collect()));
        protocol::send(&mut answers, &Ok::<_, Failure>(answer), &[]).unwrap();
        let connection = Connection {
            answers: Box::new(io::Cursor::new(answers)),
            questions: Box::new(io::sink()),
            last_words: Box::new(|| None),
        };
        RemoteStore::connect("host", connection).unwrap()
    }

    /// Answers as a store in which each directory holds another one.
    fn serve_for_ever(mut stream: UnixStream) -> io::Result<()> {
        greeting::send(&mut stream)?;
        let hello = Hello { node: NodeName::new("n0"), path: protocol::bytes_of(Path::new("/s")) };
        protocol::send(&mut stream, &Ok::<_, Failure>(hello), &[])?;
        loop {
            let answer = match protocol::receive(&mut stream, 0)? {
                (Message::Ask(Question::List { name }), 0) => {
                    let inner = protocol::path_of(name).join("a-few-bytes-each");
                    Answer::Entries(AtMost(vec![(protocol::bytes_of(&inner), None)]))
                }
                (Message::Ask(Question::Traces), 0) => Answer::Traces(AtMost(Vec::new())),
                _ => return Ok(()),
            };
            protocol::send(&mut stream, &Ok::<_, Failure>(answer), &[])?;
        }
    }

    #[test]
    fn directories_of_a_host_that_never_end_come_to_an_end() {
        let (own, theirs) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || serve_for_ever(theirs));
        let connection = Connection {
            answers: Box::new(own.try_clone().unwrap()),
            questions: Box::new(own),
            last_words: Box::new(|| None),
        };
        let hosts = StoreSet::of_hosts(vec![RemoteStore::connect("host", connection).unwrap()]).unwrap();
        // Too small a stack for a call to each level.
        let walking = std::thread::Builder::new().stack_size(192 << 10);
        let walking = walking.spawn(move || hosts.files(&DirectoryName::root()).unwrap_err()).unwrap();
        let error = walking.join().unwrap();
        assert!(matches!(&error, Error::HostLost { host, .. } if host == "host"), "{error}");
        assert!(serving.join().unwrap().is_err(), "there is no more to be asked");
    }

    #[test]
    fn what_a_host_lists_lies_in_the_directory() {
        let directory = DirectoryName::new("d").unwrap();
        let all = [("d/file", false), ("d/inner", true)];
        assert_eq!(answering(&all).list(&directory).unwrap().len(), 2);
        let elsewhere = [
            ("d", true),
            ("d/..", true),
            ("", true),
            ("other/file", false),
            ("d/inner/file", false),
            ("d", false),
        ];
        for one in elsewhere {
            let listed = answering(&[("d/file", false), one]).list(&directory);
            assert!(matches!(listed, Err(Error::OnHost { .. })), "{one:?}: {listed:?}");
        }
        let root = DirectoryName::root();
        assert_eq!(answering(&[("file", false)]).list(&root).unwrap().len(), 1);
        assert!(answering(&[("", true)]).list(&root).is_err());
    }
}
