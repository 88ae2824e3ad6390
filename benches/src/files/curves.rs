//! Bandwidth over the size of pieces, drawn.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::{
    ChartBuilder, Circle, DashedLineSeries, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend,
    SeriesLabelPosition, ShapeStyle,
};
use plotters::style::{BLACK, Color, WHITE};

use super::outcome::Outcome;

const SIZE: (u32, u32) = (900, 600);
const FONT: (&str, u32) = ("sans-serif", 15);
const TITLE_FONT: (&str, u32) = ("sans-serif", 19);

/// Okabe and Ito's: they stay apart for colour-blind readers.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// One diagram: the rows of one name, of the workloads of one curve.
#[derive(Debug, Default, PartialEq)]
struct Diagram {
    title: String,
    /// For each keeper, MB/s over bytes.
    lines: Vec<(String, Vec<(f64, f64)>)>,
    /// What the cores copied meanwhile.
    copying: Vec<(f64, f64)>,
}

/// Draws all curves that have more than one point into a directory, and tells into which files, whose names begin with
/// `table`.
///
/// # Errors
/// Where a file cannot be written.
pub fn draw(outcomes: &[Outcome], directory: &Path, table: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for (name, diagram) in diagrams(outcomes) {
        if diagram.copying.len() < 2 {
            continue;
        }
        let file = directory.join(format!("{table}-{name}.svg"));
        let mut svg = String::new();
        diagram.draw_into(&mut svg)?;
        std::fs::write(&file, svg).map_err(|error| format!("{}: {error}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}

fn diagrams(outcomes: &[Outcome]) -> BTreeMap<String, Diagram> {
    let mut diagrams: BTreeMap<String, Diagram> = BTreeMap::new();
    for outcome in outcomes {
        let Some(point) = &outcome.workload.point else { continue };
        let (ranks, on, bytes) = (outcome.workload.ranks, outcome.kind.name(), point.bytes as f64);
        for (number, row) in outcome.workload.rows.iter().enumerate() {
            let name = format!("{}-{}-{ranks}-{on}", point.curve, row.name);
            let diagram = diagrams.entry(name).or_insert_with(|| Diagram {
                title: format!("{}, {}, {ranks} ranks, {on}", point.curve.replace('-', ", "), row.name),
                lines: outcome.runs.iter().map(|(keeper, _)| (keeper.name(), Vec::new())).collect(),
                copying: Vec::new(),
            });
            diagram.copying.push((bytes, outcome.copying));
            for (keeper, (_, points)) in diagram.lines.iter_mut().enumerate() {
                let speed = outcome.of_keeper(keeper, number);
                if speed.is_finite() && speed > 0.0 {
                    points.push((bytes, speed));
                }
            }
        }
    }
    diagrams
}

impl Diagram {
    fn draw_into(&self, svg: &mut String) -> Result<(), String> {
        let points = || self.lines.iter().flat_map(|(_, points)| points).chain(&self.copying).copied();
        let across = range(points().map(|point| point.0));
        let up = range(points().map(|point| point.1));
        // The legend lies above the lines.
        let up = up.start..up.end * 8.0;
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, TITLE_FONT)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(across.log_scale().base(2.0), up.log_scale())
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc("size of a piece or block")
            .y_desc("MB/s")
            .x_label_formatter(&|bytes| labelled(*bytes))
            .y_label_formatter(&|speed| format!("{speed}"))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.15))
            .draw()
            .map_err(|error| failed(&error))?;
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let style = ShapeStyle::from(COLOURS[number % COLOURS.len()]).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))
                .map_err(|error| failed(&error))?
                .label(name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style));
            let marks = points.iter().map(|point| Circle::new(*point, 3, style.filled()));
            chart.draw_series(marks).map_err(|error| failed(&error))?;
        }
        let style = BLACK.mix(0.6).stroke_width(2);
        chart
            .draw_series(DashedLineSeries::new(self.copying.iter().copied(), 6, 4, style))
            .map_err(|error| failed(&error))?
            .label("memcpy on all cores that ranks have")
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(FONT)
            .legend_area_size(32)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))
    }
}

/// From the least to the most of some values, with a little room.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| (least.min(value), most.max(value)));
    if least <= most { least * 0.8..most * 1.25 } else { 1.0..10.0 }
}

fn labelled(bytes: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1_048_576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit).unwrap_or(&UNITS[2]);
    format!("{} {}", bytes / unit.0, unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_has_its_lines_and_the_limit() {
        let line = |name: &str, speed| (name.to_owned(), vec![(8.0, speed), (4096.0, speed * 20.0)]);
        let diagram = Diagram {
            title: "noncontig".to_owned(),
            lines: vec![line("svmio", 800.0), line("ufs", 100.0)],
            copying: vec![(8.0, 20_000.0), (4096.0, 21_000.0)],
        };
        let mut svg = String::new();
        diagram.draw_into(&mut svg).unwrap();
        assert_eq!(svg.matches("<circle").count(), 4);
        for text in ["noncontig", "svmio", "ufs", "memcpy", "MB/s", "1 KiB"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn sizes_are_written_with_their_units() {
        assert_eq!([8.0, 2048.0, 1_048_576.0].map(labelled), ["8 B", "2 KiB", "1 MiB"]);
    }
}
