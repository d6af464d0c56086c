//! What `cascade tune` prints.

use std::io::Write;

use anyhow::Result;
use serde_json::{json, Value};

use super::{Candidate, Costs, Outcome, Tuner};
use crate::terminal;

pub(super) struct Report<'a> {
    pub(super) tuner: &'a Tuner<'a>,
    /// Records of each half.
    pub(super) training: usize,
    pub(super) held_out: usize,
    /// Tokens of the half that was searched on.
    pub(super) tokens: usize,
    pub(super) frontier: &'a [Candidate],
    /// Of the first settings of the frontier.
    pub(super) outcomes: &'a [Outcome],
    /// Of what is always compared.
    pub(super) always: &'a [Outcome],
    /// Predicted SWI of the configuration's own setting.
    pub(super) own: Option<f64>,
}

impl Report<'_> {
    pub(super) fn print(&self) -> Result<()> {
        let mut out = terminal::stdout();
        let costs = self.tuner.times.of_one_row();
        writeln!(
            out,
            "searched on {} recorded outputs of {} ({} tokens), reported on {} others; {}: {costs:?} \
             for a forward of one row, {:.3} of the target's for one of 9\n",
            self.training,
            self.tuner.trace.header.model,
            self.tokens,
            self.held_out,
            self.unit(),
            self.tuner.times.target.seconds(9) / costs[0]
        )?;
        writeln!(
            out,
            "{:>9}  {:>8} {:>15} {:>7}  drafts",
            "searched", "held out", "95% interval", "SWI"
        )?;
        for (candidate, outcome) in self.frontier.iter().zip(self.outcomes) {
            let lenience = format!(", lenience {}", candidate.setting.lenience);
            self.line(&mut out, outcome, &lenience)?;
        }
        writeln!(out)?;
        for outcome in self.always {
            self.line(&mut out, outcome, "")?;
        }
        writeln!(
            out,
            "\nsearched and held out: times as fast as plain decoding, by the times of forwards by rows, on \
             the half\nthat was searched on and on the other; replayed, not measured. SWI, on the other half: \
             tokens · c(target) /\nΣ calls · c(model), which takes a forward to cost the same whatever it \
             checks, and so is no speedup."
        )?;
        self.print_advice(&mut out)
    }

    /// What to write into the configuration.
    fn print_advice(&self, out: &mut impl Write) -> Result<()> {
        let by_speed = |a: &&Outcome, b: &&Outcome| a.speedup.total_cmp(&b.speedup);
        let Some(best) = self.frontier.first() else {
            return Ok(());
        };
        let found = self
            .outcomes
            .first()
            .map_or(best.speedup, |own| own.speedup);
        match self.always.iter().max_by(by_speed) {
            Some(better) if better.speedup >= found => {
                writeln!(
                    out,
                    "\nOn the half that was held out, nothing found is faster than this: {}",
                    better.name
                )?;
            }
            _ => {
                let unused = unused(best.setting.k.rows());
                let rows = without(best.setting.k.rows(), &unused);
                for &drafter in &unused {
                    let name = self.name(drafter);
                    writeln!(out, "\n{name} never drafts here: drop it from `drafters`")?;
                }
                let left = match unused.is_empty() {
                    true => String::new(),
                    false => format!("  # without {}", self.names(&unused).join(", ")),
                };
                writeln!(
                    out,
                    "\nk: {{ convention: added, matrix: {rows:?} }}{left}\nlenience: {}",
                    best.setting.lenience
                )?;
            }
        }
        Ok(())
    }

    fn name(&self, drafter: usize) -> &str {
        self.tuner.config.drafters()[drafter].name()
    }

    fn names(&self, drafters: &[usize]) -> Vec<&str> {
        drafters.iter().map(|&drafter| self.name(drafter)).collect()
    }

    fn unit(&self) -> &'static str {
        match self.tuner.args.costs {
            Costs::Measured => "seconds measured on this machine",
            Costs::Parameters => {
                "times taken to be in proportion to parameters, in forwards of the target"
            }
            Costs::Given(_) => "times as given, in forwards of the target",
            Costs::Files(_) => "seconds of files",
        }
    }

    fn line(&self, out: &mut impl Write, outcome: &Outcome, more: &str) -> Result<()> {
        let searched = outcome.training_speedup;
        let interval = outcome
            .interval
            .map_or_else(String::new, |(low, high)| format!("[{low:.3}, {high:.3}]"));
        writeln!(
            out,
            "{searched:>9.3}  {:>8.3} {interval:>15} {:>7.2}  {}{more}",
            outcome.speedup, outcome.swi, outcome.name
        )?;
        Ok(())
    }

    pub(super) fn print_json(&self) -> Result<()> {
        let candidates = self.frontier.iter().enumerate().map(|(i, candidate)| {
            let outcome = self.outcomes.get(i);
            let mut object = json!({
                "k": candidate.setting.k.rows(),
                "lenience": candidate.setting.lenience.get(),
                "unused": self.names(&unused(candidate.setting.k.rows())),
                // What the search went by, on the half that it searched on; `searched_speedup` of
                // `held_out` is the replay of the same half.
                "predicted": {
                    "speedup": candidate.speedup,
                    "seconds": candidate.prediction.seconds,
                    "swi": candidate.swi,
                    "calls": candidate.prediction.calls,
                },
                "replayed_swi": outcome.map(|outcome| outcome.training_swi),
                "tokens": candidate.prediction.tokens,
            });
            object["held_out"] = outcome.map_or(Value::Null, held_out);
            object
        });
        let always = self.always.iter().map(|outcome| {
            let mut object = held_out(outcome);
            object["drafts"] = json!(outcome.name);
            object
        });
        let report = json!({
            "target": self.tuner.trace.header.model,
            "costs": self.tuner.times.of_one_row(),
            "measured": matches!(self.tuner.args.costs, Costs::Measured),
            "training_records": self.training,
            "held_out_records": self.held_out,
            "own_predicted_swi": self.own,
            "frontier": candidates.collect::<Vec<_>>(),
            "always": always.collect::<Vec<_>>(),
        });
        writeln!(terminal::stdout(), "{report}")?;
        Ok(())
    }
}

