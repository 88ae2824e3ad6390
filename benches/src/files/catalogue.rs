//! All that is measured, with what is aimed at.

use super::place::Kind;
use super::workload::{Goal, Point, Quantity, Row, Workload};
use crate::aims::Extent;

/// The programs' names, as they can be asked for.
pub const NAMES: [&str; 9] =
    ["coll_perf", "btio", "noncontig", "ior", "small", "apart", "open-close", "first-write", "memory"];

const MEBIBYTE: u64 = 1 << 20;
/// What large contiguous blocks are to reach of what the cores copy.
const OF_COPYING: Goal = Goal::OfCopying(0.75);

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Of these programs; of all where there is none.
    pub programs: Vec<String>,
    /// With so many ranks.
    pub ranks: Vec<u32>,
    /// Of what size.
    pub extent: Extent,
    /// Which of BT's classes.
    pub classes: Vec<BtClass>,
    /// Whether only what has an aim: no curves.
    pub only_aims: bool,
}

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
    fn size(self) -> (u64, u64) {
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

/// The workloads that are wanted, on a place of that kind. Curves are drawn for one kind alone: on the others, only
/// what has an aim is measured.
pub fn workloads(wanted: &Wanted, kind: Kind) -> Vec<Workload> {
    let mut all = Vec::new();
    for &ranks in &wanted.ranks {
        let bed = Bed { ranks, extent: wanted.extent };
        all.extend([bed.coll_perf("slowest"), bed.coll_perf("fastest")]);
        all.extend(bed.noncontig());
        all.extend(bed.ior());
        all.extend([4 << 10, 64 << 10, MEBIBYTE].map(|block| bed.apart(block)));
        all.extend([bed.small(), bed.open_close(), bed.first_write(kind)]);
        all.extend(bed.btio(&wanted.classes));
        all.push(bed.memory());
    }
    let has_goals = |workload: &Workload| workload.rows.iter().any(|row| !row.goals.is_empty());
    all.retain(|workload| {
        let is_wanted =
            wanted.programs.is_empty() || wanted.programs.iter().any(|name| name == workload.program);
        is_wanted && (has_goals(workload) || (kind == Kind::Shm && !wanted.only_aims))
    });
    all
}

/// What all workloads depend on.
#[derive(Clone, Copy)]
struct Bed {
    ranks: u32,
    extent: Extent,
}

impl Bed {
    fn coll_perf(self, split: &'static str) -> Workload {
        let edge: u64 = self.of(512, 32);
        let (title, times) = match (split, self.ranks) {
            ("slowest", ..=2) => ("contiguous blocks", (2.0, 1.5)),
            ("slowest", _) => ("contiguous blocks", (3.0, 2.5)),
            _ => ("fastest dimension split", (3.0, 3.0)),
        };
        let goals = |times| {
            let mut goals = times_stock(times);
            goals.extend((split == "slowest").then_some(OF_COPYING));
            goals
        };
        Workload {
            title: format!("coll_perf {edge}³, {title}, collective"),
            rows: rows(edge.pow(3) * 4, [vec![], goals(times.0), goals(times.1)]),
            ..self.workload("coll_perf", [edge.to_string(), split.to_owned(), self.passes()])
        }
    }

    fn noncontig(self) -> Vec<Workload> {
        let sizes: &[u64] = self.of(&[8, 64, 512, 4 << 10, 64 << 10], &[8]);
        let mut all = Vec::new();
        for place in ["file", "memory", "both"] {
            for how in ["collective", "independent"] {
                all.extend(sizes.iter().map(|piece| self.interleaved(*piece, place, how)));
            }
        }
        all
    }

    fn interleaved(self, piece: u64, place: &str, how: &str) -> Workload {
        let own = self.of(64 * MEBIBYTE, 4 * MEBIBYTE / 16) / u64::from(self.ranks);
        let own = own - own % piece;
        let times = match (piece, place, how, self.ranks) {
            (8, "file", "collective", ..=2) => Some((20.0, 4.0)),
            (8, "file", "collective", _) => Some((20.0, 20.0)),
            (8, "file", "independent", _) => Some((4.0, 4.0)),
            _ => None,
        };
        let goals = times.map_or([vec![], vec![], vec![]], |(write, read)| {
            [vec![], times_stock(write), times_stock(read)]
        });
        let arguments = [piece.to_string(), own.to_string(), place.to_owned(), how.to_owned(), self.passes()];
        let where_to = if place == "both" { "file and memory" } else { place };
        Workload {
            title: format!("noncontig, {} interleaved in {where_to}, {how}", size(piece)),
            rows: rows(own * u64::from(self.ranks), goals),
            point: Some(Point { curve: format!("noncontig-{place}-{how}"), bytes: piece }),
            ..self.workload("noncontig", arguments)
        }
    }

    fn ior(self) -> Vec<Workload> {
        const EASY: u64 = MEBIBYTE;
        const LARGEST: u64 = 16 * MEBIBYTE;
        const HARD: u64 = 47_008;
        let own: &[u64] =
            self.of(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, EASY, 4 * MEBIBYTE, LARGEST], &[EASY]);
        let interleaved: &[u64] = self.of(&[4 << 10, HARD, EASY], &[HARD]);
        let mut all: Vec<Workload> = own.iter().map(|block| self.blocks("own", *block)).collect();
        all.extend(interleaved.iter().map(|block| self.blocks("interleaved", *block)));
        for workload in &mut all {
            let (title, goals) =
                match workload.point.as_ref().map(|point| (point.curve.as_str(), point.bytes)) {
                    Some(("ior-own", EASY | LARGEST)) => ("ior easy", vec![OF_COPYING]),
                    Some(("ior-interleaved", HARD)) => ("ior hard", times_stock(1.3)),
                    _ => continue,
                };
            workload.title = format!("{title}: {}", workload.title);
            for row in workload.rows.iter_mut().filter(|row| row.name != FRESH) {
                row.goals.clone_from(&goals);
            }
        }
        all
    }

    fn blocks(self, layout: &str, block: u64) -> Workload {
        let whole = self.of(256 * MEBIBYTE, 4 * MEBIBYTE) / u64::from(self.ranks);
        let own = whole - whole % block;
        let arguments = [layout.to_owned(), block.to_string(), own.to_string(), self.passes()];
        let place = if layout == "own" { "own region" } else { "interleaved" };
        Workload {
            title: format!("{}, {place}, independent", size(block)),
            rows: rows(own * u64::from(self.ranks), [vec![], vec![], vec![]]),
            point: Some(Point { curve: format!("ior-{layout}"), bytes: block }),
            ..self.workload("ior", arguments)
        }
    }

    fn small(self) -> Workload {
        const BLOCK: u64 = 4096;
        let own = self.of(64 * MEBIBYTE, MEBIBYTE) / u64::from(self.ranks);
        let count = own / BLOCK * u64::from(self.ranks);
        let calls = |name| Row::new(name, Quantity::Calls { count });
        Workload {
            title: "small: 4 KiB write_at, read_at".to_owned(),
            rows: vec![
                calls("write").with_goals(times_stock(3.0)).within("copy-in"),
                calls("read").with_goals(times_stock(3.0)).within("copy-out"),
                calls("copy-in"),
                calls("copy-out"),
            ],
            ..self.workload("small", [own.to_string(), self.passes()])
        }
    }

    /// Each rank by itself: what it costs to say that all do so together, and what that costs where none is to wait.
    fn apart(self, block: u64) -> Workload {
        let calls = (self.of(128 * MEBIBYTE, 4 * MEBIBYTE) / block).min(10_000);
        let row = |name| Row::new(name, Quantity::Microseconds);
        Workload {
            title: format!("a call of {}, own region, rewritten", size(block)),
            rows: vec![
                row("independent"),
                row("collective").within("independent"),
                row("own").within("independent"),
            ],
            ..self.workload("apart", [block.to_string(), calls.to_string()])
        }
    }

    fn open_close(self) -> Workload {
        let count: u32 = self.of(2000, 20);
        Workload {
            title: "open and close of an existing file".to_owned(),
            rows: vec![
                Row::new("pair", Quantity::Microseconds).with_goals(times_stock(1.0)).within("floor"),
                Row::new("floor", Quantity::Microseconds),
            ],
            ..self.workload("open-close", [count.to_string()])
        }
    }

    fn first_write(self, kind: Kind) -> Workload {
        let own = self.of(256 * MEBIBYTE, 8 * MEBIBYTE) / u64::from(self.ranks) / MEBIBYTE * MEBIBYTE;
        let times = if kind == Kind::Huge { 1.0 } else { 1.2 };
        let quantity = Quantity::Bandwidth { bytes: own * u64::from(self.ranks) };
        let row = |name| Row::new(name, quantity).with_goals(times_stock(times));
        let rounds: u32 = self.of(4, 2);
        Workload {
            title:
                "first write of a new file, with open and close; and where another one was deleted before it"
                    .to_owned(),
            rows: vec![row("first"), row("again")],
            ..self.workload("first-write", [MEBIBYTE.to_string(), own.to_string(), rounds.to_string()])
        }
    }

    /// For square numbers of ranks alone. The aim is for what BT tells of itself, its I/O time and its check.
    fn btio(self, classes: &[BtClass]) -> Vec<Workload> {
        if self.ranks.isqrt().pow(2) != self.ranks {
            return Vec::new();
        }
        let row = |name, goals| Row::new(name, Quantity::Seconds).with_goals(goals);
        let of = |class: BtClass, subtype: &'static str, goals: &[Goal]| {
            let (edge, steps) = class.size();
            // Five numbers of 8 bytes a point, written and read.
            let moved = 2 * edge.pow(3) * 40 * steps;
            Workload {
                moved,
                title: format!("btio, class {}, {subtype}", class.name()),
                rows: vec![
                    row("io", goals.to_vec()).within("floor-write"),
                    row("write", vec![]),
                    row("read", goals.to_vec()).within("floor-read"),
                    row("floor-write", vec![]),
                    row("floor-read", vec![]),
                ],
                ..self.workload("btio", [edge.to_string(), subtype.to_owned(), steps.to_string()])
            }
        };
        let of_all = |class: BtClass| {
            let goals = if class == BtClass::S { vec![] } else { times_stock(3.0) };
            let full = [of(class, "full", &goals)];
            full.into_iter().chain(["simple", "epio"].map(|subtype| of(class, subtype, &[])))
        };
        let classes: &[BtClass] = self.of(classes, &[BtClass::S]);
        classes.iter().copied().flat_map(of_all).collect()
    }

    fn memory(self) -> Workload {
        const MOST: f64 = 64.0;
        let bytes = self.of(1024 * MEBIBYTE, 8 * MEBIBYTE);
        let goals = vec![Goal::AtMost(MOST)];
        Workload {
            title: format!(
                "memory of a collective write of {} in pieces of 8 B, beyond the buffer",
                size(bytes)
            ),
            rows: vec![Row::new("beyond", Quantity::Mebibytes).with_goals(goals)],
            is_compared: false,
            ..self.workload("memory", [bytes.to_string()])
        }
    }

    fn workload<const COUNT: usize>(self, program: &'static str, arguments: [String; COUNT]) -> Workload {
        Workload {
            program,
            title: String::new(),
            arguments: arguments.to_vec(),
            ranks: self.ranks,
            rows: Vec::new(),
            is_compared: true,
            point: None,
            moved: 0,
        }
    }

    /// How often a run repeats what is quick.
    fn passes(self) -> String {
        let passes: u32 = self.of(5, 1);
        passes.to_string()
    }

    fn of<T>(self, full: T, check: T) -> T {
        match self.extent {
            Extent::Full => full,
            Extent::Check => check,
        }
    }
}

