//! Any bytes that come from the other side, as questions or as answers: refused, without a panic and without memory for
//! what is only told.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use proptest::prelude::*;
use svmio_svm::{
    Connection, DirectoryName, Error, FileName, FileOffset, NodeName, OpenOptions, RemoteStore, SegmentSize,
    Store, StoreSet, serve,
};

/// The largest piece of memory that may be asked for: what one message carries, and a little.
const LARGEST: usize = 5 << 20;

/// The largest that has been asked for.
static SEEN: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: all is the system's allocator's doing; a number is noted beside it.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        SEEN.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller keeps to the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        SEEN.fetch_max(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        SEEN.fetch_max(size, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// Runs `body` alone, and says how large the largest piece of memory was that it asked for.
fn largest(body: impl FnOnce()) -> usize {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    SEEN.store(0, Relaxed);
    body();
    SEEN.load(Relaxed)
}

fn store(directory: &Path) -> Store {
    Store::open_for(directory, &NodeName::new("far")).expect("it can be made")
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("it is a name")
}

/// Puts a file of three segments into a store.
fn fill(store: &Store) {
    let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN));
    let mut file =
        StoreSet::from(store.clone()).create(&name("/old"), &options, None, false).expect("it can be made");
    file.write_at(FileOffset(0), &[7; 150_000]).expect("it can be written");
    file.finish(150_000).expect("it can be finished");
    let traces = store.path().join("removed");
    fs::create_dir(&traces).expect("it can be made");
    fs::write(
        traces.join("0123456789abcdef0123456789abcdef"),
        "{\"epoch\":7,\"segments\":[[\"far\",3]]}\nremoved",
    )
    .expect("it can be written");
}

/// Everything that is asked of a store of another host. Few bytes of content, so that damage falls on what is decoded.
fn ask_all(set: &StoreSet) -> Result<(), Error> {
    set.files(&DirectoryName::root())?;
    let file = set.open(&name("/old"))?;
    file.segments()?;
    file.next_data(FileOffset(1))?;
    file.read_at(FileOffset(65_400), &mut [0; 300])?;
    drop(set.verify(&DirectoryName::root()));
    let options = OpenOptions::read_write().segment_size(Some(SegmentSize::MIN));
    for replacing in [false, true] {
        let mut new = set.create(&name("/new"), &options, None, replacing)?;
        new.write_at(FileOffset(65_400), &[1; 300])?;
        new.finish(100_000)?;
    }
    let mut lost = set.create(&name("/lost"), &options, None, false)?;
    lost.write_at(FileOffset(0), &[1; 10])?;
    drop(lost);
    set.remove(&name("/new"), false)
}

/// Carries bytes on and keeps them.
struct Kept<S> {
    stream: S,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl<S> Kept<S> {
    fn keep(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
    }
}

impl<S: Read> Read for Kept<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(bytes)?;
        self.keep(&bytes[..count]);
        Ok(count)
    }
}

