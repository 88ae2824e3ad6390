//! Random programs.

use svmio_tests::Random;

use super::program::{Access, Bytes, LONGEST, Ordered, Program, Shared, Step, Together, TogetherWay, Way};
use super::span::View;

const PAGE: u64 = 1 << 12;
const SEGMENT: u64 = 1 << 16;
/// How many ranks programs are made for; with fewer, several parts are one rank's.
const RANKS: u64 = 8;

/// The program that a seed stands for.
pub(crate) fn program(seed: u64) -> Program {
    let mut maker =
        Maker { random: Random::new(seed), is_atomic: false, recent: Vec::new(), parts: Vec::new() };
    // The first numbers of neighbouring seeds are not to be alike.
    maker.random.below(1);
    let hints = maker.hints();
    let count = 2 + maker.below(11);
    Program { hints, steps: (0..count).map(|_| maker.step()).collect() }
}

struct Maker {
    random: Random,
    is_atomic: bool,
    /// The bytes of some accesses before.
    recent: Vec<Bytes>,
    /// Those of the last collective access.
    parts: Vec<Bytes>,
}

/// How many accesses others shall meet.
const RECENT: usize = 5;

impl Maker {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    /// One of these, each as often as its number says.
    fn one_of<T: Clone>(&mut self, all: &[(u64, T)]) -> T {
        let mut left = self.random.below(all.iter().map(|(often, _)| often).sum());
        for (often, what) in all {
            if left < *often {
                return what.clone();
            }
            left -= often;
        }
        all[0].1.clone()
    }

