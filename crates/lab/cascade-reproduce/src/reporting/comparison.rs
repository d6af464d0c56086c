//! Cascades beside each other, by SWI and by walltime.

use cascade_report::{Axis, Bars, Evidence, Figure, Figures, Plot, Table};
use cascade_traces::CostTable;

use super::data::{Data, Ratio, Sheet, INTERVALS};
use super::{notes, Made};
use crate::variant::{names, Setting};
use crate::{Metric, Result, Row};

/// A line of a table: one variant of a row, or a row that has none.
struct Line<'a> {
    row: &'a Row,
    variant: Option<usize>,
    /// Who chose the hyperparameters.
    chosen: String,
    /// The paper's figure.
    paper: Option<f64>,
}

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut made = Made::default();
    let mut columns = Vec::new();
    for suite in &data.plan.suites {
        let sheet = data.of_dataset(&suite.dataset);
        if sheet.prompts() == 0 {
            continue;
        }
        for &metric in &data.definition.metrics {
            columns.extend(add(&mut made, data, &sheet, &suite.dataset, metric)?);
        }
    }
    if made.tables.is_empty() {
        made.summary = "No prompt has been answered by all cascades yet.".to_owned();
    }
    // Of one column, the only table is the overview.
    if columns.len() > 1 {
        made.overview = Some(overview(data, columns)?);
    }
    Ok(made)
}

/// The best of each row, by all metrics and on all datasets beside each other.
fn overview(data: &Data, columns: Vec<Figures>) -> Result<Table> {
    let rows = &data.definition.rows;
    let algorithms = rows.iter().map(|row| row.algorithm.clone());
    let drafters = rows.iter().map(|row| names(&row.drafters));
    let mut table = Table::new("Summary: the best of each row")
        .labels("Algorithm", algorithms)?
        .labels("Drafters", drafters)?;
    for column in columns {
        table = table.figures(column)?;
    }
    Ok(table.note(format!("{}.", notes::title(data))))
}

fn add(
    made: &mut Made,
    data: &Data,
    sheet: &Sheet<'_>,
    dataset: &str,
    metric: Metric,
) -> Result<Option<Figures>> {
    let costs = data.costs(metric)?;
    if costs.is_none() && metric != Metric::Walltime {
        return Ok(None);
    }
    let scored = Scored::new(data, sheet, costs.as_ref())?;
    let lines = scored.lines(dataset, metric);
    made.best = made.best.or_else(|| scored.best_cascade());
    // Which experiment it is, and of which models, is in the note and the caption.
    let title = format!("{}, {dataset}", metric.title());
    let mut table = scored
        .table(&title, &lines, metric)?
        .note(format!("{}.", notes::title(data)));
    let of_paper = data.definition.of_paper(dataset);
    if of_paper != dataset {
        table = table.note(format!("The paper's figures are of {of_paper}."));
    }
    let notes = scored.notes(costs.as_ref()).into_iter();
    made.tables.push(notes.fold(table, Table::note));
    let plot = scored.plot(&title, &lines, metric)?;
    made.plots.extend(plot.map(|plot| (plot, caption(data))));
    if let Some(sentence) = scored.finding(dataset, metric) {
        made.summary = format!("{}\n{sentence}", made.summary).trim().to_owned();
    }
    let header = format!("{}, {dataset}", scored.measure(metric));
    Ok(Some(
        Figures::new(header, scored.evidence(), scored.best_of_rows()).intervals(INTERVALS),
    ))
}

fn caption(data: &Data) -> String {
    let title = notes::title(data);
    format!("{title}. The paper's figures, which are of its own models, are in the table.")
}

/// Whether there is anything to choose: a row of several variants.
fn chooses(data: &Data) -> bool {
    let mut rows = data.variants.windows(2);
    rows.any(|pair| pair[0].row == pair[1].row)
}

/// SWI of each variant, if there are costs.
fn ratios(data: &Data, sheet: &Sheet<'_>, costs: Option<&CostTable>) -> Result<Option<Vec<Ratio>>> {
    let all = |costs| (0..data.variants.len()).map(move |variant| sheet.swi(variant, costs));
    costs.map(|costs| all(costs).collect()).transpose()
}

/// Prompts below which nothing is concluded.
const FEWEST: usize = 30;

