//! Plots, as SVG and as PNG of the same picture.
//!
//! # Why not a plotting crate
//!
//! * The same report is the same bytes on every machine and in every release, since reports are
//!   compared and kept under version control. Text is therefore measured and drawn with the
//!   embedded font, and coordinates have a fixed number of decimals.
//! * Line styles and markers encode the kind of [`Evidence`], so that measured and simulated series
//!   are distinguishable in grey too, and each element carries its value as a tooltip.
//! * Text is dark on white at the contrast that WCAG asks for; only marks have series colours.
//!
//! `plotters`, the best kept crate, gives none of these: its SVG backend leaves fonts to the
//! viewer, and a style per kind of evidence with legends and tooltips would be about as much code
//! as this. The price is that there are two kinds of plot, lines and bars, and no third is planned.

mod bars;
mod font;
mod lines;
mod pdf;
mod png;
mod scale;
mod style;
mod svg;

use crate::error::{Error, Result};
use crate::evidence::Evidence;
use crate::figure::Figure;

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    title: String,
    log: bool,
    from_zero: bool,
}

impl Axis {
    /// A linear axis over the range of what is plotted. The title names the unit.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            log: false,
            from_zero: false,
        }
    }

    /// Makes the axis logarithmic.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Makes a linear axis include 0. Axes of bars always do.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }
}

/// A series of a line chart: points with error bars, joined in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    name: String,
    evidence: Evidence,
    points: Vec<(f64, Figure)>,
}

impl Line {
    /// A series of points (x, y), all of one kind of evidence. The intervals of y become error
    /// bars.
    pub fn new(
        name: impl Into<String>,
        evidence: Evidence,
        points: impl IntoIterator<Item = (f64, Figure)>,
    ) -> Self {
        Self {
            name: name.into(),
            evidence,
            points: points.into_iter().collect(),
        }
    }
}

/// A series of a bar chart: one bar per group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    name: String,
    evidence: Evidence,
    figures: Vec<Option<Figure>>,
}

