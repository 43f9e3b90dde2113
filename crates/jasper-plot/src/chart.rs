//! Charts: series of points between two axes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Axis;
use crate::sheet::{COLORS, FAINT, GRID, INK, font};

/// Series of points between two axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in drawing order, each in its own colour.
    pub series: Vec<Series>,
}

/// Points with a name, joined by a line.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    labels: Vec<String>,
    dashed: bool,
}

impl Series {
    /// A line through `points` with a dot at each. An empty name has no entry in the legend.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, labels: Vec::new(), dashed: false }
    }

    /// The points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Draws the line dashed and without dots, as for results of other systems.
    #[must_use]
    pub fn dashed(self) -> Self {
        Self { dashed: true, ..self }
    }

    /// Adds a label to each point.
    #[must_use]
    pub fn labelled<S: Into<String>>(self, labels: impl IntoIterator<Item = S>) -> Self {
        Self { labels: labels.into_iter().map(Into::into).collect(), ..self }
    }
}

/// Height of a line of the legend, in pixels.
const LEGEND_LINE: i32 = 20;
/// Height of the title of a chart, in pixels.
const TITLE: i32 = 52;

impl Chart {
    /// Draws the chart on an area of the sheet.
    pub(crate) fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.draw(&Text::new(self.title.clone(), (28, 6), font(18).style(FontStyle::Bold).color(&INK)))?;
        area.draw(&Text::new(self.y.name().to_owned(), (28, 30), font(15).color(&FAINT)))?;
        let mut chart = ChartBuilder::on(area)
            .margin_left(20)
            .margin_right(40)
            .margin_top(TITLE)
            .margin_bottom(10)
            .x_label_area_size(46)
            .y_label_area_size(60)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(font(15).color(&FAINT))
            .axis_desc_style(font(15).color(&INK))
            .x_desc(self.x.name())
            .x_label_formatter(&|&value| self.x.label(value))
            .y_label_formatter(&|&value| self.y.label(value))
            .draw()?;
        for (i, series) in self.series.iter().enumerate() {
            let color = COLORS[i % COLORS.len()];
            let points = series.points.iter().copied();
            if series.dashed {
                chart.draw_series(DashedLineSeries::new(points, 6, 4, color.stroke_width(2)))?;
                continue;
            }
            chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
            chart.draw_series(points.map(|at| Circle::new(at, 3, color.filled())))?;
            for (&at, label) in series.points.iter().zip(&series.labels) {
                let style = font(15).color(&INK).pos(Pos::new(HPos::Left, VPos::Bottom));
                chart.draw_series([EmptyElement::at(at) + Text::new(label.clone(), (6, -4), style)])?;
            }
        }
        self.draw_legend(chart.plotting_area().strip_coord_spec())
    }

    /// Draws the legend in the lower left corner, since curves of speed fall to the right.
    fn draw_legend<B: DrawingBackend>(
        &self,
        area: DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let named: Vec<_> =
            self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()).collect();
        let top = area.dim_in_pixel().1 as i32 - LEGEND_LINE * named.len() as i32 - 4;
        for (line, (i, series)) in named.into_iter().enumerate() {
            let (y, color) = (top + LEGEND_LINE * line as i32, COLORS[i % COLORS.len()]);
            let stroke = |from, to| PathElement::new(vec![(from, y + 9), (to, y + 9)], color.stroke_width(2));
            if series.dashed {
                area.draw(&stroke(10, 17))?;
                area.draw(&stroke(21, 28))?;
            } else {
                area.draw(&stroke(10, 28))?;
            }
            area.draw(&Text::new(series.name.clone(), (34, y), font(15).color(&INK)))?;
        }
        Ok(())
    }
}
