//! A sheet of charts as SVG.

use plotters::prelude::*;

use crate::Chart;

/// A plot cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(String);

/// Own background and text colours, so that light and dark viewers show the same.
const PAPER: RGBColor = RGBColor(252, 251, 248);
pub(crate) const INK: RGBColor = RGBColor(38, 36, 34);
pub(crate) const FAINT: RGBColor = RGBColor(115, 110, 104);
pub(crate) const GRID: RGBColor = RGBColor(229, 225, 217);
/// Colours of series, distinguishable with colour blindness and in greyscale.
pub(crate) const COLORS: [RGBColor; 6] = [
    RGBColor(172, 56, 36),
    RGBColor(33, 82, 126),
    RGBColor(204, 140, 20),
    RGBColor(52, 132, 96),
    RGBColor(130, 84, 150),
    RGBColor(70, 66, 62),
];

/// Size in pixels of a single chart, and of each of several.
const SINGLE_CHART: (u32, u32) = (860, 440);
const ONE_OF_SEVERAL: (u32, u32) = (520, 380);
/// Height of title and subtitle, in pixels.
const HEAD: u32 = 76;

/// Draws `charts` on one sheet, two per row, under a title and a subtitle, as SVG.
///
/// # Errors
/// Returns [`PlotError`] with the message of the drawing library.
pub fn svg(title: &str, subtitle: &str, charts: &[Chart]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, subtitle, charts).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    subtitle: &str,
    charts: &[Chart],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let (width, height) = if charts.len() == 1 { SINGLE_CHART } else { ONE_OF_SEVERAL };
    let columns = charts.len().clamp(1, 2);
    let rows = charts.len().div_ceil(columns);
    let size = (width * columns as u32, HEAD + height * rows as u32);
    let sheet = SVGBackend::with_string(svg, size).into_drawing_area();
    sheet.fill(&PAPER)?;
    let (head, body) = sheet.split_vertically(HEAD);
    head.draw(&Text::new(title, (28, 18), font(23).style(FontStyle::Bold).color(&INK)))?;
    head.draw(&Text::new(subtitle, (28, 48), font(16).color(&FAINT)))?;
    for (area, chart) in body.split_evenly((rows, columns)).iter().zip(charts) {
        chart.draw(area)?;
    }
    sheet.present()
}

pub(crate) fn font(size: u32) -> FontDesc<'static> {
    ("system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif", size).into_font()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Series};

    fn chart(title: &str, points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: title.into(),
            x: Axis::recall("recall@10", points.iter().map(|point| point.0)),
            y: Axis::rate("queries per second", points.iter().map(|point| point.1)),
            series: vec![Series::line("ours", points.clone()), Series::line("theirs", points).dashed()],
        }
    }

    #[test]
    fn a_sheet_grows_with_its_charts() {
        let points = vec![(0.9, 2e6), (0.99, 5e5)];
        let size = |charts: &[Chart]| {
            let drawn = svg("title", "subtitle", charts).unwrap();
            drawn.lines().next().unwrap_or_default().to_owned()
        };
        let of = |count: usize| size(&vec![chart("one", points.clone()); count]);
        assert!(of(1).contains("width=\"860\" height=\"516\""), "{}", of(1));
        assert!(of(3).contains("width=\"1040\" height=\"836\""), "{}", of(3));
    }

    #[test]
    fn all_text_is_on_the_sheet() {
        let charts = [chart("first", vec![(0.9, 2e6), (0.99, 5e5)]), chart("second", vec![(0.95, 1e5)])];
        let drawn = svg("Recall", "how", &charts).unwrap();
        for text in ["Recall", "how", "first", "second", "ours", "theirs", "recall@10", "0.99", "2 M"] {
            assert!(drawn.contains(&format!("\n{text}\n")), "{text} is missing");
        }
        assert_eq!(drawn.matches("<circle").count(), 3, "a dot for each point of the solid line");
    }
}