impl<S: Write> Write for Kept<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(bytes)?;
        self.keep(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A conversation as it is.
struct Conversation {
    /// The store as it was before.
    before: tempfile::TempDir,
    questions: Vec<u8>,
    answers: Vec<u8>,
}

static CONVERSATION: LazyLock<Conversation> = LazyLock::new(|| {
    let (directory, before) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let store = store(directory.path());
    fill(&store);
    copy_store(directory.path(), before.path());
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    let serving = std::thread::spawn(move || {
        let mut questions = far.try_clone().expect("a duplicate");
        serve(Ok(store), &mut questions, &mut &far).expect("it serves to the end");
    });
    let (questions, answers) = (Arc::default(), Arc::default());
    let connection = Connection {
        answers: Box::new(Kept {
            stream: near.try_clone().expect("a duplicate"),
            bytes: Arc::clone(&answers),
        }),
        questions: Box::new(Kept {
            stream: near.try_clone().expect("a duplicate"),
            bytes: Arc::clone(&questions),
        }),
        last_words: Box::new(|| None),
    };
    let set = StoreSet::of_hosts(vec![RemoteStore::connect("far", connection).expect("it answers")]);
    ask_all(&set.expect("one store")).expect("all goes well");
    near.shutdown(std::net::Shutdown::Both).expect("it is open");
    serving.join().expect("it does not panic");
    let taken = |bytes: Arc<Mutex<Vec<u8>>>| bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Conversation { before, questions: taken(questions), answers: taken(answers) }
});

/// What may become of bytes on their way.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Put(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index),
    /// So many bytes are lost.
    Drop(prop::sample::Index, usize),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let any_at = any::<prop::sample::Index>;
    let one = prop_oneof![
        (any_at(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (any_at(), prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 1..12))
            .prop_map(|(at, bytes)| Damage::Put(at, bytes)),
        any_at().prop_map(Damage::Cut),
        (any_at(), 1..40usize).prop_map(|(at, count)| Damage::Drop(at, count)),
    ];
    prop::collection::vec(one, 1..4)
}

/// `bytes` after damage.
fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        match damage {
            Damage::Flip(at, bits) => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Damage::Put(at, new) => {
                let at = at.index(bytes.len());
                let end = (at + new.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&new[..end - at]);
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len()).max(1)),
            Damage::Drop(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Copies a store, but for shared states, which are made anew.
fn copy_store(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_store(&from, &to);
        } else if entry.file_name() != "state" {
            fs::copy(from, to).expect("it can be copied");
        }
    }
}

/// What it takes at once to answer `questions`.
fn served(questions: &[u8]) -> usize {
    let directory = tempfile::tempdir().expect("a directory");
    copy_store(CONVERSATION.before.path(), directory.path());
    let store = store(directory.path());
    largest(|| drop(serve(Ok(store), &mut &questions[..], &mut io::sink())))
}

/// What it takes at once to ask whoever gives `answers`.
fn asked(answers: Vec<u8>) -> usize {
    largest(|| {
        let connection = Connection {
            answers: Box::new(io::Cursor::new(answers)),
            questions: Box::new(io::sink()),
            last_words: Box::new(|| None),
        };
        if let Ok(store) = RemoteStore::connect("far", connection) {
            let set = StoreSet::of_hosts(vec![store]).expect("it is one alone");
            // Most of these fail at once; each is tried.
            drop(set.list(&DirectoryName::root()));
            drop(ask_all(&set));
        }
    })
}

fn greeted(hello: &[u8]) -> Vec<u8> {
    let end = CONVERSATION.answers.iter().position(|byte| *byte == b'\n').expect("it begins with a line");
    [&CONVERSATION.answers[..=end], hello].concat()
}

/// A message with these lengths.
fn message(value: u32, data: u32, bytes: &[u8]) -> Vec<u8> {
    [&value.to_le_bytes(), &data.to_le_bytes(), bytes].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_questions_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300), length in 0..200u32, data: u32) {
        prop_assert!(served(&bytes) < LARGEST);
        prop_assert!(served(&message(length, 0, &bytes)) < LARGEST);
        prop_assert!(served(&message(bytes.len() as u32, 0, &bytes)) < LARGEST);
        prop_assert!(served(&message(length, data, &bytes)) < LARGEST);
    }

    #[test]
    fn any_bytes_are_answers_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300), length in 0..200u32, data: u32) {
        prop_assert!(asked(bytes.clone()) < LARGEST);
        prop_assert!(asked(greeted(&bytes)) < LARGEST);
        prop_assert!(asked(greeted(&message(bytes.len() as u32, 0, &bytes))) < LARGEST);
        prop_assert!(asked(greeted(&message(length, data, &bytes))) < LARGEST);
    }

    #[test]
    fn damaged_questions_are_answered_or_refused(damages in damages()) {
        prop_assert!(served(&damaged(&CONVERSATION.questions, &damages)) < LARGEST);
    }

    #[test]
    fn damaged_answers_are_taken_or_refused(damages in damages()) {
        prop_assert!(asked(damaged(&CONVERSATION.answers, &damages)) < LARGEST);
    }
}
