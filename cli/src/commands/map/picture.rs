//! The picture of a file: a row of cells, each a segment or several, wrapped to the width there is.

use console::{Color, style};
use svmio_svm::StoredSegment;

use super::super::byte_count::human;
use super::super::record::FileRecord;
use super::State;

/// More rows than this are not looked at: a cell then stands for several segments.
const MOST_ROWS: u64 = 32;
/// The offset before each row, and the space after it.
const MARGIN: usize = 13;
/// The colours of the homes, in turn.
const COLOURS: [Color; 6] =
    [Color::Green, Color::Blue, Color::Yellow, Color::Magenta, Color::Cyan, Color::Red];

/// What stands for segments of a node whose store was not given.
const UNKNOWN: char = '?';

/// What the cells look like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glyphs {
    full: char,
    partial: char,
    empty: char,
}

impl Glyphs {
    const BLOCKS: Glyphs = Glyphs { full: '█', partial: '▒', empty: '·' };
    const ASCII: Glyphs = Glyphs { full: '#', partial: '+', empty: '.' };

    /// Those that a terminal with the environment's locale can show.
    pub(super) fn of_locale() -> Glyphs {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Glyphs::BLOCKS } else { Glyphs::ASCII }
    }
}

/// How a picture is to be drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Columns.
    pub(super) width: usize,
    pub(super) glyphs: Glyphs,
    pub(super) coloured: bool,
}

/// A file's segments, ready to be drawn.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    file: &'a FileRecord,
    segments: &'a [StoredSegment],
}

/// What is to be seen in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    state: State,
    /// The position of a home in the file's list.
    home: usize,
}

impl<'a> Picture<'a> {
    pub(super) fn new(file: &'a FileRecord, segments: &'a [StoredSegment]) -> Picture<'a> {
        Picture { file, segments }
    }

    /// The picture, and under it what it means.
    pub(super) fn lines(&self, layout: &Layout) -> Vec<String> {
        let columns = layout.width.saturating_sub(MARGIN).max(8);
        let per_cell = self.segments_per_cell(columns as u64);
        let cells = self.cells(per_cell);
        let mut lines: Vec<String> = cells
            .chunks(columns)
            .enumerate()
            .map(|(row, cells)| {
                let offset = (row * columns) as u64 * per_cell * self.file.segment_size;
                let cells: String = cells.iter().map(|cell| self.drawn(*cell, layout)).collect();
                format!("{:>width$}  {cells}", human(offset), width = MARGIN - 2)
            })
            .collect();
        lines.push(String::new());
        lines.push(self.legend(per_cell, layout));
        lines
    }

    /// How the cells of a home look.
    pub(super) fn mark(&self, home: usize, layout: &Layout) -> String {
        self.drawn(Cell { state: State::Full, home }, layout)
    }

    fn legend(&self, per_cell: u64, layout: &Layout) -> String {
        let Glyphs { full, partial, empty } = layout.glyphs;
        let (full, partial) = if self.is_lettered(layout) {
            ("A B ..".to_owned(), "a b ..".to_owned())
        } else {
            (full.to_string(), partial.to_string())
        };
        let scale = match per_cell {
            1 => "a cell is a segment".to_owned(),
            n => format!("a cell is {n} segments"),
        };
        let unknown =
            if self.file.is_incomplete() { format!("{UNKNOWN} store not given   ") } else { String::new() };
        format!("   {full} full   {partial} partly stored   {empty} hole   {unknown}({scale})")
    }

    /// A power of two that lets the picture end after [`MOST_ROWS`].
    fn segments_per_cell(&self, columns: u64) -> u64 {
        self.file.places().div_ceil(columns * MOST_ROWS).max(1).next_power_of_two()
    }

    fn cells(&self, per_cell: u64) -> Vec<Cell> {
        let segment_size = self.file.segment_size;
        let count = self.file.places().div_ceil(per_cell) as usize;
        // Bytes in the cell's part of the file; bytes stored there, in all and by home.
        let mut stored = vec![0u64; count];
        let mut unseen: Vec<Option<usize>> = vec![None; count];
        let mut homes: Vec<Vec<u64>> = vec![vec![0; count]; self.file.homes.len()];
        for segment in self.segments {
            let at = (u64::from(segment.index.0) / per_cell) as usize;
            let home = self.file.homes.iter().position(|home| home.node == segment.home.as_str());
            if at < count && segment.stored.is_none() {
                unseen[at] = home.or(unseen[at]);
            }
            let start = u64::from(segment.index.0) * segment_size;
            if let Some(home) = home
                && at < count
            {
                // A segment's storage beyond the end of the file fills no hole elsewhere.
                let bytes = segment.stored.unwrap_or(0).min(self.file.size.saturating_sub(start));
                stored[at] += bytes;
                homes[home][at] += bytes;
            }
        }
        (0..count)
            .map(|at| {
                let start = at as u64 * per_cell * segment_size;
                let extent = (self.file.size - start).min(per_cell * segment_size);
                if let (0, Some(home)) = (stored[at], unseen[at]) {
                    return Cell { state: State::Unknown, home };
                }
                let home = (0..homes.len()).max_by_key(|home| homes[*home][at]).unwrap_or(0);
                Cell { state: State::new(stored[at], extent), home }
            })
            .collect()
    }

    fn drawn(&self, cell: Cell, layout: &Layout) -> String {
        let glyph = match cell.state {
            State::Empty => return layout.glyphs.empty.to_string(),
            State::Unknown => UNKNOWN,
            State::Full if self.is_lettered(layout) => letter(b'A', cell.home),
            State::Partial if self.is_lettered(layout) => letter(b'a', cell.home),
            State::Full => layout.glyphs.full,
            State::Partial => layout.glyphs.partial,
        };
        match layout.coloured {
            true => style(glyph).fg(COLOURS[cell.home % COLOURS.len()]).force_styling(true).to_string(),
            false => glyph.to_string(),
        }
    }

    /// Whether letters have to tell the homes apart.
    fn is_lettered(&self, layout: &Layout) -> bool {
        !layout.coloured && self.file.homes.len() > 1
    }
}

