//! Cascades compared by SWI and by walltime.

use cascade_traces::CostTable;

mod summary;

use self::summary::{Best, Summary};
use super::data::{Data, INTERVALS, Ratio, Sheet};
use super::{Made, notes};
use crate::report::{Axis, Bars, Evidence, Figure, Figures, Plot, Table};
use crate::variant::{Setting, names};
use crate::{Metric, PaperRow, Result, Variant};

/// A line of a table: one variant of a row, or a row that has none.
struct Line<'a> {
    row: &'a PaperRow,
    variant: Option<usize>,
    /// Who chose the hyperparameters.
    chosen: String,
    /// The paper's figure.
    paper: Option<f64>,
}

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut made = Made::default();
    let mut others = Summary::default();
    for suite in &data.plan.suites {
        let sheet = data.of_dataset(&suite.dataset);
        if sheet.prompts() == 0 {
            continue;
        }
        let mut beside = Summary::default();
        for &metric in &data.definition.metrics {
            let Some(best) = add(&mut made, data, &sheet, &suite.dataset, metric)? else {
                continue;
            };
            if best.has_papers() {
                beside.add_beside(best, &suite.dataset);
            } else {
                others.add(best, &suite.dataset);
            }
        }
        let of_paper = data.definition.of_paper(&suite.dataset);
        let title = format!(
            "Summary: the best of each row on {}, and the paper's on {of_paper}",
            suite.dataset
        );
        made.overviews.extend(beside.table(data, &title)?);
    }
    if made.tables.is_empty() {
        made.summary = "No prompt has been answered by all cascades yet.".to_owned();
    }
    let title = "Summary: the best of each row, where the paper has no figures";
    made.overviews.extend(others.table(data, title)?);
    Ok(made)
}

