//! A store on another host, asked through a process there that [serves](serve) it.
//!
//! ```text
//!   StoreSet ─ Member ─ RemoteStore ── questions ──►  serve ─ Store
//!   (names, manifests, parts)        ◄── answers ──   (what a StoreSet does with a store of its own machine)
//! ```
//!
//! How the process there is started, and what carries the bytes, is the caller's business: two streams are all that this
//! takes. What the stores know together is put together on this side, as for stores that are all on this machine.

mod protocol;
mod serving;

use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Survived;
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::store::Entry;
use crate::stored_file::{Piece, Whereabouts};
use crate::units::{FileId, SegmentIndex};

use protocol::{Answer, Failure, GREETING, Hello, LONGEST_READ, PartOf, Question};
pub use serving::serve;

/// A store on another host.
pub struct RemoteStore {
    host: String,
    node: NodeName,
    /// The store's directory there, with the host before it.
    label: PathBuf,
    channel: Mutex<Channel>,
}

struct Channel {
    answers: Box<dyn Read + Send>,
    questions: Box<dyn Write + Send>,
    /// An answer was not read to its end: what comes next makes no sense.
    is_broken: bool,
}

impl RemoteStore {
    /// The store that a process on `host` [serves](serve), which reads `questions` and writes `answers`.
    ///
    /// # Errors
    /// [`Error::OnHost`]: nobody serves there, or somebody else; what the store there says.
    pub fn connect(
        host: &str,
        answers: Box<dyn Read + Send>,
        questions: Box<dyn Write + Send>,
    ) -> Result<RemoteStore> {
        let mut channel = Channel { answers, questions, is_broken: false };
        let failed = |message| Error::OnHost { host: host.into(), kind: ErrorKind::Other, message };
        let mut greeting = [0; GREETING.len()];
        channel.answers.read_exact(&mut greeting).map_err(|e| failed(ended(&e)))?;
        if greeting != *GREETING {
            let said = String::from_utf8_lossy(&greeting).into_owned();
            return Err(failed(format!(
                "what answered is not this svmio, it began with {said:?}: install the same svmio there, and see that \
                 shells print nothing when they start a program"
            )));
        }
        let hello = protocol::receive::<std::result::Result<Hello, Failure>>(&mut channel.answers);
        let (hello, _) = hello.map_err(|e| failed(ended(&e)))?;
        let Hello { node, path } = hello.map_err(|failure| failure.into_error(host))?;
        let label = protocol::path_on(host, &protocol::path_of(path));
        Ok(RemoteStore { host: host.into(), node, label, channel: Mutex::new(channel) })
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
        match self.ask(&Question::List { name: protocol::bytes_of(name.as_path()) })? {
            Answer::Entries(entries) => entries.into_iter().map(protocol::entry).collect(),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn lookup(&self, name: &FileName) -> Result<FileId> {
        match self.ask(&Question::Lookup { name: protocol::bytes_of(name.as_path()) })? {
            Answer::Id(id) => Ok(id),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn remove(&self, name: &FileName) -> Result<()> {
        self.ask(&Question::Remove { name: protocol::bytes_of(name.as_path()) }).map(drop)
    }

    pub(crate) fn look(&self, file: FileId, name: &FileName) -> Result<Option<(Manifest, Option<Survived>)>> {
        match self.ask(&Question::Look { file, name: protocol::bytes_of(name.as_path()) })? {
            Answer::Known(None) => Ok(None),
            Answer::Known(Some((manifest, survived))) => {
                let manifest = Manifest::decode(&manifest, &self.label, &name.to_string())?;
                Ok(Some((manifest, survived)))
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
        for (number, portion) in to.chunks_mut(LONGEST_READ).enumerate() {
            let start = within + (number * LONGEST_READ) as u64;
            let piece = Piece { segment, within: start..start + portion.len() as u64 };
            let question = Question::Read { of: PartOf::new(of), piece };
            let (answer, bytes) = self.ask_for_bytes(&question)?;
            if answer != Answer::Bytes || bytes.len() != portion.len() {
                return Err(self.out_of_place());
            }
            portion.copy_from_slice(&bytes);
        }
        Ok(())
    }

    pub(crate) fn next_data(&self, of: &Whereabouts, piece: &Piece) -> Result<Option<Range<u64>>> {
        match self.ask(&Question::NextData { of: PartOf::new(of), piece: piece.clone() })? {
            Answer::Range(range) => Ok(range),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn stored(&self, of: &Whereabouts, segments: &[SegmentIndex]) -> Result<Vec<u64>> {
        match self.ask(&Question::Stored { of: PartOf::new(of), segments: segments.to_vec() })? {
            Answer::Counts(bytes) if bytes.len() == segments.len() => Ok(bytes),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn check(&self, of: &Whereabouts, segments: &[SegmentIndex]) -> Result<()> {
        self.ask(&Question::Check { of: PartOf::new(of), segments: segments.to_vec() }).map(drop)
    }

    pub(crate) fn is_zero(&self, of: &Whereabouts, piece: &Piece) -> Result<bool> {
        match self.ask(&Question::IsZero { of: PartOf::new(of), piece: piece.clone() })? {
            Answer::IsSo(is_so) => Ok(is_so),
            _ => Err(self.out_of_place()),
        }
    }

    pub(crate) fn look_over_alone(&self, name: &FileName) -> Result<()> {
        self.ask(&Question::LookOver { name: protocol::bytes_of(name.as_path()) }).map(drop)
    }

    pub(crate) fn repair(&self, own: Option<&Manifest>, newest: &Manifest) -> Result<Option<PathBuf>> {
        let own = own.map(Manifest::encode);
        let paths = self.paths(&Question::Repair { own, newest: newest.encode() })?;
        Ok(paths.into_iter().next())
    }

    pub(crate) fn enter_name(&self, name: &FileName, file: FileId) -> Result<Option<PathBuf>> {
        let paths = self.paths(&Question::EnterName { name: protocol::bytes_of(name.as_path()), file })?;
        Ok(paths.into_iter().next())
    }

    pub(crate) fn reclaim(&self) -> Result<Vec<PathBuf>> {
        self.paths(&Question::Reclaim)
    }

    fn paths(&self, question: &Question) -> Result<Vec<PathBuf>> {
        match self.ask(question)? {
            Answer::Paths(paths) => {
                let on_host = |path| protocol::path_on(&self.host, &protocol::path_of(path));
                Ok(paths.into_iter().map(on_host).collect())
            }
            _ => Err(self.out_of_place()),
        }
    }

    fn ask(&self, question: &Question) -> Result<Answer> {
        self.ask_for_bytes(question).map(|(answer, _)| answer)
    }

    fn ask_for_bytes(&self, question: &Question) -> Result<(Answer, Vec<u8>)> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let Channel { answers, questions, is_broken } = &mut *channel;
        if *is_broken {
            return Err(self.failed("the connection was lost before".into()));
        }
        let answer = protocol::send(questions, question, &[])
            .and_then(|()| protocol::receive::<std::result::Result<Answer, Failure>>(answers));
        let (answer, bytes) = answer.map_err(|e| {
            *is_broken = true;
            self.failed(ended(&e))
        })?;
        Ok((answer.map_err(|failure| failure.into_error(&self.host))?, bytes))
    }

    fn out_of_place(&self) -> Error {
        self.failed("it answered something else: use the same svmio on all hosts".into())
    }

    fn failed(&self, message: String) -> Error {
        Error::OnHost { host: self.host.clone(), kind: ErrorKind::Other, message }
    }
}

fn ended(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => {
            "the connection ended; what the remote shell or svmio there said of it is above".into()
        }
        _ => format!("the connection failed: {error}"),
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RemoteStore").field("label", &self.label).field("node", &self.node).finish()
    }
}