/// The variants with what they are compared by. The best are chosen on one half of the prompts, and
/// every figure is of the other: a figure of the prompts that chose would flatter whatever row
/// tries most.
struct Scored<'a> {
    data: &'a Data,
    /// The prompts that figures are of.
    sheet: Sheet<'a>,
    /// Prompts that variants are chosen on, if they are others.
    chosen_on: Option<usize>,
    /// SWI of each variant, if there are costs.
    ratios: Option<Vec<Ratio>>,
    /// What is compared, on the prompts that choose; `None` for variants whose output is wrong.
    scores: Vec<Option<f64>>,
}

impl<'a> Scored<'a> {
    fn new(data: &'a Data, sheet: &Sheet<'a>, costs: Option<&CostTable>) -> Result<Self> {
        let (choosing, reported, chosen_on) = match sheet.halves().filter(|_| chooses(data)) {
            Some((choosing, reported)) => {
                let count = choosing.prompts();
                (choosing, reported, Some(count))
            }
            None => (sheet.clone(), sheet.clone(), None),
        };
        let ratios = ratios(data, &choosing, costs)?;
        let score = |variant: usize| match (&ratios, data.failure(variant)) {
            (_, Some(_)) => None,
            (Some(ratios), None) => ratios[variant].value(),
            (None, None) => choosing.speedup(variant).map(|figure| figure.value),
        };
        Ok(Self {
            data,
            scores: (0..data.variants.len()).map(score).collect(),
            ratios: self::ratios(data, &reported, costs)?,
            sheet: reported,
            chosen_on,
        })
    }

    /// What is compared, on the prompts that figures are of.
    fn value(&self, variant: usize) -> Option<f64> {
        self.scores[variant]?;
        match &self.ratios {
            Some(ratios) => ratios[variant].value(),
            None => self.sheet.speedup(variant).map(|figure| figure.value),
        }
    }

    fn variants_of(&self, row: usize) -> Vec<usize> {
        (0..self.data.variants.len())
            .filter(|&variant| self.data.variants[variant].row == row)
            .collect()
    }

    fn best(&self, variants: &[usize]) -> Option<usize> {
        let better = |a: &&usize, b: &&usize| {
            self.scores[**a]
                .partial_cmp(&self.scores[**b])
                .unwrap_or(std::cmp::Ordering::Equal)
        };
        // Of equally good ones the first: iterators give the last.
        variants.iter().rev().max_by(better).copied()
    }