fn add(
    made: &mut Made,
    data: &Data,
    sheet: &Sheet<'_>,
    dataset: &str,
    metric: Metric,
) -> Result<Option<Best>> {
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
    made.tables.push(table.notes(scored.notes(costs.as_ref())));
    let plot = scored.plot(&title, &lines, metric)?;
    made.plots.extend(plot.map(|plot| (plot, caption(data))));
    if let Some(sentence) = scored.finding(dataset, metric) {
        made.summary = format!("{}\n{sentence}", made.summary).trim().to_owned();
    }
    Ok(Some(Best::of(&scored, of_paper, metric)))
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
    /// What is compared, on the prompts that choose; `None` for variants with wrong output.
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
        self.data.variants_that(|variant| variant.row == row)
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

    /// The lines of all rows.
    fn lines(&self, dataset: &str, metric: Metric) -> Vec<Line<'a>> {
        let of_paper = self.data.definition.of_paper(dataset);
        let rows = 0..self.data.definition.rows.len();
        rows.flat_map(|row| self.lines_of(row, of_paper, metric))
            .collect()
    }

    /// The lines of one row: the paper's variant and the best one.
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
        let speculates =
            |variant: &Variant| matches!(variant.drafters[..], [role] if role.is_neural());
        self.best(&self.data.variants_that(speculates))
    }

    /// The best variant with Max-Gram below a neural drafter.
    fn best_cascade(&self) -> Option<usize> {
        let is_cascade = |variant: &Variant| variant.drafters.len() > 1;
        self.best(&self.data.variants_that(is_cascade))
    }

    fn table(&self, title: &str, lines: &[Line<'_>], metric: Metric) -> Result<Table> {
        let evidence = self.data.plan.evidence;
        let mut table = self.label_columns(Table::new(title), lines)?;
        table = match metric {
            Metric::Walltime => self.walltime_columns(table, lines)?,
            _ => self.swi_columns(table, lines)?,
        };
        let lengths = self.column(lines, "tokens per target forward", evidence, |variant| {
            self.sheet.acceptance_length(variant).figure()
        });
        let calls = lines.iter().map(|line| self.calls(line.variant));
        table = table.figures(lengths)?.labels("Calls per token", calls)?;
        if metric == Metric::Walltime || self.sheet.speedup(0).is_none() {
            return Ok(table);
        }
        table.figures(self.speedups(lines))
    }

    fn label_columns(&self, table: Table, lines: &[Line<'_>]) -> Result<Table> {
        let describe = |line: &Line<'_>| {
            let variant = line.variant.map(|variant| &self.data.variants[variant]);
            variant.map_or("-".to_owned(), Variant::describe)
        };
        let rows = || lines.iter().map(|line| line.row);
        table
            .labels("Algorithm", rows().map(|row| row.algorithm.as_str()))?
            .labels("Drafters", rows().map(|row| names(&row.drafters)))?
            .labels("Hyperparameters", lines.iter().map(describe))?
            .labels("Chosen", lines.iter().map(|line| line.chosen.as_str()))
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
        let ratio = |variant: usize| self.ratios.as_ref().map(|ratios| &ratios[variant]);
        let ours = |header: &str, of: &dyn Fn(usize) -> Option<Figure>| {
            self.column(lines, header, Evidence::Modelled, of)
        };
        let table = table
            .figures_if_any(papers(lines, "SWI", |value| value))?
            .figures(ours("SWI", &|variant| ratio(variant)?.figure()))?
            .figures(ours("mean of the prompts' SWI", &|variant| {
                ratio(variant)?.mean_figure()
            }))?;
        let Some(speculative) = self.best_speculative() else {
            return Ok(table);
        };
        table.figures(ours("× best S Decoding", &|variant| {
            ratio(variant)?.over(ratio(speculative)?)
        }))
    }

    fn walltime_columns(&self, table: Table, lines: &[Line<'_>]) -> Result<Table> {
        let evidence = self.data.plan.evidence;
        let rates = self.column(lines, "walltime", evidence, |variant| {
            self.sheet.tokens_per_second(variant)
        });
        let papers_speed = papers(lines, "walltime", |value| value).unit("tokens/s");
        let mut table = table
            .figures_if_any(papers_speed.decimals(1))?
            .figures(rates.unit("tokens/s").decimals(1))?;
        if let Some(plain) = lines.first().and_then(|line| line.paper) {
            let ratios = papers(lines, "walltime × plain", |value| value / plain);
            table = table.figures_if_any(ratios)?;
        }
        table.figures(self.speedups(lines))
    }

    fn speedups(&self, lines: &[Line<'_>]) -> Figures {
        let evidence = self.data.plan.evidence;
        self.column(lines, "walltime × plain", evidence, |variant| {
            self.sheet.speedup(variant)
        })
    }

    /// A column with a figure for each line.
    fn column(
        &self,
        lines: &[Line<'_>],
        header: &str,
        evidence: Evidence,
        of: impl Fn(usize) -> Option<Figure>,
    ) -> Figures {
        Figures::new(header, evidence, self.each(lines, of)).intervals(INTERVALS)
    }

    /// A figure for each line; none for rows without a variant and for variants with wrong output.
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
        let absent = |row: &PaperRow| Some(format!("{}: {}", row.algorithm, row.absent.as_ref()?));
        notes.extend(rows.clone().filter_map(absent));
        let drafting = rows.enumerate().filter(|(_, row)| !row.drafters.is_empty());
        let tried = drafting.map(|(index, row)| {
            let (name, drafters) = (&row.algorithm, names(&row.drafters));
            format!("{name} ({drafters}) {}", self.variants_of(index).len())
        });
        let tried = tried.collect::<Vec<_>>().join(", ");
        notes.push(format!("Settings tried: {tried}."));
        notes.extend(self.edge());
        notes.extend(notes::all(self.data));
        notes
    }

    /// How many prompts, and which chose.
    fn prompts(&self) -> String {
        let prompts = self.sheet.prompts();
        let few = notes::few(prompts);
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
            Some(ratios) => ratios[variant].figure(),
            None => self.sheet.speedup(variant),
        }
    }

    fn evidence(&self) -> Evidence {
        match &self.ratios {
            Some(_) => Evidence::Modelled,
            None => self.data.plan.evidence,
        }
    }

    /// A figure of the best variant of each row.
    fn best_of_rows(&self, figure: impl Fn(usize) -> Option<Figure>) -> Vec<Option<Figure>> {
        let rows = 0..self.data.definition.rows.len();
        let best = rows.map(|row| {
            let variant = self.best(&self.variants_of(row))?;
            self.scores[variant]?;
            figure(variant)
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

    /// The best cascade compared with the best speculative decoding, or the best of each row if
    /// nothing decodes speculatively.
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
        let by = metric.compared();
        (!best.is_empty()).then(|| format!("{dataset}, {by}: {}.", best.join(", ")))
    }

    fn beside(&self, speculative: usize, dataset: &str, metric: Metric) -> Option<String> {
        let cascade = self.best_cascade()?;
        let label = |variant: usize| self.data.variants[variant].id.clone();
        let (a, b) = (self.value(cascade)?, self.value(speculative)?);
        let ratios = self.ratios.as_ref();
        let ratio = ratios.and_then(|ratios| ratios[cascade].over(&ratios[speculative]));
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
        if prompts < notes::FEWEST {
            return Some(format!(
                "{dataset}, {title}: {best} {a:.2} ({cascade}), {other} {b:.2} ({speculative}); no verdict \
                 from {prompts} prompts, give --limit {} or more.",
                2 * notes::FEWEST
            ));
        }
        let by_values = if a > b { "beats" } else { "does not beat" };
        let verdict = interval.map_or(by_values, notes::verdict);
        Some(format!(
            "{dataset}, {title}: {best} ({cascade}; {a:.2}) {verdict} {other} ({speculative}; {b:.2}){said}."
        ))
    }
}

/// A column of the paper's figures.
fn papers(lines: &[Line<'_>], header: &str, of: impl Fn(f64) -> f64) -> Figures {
    let figures = lines
        .iter()
        .map(|line| line.paper.map(|paper| Figure::new(of(paper))));
    Figures::new(header, Evidence::Paper, figures)
}
