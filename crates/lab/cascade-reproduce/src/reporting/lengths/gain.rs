//! The gain of one row over the others (SpecDec++, Table 4; DISCO, Table 5).

use super::super::data::{Data, Ratio};
use super::group::Group;
use super::lines::{FigureOf, Lines, Measure};
use crate::draft_rule::DraftRule;
use crate::report::{Evidence, Figure, Table};
use crate::{Metric, PaperRow, Result};

/// `None` if the experiment names no row, or that row did not run and the paper has no figures.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let Some(name) = &data.definition.gain_of else {
        return Ok(None);
    };
    let other =
        |row: &PaperRow| row.algorithm != *name && !row.drafters.is_empty() && !is_oracle(row);
    let lines = Lines::best(data, groups, &[Metric::Gain], other);
    let (header, how) = if by_latency(data) {
        ("less latency", "100 · (1 − latency / latency of the other)")
    } else {
        ("more speed", "100 · (speed / speed of the other − 1)")
    };
    let measure = |evidence, of: FigureOf| Measure {
        header,
        unit: "%",
        decimals: 1,
        evidence: Some(evidence),
        of,
    };
    let mut table = lines.table(&format!("gain of {name}"))?;
    table = lines.paper(table, Metric::Gain, header, ("%", 1))?;
    if data.plan.evidence == Evidence::Measured {
        let measured: FigureOf = |group, variant| gain(group, variant, |v| group.reported.rate(v));
        table = lines.ours(table, &[measure(Evidence::Measured, measured)])?;
    }
    let modelled: FigureOf =
        |group, variant| gain(group, variant, |v| group.speed(&group.reported, v));
    table = lines.ours(table, &[measure(Evidence::Modelled, modelled)])?;
    Ok(Some(table.note(format!("Gain is {how}."))))
}

fn is_oracle(row: &PaperRow) -> bool {
    row.grid.rules == [DraftRule::Oracle]
}

/// Whether gains are of latency, and not of speed.
fn by_latency(data: &Data) -> bool {
    data.definition.metrics.first() == Some(&Metric::Latency)
}

/// How much less latency, or more speed, the row that gains has than the other, in percent.
fn gain(group: &Group<'_>, other: usize, speed: impl Fn(usize) -> Ratio) -> Option<Figure> {
    let (subject, other) = (
        speed(group.best_of(group.data.definition.gaining()?)?),
        speed(other),
    );
    let falls = by_latency(group.data);
    let ratio = if falls {
        other.over(&subject)
    } else {
        subject.over(&other)
    };
    Some(percent(ratio?, falls))
}

/// 100 · (1 − ratio), or 100 · (ratio − 1).
fn percent(ratio: Figure, falls: bool) -> Figure {
    ratio.map(|ratio| {
        if falls {
            100.0 * (1.0 - ratio)
        } else {
            100.0 * (ratio - 1.0)
        }
    })
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
