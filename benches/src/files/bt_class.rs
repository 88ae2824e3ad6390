//! The sizes of NPB's BT.

/// A size of NPB's BT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BtClass {
    /// 12³ points, written 12 times.
    S,
    /// 24³ points; this one and the next three are written 40 times.
    W,
    /// 64³ points.
    A,
    /// 102³ points.
    B,
    /// 162³ points: 6.8 GB.
    C,
    /// 408³ points; this one and the larger ones are written 50 times: 136 GB.
    D,
    /// 1020³ points: 2.1 TB.
    E,
    /// 2560³ points: 34 TB.
    F,
}

impl BtClass {
    /// All of them.
    pub const ALL: [BtClass; 8] =
        [BtClass::S, BtClass::W, BtClass::A, BtClass::B, BtClass::C, BtClass::D, BtClass::E, BtClass::F];

    /// Its letter.
    pub fn name(self) -> &'static str {
        match self {
            BtClass::S => "S",
            BtClass::W => "W",
            BtClass::A => "A",
            BtClass::B => "B",
            BtClass::C => "C",
            BtClass::D => "D",
            BtClass::E => "E",
            BtClass::F => "F",
        }
    }

    /// The points of an edge, and how often they are written.
    pub(super) fn size(self) -> (u64, u64) {
        match self {
            BtClass::S => (12, 12),
            BtClass::W => (24, 40),
            BtClass::A => (64, 40),
            BtClass::B => (102, 40),
            BtClass::C => (162, 40),
            BtClass::D => (408, 50),
            BtClass::E => (1020, 50),
            BtClass::F => (2560, 50),
        }
    }
}
