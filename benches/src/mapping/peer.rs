//! Bare messages: what the fabric by itself takes to bring a page.

use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank};

use super::bare::PAGE;

/// A port that nothing else takes.
const PORT: Port = Port::new(9).expect("there are more ports");
/// About as long as what is asked for a page.
const QUESTION: [u8; 48] = [1; 48];
/// Nothing more is asked.
const END: [u8; 1] = [0];

/// A process that asks, or one that answers.
pub(super) struct Peer(Messenger);

impl Peer {
    /// # Panics
    /// Where the fabric fails, as in all that follows.
    pub(super) fn open(fabric: &Fabric) -> Peer {
        Peer(Messenger::open(fabric, PORT, &MessageSettings::default()).expect("a port can be opened"))
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
}
