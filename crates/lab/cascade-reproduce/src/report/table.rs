//! Tables whose columns name the evidence of their figures.

mod csv;
mod html;
mod latex;
mod markdown;
mod plain;

pub(crate) use html::badge;

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::report::evidence::Evidence;
use crate::report::figure::{Figure, Interval, fixed};

/// What the marks behind figures say.
const MARKS: &str = "= where the paper's figure is in our interval or has our digits; else, by how much ours differs.";

/// A column of figures, all of one kind of evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    header: String,
    unit: String,
    evidence: Evidence,
    decimals: usize,
    intervals: Option<String>,
    figures: Vec<Option<Figure>>,
    /// The paper's figures, if they are in the column before and of the same title.
    papers: Vec<Option<Figure>>,
}

impl Figures {
    /// A column. `figures` are [`Figure`]s, or `Option<Figure>`s where some are missing; two
    /// decimals are displayed.
    pub fn new<F: Into<Option<Figure>>>(
        header: impl Into<String>,
        evidence: Evidence,
        figures: impl IntoIterator<Item = F>,
    ) -> Self {
        Self {
            header: header.into(),
            unit: String::new(),
            evidence,
            decimals: 2,
            intervals: None,
            figures: figures.into_iter().map(Into::into).collect(),
            papers: Vec::new(),
        }
    }