fn letter(first: u8, home: usize) -> char {
    char::from(first + (home % 26) as u8)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use svmio_svm::SegmentIndex;

    use super::super::super::record::{RecordedPath, homes};
    use super::*;

    const SEGMENT: u64 = 1 << 16;
    const PLAIN: Layout = Layout { width: 13 + 8, glyphs: Glyphs::ASCII, coloured: false };

    fn drawn(size: u64, segments: &[(u32, &str, u64)], layout: &Layout) -> Vec<String> {
        let segments: Vec<StoredSegment> = segments
            .iter()
            .map(|(index, home, stored)| StoredSegment {
                index: SegmentIndex(*index),
                home: serde_json::from_value(serde_json::json!(home)).unwrap(),
                stored: Some(*stored),
            })
            .collect();
        let file = FileRecord {
            path: RecordedPath::of(Path::new("a")),
            id: "0".into(),
            size,
            stored: 0,
            segment_size: SEGMENT,
            segment_size_reason: None,
            placement: None,
            segments: segments.len() as u64,
            homes: homes(&segments),
        };
        Picture::new(&file, &segments).lines(layout)
    }

    #[test]
    fn a_cell_tells_how_much_of_its_segment_is_stored() {
        // The last segment has one byte of the file, and that byte's page is stored.
        let lines =
            drawn(9 * SEGMENT + 1, &[(0, "n", SEGMENT), (1, "n", 4096), (3, "n", 0), (9, "n", 4096)], &PLAIN);
        assert_eq!(lines[0], "        0 B  #+......");
        assert_eq!(lines[1], " 512.00 KiB  .#");
        assert!(lines[3].contains("# full") && lines[3].contains("a cell is a segment"), "{lines:?}");
    }

    #[test]
    fn an_empty_file_has_no_cells() {
        assert_eq!(drawn(0, &[], &PLAIN).len(), 2);
    }

    #[test]
    fn homes_are_told_apart_without_colours() {
        let segments = [(0, "n1", SEGMENT), (1, "n2", SEGMENT), (2, "n2", 1)];
        assert_eq!(drawn(3 * SEGMENT, &segments, &PLAIN)[0], "        0 B  ABb");
        let coloured = drawn(3 * SEGMENT, &segments, &Layout { coloured: true, ..PLAIN });
        assert_eq!(console::strip_ansi_codes(&coloured[0]), "        0 B  ##+");
        assert!(coloured[0].contains("\u{1b}[32m#") && coloured[0].contains("\u{1b}[34m#"), "{coloured:?}");
    }

    #[test]
    fn what_cannot_be_seen_is_marked() {
        let segment = |index, home: &str, stored| StoredSegment {
            index: SegmentIndex(index),
            home: svmio_svm::NodeName::new(home),
            stored,
        };
        let segments = [segment(0, "n1", Some(SEGMENT)), segment(1, "n2", None)];
        let file = FileRecord {
            path: RecordedPath::of(Path::new("a")),
            id: "0".into(),
            size: 3 * SEGMENT,
            stored: SEGMENT,
            segment_size: SEGMENT,
            segment_size_reason: None,
            placement: None,
            segments: 2,
            homes: homes(&segments),
        };
        let lines = Picture::new(&file, &segments).lines(&PLAIN);
        assert_eq!(lines[0], "        0 B  A?.");
        assert!(lines[2].contains("? store not given"), "{lines:?}");
    }

    #[test]
    fn a_large_file_is_drawn_with_several_segments_to_a_cell() {
        let lines = drawn(1000 * SEGMENT, &[(0, "n", SEGMENT), (999, "n", SEGMENT)], &PLAIN);
        assert_eq!(lines.len(), 250usize.div_ceil(8) + 2);
        assert!(
            lines[0].ends_with("  +.......") && lines.last().unwrap().contains("4 segments"),
            "{lines:?}"
        );
        // As large as a file can be.
        let lines = drawn(i64::MAX as u64, &[(0, "n", SEGMENT)], &PLAIN);
        assert!(lines.len() <= MOST_ROWS as usize + 2, "{}", lines.len());
    }
}
