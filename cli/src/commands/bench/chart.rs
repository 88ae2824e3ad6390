//! A diagram as an SVG file: lines over two axes, each linear or logarithmic.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    ChartBuilder, Circle, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend,
    SeriesLabelPosition, ShapeStyle,
};
use plotters::style::{BLACK, Color, WHITE};

use super::super::byte_count::human;
use super::super::destination::obstacle;
use super::super::error::CommandError;

const SIZE: (u32, u32) = (900, 560);
const FONT: (&str, u32) = ("sans-serif", 16);
/// Of the legend, in the same units as [`SIZE`].
const LEGEND_LINE: f64 = 22.0;
const LEGEND_BORDER: f64 = 30.0;
const TITLE_FONT: (&str, u32) = ("sans-serif", 20);

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(170, 150, 20),
];

/// A diagram.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) across: Axis,
    pub(crate) up: Axis,
    pub(crate) lines: Vec<Line>,
}

/// What an axis shows.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    pub(crate) labels: Labels,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly.
    Linear,
    /// By powers of a number.
    Logarithmic(u8),
}

/// How an axis's values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// As they are.
    Numbers,
    /// As sizes.
    Bytes,
}

/// One line of a diagram.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether each point is marked: not where there are very many, or none is measured.
    pub(crate) has_marks: bool,
}

impl Axis {
    /// Sizes of messages, in powers of two.
    pub(crate) fn sizes() -> Axis {
        Axis { title: "message size".into(), scale: Scale::Logarithmic(2), labels: Labels::Bytes }
    }

    /// Plain numbers.
    pub(crate) fn numbers(title: impl Into<String>, scale: Scale) -> Axis {
        Axis { title: title.into(), scale, labels: Labels::Numbers }
    }
}

impl Chart {
    /// Draws it into `path`.
    ///
    /// # Errors
    /// [`CommandError::Plot`] where the file cannot be written.
    pub(crate) fn draw(&self, path: &Path) -> Result<(), CommandError> {
        let mut svg = String::new();
        self.draw_into(&mut svg).map_err(|problem| plot_error(path, problem))?;
        std::fs::write(path, svg).map_err(|problem| plot_error(path, problem.to_string()))
    }

    fn draw_into(&self, svg: &mut String) -> Result<(), String> {
        let shown: Vec<(&Line, Vec<(f64, f64)>)> =
            self.lines.iter().map(|line| (line, self.drawable(&line.points))).collect();
        let values = |select: fn(&(f64, f64)) -> f64| {
            shown.iter().flat_map(|(_, points)| points).map(select).collect::<Vec<f64>>()
        };
        let across = Coordinate::over(&self.across, &values(|point| point.0), 0.0);
        // The legend lies above the lines.
        let legend = (self.lines.len() as f64 * LEGEND_LINE + LEGEND_BORDER) / f64::from(SIZE.1);
        let up = Coordinate::over(&self.up, &values(|point| point.1), legend);

        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, TITLE_FONT)
            .margin(16)
            .margin_right(48)
            .x_label_area_size(48)
            .y_label_area_size(84)
            .build_cartesian_2d(across, up)
            .map_err(|error| error.to_string())?;
        chart
            .configure_mesh()
            .x_desc(&self.across.title)
            .y_desc(&self.up.title)
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.15))
            .draw()
            .map_err(|error| error.to_string())?;
        for (number, (line, points)) in shown.iter().enumerate() {
            let style = ShapeStyle::from(COLOURS[number % COLOURS.len()]).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))
                .map_err(|error| error.to_string())?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style));
            if line.has_marks {
                let marks = points.iter().map(|point| Circle::new(*point, 3, style.filled()));
                chart.draw_series(marks).map_err(|error| error.to_string())?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(FONT)
            .legend_area_size(32)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())
    }

    /// Without what a logarithmic axis has no place for.
    fn drawable(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let fits =
            |axis: &Axis, value: f64| value.is_finite() && (axis.scale == Scale::Linear || value > 0.0);
        points.iter().copied().filter(|(x, y)| fits(&self.across, *x) && fits(&self.up, *y)).collect()
    }
}

