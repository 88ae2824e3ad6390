//! What was measured, as tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Kind, MEGABITS, Miss, Rates, Read, THREADS, Times, Writes};
use crate::aims::Aim;
use crate::interleaved::median;

/// Faults between two nodes.
#[derive(Debug)]
pub struct Faults {
    /// How the nodes reach each other.
    pub bed: &'static str,
    /// What each run told.
    pub runs: Vec<BTreeMap<Kind, Times>>,
}

/// Going through a file of the other host.
#[derive(Debug)]
pub struct Scan {
    /// How long it is, bytes.
    pub bytes: u64,
    /// MB/s in each run.
    pub mapping: Vec<f64>,
    /// MB/s that iperf3 got just before.
    pub line: Vec<f64>,
}

/// Pages here and there.
#[derive(Debug)]
pub struct Random {
    /// How the nodes reach each other.
    pub bed: &'static str,
    /// The most pages that the link carries in a second, where there is one.
    pub line: Option<f64>,
    /// What each run told.
    pub runs: Vec<Rates>,
}

/// Writes to the other node.
#[derive(Debug)]
pub struct Straight {
    /// How the nodes reach each other.
    pub bed: &'static str,
    /// What each run told.
    pub runs: Vec<Writes>,
}

/// Reads of bare memory.
#[derive(Debug)]
pub struct Bare {
    /// How the nodes reach each other.
    pub bed: &'static str,
    /// What each run told.
    pub runs: Vec<Vec<Read>>,
}

/// Reads of which nothing is cached.
#[derive(Debug)]
pub struct Misses {
    /// How the nodes reach each other.
    pub bed: &'static str,
    /// What each run told.
    pub runs: Vec<Vec<Miss>>,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Kernel,
        Kind::InPlace,
        Kind::Bare,
        Kind::Zeros,
        Kind::BareOnOneCore,
        Kind::ZerosOnOneCore,
        Kind::BareOnAnother,
        Kind::ZerosOnAnother,
        Kind::Store,
        Kind::Message,
        Kind::BareAsking,
        Kind::Remote,
        Kind::BareAskingOnOneCore,
        Kind::RemoteOnOneCore,
        Kind::BareAskingOnAnother,
        Kind::RemoteOnAnother,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "the kernel's own: a mapped file's page that is in memory",
            Kind::InPlace => "a mapping's page of this node, in place",
            Kind::Bare => "a bare thread with userfaultfd",
            Kind::BareOnOneCore => "a bare thread, on the core of the thread that waits",
            Kind::BareOnAnother => "a bare thread, on another core",
            Kind::BareAsking => "a bare thread with userfaultfd that sends such a message for each page",
            Kind::BareAskingOnOneCore => "such a thread, on the core of the thread that waits",
            Kind::BareAskingOnAnother => "such a thread, on another core",
            Kind::Zeros => "a mapping's page that nobody has written",
            Kind::ZerosOnOneCore => "such a page, served on the core of the thread that waits",
            Kind::ZerosOnAnother => "such a page, served on another core",
            Kind::Store => "the first store into a mapping's page",
            Kind::Message => "a bare message and its answer of 4 KiB",
            Kind::Remote => "a mapping's page of the other node",
            Kind::RemoteOnOneCore => "such a page, put in place on the core of the thread that waits",
            Kind::RemoteOnAnother => "such a page, put in place on another core",
        }
    }
}

impl Faults {
    /// Medians over the runs.
    fn of(&self, kind: Kind) -> Times {
        let of =
            |number: fn(&Times) -> f64| median(self.runs.iter().map(|run| number(&run[&kind])).collect());
        Times { median: of(|times| times.median), p99: of(|times| times.p99) }
    }

    /// As a table in Markdown; microseconds.
    pub fn markdown(&self) -> String {
        let mut text = format!("| a fault, µs ({}) | median | 99th percentile |\n|--|--:|--:|\n", self.bed);
        for kind in Kind::ALL {
            let Times { median, p99 } = self.of(kind);
            text += &format!("| {} | {:.2} | {:.2} |\n", kind.name(), median * 1e6, p99 * 1e6);
        }
        text
    }

