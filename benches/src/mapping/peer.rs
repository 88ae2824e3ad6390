//! Bare messages: what the fabric by itself takes to bring a page.

use svmio_transport::back_end::Backing;
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, LocalSegment, Rank, RemoteSegment, SegmentId};

use super::bare::PAGE;
use super::content;

/// A port that nothing else takes.
const PORT: Port = Port::new(9).expect("there are more ports");
/// About as long as what is asked for a page.
const QUESTION: [u8; 48] = [1; 48];
/// Nothing more is asked.
const END: [u8; 1] = [0];

/// A process that asks, or one that answers.
pub(super) struct Peer(Messenger, Fabric);

impl Peer {
    /// # Panics
    /// Where the fabric fails, as in all that follows.
    pub(super) fn open(fabric: &Fabric) -> Peer {
        let port = Messenger::open(fabric, PORT, &MessageSettings::default());
        Peer(port.expect("a port can be opened"), fabric.clone())
    }

    /// Answers until nothing more is asked.
    pub(super) fn answer(&self) {
        let (page, mut question) = ([2; PAGE], [0; PAGE]);
        loop {
            // As agents receive.
            let (from, length) = self.0.receive_any(&mut question).expect("questions come");
            if length == END.len() {
                return;
            }
            self.0.send(from, &page).expect("answers go");
        }
    }

    pub(super) fn end(&self) {
        self.0.send(Rank(1), &END).expect("the end can be told");
    }

    /// Asks, and has the answer.
    pub(super) fn ask(&self) {
        self.begin();
        self.finish();
    }

    /// Asks.
    pub(super) fn begin(&self) {
        self.0.send(Rank(1), &QUESTION).expect("questions go");
    }

    /// Has an answer.
    pub(super) fn finish(&self) {
        let mut page = [0; PAGE];
        let (_, length) = self.0.receive_any(&mut page).expect("answers come");
        assert_eq!(length, PAGE);
    }

    /// Memory of this process and of the other one, each of which can reach both. Both `meet` in between.
    pub(super) fn window(&self, meet: &dyn Fn()) -> Window {
        let (Peer(_, fabric), length) = (self, LONGEST_READ);
        let own = fabric.create(WINDOW, &Backing::Anonymous { length }).expect("there is memory");
        let mut bytes = vec![3; length as usize];
        content::stamp(&mut bytes, 0, Window::HELD);
        own.memory().write(0, &bytes).expect("it lies within");
        meet();
        let other = fabric.connect(Rank(1 - fabric.rank().0), WINDOW).expect("the other one is there");
        Window { other, own, bytes }
    }

    /// Has the other one do something of which three numbers tell, and waits until it is done.
    pub(super) fn have_done(&self, numbers: [u64; 3]) {
        let question = numbers.map(u64::to_le_bytes);
        self.0.send(Rank(1), question.as_flattened()).expect("questions go");
        let (_, length) = self.0.receive_any(&mut [0; 64]).expect("answers come");
        assert_eq!(length, END.len());
    }

    /// Does what is asked for, of which three numbers tell, until nothing more is.
    pub(super) fn do_as_asked(&self, mut act: impl FnMut([u64; 3])) {
        let mut question = [0; 24];
        loop {
            let (from, length) = self.0.receive_any(&mut question).expect("questions come");
            if length == END.len() {
                return;
            }
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| question[8 * at + byte]));
            act([0, 1, 2].map(number));
            self.0.send(from, &END).expect("answers go");
        }
    }
}

/// The most that is read at a time, bytes.
pub(super) const LONGEST_READ: u64 = 1 << 20;

/// Nothing else has such an id.
const WINDOW: SegmentId = SegmentId::new(0x6265_6e63, 0);

/// Memory of both processes.
pub(super) struct Window {
    other: RemoteSegment,
    own: LocalSegment,
    bytes: Vec<u8>,
}

impl Window {
    /// The turn of what each process holds before the other one writes there.
    pub(super) const HELD: u64 = 1;

    /// Reads the first bytes of the other one's.
    pub(super) fn read(&self, into: &mut [u8]) {
        self.other.read(0, into).expect("it can be read");
    }

    /// Writes the first bytes of the other one's, as of this turn.
    pub(super) fn write(&mut self, bytes: usize, turn: u64) {
        let bytes = &mut self.bytes[..bytes];
        content::stamp(bytes, 0, turn);
        self.other.write(0, bytes).expect("it can be written");
    }

    /// Looks whether the first bytes of the own one are of this turn.
    pub(super) fn check(&self, bytes: u64, turn: u64) {
        for at in (0..bytes).step_by(PAGE) {
            let mut word = [0; 8];
            self.own.memory().read(at, &mut word).expect("it lies within");
            content::check(&word, at / PAGE as u64, |_| turn);
        }
    }
}