    /// The unit of the figures; `""` if they have none.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Decimals to display. CSV always has all.
    #[must_use]
    pub fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }

    /// What the intervals are, such as `95 %, bootstrap over questions`. A column that has
    /// intervals must say so.
    #[must_use]
    pub fn intervals(mut self, kind: impl Into<String>) -> Self {
        self.intervals = Some(kind.into());
        self
    }

    fn has_intervals(&self) -> bool {
        self.figures
            .iter()
            .flatten()
            .any(|figure| figure.interval.is_some())
    }

    /// Header and unit.
    fn title(&self) -> String {
        match self.unit.as_str() {
            "" => self.header.clone(),
            unit => format!("{}, {unit}", self.header),
        }
    }

    /// How a figure differs from the paper's: `=` where that is within its interval or has the same
    /// digits, else in percent of it; empty where one of them is missing.
    fn mark(&self, row: usize) -> String {
        let paper = self.papers.get(row).copied().flatten();
        let (Some(ours), Some(paper)) = (self.figures[row], paper) else {
            return String::new();
        };
        let digits = |figure: Figure| fixed(figure.value, self.decimals);
        let within = |interval: Interval| (interval.low..=interval.high).contains(&paper.value);
        if digits(ours) == digits(paper) || ours.interval.is_some_and(within) {
            return "=".to_owned();
        }
        let percent = 100.0 * (ours.value / paper.value - 1.0);
        if !percent.is_finite() {
            return "≠".to_owned();
        }
        let places = usize::from(percent.abs() < 0.5);
        format!("{percent:+.places$}%")
    }

    /// The displayed digits of each figure, with its mark.
    fn shown(&self) -> impl Iterator<Item = Option<String>> {
        let marks: Vec<String> = (0..self.figures.len()).map(|row| self.mark(row)).collect();
        let widths = marks.iter().map(|mark| mark.chars().count());
        let width = widths.max().unwrap_or(0);
        self.figures.iter().zip(marks).map(move |(figure, mark)| {
            let digits = figure.as_ref()?.display(self.decimals);
            Some(match width {
                0 => digits,
                _ => format!("{digits} {mark:>width$}"),
            })
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Column {
    Labels { header: String, cells: Vec<String> },
    Figures(Figures),
}

impl Column {
    /// Header, and unit if it has one.
    fn title(&self) -> String {
        match self {
            Self::Labels { header, .. } => header.clone(),
            Self::Figures(column) => column.title(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Labels { cells, .. } => cells.len(),
            Self::Figures(column) => column.figures.len(),
        }
    }

    fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Labels { .. } => None,
            Self::Figures(column) => Some(column),
        }
    }

    /// Cells as text: labels as `label` writes them, and figures, of which `figure` gets the
    /// displayed digits if there are any.
    fn cells(
        &self,
        label: impl Fn(&str) -> String,
        figure: impl Fn(Option<String>) -> String,
    ) -> Vec<String> {
        match self {
            Self::Labels { cells, .. } => cells.iter().map(|cell| label(cell)).collect(),
            Self::Figures(column) => column.shown().map(figure).collect(),
        }
    }
}

/// Columns that stand together below one title: the paper's figures and ours. Others stand alone.
fn groups(columns: &[Column]) -> impl Iterator<Item = &[Column]> {
    let together = |a: &Column, b: &Column| {
        a.figures().is_some() && b.figures().is_some() && a.title() == b.title()
    };
    columns.chunk_by(together)
}

/// A row of columns of text.
fn row(columns: &[Vec<String>], row: usize, separator: &str) -> String {
    let cells: Vec<&str> = columns.iter().map(|cells| cells[row].as_str()).collect();
    cells.join(separator)
}

/// A table to read ([`to_text`](Self::to_text), [`to_markdown`](Self::to_markdown),
/// [`to_html`](Self::to_html), [`to_latex`](Self::to_latex)) and for programs
/// ([`to_csv`](Self::to_csv)).
///
/// It is built column by column, since a column has the evidence. All columns have one cell per
/// row, and every figure is a finite number; a column that breaks this is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    notes: Vec<String>,
}

impl Table {
    /// A table without columns.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            columns: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a column of text at the right.
    ///
    /// # Errors
    /// Another number of cells than the columns before it have, or the name of one of them.
    pub fn labels(
        self,
        header: impl Into<String>,
        cells: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self> {
        self.with(Column::Labels {
            header: header.into(),
            cells: cells.into_iter().map(Into::into).collect(),
        })
    }

    /// Adds a column of figures at the right. Behind the paper's figures of the same header and
    /// unit, each is marked with how it differs.
    ///
    /// # Errors
    /// What [`Self::labels`] refuses, invalid figures, and intervals of a kind that is not named.
    pub fn figures(self, mut column: Figures) -> Result<Self> {
        self.check(&column)?;
        let before = self.columns.last().and_then(Column::figures);
        let papers = before.filter(|before| before.evidence == Evidence::Paper);
        if let Some(papers) = papers.filter(|papers| papers.title() == column.title()) {
            column.papers.clone_from(&papers.figures);
        }
        self.with(Column::Figures(column))
    }

    /// Adds a column of figures at the right, unless all are missing.
    ///
    /// # Errors
    /// What [`Self::figures`] refuses.
    pub(crate) fn figures_if_any(self, column: Figures) -> Result<Self> {
        if column.figures.iter().any(Option::is_some) {
            self.figures(column)
        } else {
            Ok(self)
        }
    }

    /// Adds notes below the table.
    #[must_use]
    pub(crate) fn notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Adds a note below the table.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// The kinds of evidence that the table has, without repetition.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let has = |kind: &Evidence| self.all_figures().any(|column| column.evidence == *kind);
        Evidence::ALL.into_iter().filter(has).collect()
    }

    fn all_figures(&self) -> impl Iterator<Item = &Figures> {
        self.columns.iter().filter_map(Column::figures)
    }

    fn with(mut self, column: Column) -> Result<Self> {
        let rows = self.rows();
        if !self.columns.is_empty() && column.len() != rows {
            return Err(Error::invalid(format!(
                "the column \"{}\" of \"{}\" has {} cells and those before it have {rows}; give one cell per row, \
                 `None` for a missing figure",
                match &column {
                    Column::Labels { header, .. } => header,
                    Column::Figures(column) => &column.header,
                },
                self.title,
                column.len()
            )));
        }
        self.columns.push(column);
        match csv::repeated_key(&self.columns) {
            None => Ok(self),
            Some(key) => Err(Error::invalid(format!(
                "\"{}\" has two columns that CSV would name `{key}`; give one of them another header",
                self.title
            ))),
        }
    }

    fn check(&self, column: &Figures) -> Result<()> {
        for (entry, figure) in column.figures.iter().enumerate() {
            if let Some(flaw) = figure.and_then(|figure| figure.flaw()) {
                return Err(Error::flawed(&self.title, &column.header, entry, flaw));
            }
        }
        if column.has_intervals() && column.intervals.is_none() {
            return Err(Error::invalid(format!(
                "the column \"{}\" of \"{}\" has intervals and does not say of which kind; add \
                 `.intervals(\"95 %, bootstrap over questions\")` or what they are",
                column.header, self.title
            )));
        }
        Ok(())
    }

    /// The caller's notes, and what must be known of intervals and marks.
    fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let intervals = self.all_figures().filter(|column| column.has_intervals());
        let mut kinds: Vec<&str> = Vec::new();
        for kind in intervals.filter_map(|column| column.intervals.as_deref()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        notes.extend(kinds.iter().map(|kind| format!("Intervals: {kind}.")));
        if self.all_figures().any(|column| !column.papers.is_empty()) {
            notes.push(MARKS.to_owned());
        }
        notes
    }

    /// The table in pieces of at most `limit` characters, where `width` says how many a group of
    /// columns takes. Each begins with the columns that tell the rows apart, or with their numbers,
    /// and has one group of columns more at least.
    fn pieces(&self, limit: usize, width: impl Fn(&[Column]) -> usize) -> Vec<Vec<Column>> {
        let of = |columns: &[Column]| groups(columns).map(&width).sum::<usize>();
        if of(&self.columns) <= limit {
            return vec![self.columns.clone()];
        }
        let fits = |&keys: &usize| 2 * of(&self.columns[..keys]) < limit;
        let (keys, others) = match self.keys().filter(fits) {
            Some(keys) => (self.columns[..keys].to_vec(), &self.columns[keys..]),
            None => (vec![self.numbers()], self.columns.as_slice()),
        };
        let mut pieces: Vec<Vec<Column>> = Vec::new();
        for group in groups(others) {
            match pieces.last_mut() {
                Some(last) if of(last) + of(group) <= limit => last.extend_from_slice(group),
                _ => pieces.push([keys.as_slice(), group].concat()),
            }
        }
        pieces
    }

    /// How many of the first columns tell the rows apart, if text does.
    fn keys(&self) -> Option<usize> {
        let texts = self.columns.iter().map_while(|column| match column {
            Column::Labels { cells, .. } => Some(cells),
            Column::Figures(_) => None,
        });
        let texts: Vec<&Vec<String>> = texts.collect();
        let distinct = |count: &usize| {
            let key = |row| texts[..*count].iter().map(move |cells| &cells[row]);
            let mut seen = HashSet::new();
            (0..self.rows()).all(|row| seen.insert(key(row).collect::<Vec<_>>()))
        };
        (1..=texts.len()).find(distinct)
    }

    /// A column that numbers the rows.
    fn numbers(&self) -> Column {
        Column::Labels {
            header: "#".to_owned(),
            cells: (1..=self.rows()).map(|row| row.to_string()).collect(),
        }
    }
}