    /// What is aimed at.
    pub fn aims(&self) -> Vec<Aim> {
        let median = |kind| self.of(kind).median;
        let aim = |what: &str, own, bare| {
            Aim::at_most(format!("{}: {what}", self.bed), median(own) / median(bare), 1.3, 5.0)
        };
        // Where the kernel chooses, it does so for each anew, and that is what would be compared.
        vec![
            aim(
                "a fault served here, of the bare one, both on one core",
                Kind::ZerosOnOneCore,
                Kind::BareOnOneCore,
            ),
            aim("likewise, both on another core", Kind::ZerosOnAnother, Kind::BareOnAnother),
            aim(
                "a fault served from there, of the bare one with a message's way and back, both on one core",
                Kind::RemoteOnOneCore,
                Kind::BareAskingOnOneCore,
            ),
            aim("likewise, both on another core", Kind::RemoteOnAnother, Kind::BareAskingOnAnother),
        ]
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bed": self.bed, "runs": self.runs, "aims": aims(&self.aims()) })
    }
}

impl Scan {
    /// As a table in Markdown.
    pub fn markdown(&self) -> String {
        let (mapping, line) = (median(self.mapping.clone()), median(self.line.clone()));
        format!(
            "| {} MiB of the other host, {MEGABITS} Mbit/s | MB/s |\n|--|--:|\n| a mapping, page by page | {mapping:.1} |\n\
             | iperf3 | {line:.1} |\n",
            self.bytes >> 20
        )
    }

    /// What is aimed at.
    pub fn aims(&self) -> Vec<Aim> {
        let share = median(self.mapping.clone()) / median(self.line.clone());
        vec![Aim::at_least("going through the other host's file, of iperf3's rate", share, 0.9, 0.6)]
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bytes": self.bytes, "mapping": self.mapping, "iperf3": self.line, "aims": aims(&self.aims()) })
    }
}

impl Random {
    fn of(&self, number: fn(&Rates) -> f64) -> f64 {
        median(self.runs.iter().map(number).collect())
    }

    /// As a table in Markdown; pages a second.
    pub fn markdown(&self) -> String {
        let row = |what: &str, one: f64, many: f64| {
            format!("| {what} | {one:.0} | {many:.0} | {:.2} |\n", many / one)
        };
        let mut text = format!(
            "| pages a second, here and there ({}) | one at a time | {THREADS} | |\n|--|--:|--:|--:|\n",
            self.bed
        );
        text += &row("a mapping, by so many threads", self.of(|r| r.one), self.of(|r| r.many));
        text += &row("bare messages", self.of(|r| r.one_message), self.of(|r| r.many_messages));
        if let Some(line) = self.line {
            text += &format!("| what the link carries | | {line:.0} | |\n");
        }
        text
    }

    /// What is aimed at: over a link, six times what one gets, or nearly all that the link carries where that is less, or
    /// bare messages get where processors are slower than the link. Where there is none, the cores are the bound.
    pub fn aims(&self) -> Vec<Aim> {
        const TIMES: f64 = 6.0;
        const NEARLY_ALL: f64 = 0.9;
        let (one, many, messages) = (self.of(|r| r.one), self.of(|r| r.many), self.of(|r| r.many_messages));
        let aim = |line: f64| {
            let (most, whose) = match messages < line {
                true => (messages, "bare messages get"),
                false => (line, "the link carries"),
            };
            if NEARLY_ALL * most < TIMES * one {
                let what = format!("{}: {THREADS} threads, of the pages that {whose}", self.bed);
                Aim::at_least(what, many / most, NEARLY_ALL, 0.4)
            } else {
                let what = format!("{}: {THREADS} threads, times one's pages", self.bed);
                Aim::at_least(what, many / one, TIMES, 0.7)
            }
        };
        self.line.into_iter().map(aim).collect()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bed": self.bed, "line": self.line, "runs": self.runs, "aims": aims(&self.aims()) })
    }
}