    fn often(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn hints(&mut self) -> Vec<(&'static str, &'static str)> {
        let size = self.one_of(&[(6, Some("65536")), (2, Some("131072")), (2, None)]);
        let placement = self.one_of(&[
            (4, None),
            (2, Some("round_robin")),
            (1, Some("block")),
            (1, Some("node=n2")),
            (1, Some("first_touch")),
        ]);
        let outcome = self.one_of(&[(3, None), (1, Some("shared"))]);
        let visibility = self.one_of(&[(4, None), (1, Some("immediate"))]);
        let keys = ["svm_segment_size", "svm_placement", "svm_outcome", "svm_visibility"];
        let values = [size, placement, outcome, visibility];
        keys.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn step(&mut self) -> Step {
        match self.below(100) {
            0..31 => Step::Alone(self.accesses(12)),
            31..56 => Step::Together(self.together()),
            56..59 => Step::Sync,
            59..64 => Step::Barrier,
            64..73 => Step::Exchange,
            73..78 => Step::SetSize(self.size()),
            78..80 => Step::Preallocate(self.size()),
            80..85 => {
                self.is_atomic = !self.is_atomic;
                Step::Atomic(self.is_atomic)
            }
            85..88 => {
                self.is_atomic = false;
                Step::Reopen(self.often(50))
            }
            88..94 => Step::Views(self.views()),
            94..97 => Step::Shared(self.shared()),
            _ => Step::Ordered(self.ordered()),
        }
    }

    fn accesses(&mut self, most: u64) -> Vec<(u8, Access)> {
        let count = 1 + self.below(most);
        (0..count).map(|_| (self.below(RANKS) as u8, self.access())).collect()
    }

    fn access(&mut self) -> Access {
        if self.often(7) {
            return Access::Size;
        }
        let patience = self.below(6) as u8;
        let ways = [(5, Way::At), (2, Way::Seek), (2, Way::Begun(patience)), (1, Way::BegunSeek(patience))];
        let (bytes, way) = (self.bytes(), self.one_of(&ways));
        if self.often(50) { Access::Write(bytes, way) } else { Access::Read(bytes, way) }
    }

    /// Often those of an access before: others are to read what was written, and to write over it.
    fn bytes(&mut self) -> Bytes {
        if !self.recent.is_empty() && self.often(35) {
            let bytes = self.recent[self.random.below(self.recent.len() as u64) as usize];
            return Bytes { is_spaced: self.often(15), ..bytes };
        }
        let bytes = Bytes { at: self.offset(), length: self.length(), is_spaced: self.often(15) };
        self.recent.push(bytes);
        if self.recent.len() > RECENT {
            self.recent.remove(0);
        }
        bytes
    }

    fn together(&mut self) -> Together {
        let patience = self.below(4) as u8;
        let way = match self.below(10) {
            0..5 => TogetherWay::Blocking,
            5..8 => TogetherWay::Split(if self.often(50) { self.accesses(5) } else { Vec::new() }),
            _ => TogetherWay::Begun(patience),
        };
        let parts = match self.below(10) {
            0..4 => self.parts_in_a_row(),
            4..7 => self.parts_anywhere(),
            _ => self.parts_again(),
        };
        self.parts.clone_from(&parts);
        Together { writes: self.often(55), way, is_by_pointer: self.often(40), parts }
    }

    /// Each rank's behind that of another one, around from a first one.
    fn parts_in_a_row(&mut self) -> Vec<Bytes> {
        let (at, length, first) = (self.offset(), self.length().min(LONGEST / RANKS), self.below(RANKS));
        let is_spaced = self.often(15);
        let part = |rank: u64| Bytes { at: at + (rank + first) % RANKS * length, length, is_spaced };
        (0..RANKS).map(part).collect()
    }

    fn parts_anywhere(&mut self) -> Vec<Bytes> {
        let none = Bytes { at: 0, length: 0, is_spaced: false };
        (0..RANKS).map(|_| if self.often(25) { none } else { self.bytes() }).collect()
    }

    /// Those of the collective access before, each another rank's.
    fn parts_again(&mut self) -> Vec<Bytes> {
        if self.parts.is_empty() {
            return self.parts_in_a_row();
        }
        let mut parts = self.parts.clone();
        parts.rotate_left(self.below(RANKS) as usize);
        parts
    }

    fn views(&mut self) -> Vec<View> {
        match self.below(10) {
            0..2 => vec![View::WHOLE],
            2..4 => vec![View { from: self.offset(), ..View::WHOLE }],
            4..8 => {
                let view = self.view();
                let stride = view.block * RANKS + if self.often(50) { 0 } else { self.below(40) };
                let column = |rank| View { from: view.from + rank * view.block, stride, ..view };
                (0..RANKS).map(column).collect()
            }
            _ => (0..RANKS).map(|_| self.view()).collect(),
        }
    }

    fn view(&mut self) -> View {
        let kind = self.one_of(&[(1, "columns"), (1, "vector"), (1, "resized")]);
        let block = match self.below(8) {
            0..2 => 1 + self.below(16),
            2..6 => 1 + self.below(700),
            _ => 1 + self.below(9000),
        };
        let stride = block + if self.often(50) { 1 + self.below(30) } else { 1 + self.below(5000) };
        View { from: self.offset() % SEGMENT, kind, block, stride }
    }

    fn common_view(&mut self) -> View {
        if self.often(60) { View { from: self.offset(), ..View::WHOLE } } else { self.view() }
    }

    fn shared(&mut self) -> Shared {
        let count = 1 + self.below(20);
        let mut by = |_| (self.below(RANKS) as u8, self.often(70));
        let (writers, readers) = ((0..count).map(&mut by).collect(), (0..count).map(&mut by).collect());
        let record = self.length().min(5000);
        Shared { view: self.common_view(), at: self.below(200), record, writers, readers }
    }

    fn ordered(&mut self) -> Ordered {
        let accesses = (0..1 + self.below(4)).map(|_| (self.often(60), self.often(30))).collect();
        let lengths = (0..RANKS).map(|_| if self.often(20) { 0 } else { self.length().min(9000) }).collect();
        Ordered { view: self.common_view(), at: self.below(200), accesses, lengths }
    }

    fn length(&mut self) -> u64 {
        match self.below(14) {
            0..4 => 1 + self.below(16),
            4..7 => 1 + self.below(600),
            7..9 => PAGE - 1 + self.below(3),
            9..12 => 1 + self.below(9000),
            12 => 1 + self.below(SEGMENT + 5000),
            _ => 1 + self.below(2 * SEGMENT),
        }
    }

    /// Often at or beside the border of a segment or page, and often the same.
    fn offset(&mut self) -> u64 {
        let anchor = match self.below(10) {
            0..5 => {
                let places = [0, SEGMENT, SEGMENT + PAGE, 2 * SEGMENT, 3 * SEGMENT - PAGE];
                places[self.below(places.len() as u64) as usize]
            }
            5..7 => self.below(LONGEST / SEGMENT) * SEGMENT,
            7..9 => self.below(LONGEST / PAGE) * PAGE,
            _ => self.below(LONGEST),
        };
        let beside = match self.below(6) {
            0..3 => 0,
            3..5 => self.below(19) as i64 - 9,
            _ => self.below(10_001) as i64 - 5000,
        };
        anchor.saturating_add_signed(beside).min(LONGEST - 1)
    }

    fn size(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => LONGEST,
            _ => self.offset(),
        }
    }
}
