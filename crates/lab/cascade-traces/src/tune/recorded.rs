//! Recordings as models, for running the real engine.
//!
//! The output of a recorded model depends on the position alone: after n tokens it is what was
//! recorded there, whatever was drafted. So as long as a draft follows the text, a cascade of
//! recorded models does what the cascade of real models does, call by call. After the first token
//! that differs, nothing is accepted, but drafting continues and costs calls; there the drafters
//! are assumed to agree with each other as they do along the text.

use std::sync::Arc;

use cascade_core::{
    Architecture, Budget, Drafter, GatheredProbs, Prompt, Result, RowDetail, ScoredTree, Scorer,
    ScorerInfo, Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{AssumedTime, Cascade, CascadeBuilder, VirtualClock};

use super::Times;
use super::recording::{Recorded, Recording};
use crate::trace::NO_TOKEN;

/// Tokens before the text: one, since a decoder-only model needs something to continue.
const PROMPT: [TokenId; 1] = [0];

/// The prompt of a recorded text.
pub(super) fn prompt() -> Prompt {
    Prompt::new(Architecture::DecoderOnly, PROMPT.to_vec())
}

/// A cascade of a recorded target and recorded drafters, largest first, whose forwards move the
/// clock.
pub(super) fn cascade(
    recording: &Arc<Recording>,
    times: &Times,
    clock: &VirtualClock,
) -> CascadeBuilder {
    let model = |drafter| RecordedModel {
        recording: Arc::clone(recording),
        drafter,
    };
    let timed = |drafter, times| AssumedTime::new(model(drafter), clock.clone(), times);
    let target = timed(None, times.target.clone());
    let drafters = recording.drafters.iter().enumerate();
    drafters.fold(
        Cascade::builder()
            .target("target", target)
            .clock(clock.clone()),
        |builder, (j, drafter)| {
            let name = format!("drafter {j}");
            let times = times.drafters.get(j).cloned().flatten();
            match (drafter, times) {
                (Recorded::Statistical { .. }, _) => builder.statistical(name, model(Some(j))),
                (Recorded::Neural { .. }, Some(times)) => {
                    builder.neural(name, timed(Some(j), times))
                }
                (Recorded::Neural { .. }, None) => builder.neural(name, model(Some(j))),
            }
        },
    )
}

/// The target of a recording, or one of its drafters.
struct RecordedModel {
    recording: Arc<Recording>,
    drafter: Option<usize>,
}

impl RecordedModel {
    /// The most probable token after `at` tokens of the text.
    fn choice(&self, at: usize) -> TokenId {
        let choices = match self.drafter {
            None => Some(self.recording.tokens.as_slice()),
            Some(j) => self.recording.drafters[j].choices(),
        };
        let choice = choices.and_then(|choices| choices.get(at));
        choice.copied().unwrap_or(NO_TOKEN)
    }

    /// The probability of a token after `at` tokens of the text.
    fn probability(&self, at: usize, token: TokenId) -> f32 {
        let Recording { tokens, drafters } = &*self.recording;
        match self.drafter {
            Some(j) if at < tokens.len() => {
                drafters[j].probability(at, token, &drafters[j + 1..], tokens)
            }
            _ => 0.0,
        }
    }

    fn gathered(&self, at: usize, tree: &TokenTree, argmax: &[TokenId]) -> GatheredProbs {
        let depth = |node: Option<usize>| node.map_or(0, |node| tree.depth(node) + 1);
        let rows = std::iter::once(None).chain((0..tree.len()).map(Some));
        let probabilities = rows
            .zip(argmax)
            .map(|(node, &token)| self.probability(at + depth(node), token));
        let nodes =
            (0..tree.len()).map(|node| self.probability(at + tree.depth(node), tree.token(node)));
        GatheredProbs {
            argmax: probabilities.collect(),
            nodes: nodes.collect(),
        }
    }
}

impl Scorer for RecordedModel {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, NO_TOKEN as usize).with_max_top(Some(0))
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let at = context.len() - PROMPT.len();
        let after_nodes = (0..tree.len()).map(|node| self.choice(at + tree.depth(node) + 1));
        let argmax: Vec<TokenId> = std::iter::once(self.choice(at))
            .chain(after_nodes)
            .collect();
        Ok(Scores::default()
            .with_gathered(
                (want.rows == RowDetail::Gathered).then(|| self.gathered(at, tree, &argmax)),
            )
            .with_argmax(argmax)
            .with_rows_computed(tree.len() + 1))
    }
}

impl Drafter for RecordedModel {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let at = context.len() - PROMPT.len();
        let drafter = self.drafter.map(|j| &self.recording.drafters[j]);
        let chain = match drafter {
            Some(Recorded::Statistical { chains }) => chains.get(at).map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        TokenTree::chain(chain.iter().copied().take(budget.depth)).into()
    }
}
