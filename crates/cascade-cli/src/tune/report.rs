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
                writeln!(
                    out,
                    "\nk: {{ convention: added, matrix: {:?} }}\nlenience: {}",
                    best.setting.k.rows(),
                    best.setting.lenience
                )?;
            }
        }
        Ok(())
    }

    fn unit(&self) -> &'static str {
        match self.tuner.args.costs {
            Costs::Measured => "seconds measured on this machine",
            Costs::Parameters => {
                "times taken to be in proportion to parameters, in forwards of the target"
            }
            Costs::Given(_) => "times as given, in forwards of the target",
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
                "predicted_speedup": candidate.speedup,
                "predicted_seconds": candidate.prediction.seconds,
                "predicted_swi": candidate.swi,
                "replayed_swi": outcome.map(|outcome| outcome.training_swi),
                "predicted_calls": candidate.prediction.calls,
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
