//! The report on one system, as text and as JSON.

use std::io::Write;

use anyhow::Result;
use cascade_reproduce::theory::{Drafter, Simulated, System};
use serde::Serialize;

use super::args::OutputArgs;
use crate::terminal;

/// The report on one system; its fields are those of --json.
#[derive(Serialize)]
pub(super) struct Report {
    system: &'static str,
    /// Where the formula is in the paper.
    formula: &'static str,
    drafters: Vec<DrafterRecord>,
    /// How the best lengths were searched for, if they were.
    search: Option<SearchRecord>,
    computed: Computed,
    simulated: Option<Simulated>,
}

#[derive(Serialize)]
pub(super) struct DrafterRecord {
    /// `drafter`, or `below` if it drafts for a drafter.
    pub(super) role: &'static str,
    pub(super) alpha: f64,
    pub(super) cost: f64,
    /// Reviews per step, if it reviews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reviews: Option<usize>,
    /// Tokens per draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<usize>,
}

impl DrafterRecord {
    pub(super) fn new(drafter: Drafter, tokens: usize) -> Self {
        Self {
            role: "drafter",
            alpha: drafter.acceptance.get(),
            cost: drafter.cost.get(),
            reviews: None,
            tokens: Some(tokens),
        }
    }
}

#[derive(Serialize)]
pub(super) struct SearchRecord {
    pub(super) max_k: usize,
    pub(super) at_limit: bool,
}

#[derive(Serialize)]
struct Computed {
    ewif: f64,
    tokens_per_step: f64,
    walltime_per_step: f64,
}

impl Report {
    pub(super) fn new(
        (name, formula): (&'static str, &'static str),
        drafters: Vec<DrafterRecord>,
        (system, search): (&impl System, Option<SearchRecord>),
        output: &OutputArgs,
    ) -> Result<Self> {
        Ok(Self {
            system: name,
            formula,
            drafters,
            search,
            computed: Computed {
                ewif: system.ewif(),
                tokens_per_step: system.expected_tokens(),
                walltime_per_step: system.walltime(),
            },
            simulated: output.simulated(system)?,
        })
    }

    pub(super) fn print(&self, out: &mut impl Write, json: bool) -> Result<()> {
        if json {
            return Ok(terminal::write_json(out, self)?);
        }
        writeln!(out, "{} ({})", self.system, self.formula)?;
        for drafter in &self.drafters {
            drafter.print(out)?;
        }
        if let Some(search) = &self.search {
            writeln!(out, "lengths    the best up to {}", search.max_k)?;
        }
        let Computed {
            ewif,
            tokens_per_step,
            walltime_per_step,
        } = self.computed;
        writeln!(out, "tokens     {tokens_per_step:.4} per step, computed")?;
        writeln!(
            out,
            "walltime   {walltime_per_step:.4} forwards of the target per step, computed"
        )?;
        writeln!(out, "EWIF       {ewif:.4} computed")?;
        if let Some(simulated) = &self.simulated {
            writeln!(
                out,
                "EWIF       {} simulated, {} steps, seed {}",
                with_error(simulated),
                simulated.steps,
                simulated.seed
            )?;
        }
        self.warn(out)
    }

    fn warn(&self, out: &mut impl Write) -> Result<()> {
        let ewif = self.computed.ewif;
        match &self.search {
            Some(search) if search.at_limit && search.max_k > 0 => writeln!(
                out,
                "note: the limit of {} is reached; longer may be faster (--max-k)",
                search.max_k
            )?,
            Some(_) if ewif == 1.0 => writeln!(out, "note: no draft pays; plain decoding is best")?,
            None if ewif < 1.0 => writeln!(out, "note: slower than plain decoding")?,
            _ => {}
        }
        Ok(())
    }
}

impl DrafterRecord {
    fn print(&self, out: &mut impl Write) -> Result<()> {
        let Self {
            role, alpha, cost, ..
        } = self;
        write!(out, "{role:<10} alpha {alpha}, cost {cost}: ")?;
        match (self.reviews, self.tokens) {
            (Some(reviews), _) => writeln!(out, "n = {reviews} reviews per step")?,
            (None, tokens) => writeln!(out, "k = {} tokens", tokens.unwrap_or_default())?,
        }
        Ok(())
    }
}

pub(super) fn with_error(simulated: &Simulated) -> String {
    format!("{:.4} ± {:.4}", simulated.ewif, simulated.standard_error)
}