const FRESH: &str = "fresh";

/// Bandwidths: of the first write, of writing again, of reading.
fn rows(bytes: u64, goals: [Vec<Goal>; 3]) -> Vec<Row> {
    let names = [FRESH, "write", "read"].into_iter();
    names
        .zip(goals)
        .map(|(name, goals)| Row::new(name, Quantity::Bandwidth { bytes }).with_goals(goals))
        .collect()
}

fn times_stock(times: f64) -> Vec<Goal> {
    vec![Goal::TimesStock(times)]
}

/// A number of bytes as it is written.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ if !bytes.is_multiple_of(1024) => format!("{bytes} B"),
        _ if !bytes.is_multiple_of(MEBIBYTE) => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / MEBIBYTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(extent: Extent) -> Vec<Workload> {
        let wanted = Wanted {
            programs: vec![],
            ranks: vec![2, 4],
            extent,
            classes: vec![BtClass::W, BtClass::A],
            only_aims: false,
        };
        workloads(&wanted, Kind::Shm)
    }

    #[test]
    fn every_program_is_run_and_none_twice_in_the_same_way() {
        for extent in [Extent::Full, Extent::Check] {
            let all = all(extent);
            for name in NAMES {
                assert!(all.iter().any(|workload| workload.program == name), "{name}");
            }
            let mut runs: Vec<String> = all
                .iter()
                .map(|workload| {
                    format!("{} {} {}", workload.program, workload.arguments.join(" "), workload.ranks)
                })
                .collect();
            runs.sort();
            let count = runs.len();
            runs.dedup();
            assert_eq!(count, runs.len());
        }
    }

    #[test]
    fn goals_stand_with_what_they_are_for() {
        let all = all(Extent::Full);
        let goals = |title: &str, ranks, row: &str| {
            let workload =
                all.iter().find(|workload| workload.ranks == ranks && workload.title.starts_with(title));
            let rows = &workload.unwrap_or_else(|| panic!("no {title}")).rows;
            rows.iter().find(|found| found.name == row).unwrap_or_else(|| panic!("no {row}")).goals.clone()
        };
        assert_eq!(goals("coll_perf 512³, contiguous", 2, "read"), [Goal::TimesStock(1.5), OF_COPYING]);
        assert_eq!(goals("coll_perf 512³, contiguous", 4, "write"), [Goal::TimesStock(3.0), OF_COPYING]);
        assert_eq!(goals("coll_perf 512³, fastest", 4, "write"), [Goal::TimesStock(3.0)]);
        assert_eq!(goals("noncontig, 8 B interleaved in file, coll", 2, "read"), [Goal::TimesStock(4.0)]);
        assert_eq!(goals("ior easy", 4, "write"), [OF_COPYING]);
        assert_eq!(goals("ior hard: 47008 B", 4, "read"), [Goal::TimesStock(1.3)]);
        assert_eq!(goals("ior hard", 4, FRESH), []);
        assert_eq!(goals("btio, class A, full", 4, "io"), [Goal::TimesStock(3.0)]);
        assert_eq!(goals("btio, class A, full", 4, "write"), []);
        assert_eq!(goals("btio, class A, full", 4, "read"), [Goal::TimesStock(3.0)]);
    }

    #[test]
    fn sizes_are_written_as_people_do() {
        let sizes = [8, 4096, 47_008, 1 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["8 B", "4 KiB", "47008 B", "1 MiB", "1024 MiB"]);
    }
}
