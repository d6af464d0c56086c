//! Sums over replays.

use cascade_engine::{GenerationOutput, Role};
use serde::Serialize;

/// Sums over the generations of some records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of generations.
    pub records: usize,
    /// Tokens emitted.
    pub tokens: usize,
    /// Forwards of the target.
    pub steps: usize,
    /// Drafted tokens that the target verified.
    pub drafted: usize,
    /// Drafted tokens that the target accepted.
    pub accepted: usize,
    /// Calls of each model, the target first.
    pub calls: Vec<Calls>,
}

/// How often one model was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Its name.
    pub name: String,
    /// `target`, `drafter` or `statistical`.
    pub role: &'static str,
    /// Forwards, or proposals of a statistical drafter.
    pub calls: u64,
}

impl Tally {
    /// Adds a generation. All must be from the same cascade.
    pub fn add(&mut self, generation: &GenerationOutput) {
        self.records += 1;
        self.tokens += generation.tokens.len();
        self.steps += generation.steps.len();
        self.drafted += generation.num_draft_tokens();
        self.accepted += generation.num_accepted_draft_tokens();
        for (index, model) in generation.models.iter().enumerate() {
            if index == self.calls.len() {
                self.calls.push(Calls {
                    name: model.name.clone(),
                    role: Role::as_str(model.role),
                    calls: 0,
                });
            }
            self.calls[index].calls += model.usage.calls;
        }
    }

    /// Tokens emitted per forward of the target; 0 if there was none.
    pub fn mean_acceptance_length(&self) -> f64 {
        ratio(self.tokens, self.steps)
    }

    /// Share of the drafted tokens that the target accepted; 0 if nothing was drafted.
    pub fn draft_acceptance_rate(&self) -> f64 {
        ratio(self.accepted, self.drafted)
    }
}

/// One tally for each category, in order of first appearance, and one for all records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// By category; records without one are in the total only.
    pub categories: Vec<(String, Tally)>,
    /// All records.
    pub total: Tally,
}

impl Tallies {
    /// Adds the generation of a record.
    pub fn add(&mut self, category: Option<&str>, generation: &GenerationOutput) {
        self.total.add(generation);
        let Some(category) = category else {
            return;
        };
        let known = self
            .categories
            .iter()
            .position(|(name, _)| name == category);
        let index = known.unwrap_or_else(|| {
            self.categories
                .push((category.to_owned(), Tally::default()));
            self.categories.len() - 1
        });
        self.categories[index].1.add(generation);
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}
