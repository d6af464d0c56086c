//! What `cascade-lab tune` prints.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;
use cascade_traces::tune::{Outcome, Tuned, Tuner};

use super::Costs;
use crate::columns::{row, table};
use crate::terminal;

pub(super) struct Report<'a> {
    pub(super) tuner: &'a Tuner,
    pub(super) tuned: &'a Tuned,
    pub(super) costs: &'a Costs,
}

impl Report<'_> {
    pub(super) fn print(&self) -> Result<()> {
        let mut out = terminal::stdout();
        let Self { tuned, .. } = self;
        let costs = &tuned.costs;
        writeln!(
            out,
            "searched on {} recorded outputs of {} ({} tokens), reported on {} others; {}: {costs:?} \
             for a forward of one row, {:.3} of the target's for one of 9\n",
            tuned.training_records,
            tuned.target,
            tuned.tokens,
            tuned.held_out_records,
            self.unit(),
            self.tuner.times.target.seconds(9) / costs[0]
        )?;
        let head = ["× searched", "× held out", "95% interval", "SWI", "drafts"];
        let mut rows = vec![row(head)];
        for found in &tuned.frontier {
            if let Some(outcome) = &found.outcome {
                rows.push(line(outcome, &found.candidate.setting));
            }
        }
        rows.push(Vec::new());
        for compared in &tuned.always {
            rows.push(line(&compared.outcome, &compared.name));
        }
        writeln!(
            out,
            "{}\nsearched and held out: times as fast as plain decoding, by the times of forwards by rows, on \
             the half\nthat was searched on and on the other; replayed, not measured. SWI, on the other half: \
             tokens · c(target) /\nΣ calls · c(model), which takes a forward to cost the same whatever it \
             checks, and so is no speedup.",
            table(">>>><", &rows)
        )?;
        self.print_advice(&mut out)
    }

    /// What to write into the configuration.
    fn print_advice(&self, out: &mut impl Write) -> Result<()> {
        let Some(best) = self.tuned.frontier.first() else {
            return Ok(());
        };
        let own = best.outcome.as_ref();
        let found = own.map_or(best.candidate.speedup, |own| own.speedup);
        let always = self.tuned.always.iter();
        let is_plain = best.candidate.k_of_used().is_empty();
        match always.max_by(|a, b| a.outcome.speedup.total_cmp(&b.outcome.speedup)) {
            Some(better) if better.outcome.speedup > found || is_plain => writeln!(
                out,
                "\nOn the half that was held out, nothing found is faster than this: {}",
                better.name
            )?,
            _ => {
                for name in &best.unused {
                    writeln!(out, "\n{name} never drafts here: drop it from `drafters`")?;
                }
                let left = if best.unused.is_empty() {
                    String::new()
                } else {
                    format!("  # without {}", best.unused.join(", "))
                };
                writeln!(
                    out,
                    "\nk: {{ convention: added, matrix: {:?} }}{left}\nlenience: {}",
                    best.candidate.k_of_used(),
                    best.candidate.setting.lenience
                )?;
                if let Some(nodes) = best.candidate.setting.nodes {
                    writeln!(out, "tree: {{ max_nodes: {nodes} }}")?;
                }
            }
        }
        Ok(())
    }

    fn unit(&self) -> &'static str {
        match self.costs {
            Costs::Measured => "seconds measured on this machine",
            Costs::Parameters => {
                "times taken to be in proportion to parameters, in forwards of the target"
            }
            Costs::Given(_) => "times as given, in forwards of the target",
            Costs::Files(_) => "seconds of files",
        }
    }
}

fn line(outcome: &Outcome, drafts: &dyn Display) -> Vec<String> {
    let interval = outcome
        .interval
        .map_or_else(String::new, |(low, high)| format!("[{low:.3}, {high:.3}]"));
    vec![
        format!("{:.3}", outcome.searched_speedup),
        format!("{:.3}", outcome.speedup),
        interval,
        format!("{:.2}", outcome.swi),
        drafts.to_string(),
    ]
}