impl Straight {
    /// Bytes, and µs of each way and of what svmio chooses.
    fn rows(&self) -> Vec<(u64, [f64; 3])> {
        let row = |(at, first): (usize, &super::Write)| {
            let of = |number: fn(&super::Write) -> f64| {
                1e6 * median(self.runs.iter().map(|run| number(&run.writes[at])).collect())
            };
            (first.bytes, [of(|w| w.cached), of(|w| w.straight), of(|w| w.chosen)])
        };
        self.runs[0].writes.iter().enumerate().map(row).collect()
    }

    /// From where on straight is never slower, bytes.
    fn crossing(&self) -> Option<u64> {
        let rows = self.rows();
        let longer = rows.iter().rev().take_while(|(_, [cached, straight, _])| straight <= cached);
        longer.last().map(|(bytes, _)| *bytes)
    }

    /// As a table in Markdown; microseconds.
    pub fn markdown(&self) -> String {
        let bounds: Vec<String> = self.runs.iter().map(|run| run.bound.to_string()).collect();
        let mut text = format!(
            "| a write to the other node, µs ({}) | by the cache | straight | as chosen |\n|--|--:|--:|--:|\n",
            self.bed
        );
        for (bytes, [cached, straight, chosen]) in self.rows() {
            text += &format!("| {bytes} B | {cached:.1} | {straight:.1} | {chosen:.1} |\n");
        }
        let crossing = self.crossing().map_or("none".to_owned(), |bytes| format!("{bytes} B"));
        text + &format!(
            "\nStraight from {crossing} on is never slower. Chosen: from {} B on.\n",
            bounds.join(", ")
        )
    }

    /// What is aimed at.
    pub fn aims(&self) -> Vec<Aim> {
        let of_better = |(_, [cached, straight, chosen]): &(u64, [f64; 3])| chosen / cached.min(*straight);
        let worst = self.rows().iter().map(of_better).fold(0.0, f64::max);
        let what = format!("{}: a write as chosen, times the better way, the worst of all sizes", self.bed);
        vec![Aim::at_most(what, worst, 1.5, 10.0)]
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bed": self.bed, "runs": self.runs, "crossing": self.crossing(), "aims": aims(&self.aims()) })
    }
}

impl Bare {
    /// As a table in Markdown; microseconds.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "| bare memory of the other node, µs ({}) | read by the fabric | written by the other one | |\n\
             |--|--:|--:|--:|\n",
            self.bed
        );
        for (at, first) in self.runs[0].iter().enumerate() {
            let of = |number: fn(&Read) -> f64| {
                1e6 * median(self.runs.iter().map(|run| number(&run[at])).collect())
            };
            let (native, written) = (of(|read| read.native), of(|read| read.written));
            text +=
                &format!("| {} B | {native:.1} | {written:.1} | {:.2} |\n", first.bytes, written / native);
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bed": self.bed, "runs": self.runs })
    }
}

impl Misses {
    /// As a table in Markdown; microseconds.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "| a read of the other node's, nothing cached, µs ({}) | asked | native | as chosen |\n|--|--:|--:|--:|\n",
            self.bed
        );
        for (at, Miss { bytes, is_in_sequence, .. }) in self.runs[0].iter().enumerate() {
            let of = |number: fn(&Miss) -> f64| {
                1e6 * median(self.runs.iter().map(|run| number(&run[at])).collect())
            };
            let order = if *is_in_sequence { "in sequence" } else { "here and there" };
            let (asked, native, chosen) = (of(|m| m.asked), of(|m| m.native), of(|m| m.chosen));
            text += &format!("| {} KiB {order} | {asked:.1} | {native:.1} | {chosen:.1} |\n", bytes >> 10);
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "bed": self.bed, "runs": self.runs })
    }
}

fn aims(aims: &[Aim]) -> Value {
    let of = |aim: &Aim| json!({ "what": aim.what, "measured": aim.measured, "aim": aim.aim });
    Value::Array(aims.iter().map(of).collect())
}
