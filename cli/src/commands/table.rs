//! Tables for people: aligned columns under a head.

use super::error::CommandError;
use super::output::Output;

/// A table. The first column is aligned to the left, the others to the right, unless the table is one of words.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    is_of_words: bool,
}

impl Table {
    /// One of numbers.
    pub(crate) fn of_numbers<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { rows: vec![head.into_iter().map(Into::into).collect()], is_of_words: false }
    }

    /// One of words: all columns are aligned to the left.
    pub(crate) fn of_words<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { is_of_words: true, ..Table::of_numbers(head) }
    }

    /// Adds a row.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints it.
    ///
    /// # Errors
    /// [`CommandError::Output`].
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), CommandError> {
        self.lines().iter().try_for_each(|line| output.line(line))
    }

    fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| console::measure_text_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let padding = " ".repeat(width - console::measure_text_width(cell));
                if column == 0 || self.is_of_words {
                    format!("{cell}{padding}")
                } else {
                    format!("{padding}{cell}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::of_numbers(["SIZE", "µs"]);
        table.row(["8 B", "0.123"]);
        assert_eq!(table.lines(), ["SIZE     µs", "8 B   0.123"]);
        let mut table = Table::of_words(["KEY", "VALUE"]);
        table.row(["a", "b"]);
        assert_eq!(table.lines(), ["KEY  VALUE", "a    b"]);
    }
}
