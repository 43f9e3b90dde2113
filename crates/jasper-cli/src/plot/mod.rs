//! Recall against queries per second, as an SVG.

mod axis;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use jasper_data::AtomicFile;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::curve::Point;
use crate::human;
use axis::Axis;

/// What is drawn.
pub struct Plot<'a> {
    /// What was searched.
    pub title: String,
    /// How it was measured.
    pub subtitle: String,
    /// The curve.
    pub points: &'a [Point],
    /// Queries a second of an exact scan, where that was measured.
    pub exact: Option<f64>,
}

const SIZE: (u32, u32) = (860, 500);
/// Paper and ink of our own, so that viewers of any colour show the same.
const PAPER: RGBColor = RGBColor(252, 251, 248);
const INK: RGBColor = RGBColor(38, 36, 34);
const FAINT: RGBColor = RGBColor(115, 110, 104);
const GRID: RGBColor = RGBColor(229, 225, 217);
const CURVE: RGBColor = RGBColor(172, 56, 36);

impl Plot<'_> {
    /// Draws, and writes the file all at once.
    pub fn save(&self, path: &Path) -> Result<()> {
        let svg = self.svg()?;
        let write = || {
            let mut file = AtomicFile::create(path)?;
            file.write_all(svg.as_bytes())?;
            file.commit()
        };
        write().with_context(|| path.display().to_string())
    }

    fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area).map_err(|error| anyhow!("the plot cannot be drawn: {error}"))?;
        }
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
    where
        B::ErrorType: 'static,
    {
        let Some(first) = self.points.first() else { return Ok(()) };
        area.fill(&PAPER)?;
        area.draw(&Text::new(self.title.clone(), (28, 22), font(23).style(FontStyle::Bold).color(&INK)))?;
        area.draw(&Text::new(self.subtitle.clone(), (28, 50), font(16).color(&FAINT)))?;
        area.draw(&Text::new("queries per second", (28, 84), font(16).color(&INK)))?;

        let recalls = Axis::of_recall(self.points.iter().map(|point| point.recall));
        let rates = Axis::of_rate(self.points.iter().map(|point| point.queries_per_second).chain(self.exact));
        let mut chart = ChartBuilder::on(area)
            .margin_left(28)
            .margin_right(48)
            .margin_top(112)
            .margin_bottom(14)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(recalls, rates)?;
        chart
            .configure_mesh()
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(font(16).color(&FAINT))
            .axis_desc_style(font(16).color(&INK))
            .x_desc(format!("recall@{}", first.k))
            .x_label_formatter(&Axis::recall_label)
            .y_label_formatter(&Axis::rate_label)
            .draw()?;

        if let Some(exact) = self.exact {
            let ends = chart.x_range();
            let line = [(ends.start, exact), (ends.end, exact)];
            chart.draw_series(DashedLineSeries::new(line, 5, 5, FAINT.stroke_width(1)))?;
            let label = format!("looking at every vector: {}", human::rate(exact));
            let style = font(16).color(&FAINT).pos(Pos::new(HPos::Left, VPos::Bottom));
            chart.draw_series([EmptyElement::at((ends.start, exact)) + Text::new(label, (8, -6), style)])?;
        }
        let curve: Vec<_> =
            self.points.iter().map(|point| (point.recall, point.queries_per_second)).collect();
        chart.draw_series(LineSeries::new(curve, CURVE.stroke_width(2)))?;
        for (i, point) in self.points.iter().enumerate() {
            let name = if i == 0 { "beam width " } else { "" };
            let label = format!("{name}{}", point.beam_width);
            let style = font(16).color(&INK).pos(Pos::new(HPos::Left, VPos::Bottom));
            let at = EmptyElement::at((point.recall, point.queries_per_second));
            chart.draw_series([at
                + Circle::new((0, 0), 4, CURVE.filled())
                + Text::new(label, (7, -5), style)])?;
        }
        area.present()
    }
}

fn font(size: u32) -> FontDesc<'static> {
    ("system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif", size).into_font()
}
