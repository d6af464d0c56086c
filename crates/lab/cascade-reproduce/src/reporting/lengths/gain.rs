//! The gain of one row over the others (SpecDec++, Table 4; DISCO, Table 5).

use crate::report::{Evidence, Figure, Table};

use super::super::data::{Data, Ratio};
use super::super::notes;
use super::group::Group;
use super::lines::{begin, lines, our_column, paper_column};
use crate::draft_rule::DraftRule;
use crate::{Metric, Result, Row};

/// The speed of a variant on the prompts that are reported on.
type SpeedOf = fn(&Group<'_>, usize) -> Ratio;

/// `None` if the experiment names no row, or that row did not run and the paper has no figures.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let Some(name) = &data.definition.gain_of else {
        return Ok(None);
    };
    let other = |row: &Row| row.algorithm != *name && !row.drafters.is_empty() && !is_oracle(row);
    let lines = lines(data, groups, &[Metric::Gain], other);
    let by_latency = data.definition.metrics.first() == Some(&Metric::Latency);
    let (what, how) = if by_latency {
        ("less latency", "100 · (1 − latency / latency of the other)")
    } else {
        ("more speed", "100 · (speed / speed of the other − 1)")
    };
    let mut table = begin(format!("{}: gain of {name}", notes::title(data)), &lines)?;
    if let Some(paper) = paper_column(&lines, Metric::Gain, what) {
        table = table.figures(paper.unit("%").decimals(1))?;
    }
    let column = |evidence, speed: SpeedOf| {
        our_column(&lines, what, evidence, |group, variant| {
            let subject = speed(group, row_best(group, name)?);
            gain(data, &subject, &speed(group, variant), by_latency)
        })
        .unit("%")
        .decimals(1)
    };
    if data.plan.evidence == Evidence::Measured {
        let measured = column(Evidence::Measured, |group, variant| {
            group.reported.rate(variant)
        });
        table = table.figures(measured)?;
    }
    table = table.figures(column(Evidence::Modelled, |group, variant| {
        group.speed(&group.reported, variant)
    }))?;
    Ok(Some(table.note(format!("Gain is {how}."))))
}

fn is_oracle(row: &Row) -> bool {
    row.grid.rules == [DraftRule::Oracle]
}

/// The best variant of the named row.
fn row_best(group: &Group<'_>, name: &str) -> Option<usize> {
    let mut rows = group.data.definition.rows.iter();
    let row = rows.find(|row| row.algorithm == name)?;
    group.best_of(row)
}

/// How much less latency, or more speed, than the other, in percent.
fn gain(data: &Data, subject: &Ratio, other: &Ratio, by_latency: bool) -> Option<Figure> {
    let ratio = if by_latency {
        other.over(subject, data.bootstrap())?
    } else {
        subject.over(other, data.bootstrap())?
    };
    Some(percent(ratio, by_latency))
}

/// 100 · (1 − ratio), or 100 · (ratio − 1).
fn percent(ratio: Figure, falls: bool) -> Figure {
    let of = |ratio: f64| {
        if falls {
            100.0 * (1.0 - ratio)
        } else {
            100.0 * (ratio - 1.0)
        }
    };
    match ratio.interval {
        None => Figure::new(of(ratio.value)),
        Some(interval) if falls => {
            Figure::with_interval(of(ratio.value), of(interval.high), of(interval.low))
        }
        Some(interval) => {
            Figure::with_interval(of(ratio.value), of(interval.low), of(interval.high))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_as_the_papers_compute_them() {
        // DISCO on MBPP: 12.58 ms against 14.16; SpecDec++ with Gemma on HumanEval: 2.07 against
        // 1.84.
        let disco = percent(Figure::new(12.58 / 14.16), true);
        assert!((disco.value - 11.2).abs() < 0.05, "{disco:?}");
        let head = percent(Figure::new(2.07 / 1.84), false);
        assert!((head.value - 12.4).abs() < 0.15, "{head:?}");
        let ends = percent(Figure::with_interval(0.9, 0.8, 1.1), true)
            .interval
            .unwrap();
        assert!((ends.low + 10.0).abs() < 1e-9 && (ends.high - 20.0).abs() < 1e-9);
    }
}