impl Bars {
    /// A series of bars, all of one kind of evidence. Their intervals become error bars.
    pub fn new<F: Into<Option<Figure>>>(
        name: impl Into<String>,
        evidence: Evidence,
        figures: impl IntoIterator<Item = F>,
    ) -> Self {
        Self {
            name: name.into(),
            evidence,
            figures: figures.into_iter().map(Into::into).collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Chart {
    Lines {
        x: Axis,
        lines: Vec<Line>,
    },
    Bars {
        groups: Vec<String>,
        bars: Vec<Bars>,
    },
}

/// A level that a plot is held against.
#[derive(Clone, Debug, PartialEq)]
struct Reference {
    label: String,
    evidence: Evidence,
    value: f64,
}

/// A line chart or a bar chart.
///
/// Colour encodes the series, distinguishable for the colour-blind and in grey. Dashes and hatching
/// encode the evidence: measured series are solid, all others are not. The legend names both.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    title: String,
    y: Axis,
    chart: Chart,
    references: Vec<Reference>,
}

impl Plot {
    /// A line chart.
    ///
    /// # Errors
    /// Lines without a point, numbers that are not finite, and those that a log axis cannot show.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Result<Self> {
        let plot = Self {
            title: title.into(),
            y,
            chart: Chart::Lines { x, lines },
            references: Vec::new(),
        };
        plot.checked()
    }

    /// A bar chart: for each group a bar of each series, with its figure to two decimals above
    /// where there is room.
    ///
    /// # Errors
    /// No bar at all, a series that does not have one bar per group, numbers that are not finite,
    /// and a log axis.
    pub fn bars(
        title: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
        y: Axis,
        bars: Vec<Bars>,
    ) -> Result<Self> {
        let plot = Self {
            title: title.into(),
            y: y.from_zero(),
            chart: Chart::Bars {
                groups: groups.into_iter().map(Into::into).collect(),
                bars,
            },
            references: Vec::new(),
        };
        plot.refuse_log_bars()?;
        plot.refuse_uneven_bars()?;
        plot.checked()
    }

    /// Adds a horizontal line at `value`, such as the paper's figure.
    ///
    /// # Errors
    /// Values that are not finite, and those that a log axis cannot show.
    pub fn reference(
        mut self,
        label: impl Into<String>,
        evidence: Evidence,
        value: f64,
    ) -> Result<Self> {
        self.references.push(Reference {
            label: label.into(),
            evidence,
            value,
        });
        self.checked()
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Names and evidence of the series, as the legend has them.
    fn series(&self) -> Vec<(&str, Evidence)> {
        match &self.chart {
            Chart::Lines { lines, .. } => lines
                .iter()
                .map(|line| (line.name.as_str(), line.evidence))
                .collect(),
            Chart::Bars { bars, .. } => bars
                .iter()
                .map(|bars| (bars.name.as_str(), bars.evidence))
                .collect(),
        }
    }

    /// The kinds of evidence that the plot has, without repetition.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let series = self.series().into_iter().map(|(_, evidence)| evidence);
        let all: Vec<Evidence> = series
            .chain(self.references.iter().map(|r| r.evidence))
            .collect();
        let kinds = Evidence::ALL.into_iter();
        kinds.filter(|kind| all.contains(kind)).collect()
    }

    /// Every figure on the y axis, with the name of its series and its number in it.
    fn figures(&self) -> Vec<(&str, usize, Figure)> {
        let mut out = Vec::new();
        match &self.chart {
            Chart::Lines { lines, .. } => {
                for line in lines {
                    let points = line.points.iter().enumerate();
                    out.extend(points.map(|(i, (_, y))| (line.name.as_str(), i, *y)));
                }
            }
            Chart::Bars { bars, .. } => {
                for bars in bars {
                    let figures = bars.figures.iter().enumerate();
                    out.extend(figures.filter_map(|(i, f)| Some((bars.name.as_str(), i, (*f)?))));
                }
            }
        }
        out
    }

    fn checked(self) -> Result<Self> {
        let figures = self.figures();
        if figures.is_empty() {
            let problem = "has no point; give it a series that has one";
            return Err(Error::invalid(format!(
                "the plot \"{}\" {problem}",
                self.title
            )));
        }
        for (name, entry, figure) in figures {
            self.check(&self.y, name, entry, figure)?;
        }
        for reference in &self.references {
            self.check(&self.y, &reference.label, 0, Figure::new(reference.value))?;
        }
        if let Chart::Lines { x, lines } = &self.chart {
            for line in lines {
                for (entry, (position, _)) in line.points.iter().enumerate() {
                    self.check(x, &line.name, entry, Figure::new(*position))?;
                }
            }
        }
        Ok(self)
    }

    fn check(&self, axis: &Axis, name: &str, entry: usize, figure: Figure) -> Result<()> {
        if let Some(flaw) = figure.flaw() {
            return Err(Error::flawed(&self.title, name, entry, flaw));
        }
        let (value, _) = figure.extent();
        if axis.log && value <= 0.0 {
            return Err(Error::invalid(format!(
                "{value} of \"{name}\" cannot stand on the log axis of \"{}\"; leave it out or use a linear axis",
                self.title
            )));
        }
        Ok(())
    }

    fn refuse_log_bars(&self) -> Result<()> {
        if !self.y.log {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the bars of \"{}\" have no length on a log axis; use a linear axis, or lines instead",
            self.title
        )))
    }

    fn refuse_uneven_bars(&self) -> Result<()> {
        let Chart::Bars { groups, bars } = &self.chart else {
            return Ok(());
        };
        match bars.iter().find(|bars| bars.figures.len() != groups.len()) {
            None => Ok(()),
            Some(uneven) => Err(Error::invalid(format!(
                "the bars \"{}\" of \"{}\" are {} and there are {} groups; give one per group, `None` for a missing one",
                uneven.name,
                self.title,
                uneven.figures.len(),
                groups.len()
            ))),
        }
    }
}
