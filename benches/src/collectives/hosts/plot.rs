//! Measured over predicted times, drawn.

use plotters::prelude::{
    ChartBuilder, Circle, DashedLineSeries, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend,
    SeriesLabelPosition, ShapeStyle, Text,
};
use plotters::style::{BLACK, Color, WHITE};

const SIZE: (u32, u32) = (900, 600);
const FONT: (&str, u32) = ("sans-serif", 15);
const TITLE_FONT: (&str, u32) = ("sans-serif", 19);

/// Okabe and Ito's: they stay apart for colour-blind readers.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

/// A barrier; times in microseconds.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) predicted: f64,
    pub(super) measured: f64,
}

/// Points by their names, a line where both times are the same, and what MPIs take across all.
pub(super) fn draw(points: &[Point], mpis: &[(&str, f64)]) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let most = |values: &mut dyn Iterator<Item = f64>| 1.15 * values.fold(1.0, f64::max);
    let across = most(&mut points.iter().map(|point| point.predicted));
    let up = most(&mut points.iter().map(|point| point.measured).chain(mpis.iter().map(|mpi| mpi.1)));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .caption("barriers over four hosts", TITLE_FONT)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..across, 0.0..up)
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc("predicted, µs")
            .y_desc("measured, µs")
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.15))
            .draw()
            .map_err(|error| failed(&error))?;
        let style = |number: usize| ShapeStyle::from(COLOURS[number % COLOURS.len()]).stroke_width(2);
        let end = across.min(up);
        chart
            .draw_series(LineSeries::new([(0.0, 0.0), (end, end)], BLACK.mix(0.4)))
            .map_err(|error| failed(&error))?
            .label("as predicted")
            .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], BLACK.mix(0.4)));
        for (number, (name, measured)) in mpis.iter().enumerate() {
            let style = style(number + 1);
            let line = [(0.0, *measured), (across, *measured)];
            chart
                .draw_series(DashedLineSeries::new(line, 6, 4, style))
                .map_err(|error| failed(&error))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style));
        }
        let marks =
            points.iter().map(|point| Circle::new((point.predicted, point.measured), 4, style(0).filled()));
        chart
            .draw_series(marks)
            .map_err(|error| failed(&error))?
            .label("svmio")
            .legend(move |(x, y)| Circle::new((x + 12, y), 4, style(0).filled()));
        let names = points.iter().map(|point| {
            Text::new(point.name.clone(), (point.predicted + 0.01 * across, point.measured + 0.02 * up), FONT)
        });
        chart.draw_series(names).map_err(|error| failed(&error))?;
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(FONT)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::{Point, draw};

    #[test]
    fn every_barrier_and_every_mpi_is_drawn() {
        let point =
            |name: &str, time: f64| Point { name: name.into(), predicted: time, measured: 2.0 * time };
        let svg = draw(&[point("linear", 100.0), point("tuned hybrid", 50.0)], &[("mpich", 130.0)]).unwrap();
        for text in ["linear", "tuned hybrid", "mpich", "predicted, µs"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
