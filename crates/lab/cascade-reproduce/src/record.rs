//! Records: what one cascade did with one prompt.

use cascade_core::TokenId;
use cascade_engine::{GenerationOutput, ModelUsage, Step};
use cascade_eval::Ending;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::report::Sha256;
use crate::variant::{Role, Variant};

/// A line of `results.jsonl`. It has no times, so that it is a function of the experiment alone:
/// those are in `walltime.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Place in the experiment: prompt × number of variants + variant.
    pub index: u64,
    /// Dataset, prompt and variant.
    pub id: String,
    /// The dataset.
    pub dataset: String,
    /// What the dataset calls the prompt.
    pub prompt: String,
    /// Subject or category, if the dataset has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The cascade.
    #[serde(rename = "arm")]
    pub variant: String,
    /// Tokens emitted.
    pub tokens: u64,
    /// SHA-256 of the emitted tokens as little-endian 32-bit integers: equal to plain decoding's
    /// unless `differs` is set.
    pub output: Sha256,
    /// Forwards of the target.
    pub steps: u64,
    /// Nodes that it reviewed.
    pub drafted: u64,
    /// Nodes that it kept.
    pub accepted: u64,
    /// Numbers of drafts longer than i, where drafts are chains.
    pub drafted_at: Vec<u64>,
    /// In how many steps more than i tokens were kept.
    pub accepted_at: Vec<u64>,
    /// Steps that kept their whole draft, where lengths of drafts are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<u64>,
    /// Tokens drafted in each step, where lengths of drafts are compared; absent in records of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<u32>,
    /// What each model did, the target first.
    pub models: Vec<ModelCalls>,
    /// How the output ends; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Where the output leaves plain decoding's, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<Difference>,
}

/// What one model did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCalls {
    /// Its place: `target`, `base`, `small`, `mag`, …
    pub place: String,
    /// Forwards, or proposals of a statistical drafter.
    pub calls: u64,
    /// Rows wanted, or tokens proposed.
    pub rows: u64,
    /// Rows computed because others had produced tokens.
    pub catch_up_rows: u64,
    /// Emitted tokens that it proposed first.
    pub first: u64,
}

/// The first token in which an output is not plain decoding's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Which token, from 0.
    pub at: u64,
    /// By how much the target's logit for plain decoding's token is above the one for the token
    /// said instead; `None` where one of the outputs had ended.
    pub gap: Option<f32>,
}

/// Logits this close can change places when rows are computed together: a difference by rounding.
pub(crate) const NEAR_TIE: f32 = 1e-3;

impl Difference {
    /// Whether rounding explains it.
    pub fn is_near_tie(&self) -> bool {
        self.gap.is_some_and(|gap| gap.abs() <= NEAR_TIE)
    }
}

/// Seconds that the cascades took for one prompt: a line of `walltime.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Walltime {
    /// Number of the prompt in the experiment.
    pub prompt: u64,
    /// The seconds of each variant, in their order.
    pub seconds: Vec<f64>,
}

impl Run {
    /// The record of a generation, and of whether its text is complete.
    pub(crate) fn new(
        plan: &Plan,
        prompt: usize,
        variant: (usize, &Variant),
        (generation, complete): (&GenerationOutput, bool),
    ) -> Self {
        let (suite, asked) = plan.asked(prompt);
        let (number, variant) = variant;
        let index = (prompt * plan.variants + number) as u64;
        let kept: Vec<usize> = generation.steps.iter().map(|step| step.accepted).collect();
        let drafted: Vec<usize> = generation.steps.iter().map(|step| step.drafted).collect();
        Self {
            index,
            id: format!("{}/{}/{}", suite.dataset, asked.id, variant.id),
            dataset: suite.dataset.clone(),
            prompt: asked.id.clone(),
            category: asked.category.clone(),
            variant: variant.id.clone(),
            tokens: generation.tokens.len() as u64,
            output: hash(&generation.tokens),
            steps: generation.steps.len() as u64,
            drafted: generation.num_draft_tokens() as u64,
            accepted: generation.num_accepted_draft_tokens() as u64,
            drafted_at: if variant.children > 1 {
                Vec::new()
            } else {
                longer_than(&drafted)
            },
            accepted_at: longer_than(&kept),
            whole: None,
            lengths: Vec::new(),
            models: calls(variant, generation),
            ending: Some(Ending::of(&generation.tokens, complete)),
            differs: None,
        }
    }

    /// The record with what a comparison of lengths needs.
    pub(crate) fn with_lengths(mut self, generation: &GenerationOutput) -> Self {
        let steps = &generation.steps;
        let whole = |step: &&Step| step.drafted > 0 && step.accepted == step.drafted;
        self.whole = Some(steps.iter().filter(whole).count() as u64);
        self.lengths = steps.iter().map(|step| step.drafted as u32).collect();
        self
    }

    /// N_draft: forwards of a neural drafter; of a statistical one, the tokens that it drafted.
    pub fn draft_forwards(&self) -> u64 {
        match self.models.get(1) {
            Some(model) if Role::NEURAL.iter().any(|role| role.name() == model.place) => {
                model.calls
            }
            _ => self.drafted,
        }
    }

    /// N_discarded: forwards of the drafter with a token that was not kept.
    pub fn discarded(&self) -> u64 {
        self.draft_forwards().saturating_sub(self.accepted)
    }

    /// Calls by place.
    pub fn calls(&self) -> impl Iterator<Item = (&str, u64)> {
        self.models
            .iter()
            .map(|model| (model.place.as_str(), model.calls))
    }
}

/// SHA-256 of tokens.
pub(crate) fn hash(tokens: &[TokenId]) -> Sha256 {
    let bytes: Vec<u8> = tokens
        .iter()
        .flat_map(|token| token.to_le_bytes())
        .collect();
    Sha256::of(&bytes)
}

/// Entry i counts the lengths above i.
fn longer_than(lengths: &[usize]) -> Vec<u64> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let above = |i: usize| lengths.iter().filter(|&&length| length > i).count() as u64;
    (0..longest).map(above).collect()
}

fn calls(variant: &Variant, generation: &GenerationOutput) -> Vec<ModelCalls> {
    let places = std::iter::once("target").chain(variant.drafters.iter().map(|role| role.name()));
    let of = |(level, (place, model)): (usize, (&str, &ModelUsage))| ModelCalls {
        place: place.to_owned(),
        calls: model.usage.calls,
        rows: model.usage.rows,
        catch_up_rows: model.usage.catch_up_rows,
        first: generation
            .proposers
            .iter()
            .filter(|proposer| proposer.0 == level)
            .count() as u64,
    };
    places.zip(&generation.models).enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted() {
        assert_eq!(longer_than(&[3, 0, 1, 3]), [3, 2, 2]);
        assert!(longer_than(&[0, 0]).is_empty());
        assert!(longer_than(&[]).is_empty());
    }

    #[test]
    fn near_ties_are_distinguished_from_errors() {
        let gap = |gap| Difference { at: 3, gap }.is_near_tie();
        assert!(gap(Some(1e-5)) && gap(Some(-1e-5)) && gap(Some(0.0)));
        assert!(!gap(Some(0.1)) && !gap(None));
    }
}
