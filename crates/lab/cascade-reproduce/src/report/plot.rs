//! Plots: line charts and bar charts, drawn by the crate `plotters` as SVG.

mod svg;

use crate::error::{Error, Result};
use crate::report::evidence::Evidence;
use crate::report::figure::Figure;

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    title: String,
    from_zero: bool,
}

impl Axis {
    /// A linear axis over the range of what is plotted. The title names the unit.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            from_zero: false,
        }
    }

    /// Makes the axis include 0. Axes of bars always do.
    #[must_use]
    pub fn from_zero(self) -> Self {
        Self {
            from_zero: true,
            ..self
        }
    }
}

/// Figures of one kind of evidence at places of the x axis; at missing ones nothing is drawn.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    evidence: Evidence,
    figures: Vec<(f64, Option<Figure>)>,
}

impl Series {
    fn points(&self) -> impl Iterator<Item = (f64, Figure)> + '_ {
        let points = self.figures.iter();
        points.filter_map(|&(x, figure)| Some((x, figure?)))
    }
}

/// A series of a line chart: points with error bars, joined in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Line(Series);

impl Line {
    /// A series of points (x, y), all of one kind of evidence. The intervals of y become error
    /// bars.
    pub fn new(
        name: impl Into<String>,
        evidence: Evidence,
        points: impl IntoIterator<Item = (f64, Figure)>,
    ) -> Self {
        Self(Series {
            name: name.into(),
            evidence,
            figures: points.into_iter().map(|(x, y)| (x, Some(y))).collect(),
        })
    }
}

/// A series of a bar chart: one bar per group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars(Series);

impl Bars {
    /// A series of bars, all of one kind of evidence. Their intervals become error bars.
    pub fn new<F: Into<Option<Figure>>>(
        name: impl Into<String>,
        evidence: Evidence,
        figures: impl IntoIterator<Item = F>,
    ) -> Self {
        let groups = (0_u32..).map(f64::from);
        Self(Series {
            name: name.into(),
            evidence,
            figures: groups.zip(figures.into_iter().map(Into::into)).collect(),
        })
    }
}

/// A line chart or a bar chart.
///
/// Colour encodes the series. Dashes and hollow marks encode the evidence: measured lines are
/// solid, all others are not. The legend names both.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    /// Whether the x axis is logarithmic.
    log: bool,
    series: Vec<Series>,
    /// Names of the groups of a bar chart.
    groups: Option<Vec<String>>,
    /// Horizontal lines, of one figure each.
    references: Vec<Series>,
}

impl Plot {
    /// A line chart.
    ///
    /// # Errors
    /// Lines without a point, and numbers that are not finite.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Result<Self> {
        let plot = Self {
            title: title.into(),
            x,
            y,
            log: false,
            series: lines.into_iter().map(|line| line.0).collect(),
            groups: None,
            references: Vec::new(),
        };
        plot.checked()
    }

    /// A bar chart: for each group a bar of each series, with its figure to two decimals above
    /// where there is room.
    ///
    /// # Errors
    /// No bar at all, a series that does not have one bar per group, and numbers that are not
    /// finite.
    pub fn bars(
        title: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
        y: Axis,
        bars: Vec<Bars>,
    ) -> Result<Self> {
        let groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        let plot = Self {
            title: title.into(),
            x: Axis::new(""),
            y: y.from_zero(),
            log: false,
            series: bars.into_iter().map(|bars| bars.0).collect(),
            groups: Some(groups),
            references: Vec::new(),
        };
        let count = plot.groups.as_ref().map_or(0, Vec::len);
        match plot.series.iter().find(|bars| bars.figures.len() != count) {
            None => plot.checked(),
            Some(uneven) => Err(Error::invalid(format!(
                "the bars \"{}\" of \"{}\" are {} and there are {count} groups; give one per group, `None` for a missing one",
                uneven.name,
                plot.title,
                uneven.figures.len(),
            ))),
        }
    }

    /// Makes the x axis logarithmic.
    ///
    /// # Errors
    /// Points at or below 0.
    pub fn log(self) -> Result<Self> {
        Self { log: true, ..self }.checked()
    }

    /// Adds a horizontal line at `value`, such as the paper's figure.
    ///
    /// # Errors
    /// Values that are not finite.
    pub fn reference(
        mut self,
        label: impl Into<String>,
        evidence: Evidence,
        value: f64,
    ) -> Result<Self> {
        let line = Line::new(label, evidence, [(1.0, Figure::new(value))]);
        self.references.push(line.0);
        self.checked()
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// All series, reference lines last.
    fn all_series(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().chain(&self.references)
    }

    /// The kinds of evidence that the plot has, without repetition.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let has = |kind: &Evidence| self.all_series().any(|series| series.evidence == *kind);
        Evidence::ALL.into_iter().filter(has).collect()
    }

    fn checked(self) -> Result<Self> {
        if self
            .series
            .iter()
            .all(|series| series.points().count() == 0)
        {
            let title = &self.title;
            return Err(Error::invalid(format!(
                "the plot \"{title}\" has no point; give it a series that has one"
            )));
        }
        for series in self.all_series() {
            for (entry, (x, y)) in series.points().enumerate() {
                if let Some(flaw) = y.flaw().or_else(|| Figure::new(x).flaw()) {
                    return Err(Error::flawed(&self.title, &series.name, entry, flaw));
                }
                if self.log && x <= 0.0 {
                    return Err(Error::invalid(format!(
                        "{x} of \"{}\" cannot stand on the log axis of \"{}\"; leave it out or use a linear axis",
                        series.name, self.title
                    )));
                }
            }
        }
        Ok(self)
    }
}