    /// Of each row, the paper's variant and the best one.
    fn lines(&self, dataset: &str, metric: Metric) -> Vec<Line<'a>> {
        let of_paper = self.data.definition.of_paper(dataset);
        let rows = 0..self.data.definition.rows.len();
        rows.flat_map(|row| self.lines_of(row, of_paper, metric))
            .collect()
    }

    /// The same of one row.
    fn lines_of(&self, row: usize, of_paper: &str, metric: Metric) -> Vec<Line<'a>> {
        let variants = self.variants_of(row);
        let row = &self.data.definition.rows[row];
        let figure = row.figure(of_paper, metric);
        let paper = figure.map(|figure| figure.value);
        let line = |variant, chosen: &str, paper| Line {
            row,
            variant,
            chosen: chosen.to_owned(),
            paper,
        };
        let best = self.best(&variants);
        if best.is_none() {
            // An absent row without a figure of this metric would be empty.
            let alone = row.absent.is_some() && paper.is_some();
            return Vec::from_iter(alone.then(|| line(None, "-", paper)));
        }
        let like = figure.or_else(|| row.figure(of_paper, Metric::ModelSize));
        let of_paper = like.and_then(|figure| {
            let is = |variant: &usize| self.data.variants[*variant].setting == figure.setting;
            variants.iter().copied().find(is)
        });
        let best_of = format!("best of {}", variants.len());
        match of_paper {
            _ if variants.len() == 1 => vec![line(best, "-", paper)],
            None => vec![line(best, &best_of, paper)],
            of_paper if of_paper == best => {
                vec![line(best, &format!("the paper's, {best_of}"), paper)]
            }
            of_paper => vec![
                line(of_paper, "the paper's", paper),
                line(best, &best_of, None),
            ],
        }
    }

    /// The best variant of the rows without Max-Gram and with a neural drafter: speculative
    /// decoding.
    fn best_speculative(&self) -> Option<usize> {
        let variants: Vec<usize> = (0..self.data.variants.len())
            .filter(|&variant| {
                let drafters = &self.data.variants[variant].drafters;
                drafters.len() == 1 && drafters[0].is_neural()
            })
            .collect();
        self.best(&variants)
    }

    /// The best variant with Max-Gram below a neural drafter.
    fn best_cascade(&self) -> Option<usize> {
        let variants: Vec<usize> = (0..self.data.variants.len())
            .filter(|&variant| self.data.variants[variant].drafters.len() > 1)
            .collect();
        self.best(&variants)
    }

    fn table(&self, title: &str, lines: &[Line<'_>], metric: Metric) -> Result<Table> {
        let evidence = self.data.plan.evidence;
        let table = self.label_columns(Table::new(title), lines)?;
        let mut table = match metric {
            Metric::Walltime => self.walltime_columns(table, lines)?,
            _ => self.swi_columns(table, lines)?,
        };
        let lengths = self.each(lines, |variant| {
            self.sheet
                .acceptance_length(variant)
                .figure(self.data.bootstrap())
        });
        table = table.figures(
            Figures::new("tokens per target forward", evidence, lengths).intervals(INTERVALS),
        )?;
        table = table.labels(
            "Calls per token",
            lines.iter().map(|line| self.calls(line.variant)),
        )?;
        if metric != Metric::Walltime && self.sheet.speedup(0).is_some() {
            let speedups = self.each(lines, |variant| self.sheet.speedup(variant));
            table = table.figures(
                Figures::new("walltime × plain", evidence, speedups).intervals(INTERVALS),
            )?;
        }
        Ok(table)
    }

    fn label_columns(&self, table: Table, lines: &[Line<'_>]) -> Result<Table> {
        let describe = |line: &Line<'_>| {
            line.variant.map_or("-".to_owned(), |variant| {
                self.data.variants[variant].describe()
            })
        };
        Ok(table
            .labels(
                "Algorithm",
                lines.iter().map(|line| line.row.algorithm.clone()),
            )?
            .labels(
                "Drafters",
                lines.iter().map(|line| names(&line.row.drafters)),
            )?
            .labels("Hyperparameters", lines.iter().map(describe))?
            .labels("Chosen", lines.iter().map(|line| line.chosen.clone()))?)
    }

    /// Calls of each place by emitted token.
    fn calls(&self, variant: Option<usize>) -> String {
        let Some(variant) = variant else {
            return "-".to_owned();
        };
        let tokens = self.sheet.tokens(variant).max(1) as f64;
        let calls = self.sheet.calls(variant).into_iter();
        let calls = calls.map(|(place, calls)| format!("{place} {:.2}", calls as f64 / tokens));
        calls.collect::<Vec<_>>().join(", ")
    }

    fn swi_columns(&self, table: Table, lines: &[Line<'_>]) -> Result<Table> {
        let evidence = Evidence::Modelled;
        let bootstrap = self.data.bootstrap();
        let ratio = |variant: usize| self.ratios.as_ref().map(|ratios| &ratios[variant]);
        let mut table = table;
        if let Some(paper) = papers(lines, |value| value) {
            table = table.figures(Figures::new("SWI", Evidence::Paper, paper))?;
        }
        let totals = self.each(lines, |variant| ratio(variant)?.figure(bootstrap));
        let means = self.each(lines, |variant| ratio(variant)?.mean_figure(bootstrap));
        table = table
            .figures(Figures::new("SWI", evidence, totals).intervals(INTERVALS))?
            .figures(
                Figures::new("mean of the prompts' SWI", evidence, means).intervals(INTERVALS),
            )?;
        if let Some(speculative) = self.best_speculative() {
            let over = self.each(lines, |variant| {
                ratio(variant)?.over(ratio(speculative)?, bootstrap)
            });
            table = table
                .figures(Figures::new("× best S Decoding", evidence, over).intervals(INTERVALS))?;
        }
        Ok(table)
    }

    fn walltime_columns(&self, table: Table, lines: &[Line<'_>]) -> Result<Table> {
        let evidence = self.data.plan.evidence;
        let mut table = table;
        if let Some(paper) = papers(lines, |value| value) {
            table =
                table.figures(Figures::new("walltime", Evidence::Paper, paper).unit("tokens/s"))?;
        }
        if let Some(plain) = lines.first().and_then(|line| line.paper) {
            if let Some(paper) = papers(lines, |value| value / plain) {
                table = table.figures(Figures::new("walltime × plain", Evidence::Paper, paper))?;
            }
        }
        let rates = self.each(lines, |variant| self.sheet.tokens_per_second(variant));
        let speedups = self.each(lines, |variant| self.sheet.speedup(variant));
        Ok(table
            .figures(
                Figures::new("walltime", evidence, rates)
                    .unit("tokens/s")
                    .decimals(1)
                    .intervals(INTERVALS),
            )?
            .figures(Figures::new("walltime × plain", evidence, speedups).intervals(INTERVALS))?)
    }

    /// A figure for each line, none for rows without a variant and for variants whose output is
    /// wrong.
    fn each(
        &self,
        lines: &[Line<'_>],
        of: impl Fn(usize) -> Option<Figure>,
    ) -> Vec<Option<Figure>> {
        let right = |variant: &usize| self.scores[*variant].is_some();
        lines
            .iter()
            .map(|line| line.variant.filter(right).and_then(&of))
            .collect()
    }

    fn notes(&self, costs: Option<&CostTable>) -> Vec<String> {
        let mut notes = vec![self.prompts(), notes::endings(&self.sheet)];
        if let Some(costs) = costs {
            let target = costs.cost("target").unwrap_or(1.0);
            let costs: Vec<String> = costs
                .costs()
                .filter(|(place, _)| *place != "target" && self.data.has_place(place))
                .map(|(place, cost)| format!("{place} {:.4}", cost / target))
                .collect();
            notes.push(format!("Costs of a forward, the target's being 1: {}; Max-Gram 0. Encoding the source is not counted.", costs.join(", ")));
        } else {
            notes.push("All cascades take turns on each prompt; the speed is the median over prompts of plain decoding's time by the cascade's.".to_owned());
        }
        let rows = self.data.definition.rows.iter();
        notes.extend(
            rows.filter_map(|row| Some(format!("{}: {}", row.algorithm, row.absent.as_ref()?))),
        );
        let rows = self.data.definition.rows.iter().enumerate();
        let tried = rows
            .filter(|(_, row)| !row.drafters.is_empty())
            .map(|(index, row)| {
                format!(
                    "{} ({}) {}",
                    row.algorithm,
                    names(&row.drafters),
                    self.variants_of(index).len()
                )
            });
        notes.push(format!(
            "Settings tried: {}.",
            tried.collect::<Vec<_>>().join(", ")
        ));
        notes.extend(self.edge());
        notes.extend(notes::all(self.data));
        notes
    }

    /// How many prompts, and which chose.
    fn prompts(&self) -> String {
        let prompts = self.sheet.prompts();
        let few = if prompts < FEWEST {
            format!(" Fewer than {FEWEST}: no verdict.")
        } else {
            String::new()
        };
        match self.chosen_on {
            Some(others) => format!(
                "{prompts} prompts. The best settings are chosen on {others} other prompts.{few}"
            ),
            None if chooses(self.data) => {
                format!("{prompts} prompt, on which the best settings are chosen too.{few}")
            }
            None => format!("{prompts} prompts.{few}"),
        }
    }

    /// Says which of the best hyperparameters are the largest that were tried: with larger ones the
    /// row might do better.
    fn edge(&self) -> Option<String> {
        let rows = 0..self.data.definition.rows.len();
        let edges: Vec<String> = rows.filter_map(|row| self.edge_of(row)).collect();
        (!edges.is_empty()).then(|| {
            let edges = edges.join("; ");
            format!("At the edge of the search, so that larger values might do better: {edges}.")
        })
    }

    fn edge_of(&self, row: usize) -> Option<String> {
        let variants = self.variants_of(row);
        let settings: Vec<&Setting> = variants
            .iter()
            .map(|&variant| &self.data.variants[variant].setting)
            .collect();
        let best = &self.data.variants[self.best(&variants)?];
        let largest = best.setting.at_largest_of(&settings);
        let drafters = names(&best.drafters);
        (!largest.is_empty()).then(|| format!("{drafters} at {}", largest.join(", ")))
    }

    /// What variants are compared by, with its interval.
    fn figure(&self, variant: usize) -> Option<Figure> {
        match &self.ratios {
            Some(ratios) => ratios[variant].figure(self.data.bootstrap()),
            None => self.sheet.speedup(variant),
        }
    }

    fn evidence(&self) -> Evidence {
        match &self.ratios {
            Some(_) => Evidence::Modelled,
            None => self.data.plan.evidence,
        }
    }

    /// What is compared, in a word.
    fn measure(&self, metric: Metric) -> &'static str {
        match metric {
            Metric::Walltime => "walltime × plain",
            metric => metric.title(),
        }
    }

    /// What is compared, of the best variant of each row.
    fn best_of_rows(&self) -> Vec<Option<Figure>> {
        let rows = 0..self.data.definition.rows.len();
        let best = rows.map(|row| {
            let variant = self.best(&self.variants_of(row))?;
            self.scores[variant]?;
            self.figure(variant)
        });
        best.collect()
    }

    /// `None` if there is no figure, as of the times of prompts that ran together.
    fn plot(&self, title: &str, lines: &[Line<'_>], metric: Metric) -> Result<Option<Plot>> {
        let ours = self.each(lines, |variant| self.figure(variant));
        if ours.iter().all(Option::is_none) {
            return Ok(None);
        }
        let groups = lines.iter().map(|line| {
            let drafters: Vec<&str> = line.row.drafters.iter().map(|role| role.name()).collect();
            let best = if line.chosen.starts_with("best") {
                "(best)"
            } else {
                ""
            };
            let label = format!("{} {} {best}", line.row.algorithm, drafters.join(", "));
            label.trim_end().to_owned()
        });
        let axis = match metric {
            Metric::Walltime => "speed by plain decoding's",
            _ => "SWI",
        };
        let bars = vec![Bars::new("ours", self.evidence(), ours)];
        let groups: Vec<_> = groups.collect();
        Ok(Some(Plot::bars(title, groups, Axis::new(axis), bars)?))
    }

    /// The best cascade beside the best speculative decoding; without one, the best of each row.
    fn finding(&self, dataset: &str, metric: Metric) -> Option<String> {
        match self.best_speculative() {
            Some(speculative) => self.beside(speculative, dataset, metric),
            None => self.of_rows(dataset, metric),
        }
    }

    fn of_rows(&self, dataset: &str, metric: Metric) -> Option<String> {
        let rows = self.data.definition.rows.iter().enumerate();
        let best: Vec<String> = rows
            .filter_map(|(index, row)| {
                let score = self.value(self.best(&self.variants_of(index))?)?;
                Some(format!("{} {score:.2}", row.algorithm))
            })
            .collect();
        let by = self.measure(metric);
        (!best.is_empty()).then(|| format!("{dataset}, {by}: {}.", best.join(", ")))
    }

    fn beside(&self, speculative: usize, dataset: &str, metric: Metric) -> Option<String> {
        let cascade = self.best_cascade()?;
        let label = |variant: usize| self.data.variants[variant].id.clone();
        let (a, b) = (self.value(cascade)?, self.value(speculative)?);
        let bootstrap = self.data.bootstrap();
        let ratios = self.ratios.as_ref();
        let ratio = ratios.and_then(|ratios| ratios[cascade].over(&ratios[speculative], bootstrap));
        let interval = ratio.and_then(|ratio| ratio.interval);
        let said = interval.map_or_else(String::new, |interval| {
            format!(
                " (ratio {:.3}, 95 % interval {:.3} to {:.3})",
                a / b,
                interval.low,
                interval.high
            )
        });
        let (best, other) = (
            "the best cascade with Max-Gram",
            "the best speculative decoding",
        );
        let (cascade, speculative) = (label(cascade), label(speculative));
        let title = metric.title();
        let prompts = self.sheet.prompts();
        if prompts < FEWEST {
            return Some(format!(
                "{dataset}, {title}: {best} {a:.2} ({cascade}), {other} {b:.2} ({speculative}); no verdict \
                 from {prompts} prompts, give --limit {} or more.",
                2 * FEWEST
            ));
        }
        let by_values = if a > b { "beats" } else { "does not beat" };
        let verdict = interval.map_or(by_values, notes::verdict);
        Some(format!(
            "{dataset}, {title}: {best} ({cascade}; {a:.2}) {verdict} {other} ({speculative}; {b:.2}){said}."
        ))
    }
}

/// The paper's figures, if there is one.
fn papers(lines: &[Line<'_>], of: impl Fn(f64) -> f64) -> Option<Vec<Option<Figure>>> {
    let figures: Vec<Option<Figure>> = lines
        .iter()
        .map(|line| line.paper.map(|value| Figure::new(of(value))))
        .collect();
    figures.iter().any(Option::is_some).then_some(figures)
}