/// That a diagram can be put at `path`, for somebody who is about to measure for long what is in it.
///
/// # Errors
/// [`CommandError::Plot`] where there is no directory for it, or one of its name, or nothing may be written there.
pub(crate) fn check_place(path: &Path) -> Result<(), CommandError> {
    obstacle(path).map_or(Ok(()), |obstacle| Err(plot_error(path, obstacle.to_string())))
}

fn plot_error(path: &Path, problem: String) -> CommandError {
    CommandError::Plot { path: path.to_owned(), problem }
}

/// An axis with its range, as the drawing library wants it.
struct Coordinate {
    /// Values, or their logarithms.
    linear: RangedCoordf64,
    range: Range<f64>,
    scale: Scale,
    labels: Labels,
}

impl Coordinate {
    /// Over `values`, with a share of the axis free beyond them.
    fn over(axis: &Axis, values: &[f64], free: f64) -> Coordinate {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // With nothing to show, an empty diagram.
        let (least, most) = if least <= most { (least, most) } else { (1.0, 2.0) };
        let range = match axis.scale {
            Scale::Linear => {
                let (least, most) = (least.min(0.0), most.max(0.0));
                let length = if most > least { most - least } else { 1.0 };
                // Zero is a border, unless something is below it.
                let below = if least < 0.0 { 0.05 * length } else { 0.0 };
                least - below..least + length / (1.0 - free) * 1.03
            }
            Scale::Logarithmic(base) => {
                let base = f64::from(base);
                let (low, high) = (least.log(base), most.log(base));
                // Up to the next power above what comes close to it; at least one power wide.
                let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
                base.powf(low)..base.powf(low + (high - low).max(1.0) / (1.0 - free))
            }
        };
        let linear = match axis.scale {
            Scale::Linear => range.clone(),
            Scale::Logarithmic(_) => range.start.ln()..range.end.ln(),
        };
        Coordinate { linear: linear.into(), range, scale: axis.scale, labels: axis.labels }
    }
}

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self.scale {
            Scale::Linear => self.linear.map(value, limit),
            Scale::Logarithmic(_) => self.linear.map(&value.ln(), limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear.key_points(hint),
            Scale::Logarithmic(base) => {
                let base = f64::from(base);
                let first = self.range.start.log(base).round() as i32;
                let last = (self.range.end.log(base) + 1e-9).floor() as i32;
                let room = hint.bold_points().clamp(2, 11) as i32;
                let step = (last - first).div_euclid(room).max(0) + 1;
                (first..=last).step_by(step as usize).map(|power| base.powi(power)).collect()
            }
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format_ext(&self, value: &f64) -> String {
        match self.labels {
            Labels::Bytes => human(value.max(0.0) as u64).replace(".00", ""),
            // Far below a mark's width: a sum's rounding error.
            Labels::Numbers => format!("{}", (value * 1e6).round() / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "a < b".into(),
            across: Axis::sizes(),
            up: Axis::numbers("µs", Scale::Logarithmic(10)),
            lines: vec![Line { name: "one".into(), points, has_marks: true }],
        }
    }

    #[test]
    fn a_diagram_has_its_title_axes_and_points() {
        let mut svg = String::new();
        chart(vec![(8.0, 0.2), (65536.0, 7.0), (1_048_576.0, 120.0)]).draw_into(&mut svg).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3);
        for text in ["a &lt; b", "message size", "µs", "32 KiB", "100", "one"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        for points in [vec![], vec![(0.0, 1.0)], vec![(8.0, f64::NAN)], vec![(8.0, 8.0)]] {
            let mut svg = String::new();
            chart(points).draw_into(&mut svg).unwrap();
            assert!(svg.ends_with("</svg>\n"), "{svg}");
        }
    }

    #[test]
    fn logarithmic_axes_are_marked_at_powers() {
        let coordinate = Coordinate::over(&Axis::numbers("", Scale::Logarithmic(10)), &[0.2, 90.0], 0.0);
        let points = coordinate.key_points(10);
        assert_eq!(points.len(), 4, "{points:?}");
        assert!(points.iter().zip([0.1, 1.0, 10.0, 100.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{points:?}");
        let coordinate = Coordinate::over(&Axis::sizes(), &[1.0, (1u64 << 26) as f64], 0.0);
        assert!(coordinate.key_points(10).len() <= 11);
    }
}
