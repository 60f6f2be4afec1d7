//! One diagram of a figure: values of several contestants over a few categories.

use std::{error::Error, ops::Range};

use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext},
    coord::{
        Shift,
        cartesian::Cartesian2d,
        ranged1d::{Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    drawing::DrawingArea,
    prelude::{Circle, IntoLogRange, PathElement, Rectangle, Text},
    style::{
        Color, FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::spread::Spread;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;
type Drawn = Result<(), Box<dyn Error>>;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The quantity of the categories.
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) categories: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) shape: Shape,
    /// Formats the numbers of the axis.
    pub(crate) tick: fn(f64) -> String,
}

/// A contestant's values, one for each category.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) color: RGBColor,
    pub(crate) values: Vec<Option<Spread>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Medians connected by lines, with their spread.
    Lines,
    /// Bars of the height of the median, with its spread.
    Bars,
    /// Ranges from the minimum to the maximum, with a mark.
    Ranges,
}

/// Maximum ratio of the values on a linear axis.
const DECADE: f64 = 12.0;

pub(crate) fn font(size: f64) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal).color(&INK)
}

pub(crate) const INK: RGBColor = RGBColor(51, 51, 51);
const GRID: RGBColor = RGBColor(225, 225, 225);

impl Panel {
    pub(crate) fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    fn values(&self) -> impl Iterator<Item = Spread> {
        self.rows.iter().flat_map(|row| row.values.iter().flatten()).copied()
    }

    /// Draws into `area`, a part of the figure `root`.
    pub(crate) fn draw(&self, root: &Area<'_>, area: &Area<'_>) -> Drawn {
        let least = self.values().map(|value| value.least).fold(f64::INFINITY, f64::min);
        let most = self.values().map(|value| value.most).fold(0.0, f64::max);
        let mut builder = ChartBuilder::on(area);
        builder
            .caption(&self.title, font(15.0))
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(66);
        let x = -0.5..self.places() - 0.5;
        if most / least > DECADE {
            let low = 10_f64.powf((least * 0.8).log10().floor());
            // With two decades the axis has three numbers; with one it would have too few.
            let y = low..(most * 1.7).max(low * 100.0);
            self.draw_on(root, builder.build_cartesian_2d(x, y.log_scale())?, low)
        } else {
            self.draw_on(root, builder.build_cartesian_2d(x, 0.0..most * 1.12)?, 0.0)
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a few")]
    fn places(&self) -> f64 {
        self.categories.len() as f64
    }

    fn draw_on<Y>(&self, root: &Area<'_>, mut chart: Chart<'_, '_, Y>, low: f64) -> Drawn
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(6)
            .y_max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(font(12.0))
            .axis_desc_style(font(13.0))
            .x_desc(self.x)
            .y_desc(self.y)
            .y_label_formatter(&|value| (self.tick)(*value))
            .draw()?;
        let centered = font(12.0).pos(Pos::new(HPos::Center, VPos::Top));
        for (place, category) in (0_u32..).zip(&self.categories) {
            let (x, y) = chart.plotting_area().map_coordinate(&(place.into(), low));
            root.draw(&Text::new(category.as_str(), (x, y + 7), &centered))?;
        }
        for (row, x) in self.rows.iter().zip(self.offsets()) {
            self.draw_row(&mut chart, row, low, x)?;
        }
        Ok(())
    }

    /// Returns the position of each row around the middle of a category.
    fn offsets(&self) -> Vec<Range<f64>> {
        let width = match self.shape {
            Shape::Lines => 0.0,
            Shape::Bars | Shape::Ranges => 0.7,
        };
        let rows = u32::try_from(self.rows.len()).expect("a few");
        let each = width / f64::from(rows);
        let start = |row: u32| f64::from(row) * each - width / 2.0;
        (0..rows).map(|row| start(row)..start(row) + each).collect()
    }

    fn draw_row<Y>(&self, chart: &mut Chart<'_, '_, Y>, row: &Row, low: f64, x: Range<f64>) -> Drawn
    where
        Y: Ranged<ValueType = f64>,
    {
        let middle = f64::midpoint(x.start, x.end);
        let color = row.color;
        let mut line = Vec::new();
        for (place, value) in (0_u32..).zip(&row.values) {
            let Some(Spread { least, median, most }) = *value else { continue };
            let at = f64::from(place) + middle;
            let from_to = |style: ShapeStyle| PathElement::new([(at, least), (at, most)], style);
            line.push((at, median));
            match self.shape {
                Shape::Bars => {
                    let corners = [
                        (f64::from(place) + x.start + 0.02, low),
                        (f64::from(place) + x.end - 0.02, median),
                    ];
                    chart.draw_series([Rectangle::new(corners, color.filled())])?;
                    chart.draw_series([from_to(INK.stroke_width(1))])?;
                }
                Shape::Lines => {
                    chart.draw_series([from_to(color.stroke_width(1))])?;
                    chart.draw_series([Circle::new((at, median), 3, color.filled())])?;
                }
                Shape::Ranges => {
                    chart.draw_series([from_to(color.stroke_width(8))])?;
                    chart.draw_series([Circle::new((at, median), 4, INK.filled())])?;
                }
            }
        }
        if self.shape == Shape::Lines {
            chart.draw_series([PathElement::new(line, color.stroke_width(2))])?;
        }
        Ok(())
    }
}