fn held_out(outcome: &Outcome) -> Value {
    json!({
        "searched_speedup": outcome.training_speedup,
        "speedup": outcome.speedup,
        "interval": outcome.interval.map(|(low, high)| [low, high]),
        "swi": outcome.swi,
    })
}

/// Drafters that a K matrix never asks, directly or through a drafter that it does ask.
fn unused(rows: &[Vec<usize>]) -> Vec<usize> {
    let mut used = vec![false; rows.len()];
    for drafter in 0..rows.len() {
        let asked_by = |reviewer: usize| rows[reviewer][drafter] > 0;
        used[drafter] = asked_by(0) || (0..drafter).any(|at| used[at] && asked_by(at + 1));
    }
    (0..rows.len()).filter(|&drafter| !used[drafter]).collect()
}

/// A K matrix without these drafters.
fn without(rows: &[Vec<usize>], drafters: &[usize]) -> Vec<Vec<usize>> {
    let kept: Vec<usize> = (0..rows.len())
        .filter(|drafter| !drafters.contains(drafter))
        .collect();
    // The smallest drafter reviews nothing.
    let reviewers = std::iter::once(0).chain(kept.iter().map(|drafter| drafter + 1));
    reviewers
        .take(kept.len())
        .map(|reviewer| {
            kept.iter()
                .map(|&drafter| rows[reviewer][drafter])
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafters_that_nobody_asks_are_left_out() {
        let k = |rows: [[usize; 3]; 3]| rows.map(Vec::from).to_vec();
        for (rows, names, left) in [
            (
                k([[0, 1, 2], [0, 0, 2], [0, 0, 2]]),
                vec![0],
                vec![vec![1, 2], vec![0, 2]],
            ),
            (
                k([[0, 0, 5], [0, 4, 4], [0, 0, 0]]),
                vec![0, 1],
                vec![vec![5]],
            ),
            (
                k([[3, 0, 0], [0, 2, 0], [0, 0, 0]]),
                vec![2],
                vec![vec![3, 0], vec![0, 2]],
            ),
            (
                k([[3, 0, 0], [0, 0, 2], [0, 0, 0]]),
                vec![1],
                vec![vec![3, 0], vec![0, 2]],
            ),
            (k([[0; 3], [0; 3], [0; 3]]), vec![0, 1, 2], vec![]),
        ] {
            assert_eq!(unused(&rows), names, "{rows:?}");
            assert_eq!(without(&rows, &names), left, "{rows:?}");
        }
    }
}
