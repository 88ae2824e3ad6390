//! All that is measured, with what is aimed at.

mod lacking;
mod short;

pub use lacking::{Lacking, lacking};

use super::bt_class::BtClass;
use super::place::Kind;
use super::workload::{Goal, Point, Quantity, Row, Workload};

/// The programs' names, as they can be asked for.
pub const NAMES: [&str; 9] =
    ["coll_perf", "btio", "noncontig", "ior", "small", "apart", "open-close", "first-write", "memory"];

const MEBIBYTE: u64 = 1 << 20;
/// What large contiguous blocks are to reach of what the cores copy.
const OF_COPYING: Goal = Goal::OfCopying(0.75);
/// A collective call in which nobody waits for anybody costs what an independent one does.
const REALLY_INDEPENDENT: Goal = Goal::TimesRow { times: 1.1, row: "independent" };
/// The size of blocks in IOR's hard case, bytes.
const HARD: u64 = 47_008;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// All of it.
    All,
    /// What has an aim: no curves.
    Aims,
    /// A few rows, with smaller files and aims that a busy machine reaches, too.
    Short,
    /// All of it with files so small that nothing is said of speed.
    Check,
}

impl Amount {
    /// How the command line asks for it, behind the benchmark's name.
    pub fn option(self) -> &'static str {
        match self {
            Amount::All => "",
            Amount::Aims => " -- --aims",
            Amount::Short => " -- --short",
            Amount::Check => " -- --check",
        }
    }
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Of these programs; of all where there is none.
    pub programs: Vec<String>,
    /// With so many ranks.
    pub ranks: Vec<u32>,
    /// How much of it.
    pub amount: Amount,
    /// Which of BT's classes.
    pub classes: Vec<BtClass>,
}

/// The workloads that are wanted, on a place of that kind. Curves are drawn for one kind alone: on the others, only
/// what has an aim is measured.
pub fn workloads(wanted: &Wanted, kind: Kind) -> Vec<Workload> {
    let mut all = Vec::new();
    for &ranks in &wanted.ranks {
        let bed = Bed { ranks, amount: wanted.amount };
        match wanted.amount {
            Amount::Short => all.extend(bed.short()),
            Amount::All | Amount::Aims | Amount::Check => all.extend(bed.all(kind, &wanted.classes)),
        }
    }
    let has_goals = |workload: &Workload| workload.rows.iter().any(|row| !row.goals.is_empty());
    all.retain(|workload| {
        let is_wanted =
            wanted.programs.is_empty() || wanted.programs.iter().any(|name| name == workload.program);
        is_wanted && (has_goals(workload) || (kind == Kind::Shm && wanted.amount != Amount::Aims))
    });
    all
}

/// What all workloads depend on.
#[derive(Clone, Copy)]
struct Bed {
    ranks: u32,
    amount: Amount,
}

