//! One rank in a case of the suite.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use svmio_transport::back_end::{Backing, Wait, Waited};
use svmio_transport::{
    Capabilities, Error, Fabric, LocalSegment, Rank, RemoteSegment, SegmentId, WriteOrder,
};

use crate::face::{Case, limit};
use crate::random::Random;

/// The space of the segments in which ranks meet; cases take smaller ones.
const SPACE: u32 = 1000;

/// A rank, with its fabric and a way to meet the others: a word per rank in a segment of each.
#[derive(Debug)]
pub struct Participant {
    fabric: Fabric,
    words: LocalSegment,
    words_of: Vec<RemoteSegment>,
    meetings: Cell<u64>,
    case: RefCell<&'static str>,
    kept: RefCell<Vec<Rc<LocalSegment>>>,
}

impl Participant {
    /// This process in the suite's part `part`; connects to all others.
    pub(super) fn new(fabric: &Fabric, part: u32) -> Participant {
        let id = SegmentId::new(SPACE, part);
        let words = fabric.create(id, &Backing::Anonymous { length: 8 * u64::from(fabric.size()) });
        let words = words.expect("a segment of some words can be created");
        let words_of = fabric.membership().ranks().map(|rank| connect_to(fabric, rank, id)).collect();
        Participant {
            fabric: fabric.clone(),
            words,
            words_of,
            meetings: Cell::new(0),
            case: RefCell::new("the beginning"),
            kept: RefCell::default(),
        }
    }

    /// Lets all ranks check a case.
    pub(super) fn check(&self, case: &Case) {
        self.case.replace(case.name);
        let begun = self.fabric.now();
        (case.check)(self);
        self.meet();
        if self.rank() == Rank(0) {
            println!("  {}: {:?}", case.name, self.fabric.now().since(begun));
        }
        self.kept.borrow_mut().clear();
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.fabric.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.fabric.size()
    }

    /// What the fabric can do.
    pub fn capabilities(&self) -> &Capabilities {
        self.fabric.capabilities()
    }

    /// Whether writes to one process become visible in their order, each once: then a flag may follow its data
    /// with nothing between.
    pub fn is_ordered(&self) -> bool {
        let capabilities = self.capabilities();
        capabilities.is_reliable && capabilities.ordering == WriteOrder::Issued
    }

    /// The other ranks.
    pub fn others(&self) -> impl Iterator<Item = Rank> {
        let own = self.rank();
        self.fabric.membership().ranks().filter(move |rank| *rank != own)
    }

    /// The next rank, behind the last of them the first.
    pub fn next(&self) -> Rank {
        Rank((self.rank().0 + 1) % self.size())
    }

    /// The rank before, before the first of them the last.
    pub fn previous(&self) -> Rank {
        Rank((self.rank().0 + self.size() - 1) % self.size())
    }

    /// Numbers that differ from case to case and are known to all ranks, for what `rank` does.
    pub fn random(&self, rank: Rank) -> Random {
        let seed = self.meetings.get() << 32 | u64::from(self.size()) << 16 | u64::from(rank.0);
        Random::new(seed)
    }

    /// A new anonymous segment. It is there until all ranks have ended the case: what was seen to have arrived in
    /// it may still have to be answered to the writer.
    pub fn create(&self, id: SegmentId, length: u64) -> Rc<LocalSegment> {
        let segment = self.fabric.create(id, &Backing::Anonymous { length });
        let segment = Rc::new(segment.unwrap_or_else(|error| panic!("creating {length} bytes: {error}")));
        self.kept.borrow_mut().push(Rc::clone(&segment));
        segment
    }

    /// Connects to a segment that its owner creates, sooner or later.
    pub fn connect(&self, owner: Rank, id: SegmentId) -> RemoteSegment {
        connect_to(&self.fabric, owner, id)
    }

    /// Writes until it has arrived.
    pub fn write(&self, to: &RemoteSegment, offset: u64, bytes: &[u8]) {
        let done = self.fabric.write_checked(to.owner(), || to.write(offset, bytes));
        done.unwrap_or_else(|error| panic!("writing {} bytes to {offset}: {error}", bytes.len()));
    }

    /// Writes a word until it has arrived, and tells the peer.
    pub fn tell(&self, to: &RemoteSegment, offset: u64, word: u64) {
        self.write(to, offset, &word.to_ne_bytes());
        self.fabric.ring(to.owner()).expect("a peer can be rung");
    }

    /// Waits for `ready`, as long as anything may take.
    pub fn until(&self, what: &str, mut ready: impl FnMut() -> bool) {
        let membership = self.fabric.membership();
        let wait = Wait {
            deadline: Some(limit(&self.fabric)),
            attends: None,
            // A rank that failed is lost to the others, who need not wait any longer.
            ready: &mut || ready() || !membership.lost().is_empty() || membership.check_job().is_err(),
        };
        let waited = self.fabric.wait_until(wait);
        assert_eq!(waited, Waited::Ready, "rank {} waits in vain for {what}", self.rank());
        for rank in membership.ranks() {
            if let Err(error) = membership.check(rank) {
                panic!("rank {} waits for {what}: {error}", self.rank());
            }
        }
    }

    /// Waits until a word of a segment of this rank is at least `least`.
    pub fn until_word(&self, segment: &LocalSegment, offset: u64, least: u64) {
        let word = segment.memory().word64(offset).expect("the word is in the segment");
        // Acquire: what was written before the word is to be seen.
        let what = format!("{least} at {offset} of segment {}", segment.id());
        self.until(&what, || word.load(Ordering::Acquire) >= least);
    }

    /// Waits for all others; whatever was checked to have arrived before is visible after.
    pub fn meet(&self) {
        let number = self.meetings.get() + 1;
        self.meetings.set(number);
        for words in &self.words_of {
            self.tell(words, 8 * u64::from(self.rank().0), number);
        }
        for rank in self.fabric.membership().ranks() {
            let word = self.words.memory().word64(8 * u64::from(rank.0)).expect("there is a word per rank");
            let what = format!("rank {rank} to come to meeting {number}, after '{}'", self.case.borrow());
            // Acquire: what the other saw arriving before it came is to be seen.
            self.until(&what, || word.load(Ordering::Acquire) >= number);
        }
    }
}

/// Connects to a segment as soon as its owner has created it.
pub(super) fn connect_to(fabric: &Fabric, owner: Rank, id: SegmentId) -> RemoteSegment {
    let deadline = limit(fabric);
    loop {
        match fabric.connect(owner, id) {
            Ok(segment) => return segment,
            Err(Error::UnknownSegment { .. }) if fabric.now() < deadline => {}
            Err(error) => panic!("rank {}, connecting to {id} of rank {owner}: {error}", fabric.rank()),
        }
        fabric.back_end().sleep(Duration::from_millis(1));
    }
}
