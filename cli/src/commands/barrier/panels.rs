//! Matrices as shades of grey, side by side, as SVG: rows are who sends, columns who receives.

use std::path::Path;

use plotters::drawing::DrawingArea;
use plotters::prelude::{IntoDrawingArea, RGBColor, Rectangle, SVGBackend};
use plotters::style::{BLACK, Color, WHITE};

use crate::commands::error::CommandError;

/// The side of a panel's picture, and the room around it.
const SIDE: u32 = 320;
const MARGIN: u32 = 24;
const TITLE: u32 = 30;
const FONT: (&str, u32) = ("sans-serif", 16);

const PANELS_IN_ROW: usize = 4;

/// Cells of a panel's row that are drawn at most: more of a matrix are drawn as one, the darkest of them.
const CELLS: u32 = 128;

/// Matrices to be drawn.
#[derive(Debug, Default)]
pub(super) struct Panels {
    panels: Vec<Panel>,
}

/// One matrix.
#[derive(Debug)]
struct Panel {
    title: String,
    cells: u32,
    /// From 0, white, to 1, black; row by row.
    shades: Vec<f64>,
}

impl Panels {
    /// Adds a matrix of `size` rows, whose fields are as dark as `shade` says of row and column.
    pub(super) fn add(&mut self, title: String, size: u32, shade: impl Fn(u32, u32) -> f64) {
        let cells = size.clamp(1, CELLS);
        let first = |cell: u32| (u64::from(cell) * u64::from(size) / u64::from(cells)) as u32;
        let mut shades = vec![0.0_f64; (cells * cells) as usize];
        for row in 0..cells {
            for column in 0..cells {
                let fields = (first(row)..first(row + 1))
                    .flat_map(|row| (first(column)..first(column + 1)).map(move |column| (row, column)));
                shades[(row * cells + column) as usize] =
                    fields.map(|(row, column)| shade(row, column)).fold(0.0, f64::max);
            }
        }
        self.panels.push(Panel { title, cells, shades });
    }

    /// Adds a matrix of `size` rows whose `marked` fields, by row and column, are black: in the time that these take,
    /// however many rows there are.
    pub(super) fn add_marks(
        &mut self,
        title: String,
        size: u32,
        marked: impl IntoIterator<Item = (u32, u32)>,
    ) {
        let cells = size.clamp(1, CELLS);
        // The last cell that does not begin behind the field.
        let cell =
            |field: u32| ((u64::from(field) + 1) * u64::from(cells) - 1) as usize / size.max(1) as usize;
        let mut shades = vec![0.0_f64; (cells * cells) as usize];
        for (row, column) in marked {
            shades[cell(row) * cells as usize + cell(column)] = 1.0;
        }
        self.panels.push(Panel { title, cells, shades });
    }

    /// Draws them into `path`.
    ///
    /// # Errors
    /// [`CommandError::Plot`] where the file cannot be written.
    pub(super) fn draw(&self, path: &Path) -> Result<(), CommandError> {
        let failed = |problem: String| CommandError::Plot { path: path.to_owned(), problem };
        let mut svg = String::new();
        self.draw_into(&mut svg).map_err(failed)?;
        std::fs::write(path, svg).map_err(|problem| failed(problem.to_string()))
    }

    fn draw_into(&self, svg: &mut String) -> Result<(), String> {
        let columns = self.panels.len().clamp(1, PANELS_IN_ROW);
        let rows = self.panels.len().div_ceil(columns).max(1);
        let (width, height) = (SIDE + 2 * MARGIN, SIDE + TITLE + 2 * MARGIN);
        let size = (width * columns as u32, height * rows as u32);
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        for (panel, area) in self.panels.iter().zip(area.split_evenly((rows, columns))) {
            let area = area.margin(MARGIN, MARGIN, MARGIN, MARGIN);
            let area = area.titled(&panel.title, FONT).map_err(|error| error.to_string())?;
            panel.draw(&area)?;
        }
        area.present().map_err(|error| error.to_string())
    }
}

impl Panel {
    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), String> {
        let (width, height) = area.dim_in_pixel();
        let side = width.min(height);
        let edge = |cell: u32| (u64::from(cell) * u64::from(side) / u64::from(self.cells)) as i32;
        let cells = (0..self.cells).flat_map(|row| (0..self.cells).map(move |column| (row, column)));
        for ((row, column), shade) in cells.zip(&self.shades) {
            // Most of a step's matrix is empty.
            if *shade > 0.0 {
                let corners = [(edge(column), edge(row)), (edge(column + 1), edge(row + 1))];
                let grey = (255.0 * (1.0 - shade.clamp(0.0, 1.0))) as u8;
                let field = Rectangle::new(corners, RGBColor(grey, grey, grey).filled());
                area.draw(&field).map_err(|error| error.to_string())?;
            }
        }
        let frame = Rectangle::new([(0, 0), (side as i32, side as i32)], BLACK.stroke_width(1));
        area.draw(&frame).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{CELLS, Panels};

    #[test]
    fn fields_are_as_dark_as_told_and_large_matrices_are_drawn_coarser() {
        let mut panels = Panels::default();
        panels.add("one <field".into(), 4, |row, column| if (row, column) == (1, 2) { 1.0 } else { 0.0 });
        panels.add("large".into(), 1000, |_, _| 0.5);
        let mut svg = String::new();
        panels.draw_into(&mut svg).unwrap();
        assert!(svg.contains("one &lt;field") && svg.contains("large"), "titles");
        assert_eq!(svg.matches("fill=\"#000000\" stroke=\"none\"").count(), 1, "the one field");
        assert_eq!(svg.matches("#7F7F7F").count(), (CELLS * CELLS) as usize);
    }

    #[test]
    fn marks_are_where_fields_that_are_as_dark_would_be() {
        for size in [1, 3, CELLS - 1, CELLS, CELLS + 1, 3 * CELLS + 50] {
            let marked: Vec<_> = (0..size).map(|row| (row, (7 * row + 3) % size)).collect();
            let mut panels = Panels::default();
            panels.add(
                "fields".into(),
                size,
                |row, column| {
                    if marked[row as usize].1 == column { 1.0 } else { 0.0 }
                },
            );
            panels.add_marks("marks".into(), size, marked.iter().copied());
            assert_eq!(panels.panels[0].shades, panels.panels[1].shades, "{size}");
        }
    }
}