impl Bed {
    fn all(self, kind: Kind, classes: &[BtClass]) -> Vec<Workload> {
        let mut all = vec![self.coll_perf("slowest"), self.coll_perf("fastest")];
        all.extend(self.noncontig());
        all.extend(self.ior());
        let most = self.of(128 * MEBIBYTE, 4 * MEBIBYTE);
        all.extend([4 << 10, 64 << 10, MEBIBYTE].map(|block| self.apart(block, most)));
        let small = self.small(self.of(64 * MEBIBYTE, MEBIBYTE));
        all.extend([small, self.open_close(self.of(2000, 20)), self.first_write(kind)]);
        all.extend(self.btio(classes));
        all.push(self.memory());
        all
    }

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
        let whole = self.of(64 * MEBIBYTE, 4 * MEBIBYTE / 16);
        let mut all = Vec::new();
        for place in ["file", "memory", "both"] {
            for how in ["collective", "independent"] {
                all.extend(sizes.iter().map(|piece| self.interleaved(whole, *piece, place, how)));
            }
        }
        all
    }

    fn interleaved(self, whole: u64, piece: u64, place: &str, how: &str) -> Workload {
        let own = whole / u64::from(self.ranks);
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
        let own: &[u64] =
            self.of(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, EASY, 4 * MEBIBYTE, LARGEST], &[EASY]);
        let interleaved: &[u64] = self.of(&[4 << 10, HARD, EASY], &[HARD]);
        let whole = self.of(256 * MEBIBYTE, 4 * MEBIBYTE);
        let mut all: Vec<Workload> = own.iter().map(|block| self.blocks(whole, "own", *block)).collect();
        all.extend(interleaved.iter().map(|block| self.blocks(whole, "interleaved", *block)));
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

    fn blocks(self, whole: u64, layout: &str, block: u64) -> Workload {
        let own = whole / u64::from(self.ranks);
        let own = own - own % block;
        let arguments = [layout.to_owned(), block.to_string(), own.to_string(), self.passes()];
        let place = if layout == "own" { "own region" } else { "interleaved" };
        Workload {
            title: format!("{}, {place}, independent", size(block)),
            rows: rows(own * u64::from(self.ranks), [vec![], vec![], vec![]]),
            point: Some(Point { curve: format!("ior-{layout}"), bytes: block }),
            ..self.workload("ior", arguments)
        }
    }

    fn small(self, whole: u64) -> Workload {
        const BLOCK: u64 = 4096;
        let own = whole / u64::from(self.ranks);
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

    /// Each rank by itself: what it costs to say that all do so together, and what where each is to hear of all.
    /// Each moves at most so many bytes.
    fn apart(self, block: u64, most: u64) -> Workload {
        let calls = (most / block).min(10_000);
        let row = |name| Row::new(name, Quantity::Microseconds);
        Workload {
            title: format!("a call of {}, own region, rewritten", size(block)),
            rows: vec![
                row("independent"),
                row("collective").within("independent").with_goals(vec![REALLY_INDEPENDENT]),
                row("shared").within("independent"),
            ],
            ..self.workload("apart", [block.to_string(), calls.to_string()])
        }
    }

    fn open_close(self, count: u32) -> Workload {
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
        // As many whole pieces for each rank.
        let every_rank = 8 * u64::from(self.ranks);
        let bytes = self.of(1024 * MEBIBYTE, 8 * MEBIBYTE) / every_rank * every_rank;
        let goals = vec![Goal::AtMost(MOST)];
        Workload {
            title: format!(
                "memory of a collective write of {} in pieces of 8 B, beyond the buffer",
                size(bytes)
            ),
            rows: vec![
                Row::new("beyond", Quantity::Mebibytes).with_goals(goals),
                Row::new("own", Quantity::Mebibytes),
                Row::new("mapped", Quantity::Mebibytes),
                Row::new("segments", Quantity::Mebibytes),
            ],
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
        match self.amount {
            Amount::All | Amount::Aims | Amount::Short => full,
            Amount::Check => check,
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

    fn all(amount: Amount) -> Vec<Workload> {
        let wanted =
            Wanted { programs: vec![], ranks: vec![2, 4], amount, classes: vec![BtClass::W, BtClass::A] };
        workloads(&wanted, Kind::Shm)
    }

    #[test]
    fn every_program_is_run_and_none_twice_in_the_same_way() {
        for amount in [Amount::All, Amount::Check] {
            let all = all(amount);
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
        let all = all(Amount::All);
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
        assert_eq!(goals("a call of 4 KiB", 2, "collective"), [REALLY_INDEPENDENT]);
        assert_eq!(goals("a call of 4 KiB", 2, "shared"), []);
    }

    #[test]
    fn a_short_look_asks_for_no_more_than_the_whole_one() {
        let whole = all(Amount::Aims);
        for short in all(Amount::Short) {
            let of_whole = |row: &Row| {
                let same = |other: &&Workload| other.ranks == short.ranks && other.title == short.title;
                let rows = &whole.iter().find(same).unwrap_or_else(|| panic!("no {}", short.title)).rows;
                rows.iter().find(|other| other.name == row.name).unwrap().goals.clone()
            };
            for row in &short.rows {
                for (goal, of_whole) in row.goals.iter().zip(of_whole(row)) {
                    match (goal, of_whole) {
                        (Goal::TimesStock(short), Goal::TimesStock(whole)) => assert!(*short <= whole),
                        (Goal::TimesRow { times: short, .. }, Goal::TimesRow { times: whole, .. }) => {
                            assert!(*short >= whole);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_are_written_as_people_do() {
        let sizes = [8, 4096, 47_008, 1 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["8 B", "4 KiB", "47008 B", "1 MiB", "1024 MiB"]);
    }
}
