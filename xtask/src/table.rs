//! Tables for the terminal.

/// Rows of cells under a head, columns aligned, the first to the left and numbers by hand.
pub(crate) fn render(head: &[String], rows: &[Vec<String>]) -> String {
    let columns = head.len();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if column + 1 < columns {
                text.push_str(&format!("{cell:<width$}  "));
            } else {
                text.push_str(cell);
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(head);
    let total = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
    text.push_str(&"-".repeat(total));
    text.push('\n');
    for row in rows {
        text.push_str(&line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let head = ["a", "bb"].map(String::from);
        let rows = [vec!["long".to_owned(), "x".to_owned()], vec!["s".to_owned(), "y".to_owned()]];
        assert_eq!(render(&head, &rows), "a     bb\n--------\nlong  x\ns     y\n");
    }
}
